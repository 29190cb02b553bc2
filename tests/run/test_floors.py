"""Floors: what a score would be without the ability, beside the score, in its file, in its groups and above nothing."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.own_files import Told, command, function, write_task

from assay import evaluate
from assay.config import RunConfig
from assay.errors import ConfigError
from assay.evaluation import score_again
from assay.instance import Instance
from assay.results import MetricKey, RunResult, rows_of
from assay.run.plan import make_plan, windows
from assay.run.settle import settle
from assay.tasks.floors import FLOORS
from assay.tasks.prompt import DocRequests

ACC, EXACT = MetricKey("acc"), MetricKey("exact_match")
CHOICES: list[dict[str, Any]] = [
    {"q": f"number {i}?", "right": "right", "wrong": ["w", "much too long", "x"][i % 3], "gold": i % 2}
    for i in range(30)
]
LABELLED = {
    "output_type": "multiple_choice",
    "doc_to_text": "{{q}}\nA. {{right if gold == 0 else wrong}}\nB. {{right if gold == 1 else wrong}}\nAnswer:",
    "doc_to_choice": ["A", "B"],
    "doc_to_target": "gold",
}
CLOZE = {
    "output_type": "multiple_choice",
    "doc_to_text": "Question: {{q}}\nAnswer:",
    "doc_to_choice": "{{[right, wrong]}}",
    "doc_to_target": 0,
    "metric_list": [{"metric": "acc"}, {"metric": "brier_score"}],
}


def run(folder: Path, *tasks: str, model: Any = None, floors: str = "default", **more: Any) -> RunResult:
    told = model or Told(ll=lambda context, choice: -len(choice) if "number" in context else -1.0)
    return evaluate(model=told, tasks=list(tasks), include_path=[str(folder)], floors=floors, **more)


def test_the_rules_of_choices_are_scored_by_the_tasks_own_metrics(tmp_path: Path) -> None:
    write_task(tmp_path, CHOICES, name="letters", **LABELLED)
    write_task(tmp_path, CHOICES, name="cloze", **CLOZE)
    result = run(tmp_path, "letters", "cloze")
    floors = result.tasks["letters"].scores[ACC].floors
    assert set(floors) == {"blind", "longest", "constant_label", "majority_label"}
    assert floors["constant_label"].value == floors["majority_label"].value == 0.5
    assert floors["longest"].value == pytest.approx(20 / 30), "the longer option, not the longer label"
    # Which choice stands first is nothing that a model sees if it is given one after the other.
    assert set(result.tasks["cloze"].scores[ACC].floors) == {"blind", "longest"}
    assert set(result.tasks["cloze"].scores[MetricKey("brier_score")].floors) == {"blind"}, (
        "rules have no probabilities"
    )


def test_blind_leaves_the_question_out_and_the_choices_in(tmp_path: Path) -> None:
    write_task(tmp_path, CHOICES, name="letters", **LABELLED)
    write_task(tmp_path, CHOICES, name="cloze", **CLOZE)
    seen: list[str] = []

    def ll(context: str, choice: str) -> float:
        seen.append(context)
        return -1.0

    run(tmp_path, "letters", "cloze", "letters:mc", model=Told(ll=ll), floors="blind")
    blind = {context for context in seen if "number" not in context}
    assert "Question: \nAnswer:" in blind, "of the cloze"
    assert "A. right\nB. w\nAnswer:" in blind, "of the file that lists its choices"
    assert "Question: \nA. right\nB. w\nAnswer:" in blind, "of the style"


def test_floors_of_written_answers_and_how_far_a_score_is_above_them(tmp_path: Path) -> None:
    docs = [{"q": f"What is {i} + 0, not {i % 4}", "a": str(i % 4)} for i in range(40)]
    fields = {
        "output_type": "generate_until",
        "doc_to_text": "q",
        "doc_to_target": "a",
        "generation_kwargs": {"until": []},
    }
    write_task(tmp_path, docs, name="sums", metric_list=[{"metric": "exact_match"}], **fields)
    model = Told(text=lambda prompt: prompt.rsplit(" ", 1)[1])
    score = run(tmp_path, "sums", model=model).tasks["sums"].scores[EXACT]
    values = {name: floor.value for name, floor in score.floors.items()}
    assert values == {"empty": 0.0, "constant": 0.25, "copy": 0.0, "last_number": 1.0}
    assert score.above_floor is not None
    assert score.above_floor.value == 0.0
    assert score.estimate.value == 1.0, "a score of 1 that a rule without any ability has too"


def test_groups_have_the_floors_that_all_members_have(tmp_path: Path) -> None:
    write_task(tmp_path, CHOICES, name="letters", **LABELLED)
    write_task(tmp_path, CHOICES, name="cloze", **CLOZE)
    listed = {"metric": "acc", "aggregation": "mean", "weight_by_size": False}
    body = {"group": "both", "task": ["letters", "cloze"], "aggregate_metric_list": [listed]}
    (tmp_path / "both.yaml").write_text(yaml.safe_dump(body))
    result = run(tmp_path, "both")
    group, members = (
        result.groups["both"].scores[ACC],
        [result.tasks[name].scores[ACC] for name in ("letters", "cloze")],
    )
    assert set(group.floors) == {"blind", "longest"}
    longest = [member.floors["longest"].value or 0.0 for member in members]
    assert group.floors["longest"].value == pytest.approx(sum(longest) / 2)
    assert group.above_floor is not None
    highest = max(floor.value or 0.0 for floor in group.floors.values())
    assert group.above_floor.value == pytest.approx((group.estimate.value or 0.0) - highest)
    assert group.above_floor.low is not None
    assert group.above_floor.low < group.above_floor.value
    (row,) = [row for row in rows_of(result) if row.name == "both"]
    assert "longest" in row.floor_mark


def test_they_are_stored_read_and_scored_again(tmp_path: Path) -> None:
    write_task(tmp_path, CHOICES, name="letters", **LABELLED)
    result = run(tmp_path, "letters", run_dir=str(tmp_path / "run"))
    assert list(result.tasks) == ["letters"], "the blind task is no row of its own"
    read = RunResult.load(tmp_path / "run")
    assert read.tasks["letters"].scores[ACC].floors == result.tasks["letters"].scores[ACC].floors
    assert read.tasks["letters"].scores[ACC].above_floor == result.tasks["letters"].scores[ACC].above_floor
    again = score_again(tmp_path / "run")
    assert again.tasks["letters"].scores[ACC].floors == read.tasks["letters"].scores[ACC].floors


def test_a_run_with_a_task_that_has_no_blind_variant_is_scored_again(tmp_path: Path) -> None:
    """Where contexts differ and the continuation is shared, no question can be left out."""
    contexts = {"doc_to_text": "gold", "doc_to_choice": "{{[right, wrong]}}", "doc_to_target": "{{q}}"}
    write_task(tmp_path, CHOICES, name="contexts", output_type="multiple_choice", **contexts)
    write_task(tmp_path, CHOICES, name="letters", **LABELLED)
    result = run(tmp_path, "contexts", "letters", model=Told(ll=lambda *_: -1.0), run_dir=str(tmp_path / "run"))
    assert "blind" not in result.tasks["contexts"].scores[ACC].floors
    again = score_again(tmp_path / "run")
    for name in result.tasks:
        assert again.tasks[name].scores[ACC].floors == result.tasks[name].scores[ACC].floors


def test_the_docs_are_those_of_the_score(tmp_path: Path) -> None:
    write_task(tmp_path, CHOICES, name="letters", **LABELLED)
    score = run(tmp_path, "letters", limit=7, sample="random").tasks["letters"].scores[ACC]
    assert {floor.n for floor in score.floors.values()} == {7}
    early = run(tmp_path, "letters", until="ci=0.4").tasks["letters"].scores[ACC]
    assert {floor.n for floor in early.floors.values()} == {early.estimate.n}
    assert "blind" not in early.floors, "it would have stopped at other docs"


def test_a_floor_that_nobody_knows_is_refused_before_the_first_request(tmp_path: Path) -> None:
    write_task(tmp_path, CHOICES, name="letters", **LABELLED)
    model = Told()
    with pytest.raises(ConfigError, match="longest"):
        run(tmp_path, "letters", model=model, floors="longst")
    assert model.sent == 0


def test_show_has_the_floors_that_need_no_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_task(tmp_path, CHOICES, name="letters", **LABELLED)
    said = command(capsys, "show", "letters", "--floors", "--json", "--include_path", tmp_path)
    row, _ = json.loads(said.out)
    assert row["chance"] == 0.5
    assert row["highest"] == "longest"
    assert set(row["floors"]) == {"longest", "constant_label", "majority_label"}


def test_what_a_tasks_code_prints_stands_in_no_json(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code = "print('loading')\n\ndef gold(doc):\n    print('gold')\n    return doc['gold']\n"
    write_task(tmp_path, CHOICES, code, name="letters", **{**LABELLED, "doc_to_target": function("u.gold")})
    said = command(capfd, "show", "letters", "--floors", "--json", "--include_path", tmp_path, "--trust")
    assert {row["task"] for row in json.loads(said.out)} == {"letters"}
    assert "loading" in said.err
    assert "gold" in said.err


@pytest.mark.parametrize(
    ("prompt", "calls"),
    [
        (
            'Write it.\nassert f([1], "a") == {"b": 1}\nassert f(2, 3) == 4\n[BEGIN]\n',
            "f([1], 'a') == {'b': 1} and f(2, 3) == 4",
        ),
        (
            'def f(a: list, b=1) -> int:\n    """\n    >>> f([1, 2], 3)\n    6\n    f([], 0) ➞ 0\n    >>> f(x)\n    y\n    """\n',
            "f([1, 2], 3) == 6 and f([], 0) == 0",
        ),
    ],
)
def test_a_program_may_know_the_examples_of_its_prompt_and_nothing_else(prompt: str, calls: str) -> None:
    doc = DocRequests(0, {}, "", [Instance("generate_until", {}, (prompt, {}), 0)])
    rule = FLOORS["examples"].rule_for(list)
    assert rule is not None
    program = rule(doc)
    names: dict[str, Any] = {}
    exec(prompt + program if "def " in prompt else program, names)
    assert eval(calls, names)
    assert names["f"](7, 7) is None


def test_choices_in_another_order_show_what_their_places_do(tmp_path: Path) -> None:
    # The right choice is always the first, and so is the model's answer, whatever stands there.
    docs = [{"q": f"number {i}?", "right": f"right {i}", "wrong": "w"} for i in range(60)]
    listed = {**LABELLED, "doc_to_text": "{{q}}\nA. {{right}}\nB. {{wrong}}\nAnswer:", "doc_to_target": "A"}
    write_task(tmp_path, docs, name="letters", **listed)
    write_task(tmp_path, docs, name="cloze", **CLOZE)
    seen: list[str] = []

    def always_a(context: str, choice: str) -> float:
        seen.append(context)
        return 0.0 if choice.strip() == "A" else -1.0

    result = run(tmp_path, "letters", "cloze", model=Told(ll=always_a), floors="shuffled,constant_label")
    score = result.tasks["letters"].scores[ACC]
    # Two choices a doc; what stays as it was is not sent again.
    stays = 60 - sum("A. w" in context for context in seen) / 2
    assert 15 < stays < 45
    assert score.floors["shuffled"].value == pytest.approx(stays / 60)
    assert score.over_shuffled is not None
    assert score.over_shuffled.value == pytest.approx(1 - stays / 60)
    assert score.above_floor is not None
    assert score.above_floor.value == 0.0, "above the constant label; another order of the choices is no floor"
    assert "by the order of the choices" in score.floor_mark
    assert "shuffled" not in result.tasks["cloze"].scores[ACC].floors, "one choice after the other has no order"

    able = Told(ll=lambda context, choice: float(f"{choice.strip()}. right" in context))
    moved = run(tmp_path, "letters", "letters:mc", model=able, floors="shuffled")
    for task in moved.tasks.values():
        assert task.scores[ACC].floors["shuffled"].value == 1.0, "the right choice is right wherever it stands"


def test_what_is_most_probable_without_any_context(tmp_path: Path) -> None:
    write_task(
        tmp_path, CHOICES, name="cloze", **CLOZE, description="Answer well. ", num_fewshot=2, fewshot_split="test"
    )
    seen: list[str] = []

    def shortest(context: str, choice: str) -> float:
        seen.append(context)
        return -len(choice)

    result = run(tmp_path, "cloze", model=Told(ll=shortest), floors="no_context")
    without = {context for context in seen if "number" not in context}
    assert without == {""}, "neither the question nor shots nor a description"
    assert result.tasks["cloze"].scores[ACC].floors["no_context"].value == pytest.approx(10 / 30)


def test_a_dry_run_says_what_each_floor_costs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_task(tmp_path, CHOICES, name="letters", **LABELLED)
    flags = ["--model", "dummy", "--tasks", "letters", "--include_path", tmp_path, "--store", tmp_path / "store.db"]
    expected = json.loads(
        command(capsys, "run", *flags, "--floors", "blind,shuffled,no_context", "--dry_run", "--json").out
    )
    tokens = {name: each["tokens"] for name, each in expected["tasks"].items()}
    assert set(tokens) == {"letters", "letters:blind", "letters:choice_order", "letters:no_context"}
    assert 0 < tokens["letters:no_context"] < tokens["letters:blind"] < tokens["letters"]
    assert sum(tokens.values()) == expected["distinct_tokens"]
    assert tokens["letters:choice_order"] < tokens["letters"] / 2, (
        "its questions are those of the task, and computed once"
    )


def test_a_doc_and_what_it_is_asked_for_floors_are_sent_together(tmp_path: Path) -> None:
    write_task(tmp_path, CHOICES, name="letters", **LABELLED)
    write_task(tmp_path, CHOICES, name="cloze", **CLOZE)
    config = RunConfig(tasks=["letters", "cloze"], include_path=[str(tmp_path)], floors=["blind", "shuffled"])
    plan = settle(make_plan(config, None), config)
    sent = [[(plan.asked_of(work.task), work.requests.doc_id) for work in window] for window in windows(plan, 48)]
    assert len(sent) > 5
    torn = sum(before[-1] == after[0] for before, after in pairwise(sent))
    places: dict[tuple[str, int], set[int]] = {}
    for number, window in enumerate(sent):
        for doc in window:
            places.setdefault(doc, set()).add(number)
    assert len(places) == 60
    assert sum(len(each) - 1 for each in places.values()) == torn, "only at the end of a window"


def test_a_dry_run_says_which_floors_are_judged(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    flags = [
        "--model",
        "dummy",
        "--role",
        "judge=dummy",
        "--tasks",
        "demo_open",
        "--apply_chat_template",
        "--limit",
        "3",
    ]
    flags += ["--store", str(tmp_path / "store.db"), "--dry_run", "--floors", "default,injection"]
    expected = json.loads(command(capsys, "run", *flags, "--json").out)
    assert expected["judged"] == {"demo_open": ["injection"]}
    assert "judging 3 answers, and those of the floors injection" in command(capsys, "run", *flags).out


def test_validating_the_data_of_a_named_task_shows_its_highest_floor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_task(tmp_path, CHOICES, name="cloze", **CLOZE)
    write_task(tmp_path, CHOICES, name="letters", **LABELLED)
    flags = ["--data", "--include_path", tmp_path]
    assert "cloze acc,none: longest 0.67, chance 0.50" in command(capsys, "validate", "cloze", *flags).out
    rows = json.loads(command(capsys, "validate", "letters", "cloze", *flags, "--json").out)["data"]["floors"]
    assert {(row["task"], row["metric"], row["highest"]) for row in rows} >= {("cloze", "acc", "longest")}
    assert json.loads(command(capsys, "validate", *flags, "--json").out)["data"]["floors"] == [], "of all tasks, none"


def test_a_floor_that_was_asked_by_name_and_that_no_task_has_is_told(tmp_path: Path) -> None:
    write_task(tmp_path, CHOICES, name="cloze", **CLOZE)
    notes = run(tmp_path, "cloze", floors="longest,shuffled,majority_label").notes
    assert [note.rpartition(" ")[2] for note in notes if "has the floor" in note] == ["shuffled", "majority_label"]


def test_show_says_of_a_judged_task_how_its_floors_are_had(capsys: pytest.CaptureFixture[str]) -> None:
    said = command(capsys, "show", "demo_open,demo_capitals_en", "--floors").out
    assert "demo_open: its answers are judged" in said
    assert "--floors injection,no_answer,non_answer,refusal" in said
    assert "longest" in said, "of the other task"


def test_show_has_what_a_task_for_agents_gives_to_one_without_ability(capsys: pytest.CaptureFixture[str]) -> None:
    said = command(capsys, "show", "demo_agent_files,demo_agent_booking", "--floors", "--limit", "2", "--json")
    (row,) = json.loads(said.out)
    assert (row["task"], row["highest"]) == ("demo_agent_files", "does_nothing")
    assert {name: floor["value"] for name, floor in row["floors"].items()} == dict.fromkeys(
        ("does_nothing", "submits_at_once", "edits_tests"), 0.0
    )
