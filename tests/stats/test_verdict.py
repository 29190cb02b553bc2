"""Verdicts and gates err as rarely as they say."""

import math
import re

import numpy as np
import pytest
from tests.stats.simulation import REPETITIONS
from tests.stats.test_paired import ALARM, answers, margins

from assay.stats import (
    PairedNoise,
    above_threshold,
    decide,
    detectable_effect,
    docs_needed,
    ends,
    mcnemar,
    mean_estimate,
    non_inferiority,
    paired_difference,
    repeats_needed,
    summary_estimate,
)
from assay.stats.paired import paired_score, tango_interval


def rate(outcomes: list[bool]) -> float:
    assert len(outcomes) == REPETITIONS
    return float(np.mean(outcomes))


@pytest.mark.parametrize(("draw", "n", "margin"), [(answers, 300, 0.1), (answers, 2000, 0.03), (margins, 300, 0.15)])
def test_a_difference_as_large_as_the_margin_is_seldom_called_none(draw, n: int, margin: float) -> None:
    rng = np.random.default_rng(0)
    kinds = [decide(paired_difference(*draw(rng, n, margin)), margin=margin).kind for _ in range(REPETITIONS)]
    assert rate([k == "equivalent" for k in kinds]) <= ALARM
    assert rate([k == "worse" for k in kinds]) <= 0.01


def test_equal_runs_are_called_so_when_there_are_docs_enough() -> None:
    rng = np.random.default_rng(0)
    kinds = [decide(paired_difference(*answers(rng, 3000)), margin=0.05).kind for _ in range(REPETITIONS)]
    assert rate([k == "equivalent" for k in kinds]) > 0.9


def flipped(n: int, gained: int, lost: int) -> tuple[np.ndarray, np.ndarray]:
    a = np.repeat([0.0, 1.0, 1.0], [gained, lost, n - gained - lost])
    b = np.repeat([1.0, 0.0, 1.0], [gained, lost, n - gained - lost])
    return a, b


def test_an_undecided_verdict_says_what_could_have_been_shown_and_what_the_observed_difference_takes() -> None:
    undecided = decide(paired_difference(*flipped(120, 40, 28)), margin=0.01)
    assert undecided.kind == "undecided"
    assert undecided.detectable == pytest.approx(0.19, abs=0.005)
    assert undecided.docs_needed == pytest.approx(440, abs=10)
    assert re.findall(r"[\d.]+", str(undecided)) == ["0.19", str(undecided.docs_needed)]
    even = decide(paired_difference(*flipped(120, 30, 30)), margin=0.01)
    assert even.docs_needed is None
    assert re.findall(r"[\d.]+", str(even)) == ["0.18"]


def test_what_an_undecided_verdict_says_comes_true_in_four_of_five_cases() -> None:
    rng = np.random.default_rng(0)
    undecided = decide(paired_difference(*answers(rng, 2000, 0.01)), margin=0.001)
    assert undecided.detectable is not None
    assert undecided.docs_needed is not None
    observed = paired_difference(*answers(np.random.default_rng(0), 2000, 0.01)).estimate.value
    for n, effect in ((2000, undecided.detectable), (undecided.docs_needed, abs(observed))):
        kinds = [decide(paired_difference(*answers(rng, n, effect)), margin=0.001).kind for _ in range(400)]
        assert np.mean([kind == "better" for kind in kinds]) == pytest.approx(0.8, abs=0.06)


@pytest.mark.parametrize("discordant", [0.02, 0.1, 0.3, 0.6])
@pytest.mark.parametrize("n", [20, 100, 500])
def test_mid_p_errs_in_at_most_five_percent_of_cases(n: int, discordant: float) -> None:
    """Exactly, over all outcomes."""
    from scipy.stats import binom

    error = 0.0
    for flips in range(n + 1):
        wrong = [k for k in range(flips + 1) if mcnemar(k, flips - k) < 0.05]
        error += binom.pmf(flips, n, discordant) * binom.pmf(wrong, flips, 0.5).sum()
    assert error <= 0.0525


def test_lower_may_be_better() -> None:
    a, b = np.full(50, 2.0), np.linspace(1.0, 1.5, 50)
    row = paired_difference(a, b)
    assert decide(row, margin=0.01, higher_is_better=False).kind == "better"
    assert decide(row, margin=0.01).kind == "worse"
    assert non_inferiority(row, 0.01, higher_is_better=False).passed
    assert not non_inferiority(row, 0.01).passed


def test_corrected_p_value_decides_where_given() -> None:
    a = np.repeat([1.0, 0.0, 1.0, 0.0], [520, 400, 25, 55])
    b = np.repeat([1.0, 0.0, 0.0, 1.0], [520, 400, 25, 55])
    row = paired_difference(a, b)
    assert decide(row, margin=0.01).kind == "better"
    assert decide(row, margin=0.01, p_value=0.4, tests=50).kind == "undecided"


@pytest.mark.parametrize(("draw", "n", "margin"), [(answers, 100, 0.1), (answers, 1000, 0.05), (margins, 200, 0.1)])
def test_gate_passes_a_model_at_the_margin_one_time_in_twenty(draw, n: int, margin: float) -> None:
    rng = np.random.default_rng(1)
    passes = [non_inferiority(paired_difference(*draw(rng, n, -margin)), margin).passed for _ in range(REPETITIONS)]
    assert rate(passes) <= ALARM
    assert rate(passes) > 0.01


@pytest.mark.parametrize(
    ("n", "margin", "gain"), [(100, 0.05, 0.01), (50, 0.1, 0.001), (1000, 0.01, 0.005), (20, 0.2, 0.05)]
)
def test_gate_holds_where_flips_are_few_and_one_sided(n: int, margin: float, gain: float) -> None:
    """Exactly, over all outcomes: plain value ± z·SE passes 8 % in the first case."""
    from scipy.stats import multinomial, norm

    rate = 0.0
    reach = round(n * (2 * gain + margin) + 8 * math.sqrt(n * (2 * gain + margin)) + 8)
    z = norm.ppf(0.95)
    for lost in range(min(n, reach) + 1):
        for gained in range(min(n - lost, reach) + 1):
            # The lower bound lies above −margin where the score against −margin is larger than z.
            if paired_score(gained, lost, n, -margin) > z:
                shares = [gain, gain + margin, 1 - 2 * gain - margin]
                rate += multinomial.pmf([gained, lost, n - gained - lost], n, shares)
    assert rate <= 0.0505


@pytest.mark.parametrize(
    ("gained", "lost", "n"), [(0, 0, 30), (5, 0, 30), (3, 9, 40), (40, 40, 2000), (30, 0, 30), (0, 7, 7)]
)
def test_interval_is_where_the_score_reaches_its_quantile(gained: int, lost: int, n: int) -> None:
    low, high = tango_interval(gained, lost, n, 0.9)
    assert -1 <= low <= (gained - lost) / n <= high <= 1
    if low > -0.999:
        assert paired_score(gained, lost, n, low) == pytest.approx(1.6449, abs=1e-3)
    if high < 0.999:
        assert paired_score(gained, lost, n, high) == pytest.approx(-1.6449, abs=1e-3)
    assert tango_interval(lost, gained, n, 0.9) == pytest.approx((-high, -low))


def test_gate_passes_an_equal_model_when_there_are_docs_enough() -> None:
    rng = np.random.default_rng(1)
    passes = [non_inferiority(paired_difference(*answers(rng, 3000)), 0.05).passed for _ in range(REPETITIONS)]
    assert rate(passes) > 0.95


@pytest.mark.parametrize(("p", "n"), [(0.9, 50), (0.6, 400), (0.98, 1000)])
def test_threshold_gate_passes_a_model_at_the_threshold_one_time_in_twenty(p: float, n: int) -> None:
    rng = np.random.default_rng(3)
    passes = [
        above_threshold(ends(mean_estimate((rng.random(n) < p).astype(float), level=0.9)), p).passed
        for _ in range(REPETITIONS)
    ]
    assert rate(passes) <= ALARM + 0.02  # a step of one doc is up to two points here


def test_gate_without_an_error_bar_does_not_pass() -> None:
    assert not non_inferiority(paired_difference(np.array([0.5]), np.array([0.9])), 0.1).passed
    assert not above_threshold(ends(mean_estimate([1.0])), 0.1).passed
    assert not above_threshold(None, 0.5).passed
    assert above_threshold(None, 0.5).unclear
    reported = ends(summary_estimate(0.9, 0.01, 100, level=0.9))
    assert above_threshold(reported, 0.87).passed
    assert above_threshold(reported, 0.89).unclear
    assert not above_threshold(reported, 0.95).unclear


def test_a_gate_tells_worse_from_too_few_docs() -> None:
    worse, few = paired_difference(*flipped(400, 5, 90)), paired_difference(*flipped(40, 3, 3))
    assert not non_inferiority(worse, 0.05).passed
    assert not non_inferiority(worse, 0.05).unclear
    unclear = non_inferiority(few, 0.05)
    assert (unclear.passed, unclear.unclear) == (False, True)
    assert unclear.docs_needed is not None
    assert unclear.docs_needed > 40
    # Lower may be better: the same flips the other way round.
    assert non_inferiority(worse, 0.05, higher_is_better=False).passed


@pytest.mark.parametrize(("gained", "lost", "higher_is_better"), [(20, 22, True), (22, 20, False)])
def test_the_docs_that_a_gate_asks_for_tell_in_four_of_five_cases(
    gained: int, lost: int, higher_is_better: bool
) -> None:
    rng = np.random.default_rng(4)
    asked = non_inferiority(paired_difference(*flipped(200, gained, lost)), 0.04, higher_is_better=higher_is_better)
    assert asked.unclear
    n = asked.docs_needed
    assert n is not None
    passes = []
    for _ in range(400):
        up, down, _ = rng.multinomial(n, [gained / 200, lost / 200, 1 - (gained + lost) / 200])
        row = paired_difference(*flipped(n, int(up), int(down)))
        passes.append(non_inferiority(row, 0.04, higher_is_better=higher_is_better).passed)
    assert np.mean(passes) == pytest.approx(0.8, abs=0.06)


@pytest.mark.parametrize("n", [2, 12, 80])
def test_where_no_doc_differs_the_docs_asked_for_are_those_that_tell(n: int) -> None:
    """By the spread of two docs, as it was before, it took 15,457."""
    asked = non_inferiority(paired_difference(np.ones(n), np.ones(n)), 0.01)
    assert asked.unclear
    assert asked.docs_needed == pytest.approx(268, abs=2)
    enough = np.ones(asked.docs_needed + 1)
    assert non_inferiority(paired_difference(enough, enough), 0.01).passed
    score = mean_estimate([1.0] * n, level=0.9)
    needed = above_threshold(ends(score), 0.99, estimate=score).docs_needed
    assert needed == pytest.approx(268, rel=0.15)
    score = mean_estimate([1.0] * (needed + 1), level=0.9)
    assert above_threshold(ends(score), 0.99, estimate=score).passed
    wrong = mean_estimate([0.0] * n, level=0.9)
    missed = above_threshold(ends(wrong), 0.01, estimate=wrong)
    assert (missed.unclear, missed.docs_needed) == (True, needed)


@pytest.mark.parametrize("clusters", [10, 40])
def test_where_no_doc_differs_in_clusters_no_more_docs_are_asked_for_than_tell(clusters: int) -> None:
    same, units = np.ones(4 * clusters), np.repeat(np.arange(clusters), 4)
    asked = non_inferiority(paired_difference(same, same, units), 0.02)
    assert asked.unclear
    assert asked.docs_needed is not None
    more = math.ceil(asked.docs_needed / 4)
    enough, units = np.ones(4 * more), np.repeat(np.arange(more), 4)
    assert non_inferiority(paired_difference(enough, enough, units), 0.02).passed
    half, units = enough[: 2 * more], units[: 2 * more]
    assert non_inferiority(paired_difference(half, half, units), 0.02).unclear


def test_a_threshold_near_the_score_asks_for_more_docs() -> None:
    score = mean_estimate([1.0] * 60 + [0.0] * 40, level=0.9)
    near, far = (above_threshold(ends(score), limit, estimate=score) for limit in (0.58, 0.53))
    assert near.unclear
    assert near.docs_needed == pytest.approx(2.4865**2 * 0.24 / 0.02**2, rel=0.04)
    assert far.docs_needed < near.docs_needed / 5
    assert above_threshold(ends(score), 0.6, estimate=score).docs_needed is None


def test_published_worked_numbers_of_power() -> None:
    noise = PairedNoise(1 / 9, 1 / 6, 1 / 6)
    found = [docs_needed(0.03, noise, repeats_a=k, repeats_b=k) for k in (1, 2, 4, 10, math.inf)]
    assert found == [3876, 2422, 1696, 1260, 969]
    assert detectable_effect(969, PairedNoise(1 / 9)) == pytest.approx(0.03, abs=1e-5)


def test_repeats_help_only_against_their_own_noise() -> None:
    noise = PairedNoise(1 / 9, 1 / 6, 1 / 6)
    assert repeats_needed(0.03, 1696, noise) == 4
    assert repeats_needed(0.03, 5000, noise) == 1
    assert repeats_needed(0.03, 900, noise) is None
    with pytest.raises(ValueError, match="difference of 0"):
        docs_needed(0.0, noise)


@pytest.mark.parametrize(("effect", "repeats", "power"), [(0.05, 1, 0.8), (0.05, 4, 0.6), (0.04, 1, 0.5)])
def test_the_docs_needed_have_the_power_that_was_asked_for(effect: float, repeats: int, power: float) -> None:
    rng = np.random.default_rng(0)

    def draw(docs: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        pa = rng.beta(2, 2, docs) * (1 - 2 * effect)
        pb = pa + rng.choice([0.0, 2 * effect], docs)
        return pa, pb, rng.binomial(repeats, pa) / repeats, rng.binomial(repeats, pb) / repeats

    pa, pb, _, _ = draw(200_000)
    noise = PairedNoise(float(np.var(pb - pa)), float((pa * (1 - pa)).mean()), float((pb * (1 - pb)).mean()))
    n = docs_needed(effect, noise, repeats_a=repeats, repeats_b=repeats, power=power)
    seen = rate([paired_difference(*draw(n)[2:]).p_value < 0.05 for _ in range(REPETITIONS)])
    assert seen == pytest.approx(power, abs=0.05)


@pytest.mark.parametrize("n", [3, 10, 60])
def test_a_threshold_gate_on_right_and_wrong_docs_errs_at_most_as_often_as_it_says(n: int) -> None:
    """With a score interval: 12.5 % for three docs, 8 to 9 % for ten."""
    for limit in (0.1, 0.5, 0.75, 0.9, 0.95):
        wrong = 0.0
        for right in range(n + 1):
            found = mean_estimate(np.repeat([1.0, 0.0], [right, n - right]))
            passed = above_threshold((found.low, found.high), limit - 1e-9, estimate=found).passed
            wrong += passed * math.comb(n, right) * limit**right * (1 - limit) ** (n - right)
        assert wrong <= 0.05
