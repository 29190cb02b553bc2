"""Judges behind a chat server that do not keep to the form they were asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests.run.test_needs import Answer, chat_server, says

import assay
from assay.results import MetricKey
from assay.run import Quiet
from assay.run.progress import Counts

KEY = MetricKey("correct", "none")


def evaluate(folder: Path, answer: Answer, docs: int, **more: Any) -> tuple[assay.Results, list[dict[str, Any]]]:
    """A judged task under two filters; each answer is the number of its doc, and so is the prompt of its judge."""
    rows = [json.dumps({"q": f"Say {at}.", "a": str(at)}) + "\n" for at in range(docs)]
    (folder / "docs.jsonl").write_text("".join(rows))
    task = {
        "task": "judged",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(folder / "docs.jsonl")}},
        "test_split": "test",
        "output_type": "generate_until",
        "doc_to_text": "q",
        "doc_to_target": "a",
        "scorer": {"type": "judge", "kind": "correct"},
        "filter_list": [
            {"name": "none", "filter": [{"function": "take_first"}]},
            {"name": "lower", "filter": [{"function": "lowercase"}, {"function": "take_first"}]},
        ],
    }
    (folder / "judged.yaml").write_text(json.dumps(task))
    with chat_server(answer) as (url, bodies):
        result = assay.evaluate(
            model="local-chat-completions",
            model_args={"base_url": url, "model": "m"},
            roles={"judge": {"model": "local-chat-completions", "model_args": {"base_url": url, "model": "m"}}},
            tasks=["judged"],
            include_path=[str(folder)],
            store=str(folder / "store.sqlite"),
            bootstrap_iters=0,
            **more,
        )
    return result, bodies


def judge(verdicts: dict[str, str], otherwise: str = "I see.") -> Answer:
    """Answers what it is told to say; as a judge, what the verdicts say of the doc whose answer it sees."""

    def answer(body: dict[str, Any]) -> dict[str, Any]:
        said = str(body["messages"][-1]["content"])
        if "You decide whether" not in said:
            return says(f"ANSWER {said.removeprefix('Say ').removesuffix('.')}")(body)
        number = next(line for line in said.splitlines() if line.lower().startswith("answer ")).split()[1]
        return says(verdicts.get(number, otherwise))(body)

    return answer


def test_a_judge_that_approves_in_prose_and_rejects_in_tags_is_read_both_ways(tmp_path: Path) -> None:
    """As Qwen2.5-Coder-1.5B-Instruct judges."""
    approves = "The answer is correct."
    rejects = "It says something else.\n<verdict>incorrect</verdict>"
    result, _ = evaluate(tmp_path, judge({"0": approves, "1": approves, "2": rejects, "3": approves}), 4)
    assert result.tasks["judged"].scores[KEY].estimate.value == 0.75
    assert result.tasks["judged"].health.unjudged == {}


def test_what_is_unjudged_is_counted_by_filter_and_bounds_the_score(tmp_path: Path) -> None:
    tags = {str(at): "<verdict>correct</verdict>" for at in range(15)}
    result, _ = evaluate(tmp_path, judge(tags), 16)
    health = result.tasks["judged"].health
    assert health.unjudged == {"none": 1, "lower": 1}
    assert health.marks("none") == ["6% unjudged"]
    assert health.bounds[KEY] == (15 / 16, 1.0)
    assert health.withheld is None


@pytest.mark.parametrize(("allowed", "withheld"), [(None, False), (0.1, True), (0.5, False)])
def test_a_score_of_which_too_much_is_unjudged_is_withheld(
    tmp_path: Path, allowed: float | None, withheld: bool
) -> None:
    tags = {str(at): "<verdict>correct</verdict>" for at in range(3)}
    result, _ = evaluate(tmp_path, judge(tags), 4, max_unjudged=allowed)
    assert (result.tasks["judged"].scores[KEY].withheld is not None) == withheld


@pytest.mark.parametrize("can", [True, False])
def test_a_judge_that_cannot_be_read_is_held_to_a_form_where_the_server_can(tmp_path: Path, can: bool) -> None:
    prose = judge({})

    def answer(body: dict[str, Any]) -> dict[str, Any]:
        if not (can and body.get("response_format")):
            return prose(body)
        schema = body["response_format"]["json_schema"]["schema"]
        return says('"aardvark"' if "enum" in schema else '{"verdict": "correct"}')(body)

    result, bodies = evaluate(tmp_path, answer, 2, max_unjudged=1.0)
    held = [body["response_format"]["json_schema"]["schema"] for body in bodies if "response_format" in body]
    assert held[0] == {"enum": ["aardvark"]}
    assert held[1:] == (
        [
            {
                "type": "object",
                "properties": {"verdict": {"enum": ["correct", "incorrect"]}},
                "required": ["verdict"],
                "additionalProperties": False,
            }
        ]
        * 4
        if can
        else []
    )
    assert result.tasks["judged"].health.count("unjudged") == (0 if can else 2)


def test_progress_counts_the_docs_from_the_first_question_to_a_judge(tmp_path: Path) -> None:
    class Seen(Quiet):
        totals: ClassVar[list[int]] = []

        def update(self, counts: Counts) -> None:
            self.totals.append(counts.docs_total)

    evaluate(tmp_path, judge({}, "<verdict>correct</verdict>"), 3, progress=Seen())
    assert set(Seen.totals) == {3}
