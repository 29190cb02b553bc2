"""The commands of "Runs of other harnesses" on the logs that are bundled, which inspect wrote."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.analyses.test_verbs import call

LOGS = Path(__file__).parents[2] / "examples" / "logs"


def test_compare_and_rank_two_logs_of_inspect(capsys: pytest.CaptureFixture[str]) -> None:
    code, shown, _ = call(capsys, "compare", LOGS / "a.eval", LOGS / "b.eval", "--json")
    rows = {row["metric"]: row for row in json.loads(shown)["rows"]}
    assert code == 0
    assert (rows["match"]["a"], rows["match"]["b"]) == pytest.approx((5 / 6, 2 / 3))
    code, shown, _ = call(capsys, "rank", LOGS / "a.eval", LOGS / "b.eval", "--metric", "pass^3(match)", "--json")
    code, again, _ = call(capsys, "rank", LOGS, "--metric", "pass^3(match)", "--json")
    assert json.loads(again)["rankings"][0]["runs"] == json.loads(shown)["rankings"][0]["runs"]
    scores = [run["score"] for run in json.loads(shown)["rankings"][0]["runs"]]
    assert (code, scores) == (0, pytest.approx([5 / 6, 0.0]))
