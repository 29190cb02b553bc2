"""A look after every doc, and still at most five false verdicts in a hundred."""

import numpy as np
import pytest
from tests.stats.simulation import REPETITIONS
from tests.stats.test_paired import ALARM, answers

from assay.errors import ConfigError
from assay.stats import ConfidenceSequence, DiscordantEvidence, StoppingRule, mcnemar


def test_confidence_sequence_holds_over_all_looks_together() -> None:
    for seed, (p, width) in enumerate([(0.5, 0.06), (0.9, 0.05), (0.985, 0.04)]):
        rng = np.random.default_rng(seed)
        missed = 0
        for _ in range(REPETITIONS):
            sequence = ConfidenceSequence(width=width)
            sequence.update((rng.random(1000) < p).astype(float))
            # Candidates once dropped stay dropped, so the last interval has missed if any before it has.
            low, high = sequence.interval
            missed += not low <= p <= high
        assert missed / REPETITIONS <= ALARM


def test_confidence_sequence_for_scores_between_zero_and_one() -> None:
    rng = np.random.default_rng(7)
    missed = 0
    for _ in range(REPETITIONS):
        sequence = ConfidenceSequence(width=0.02)
        sequence.update(rng.beta(0.3, 0.9, 800))
        low, high = sequence.interval
        missed += not low <= 0.25 <= high
    assert missed / REPETITIONS <= ALARM


def test_one_doc_at_a_time_and_all_at_once_agree() -> None:
    scores = (np.random.default_rng(0).random(700) < 0.7).astype(float)
    whole, single = ConfidenceSequence(width=0.05), ConfidenceSequence(width=0.05)
    whole.update(scores)
    for x in scores:
        single.update(np.array([x]))
    assert whole.interval == pytest.approx(single.interval, abs=whole._step)
    assert whole.mean == pytest.approx(scores.mean())


def test_bets_are_sized_for_the_width_so_that_it_comes_soon() -> None:
    fixed, asked = 1.96**2 * 0.25 / 0.02**2, []
    for seed in range(10):
        rng, rule, reason = np.random.default_rng(seed), StoppingRule.parse("ci=0.02"), None
        while reason is None:
            reason = rule.update((rng.random(100) < 0.5).astype(float))
        assert reason.endswith(f"is within ±0.02 after {rule.n} docs")
        asked.append(rule.n)
    assert fixed < np.mean(asked) < 1.8 * fixed


@pytest.mark.parametrize("width", [0.001, 0.005, 0.02])
def test_docs_that_are_too_few_for_the_width_still_say_what_they_can(width: float) -> None:
    rng = np.random.default_rng(0)
    watched = ConfidenceSequence(width=width)
    watched.update((rng.random(300) < 0.7).astype(float))
    low, high = watched.interval
    assert low <= 0.7 <= high
    assert high - low < 0.25, "of a fixed number of docs it would be 0.1"


def test_discordant_evidence_under_no_difference() -> None:
    rng = np.random.default_rng(0)
    alarms, peeking = 0, 0
    for _ in range(REPETITIONS):
        a, b = answers(rng, 2000)
        evidence = DiscordantEvidence()
        evidence.update(a, b)  # keeps the peak over every doc
        alarms += evidence.p_value <= 0.05
        gained, lost = np.cumsum(_by_fifty(a < b)), np.cumsum(_by_fifty(a > b))
        peeking += any(mcnemar(int(g), int(n)) < 0.05 for g, n in zip(gained, lost, strict=True))
    assert alarms / REPETITIONS <= ALARM
    assert peeking / REPETITIONS > 0.15


def _by_fifty(flips: np.ndarray) -> np.ndarray:
    return flips.reshape(-1, 50).sum(axis=1)


def test_clear_gap_is_decided_on_few_docs() -> None:
    rng = np.random.default_rng(0)
    stops = []
    for _ in range(100):
        a, b = answers(rng, 2000, 0.12)
        rule, reason, used = StoppingRule.parse("decided vs base"), None, 0
        while reason is None and used < 2000:
            reason = rule.update(b[used : used + 10], a[used : used + 10])
            used += 10
        stops.append(used)
        assert reason is None or reason.startswith("better than base")
    assert np.median(stops) < 600


@pytest.mark.parametrize("words", ["decided vs base", "decided vs base margin=0.1"])
@pytest.mark.parametrize("binary", [True, False])
def test_rule_against_a_baseline_seldom_errs_under_no_difference(words: str, binary: bool) -> None:
    rng = np.random.default_rng(5)
    wrong = 0
    for _ in range(REPETITIONS):
        a, b = answers(rng, 600) if binary else (rng.beta(2, 2, 600), rng.beta(2, 2, 600))
        rule = StoppingRule.parse(words)
        reasons = [rule.update(b[i : i + 100], a[i : i + 100]) for i in range(0, 600, 100)]
        first = next((r for r in reasons if r), "")
        wrong += first.startswith(("better", "worse"))
    assert wrong / REPETITIONS <= ALARM


def test_margin_ends_a_run_without_a_difference() -> None:
    a = np.zeros(3000)
    rule, stop = StoppingRule.parse("decided vs 'runs/the base' margin=0.05"), None
    for start in range(0, 3000, 50):
        stop = stop or rule.update(a[start : start + 50], a[start : start + 50])
    assert stop.startswith("no difference larger than 0.05 from runs/the base after")


def test_rules_give_an_interval_of_the_score_that_survives_stopping() -> None:
    rng = np.random.default_rng(3)
    missed = 0
    for _ in range(REPETITIONS):
        a, b = answers(rng, 300)
        rule = StoppingRule.parse("decided vs base")
        assert rule.interval is None
        for start in range(0, 300, 50):
            if rule.update(b[start : start + 50], a[start : start + 50]):
                break
        low, high = rule.interval
        missed += not low <= 0.5 <= high
    assert missed / REPETITIONS <= ALARM


def test_rules_start_afresh_for_the_next_task() -> None:
    rule = StoppingRule.parse("ci=2pt")
    rule.update(np.ones(500))
    again = rule.fresh()
    assert (again.n, again.width, again.text) == (0, 0.02, "ci=2pt")


@pytest.mark.parametrize(
    "text", ["", "ci", "ci=0", "ci=0.7", "ci=abc", "ci=1e", "decided", "decided vs x margin=3", "acc>0.5"]
)
def test_words_that_are_no_rule(text: str) -> None:
    with pytest.raises(ConfigError, match="--until"):
        StoppingRule.parse(text)


def test_scores_outside_the_unit_interval_are_refused_and_nan_is_left_out() -> None:
    with pytest.raises(ConfigError, match=r"needs scores in \[0, 1\]"):
        StoppingRule.parse("ci=0.01").update(np.array([0.5, 12.0]))
    with pytest.raises(ConfigError, match="needs the scores of"):
        StoppingRule.parse("decided vs base").update(np.ones(3))
    rule = StoppingRule.parse("ci=0.01")
    rule.update(np.array([1.0, np.nan]))
    assert rule.n == 1
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        ConfidenceSequence(width=0.1).update(np.array([-1.0]))
    with pytest.raises(ValueError, match="half-width"):
        ConfidenceSequence(width=0.5)


def test_scores_that_drift_leave_the_last_estimate() -> None:
    sequence = ConfidenceSequence(width=0.05)
    sequence.update(np.zeros(3000))
    sequence.update(np.ones(3000))
    assert sequence.interval == (sequence.mean, sequence.mean)
    sequence.update(np.ones(10))
    assert sequence.n == 6010
