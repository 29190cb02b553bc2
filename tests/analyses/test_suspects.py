"""Docs that runs answer alike and against the published answer: which, how probably it is wrong, and what labels add."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.own_files import Told, command, write_task

from assay import evaluate
from assay.analyses.rank import RankOptions, find_suspects
from assay.data import doc_hash
from assay.errors import ConfigError
from assay.finished import open_run, open_runs
from assay.stats import NO_ANSWER, OTHER, calibrated, suspicion

CHOICES = ["a", "b", "c", "d"]
WRONG = set(range(0, 120, 12))
DOCS: list[dict[str, Any]] = [
    {"q": f"{i} says {CHOICES[i % 4]}", "gold": (i + 1) % 4 if i in WRONG else i % 4} for i in range(120)
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four models that are right in 80 % of docs, each in its own; a tenth of the published answers is wrong."""
    folder = tmp_path_factory.mktemp("runs")
    fields: dict[str, Any] = {"doc_to_text": "q", "doc_to_target": "gold"}
    write_task(folder, DOCS, output_type="multiple_choice", doc_to_choice=CHOICES, **fields)
    write_task(
        folder, DOCS, name="texts", output_type="generate_until", doc_to_text="q", doc_to_target="{{'abcd'[gold]}}"
    )

    def model(seed: int) -> Told:
        def says(context: str) -> str:
            right = context[-1]
            rng = random.Random(f"{seed}{context}")
            return right if rng.random() < 0.8 else rng.choice([each for each in CHOICES if each != right])

        return Told(text=says, ll=lambda context, choice: 0.0 if choice.strip() == says(context) else -5.0)

    for seed in range(4):
        evaluate(
            model=model(seed), tasks=["mine", "texts"], include_path=[str(folder)], run_dir=str(folder / f"run{seed}")
        )
    return folder


def opened(folder: Path) -> list[Any]:
    return [open_run(folder / f"run{seed}") for seed in range(4)]


@pytest.mark.parametrize("task", ["mine", "texts"])
def test_wrong_published_answers_come_first(runs: Path, task: str) -> None:
    found = find_suspects(opened(runs), RankOptions(tasks=(task,)))
    top = {doc.doc_id for doc in found.docs[: len(WRONG)]}
    assert len(top & WRONG) >= 8
    first = found.docs[0]
    assert first.likely == "abcd"[first.doc_id % 4]
    assert first.published == "abcd"[(first.doc_id + 1) % 4]
    assert first.alike == 4
    assert first.probability > 0.5
    assert found.docs[-1].probability < 0.01
    assert 3 < found.expected < 25


def test_labels_calibrate(runs: Path, tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    plain = find_suspects(opened(runs), RankOptions(tasks=("mine",)))

    def labelled(verdict: Any) -> Any:
        rows = [
            {
                "task": "mine",
                "doc_hash": doc_hash(DOCS[i]),
                "gold": verdict(i),
                **({"answer": i % 4} if verdict(i) == "wrong" else {}),
            }
            for i in range(60)
        ]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return find_suspects(opened(runs), RankOptions(tasks=("mine",), labels=(str(path),)))

    told = labelled(lambda i: "wrong" if i in WRONG else "right")
    assert told.labels == 60
    assert told.docs[0].probability > plain.docs[0].probability, "people agree, so it is surer"
    denied = labelled(lambda i: "right")
    assert denied.expected < plain.expected / 2, "people find nothing wrong, so little is suspect"
    assert {doc.label for doc in denied.docs} == {"right", None}


def test_the_command_lists_them_and_writes_chances_for_labelling(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [runs / f"run{seed}" for seed in range(4)]
    chances = tmp_path / "chances.json"
    said = command(capsys, "rank", *paths, "-t", "mine", "--suspects", 3, "--suspects_docs", chances)
    assert said.code == 0
    assert "P(wrong)" in said.out
    assert "not calibrated" in said.out
    given = json.loads(chances.read_text())
    assert len(given) == 120
    assert min(given.values()) > 0
    assert given[doc_hash(DOCS[0])] > 5 * given[doc_hash(DOCS[1])]
    as_json = json.loads(command(capsys, "rank", *paths, "-t", "mine", "--suspects", 3, "--json").out)
    assert len(as_json["suspects"]) == 3


def test_scores_alone_suspect_little(tmp_path: Path) -> None:
    table = tmp_path / "scores.csv"
    lines = [f"m{run},{doc},{int(doc % 10 > 0 and (doc + run) % 5 > 0)}" for run in range(6) for doc in range(50)]
    table.write_text("\n".join(["run,doc,score", *lines]) + "\n")
    found = find_suspects(open_runs(table), RankOptions())
    assert {doc.name for doc in found.docs[:5]} == {"0", "10", "20", "30", "40"}
    assert all(doc.likely is None for doc in found.docs[:5])
    with pytest.raises(ConfigError, match="too few"):
        find_suspects(open_runs(table)[:2], RankOptions())


@pytest.mark.parametrize("draw", ["", "draw"])
def test_a_table_of_scores_may_say_what_is_published_what_was_answered_and_how_many_answers_there_are(
    tmp_path: Path, draw: str
) -> None:
    def answer(run: int, doc: int) -> str:
        if doc % 20 == 0:
            return "B"
        return "A" if (doc + run) % 5 else "CDE"[(doc * run) % 3]

    rows = [(f"m{run}", str(doc), answer(run, doc)) for run in range(6) for doc in range(100)]

    def found(options: int, told: int) -> Any:
        head = ["run", "doc", "score", "options", "gold", "answer", *filter(None, [draw])]
        lines = [",".join(head)]
        for run, doc, given in rows:
            said = given if int(run[1:]) < told else ""
            lines.append(
                ",".join([run, doc, str(int(given == "A")), str(options), "A", said, *(["0"] if draw else [])])
            )
        table = tmp_path / "scores.csv"
        table.write_text("\n".join(lines) + "\n")
        return find_suspects(open_runs(table), RankOptions()).docs

    alike = found(10, 6)
    assert {doc.name for doc in alike[:5]} == {"0", "20", "40", "60", "80"}
    assert (alike[0].published, alike[0].likely, alike[0].alike) == ("A", "B", 6)
    unknown = found(10, 0)
    assert (unknown[0].published, unknown[0].likely) == ("A", None)
    assert alike[0].probability > found(5, 6)[0].probability, "among ten answers it is rarer to hit the same"


def test_answers_that_are_known_of_some_runs_alone_count_as_much_as_these_runs() -> None:
    rng = np.random.default_rng(3)
    gold, options = np.zeros(400, dtype=np.int64), np.full(400, 10)
    hard = rng.random(400)
    answers = np.where(hard + 0.3 * rng.random((29, 400)) > 0.7, OTHER, 0)
    answers[:, :2] = OTHER
    answers[:6, 0] = 3
    found = suspicion(answers, gold, options)
    assert found.likely[0] == 3
    assert found.log_odds[0] > found.log_odds[1], "six alike say more than that six failed"


def test_runs_that_err_together_count_as_few() -> None:
    rng = np.random.default_rng(0)
    one = (rng.random(300) < 0.3).astype(np.int64)
    gold, options = np.zeros(300, dtype=np.int64), np.full(300, 4)
    same = suspicion(np.stack([one] * 6), gold, options)
    apart = suspicion((rng.random((6, 300)) < 0.3).astype(np.int64), gold, options)
    assert same.worth == pytest.approx(1)
    assert apart.worth > 4.5
    assert apart.log_odds.max() > same.log_odds.max()


def test_unknown_answers_say_less_than_equal_ones() -> None:
    gold, options = np.zeros(200, dtype=np.int64), np.full(200, 4)
    rng = np.random.default_rng(1)
    answers = np.where(rng.random((5, 200)) < 0.8, 0, rng.integers(1, 4, (5, 200)))
    answers[:, 0], answers[:, 1], answers[:, 2], answers[:, 3] = 2, OTHER, NO_ANSWER, [1, 2, 3, 1, 2]
    found = suspicion(answers, gold, options)
    assert found.log_odds[0] > found.log_odds[1] > found.log_odds[3] > found.log_odds[2]
    assert found.likely[0] == 2
    assert found.likely[1] == OTHER


def test_calibration_finds_the_curve() -> None:
    rng = np.random.default_rng(2)
    odds = rng.normal(-2, 2, 20_000)
    wrong = (rng.random(20_000) < 1 / (1 + np.exp(-(-1 + 0.7 * odds)))).astype(float)
    intercept, slope = calibrated(odds, wrong, np.ones(20_000))
    assert intercept == pytest.approx(-1, abs=0.1)
    assert slope == pytest.approx(0.7, abs=0.05)
