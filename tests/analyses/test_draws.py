"""`assay power RUN --draws`."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from tests.analyses.test_verbs import call
from tests.finished.test_genuine import GENUINE


def table(path: Path, draws: int = 4) -> Path:
    rng = random.Random(3)
    rows = [
        {"run": "a", "doc": f"d{doc}", "draw": draw, "score": int(rng.random() < chance)}
        for doc in range(60)
        for chance in [rng.betavariate(2, 1)]
        for draw in range(draws)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_pass_k_within_the_draws_is_an_estimate_and_beyond_them_bounds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = table(tmp_path / "t.jsonl")
    code, out, err = call(capsys, "power", path, "--draws", "--k", "2,8,32", "--json")
    assert code == 0, err
    (plan,) = json.loads(out)
    two, eight, far = plan["powers"]
    assert (plan["docs"], plan["draws"], plan["k"]) == (60, 4, 2)
    assert two["estimate"]["low"] < two["estimate"]["value"] < two["estimate"]["high"]
    assert two["bounds"] is None
    assert (eight["estimate"], far["forecast"]) == (None, None)
    assert 0 <= eight["bounds"][0] < eight["bounds"][1] < two["estimate"]["high"]
    assert "beyond" in far["note"]
    if eight["forecast"] is not None:
        assert eight["forecast"]["method"] == "beta-binomial model"
        assert eight["bounds"][0] <= eight["forecast"]["value"] <= eight["bounds"][1]


def test_a_budget_as_docs_or_as_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = call(
        capsys, "power", table(tmp_path / "t.jsonl"), "--draws", "--budget", "600", "--docs", "150", "--json"
    )
    (plan,) = json.loads(out)
    assert [(row["draws"], row["docs"]) for row in plan["splits"]][:4] == [(1, 150), (2, 150), (4, 150), (8, 75)]
    errors = [row["mean"] for row in plan["splits"]][2:]
    assert errors == sorted(errors), "the same draws are worth more on more docs"


def test_epochs_of_inspect_and_what_cannot_be_planned(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "power", GENUINE / "inspect/epochs_b", "--draws")
    assert code == 0
    assert "lies between" in out
    assert call(capsys, "power", GENUINE / "inspect/good", "--draws")[0] == 2
    assert call(capsys, "power", GENUINE / "inspect/epochs_b", "--effect", "0.1")[0] == 2
    assert call(capsys, "power", "--draws")[0] == 2
