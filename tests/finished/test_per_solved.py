"""What a solved doc takes: a ratio of sums over docs, with an interval, wherever a log says what was spent."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.analyses.test_verbs import call
from tests.finished.test_genuine import GENUINE, opened

from assay.analyses.compare import CompareOptions
from assay.analyses.compare.engine import compare_runs
from assay.finished import AnsweredDoc, PerSolved, SentRequest, open_run, run_of_docs
from assay.finished.trials import Trial, doc_of_trials
from assay.metrics import AGGREGATIONS
from assay.results import MetricKey
from assay.scoring import estimate


def test_harbor_tells_cost_tokens_seconds_and_steps() -> None:
    scores = opened("harbor/good").result.tasks["adhoc"].scores
    # 24 trials with 100 + i and 10 tokens, 0.001·i dollars and two steps each; 18 were solved.
    told = {"cost": 0.3 / 18, "tokens": (24 * 110 + 300) / 18, "steps": 48 / 18}
    for kind, value in told.items():
        score = scores[MetricKey(f"{kind}/solved", "none")]
        assert score.estimate.value == pytest.approx(value)
        assert score.higher_is_better is False
        assert score.estimate.low is not None
        assert score.estimate.high is not None
        assert score.estimate.low < value < score.estimate.high
    assert MetricKey("seconds/solved", "none") in scores


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("inspect/good", {"tokens", "seconds", "steps"}),
        ("verifiers/good", {"tokens", "seconds", "steps"}),
        ("eee/agent", {"tokens", "seconds", "steps"}),
        ("openai/good", {"tokens", "steps"}),
        ("evalframework/good", {"tokens"}),
    ],
)
def test_formats_that_tell_what_was_spent(name: str, kinds: set[str]) -> None:
    run = opened(name)
    found = {key.metric for key in run.result.tasks[run.tasks[0]].scores if key.metric.endswith("/solved")}
    assert found == {f"{kind}/solved" for kind in kinds}


def test_two_agents_are_compared_on_the_same_docs_and_gates_look_only_where_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    good, bad = GENUINE / "harbor/good", GENUINE / "harbor/bad"
    _, out, _ = call(capsys, "compare", good, bad, "--metric", "tokens/solved", "--json")
    (row,) = json.loads(out)["rows"]
    assert (row["a"], row["b"]) == pytest.approx((2940 / 18, 2940 / 6))
    for words, metrics in (((), ["reward,none"]), (("--metric", "cost/solved"), ["cost/solved,none"])):
        _, out, _ = call(capsys, "gate", good, "--baseline", good, *words, "--json")
        assert [check["key"] for check in json.loads(out)["checks"]] == metrics


def doc(number: int, *trials: Trial) -> AnsweredDoc:
    return doc_of_trials(number, trials, doc={}, content=number, request=SentRequest("?"), sent=str(number))


def test_tries_that_failed_are_left_out_on_both_sides() -> None:
    made = doc(0, Trial({"right": 1.0}, spent={"steps": 2}), Trial({"right": 0.0}, failure="gone", spent={"steps": 90}))
    assert made.metrics["steps/solved"] == PerSolved(2.0, 1.0)


def test_no_number_where_scores_are_partial_or_some_docs_tell_nothing(tmp_path: Path) -> None:
    told, silent = Trial({"right": 1.0}, spent={"steps": 2}), Trial({"right": 0.0})
    assert "steps/solved" not in doc(0, Trial({"right": 0.5}, spent={"steps": 2})).metrics
    docs = [doc(0, told), doc(1, silent)]
    run = run_of_docs(["t"], lambda task, ids: docs, path=tmp_path, model="m", origin="theirs")
    assert [key.metric for key in run.result.tasks["t"].scores] == ["right"]


def test_none_solved_is_undefined_and_seconds_below_one_are_no_share() -> None:
    per_solved, keys = AGGREGATIONS["per_solved"], np.arange(6, dtype=np.uint64)
    assert estimate([(3.0, 0.0)] * 6, per_solved, keys).estimate.low is None
    quick = estimate([(0.1 * i + 0.4, 1.0) for i in range(6)], per_solved, keys).estimate
    assert (quick.method, quick.bounded) == ("t", False)


@pytest.mark.parametrize("solved", [0.3, 0.7])
def test_the_interval_covers(solved: float) -> None:
    rng, hits, times, n = np.random.default_rng(7), 0, 400, 60
    keys = np.arange(n, dtype=np.uint64)
    truth = np.exp(0.5) / solved  # log-normal costs with σ = 1
    for _ in range(times):
        pairs = list(zip(np.exp(rng.normal(size=n)).tolist(), (rng.random(n) < solved).astype(float).tolist()))
        found = estimate(pairs, AGGREGATIONS["per_solved"], keys, bootstrap_iters=10).estimate
        hits += found.low <= truth <= found.high
    assert 0.92 <= hits / times <= 0.985


def test_where_no_doc_was_solved_it_is_said_and_where_nothing_was_counted_there_is_no_column(
    capsys: pytest.CaptureFixture[str],
) -> None:
    scores = opened("inspectevals/agentdojo").result.tasks["inspect_evals/agentdojo"].scores
    assert scores[MetricKey("tokens/solved", "none")].estimate.value is None
    _, shown, _ = call(capsys, "report", GENUINE / "inspectevals/agentdojo")
    assert ("no doc was solved" in shown, "nan" in shown, "as reported" in shown) == (True, False, False)
    assert not [key for key in opened("nemo/good").result.tasks["sums"].scores if "/solved" in key.metric]


def test_what_a_solved_doc_takes_costs_the_scores_no_power() -> None:
    """Its rows are corrected among themselves: the score's own interval and p are those that it has alone."""
    a, b = (open_run(GENUINE / "harbor" / name) for name in ("good", "bad"))
    (all_rows,) = compare_runs([a, b], CompareOptions())
    (alone,) = compare_runs([a, b], CompareOptions(metric="reward"))
    (score,) = [row for row in all_rows.rows if row.is_quality]
    assert [row.key for row in alone.rows] == [score.key]
    assert score.p_adjusted == alone.rows[0].p_adjusted
    assert (score.interval.low, score.interval.high) == (alone.rows[0].interval.low, alone.rows[0].interval.high)
    efforts = [row for row in all_rows.rows if not row.is_quality]
    assert all_rows.efforts == len(efforts) > 1
