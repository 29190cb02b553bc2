"""People check gold answers of some docs: every mean has a corrected value beside it, up the groups, in comparisons and ranks."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from tests.own_files import Told, command, write_task

from assay import evaluate
from assay.analyses.compare import compare
from assay.analyses.rank import RankOptions, rank
from assay.data import doc_hash
from assay.errors import ConfigError
from assay.evaluation import score_again
from assay.finished import open_run
from assay.instance import Response
from assay.results import MetricKey, RunResult, rows_of
from assay.sealing import seal_run

ACC = MetricKey("acc")
CHOICES = ["a", "b", "c"]


def made_up(n: int, wrong: float, start: int = 0, salt: str = "") -> list[dict[str, Any]]:
    """Docs whose question tells the right answer; the published one is another in a share of them."""
    random_numbers = random.Random(f"{n}{salt}")
    docs = []
    for i in range(start, start + n):
        right = random_numbers.choice(CHOICES)
        others = [each for each in CHOICES if each != right]
        is_wrong = random_numbers.random() < wrong
        docs.append(
            {
                "q": f"{salt}{i} says {right}",
                "gold": CHOICES.index(random_numbers.choice(others) if is_wrong else right),
            }
        )
    return docs


def truth(doc: dict[str, Any]) -> int:
    return CHOICES.index(doc["q"][-1])


FIELDS: dict[str, Any] = {
    "output_type": "multiple_choice",
    "doc_to_text": "q",
    "doc_to_choice": CHOICES,
    "doc_to_target": "gold",
    "metric_list": [{"metric": "acc"}],
}


class Model(Told):
    """Right by the question in a share of docs, else the next choice."""

    def __init__(self, right: float) -> None:
        def ll(context: str, choice: str) -> float:
            says = CHOICES.index(context[-1])
            is_right = random.Random(context).random() < right
            taken = says if is_right else (says + 1) % 3
            return 0.0 if CHOICES.index(choice.strip()) == taken else -5.0

        super().__init__(ll=ll)


def real(docs: list[dict[str, Any]], right: float) -> float:
    """The model's accuracy under the right answers."""
    return sum(random.Random(doc["q"]).random() < right for doc in docs) / len(docs)


def label(folder: Path, docs: list[dict[str, Any]], n: int, *, task: str | None = "mine", **more: Any) -> str:
    chosen = random.Random(3).sample(docs, n)
    rows = []
    for doc in chosen:
        said = {"gold": "right"} if truth(doc) == doc["gold"] else {"gold": "wrong", "answer": truth(doc)}
        rows.append({"task": task, "doc_hash": doc_hash(doc), **said, **more})
    path = folder / "labels.jsonl"
    path.write_text("".join(json.dumps({key: v for key, v in row.items() if v is not None}) + "\n" for row in rows))
    return str(path)


def run(folder: Path, right: float, *tasks: str, **more: Any) -> RunResult:
    return evaluate(model=Model(right), tasks=list(tasks or ("mine",)), include_path=[str(folder)], **more)


def test_a_corrected_score_stands_beside_the_published_one(tmp_path: Path) -> None:
    docs = made_up(400, 0.15)
    write_task(tmp_path, docs, **FIELDS)
    labels = label(tmp_path, docs, 120)
    plain, checked = run(tmp_path, 0.7), run(tmp_path, 0.7, labels=labels)
    assert plain["mine"]["acc"] == checked["mine"]["acc"], "never instead of it"
    gold = checked.tasks["mine"].scores[ACC].gold
    assert gold is not None
    assert gold.labels == 120
    assert gold.estimate.low is not None
    assert gold.estimate.high is not None
    published = plain["mine"]["acc"].value or 0.0
    assert published < (gold.estimate.value or 0) - 0.03
    assert gold.estimate.low < real(docs, 0.7) < gold.estimate.high
    assert gold.wrong == pytest.approx(0.13, abs=0.06)
    assert "gold checked" in next(iter(rows_of(checked))).note


def test_all_docs_checked_give_the_overlays_own_number(tmp_path: Path) -> None:
    docs = made_up(60, 0.2)
    write_task(tmp_path, docs, **FIELDS)
    labels = label(tmp_path, docs, 60)
    lines = [json.loads(line) for line in Path(labels).read_text().splitlines()]
    lines[0] = {**lines[0], "gold": "ambiguous"}
    Path(labels).write_text("".join(json.dumps(line) + "\n" for line in lines))
    entries = [
        {
            "doc_hash": row["doc_hash"],
            "why": "checked",
            **({"exclude": True} if row["gold"] == "ambiguous" else {"gold": row["answer"]}),
        }
        for row in lines
        if row["gold"] != "right"
    ]
    overlay = tmp_path / "overlay.jsonl"
    overlay.write_text("".join(json.dumps(row) + "\n" for row in [{"overlay": "all-1"}, *entries]))
    gold = run(tmp_path, 0.7, labels=labels).tasks["mine"].scores[ACC].gold
    assert gold is not None
    assert gold.estimate.value == pytest.approx(run(tmp_path, 0.7, overlay=str(overlay))["mine"]["acc"].value)


def test_too_few_labels_and_code_of_ones_own_are_told(tmp_path: Path) -> None:
    docs = made_up(60, 0.2)
    write_task(tmp_path, docs, **FIELDS)
    code = "def score(doc, results):\n    return {'acc': 1.0}\n"
    file = write_task(tmp_path, docs, code, name="coded", **{**FIELDS, "metric_list": [{"metric": "acc"}]})
    file.write_text(file.read_text() + "process_results: !function u.score\n")
    labels = label(tmp_path, docs, 19, task=None)
    result = run(tmp_path, 0.7, "mine", "coded", labels=labels)
    marks = {name: task.scores[ACC].gold for name, task in result.tasks.items()}
    assert marks["mine"] is not None
    assert "fewer than 20" in marks["mine"].mark
    assert marks["coded"] is not None
    assert "code of its own" in marks["coded"].mark
    for gold in ("perhaps", 3):
        Path(labels).write_text(json.dumps({"doc_hash": "x", "gold": gold}))
        with pytest.raises(ConfigError, match="expected right, wrong"):
            run(tmp_path, 0.7, labels=labels)


def test_a_group_pools_the_labels_of_its_tasks(tmp_path: Path) -> None:
    sets = {f"t{i}": made_up(80, 0.15, salt=f"t{i} ") for i in range(5)}
    for name, docs in sets.items():
        write_task(tmp_path, docs, name=name, **FIELDS)
    (tmp_path / "all.yaml").write_text(
        "group: all\ntask: [t0, t1, t2, t3, t4]\naggregate_metric_list: [{metric: acc, weight_by_size: true}]\n"
    )
    everything = [doc for docs in sets.values() for doc in docs]
    labels = label(tmp_path, everything, 60, task=None)
    result = run(tmp_path, 0.7, "all", labels=labels)
    gold = result.groups["all"].scores[ACC].gold
    assert gold is not None
    assert gold.labels == 60, "though no task alone has enough"
    marks = [score.gold.mark for task in result.tasks.values() for score in task.scores.values() if score.gold]
    assert len(marks) == 5
    assert all("fewer than 20" in mark for mark in marks)
    assert gold.estimate.low is not None
    assert gold.estimate.high is not None
    assert gold.estimate.low < real(everything, 0.7) < gold.estimate.high
    assert (result["all"]["acc"].value or 0) < (gold.estimate.value or 0)
    assert RunResult.from_dict(json.loads(json.dumps(result.to_dict()))).groups["all"].scores[ACC].gold == gold


def test_comparisons_and_ranks_have_the_order_under_the_right_answers(tmp_path: Path) -> None:
    docs = made_up(400, 0.15)
    write_task(tmp_path, docs, **FIELDS)
    (tmp_path / "all.yaml").write_text("group: all\ntask: [mine]\naggregate_metric_list: [{metric: acc}]\n")
    labels = label(tmp_path, docs, 150)
    for name, right in (("weak", 0.5), ("strong", 0.8)):
        run(tmp_path, right, "all", run_dir=str(tmp_path / f"{name}-plain"))
        score_again(tmp_path / f"{name}-plain", {"labels": [labels]}, run_dir=tmp_path / name)
    comparison = compare(tmp_path / "weak", tmp_path / "strong")
    for row in comparison.rows:
        assert row.gold is not None
        assert row.gold.low is not None
        assert row.gold.high is not None
        assert (row.difference.estimate.value or 0) < (row.gold.value or 0), "wrong answers hide a part of it"
        assert row.gold.low < real(docs, 0.8) - real(docs, 0.5) < row.gold.high
    assert "gold checked: +0." in comparison.findings().to_text(200)
    only = compare(tmp_path / "weak-plain", tmp_path / "strong")
    assert "only B was scored with labels" in only.findings().to_text(250)
    for task in ("mine", "all"):
        (ranking,) = rank([open_run(tmp_path / name) for name in ("weak", "strong")], RankOptions(tasks=(task,)))
        assert [each.gold is not None and each.gold.low for each in ranking.runs] == [1, 2]
        assert ranking.runs[0].gold is not None
        assert (ranking.runs[0].gold.score.value or 0) > (ranking.runs[0].score.value or 0)


def test_a_seal_carries_the_labels_of_gold_answers(tmp_path: Path) -> None:
    docs = made_up(60, 0.2)
    write_task(tmp_path, docs, **FIELDS)
    run(tmp_path, 0.7, labels=label(tmp_path, docs, 30), run_dir=str(tmp_path / "run"))
    _, found = seal_run(tmp_path / "run")
    assert found.passed
    assert not [each for each in found.not_checked if "gold" in each]


def test_the_command_shows_both(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    docs = made_up(60, 0.2)
    write_task(tmp_path, docs, **FIELDS)
    run(tmp_path, 0.7, run_dir=str(tmp_path / "run"))
    said = command(capsys, "score", tmp_path / "run", "--labels", label(tmp_path, docs, 30))
    assert said.code == 0
    assert "gold checked" in said.text


def test_failed_requests_are_no_part_of_it(tmp_path: Path) -> None:
    docs = made_up(60, 0.3)
    write_task(tmp_path, docs, output_type="generate_until", doc_to_text="q", doc_to_target="{{'abc'[gold]}}")
    labels = label(tmp_path, docs, 60)
    rows = [json.loads(line) for line in Path(labels).read_text().splitlines()]
    rows = [{**row, "answer": CHOICES[row["answer"]]} if "answer" in row else row for row in rows]
    Path(labels).write_text("".join(json.dumps(row) + "\n" for row in rows))

    class Failing(Told):
        def generate_until(self, requests: Any) -> Any:
            return [Response(None, failure="no") if i % 5 == 0 else r.args[0][-1] for i, r in enumerate(requests)]

    result = evaluate(model=Failing(), tasks=["mine"], include_path=[str(tmp_path)], labels=labels)
    (score,) = result.tasks["mine"].scores.values()
    assert score.gold is not None
    assert score.gold.labels == score.estimate.n < 60
    assert score.gold.estimate.value == 1.0
