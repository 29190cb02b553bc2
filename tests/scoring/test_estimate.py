"""An estimate for every number, and a reason where there is none."""

from __future__ import annotations

import math
import random
from statistics import stdev

import numpy as np
import pytest

from assay.errors import ScoringError
from assay.metrics import AGGREGATIONS, Aggregation
from assay.scoring import chance_test, estimate

RNG = np.random.default_rng(7)


def keys(n: int) -> np.ndarray:
    return np.random.default_rng(n).integers(0, 2**64, n, dtype=np.uint64)


def of(values, name="mean", **options):
    aggregation = name if isinstance(name, Aggregation) else AGGREGATIONS[name]
    return estimate(values, aggregation, keys(len(values)), **options)


def lm_eval_stderr(values: list[float]) -> float:
    mu = sum(values) / len(values)
    return math.sqrt(sum([(x - mu) ** 2 for x in values]) / (len(values) - 1)) / math.sqrt(len(values))


@pytest.mark.parametrize("values", [[1.0, 0.0, 1.0, 1.0], [0.1, 0.25, 3.7] * 33, [True, False, True], [0.3] * 9])
def test_means_and_their_errors_are_those_of_lm_eval_to_the_last_digit(values):
    found = of(values).estimate
    assert found.value == sum(values) / len(values)
    assert found.stderr == lm_eval_stderr(values)


def test_all_right_is_not_certainty():
    """lm-evaluation-harness publishes a standard error of 0.0 here and leaves it at that."""
    found = of([1.0] * 30).estimate
    assert (found.value, found.stderr, found.method) == (1.0, 0.0, "wilson")
    assert found.low == pytest.approx(0.8865, abs=1e-3)


def test_error_bars_can_be_turned_off():
    found = of([1.0, 0.0, 1.0], bootstrap_iters=0)
    assert (found.estimate.value, found.estimate.stderr) == (pytest.approx(2 / 3), None)
    assert len(found.draws) == 0


def test_one_doc_has_a_value_and_no_error():
    for name, value in (("mean", 0.5), ("f1", (1, 1)), ("bleu", ["a b c d e", "a b c d e"]), ("median", 3.0)):
        found = of([value], name).estimate
        assert found.value is not None
        assert found.stderr is None


@pytest.mark.parametrize(
    ("values", "name", "reason"),
    [
        ([], "mean", "no docs"),
        ([1.0, None, 0.0], "mean", "1 of 3 docs have no value"),
        ([None, None], "mean", "nothing"),
        ([math.nan, math.nan], "nanmean", "NaN"),
        ([1.0, 2.0], Aggregation("lazy", lambda values: None), "lazy returned nothing"),
    ],
)
def test_undefined_numbers_say_why(values, name, reason):
    found = of(values, name).estimate
    assert reason in found.undefined
    assert found.stderr is None


def test_an_infinite_perplexity_is_infinite():
    assert of([-1.0, -math.inf], "perplexity").estimate.value == math.inf


def test_an_aggregation_that_fails_is_named_with_what_it_was_given():
    with pytest.raises(ScoringError, match=r"(?s)aggregation mean of 2 values: TypeError.*Value 1 is \['a', 'b'\]"):
        of([["a", "b"], ["c", "d"]])
    with pytest.raises(ScoringError, match="not a number"):
        of([1, 2], Aggregation("wordy", lambda values: "many"))


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("f1", [(int(a), int(b)) for a, b in RNG.integers(0, 2, (300, 2))]),
        ("matthews_corrcoef", [(int(a), int(b)) for a, b in RNG.integers(0, 3, (300, 2))]),
        ("median", RNG.normal(size=300).tolist()),
        ("perplexity", (-RNG.gamma(4.0, 1.0, 300)).tolist()),
        ("weighted_perplexity", list(zip((-RNG.gamma(4.0, 1.0, 300)).tolist(), RNG.integers(2, 9, 300).tolist()))),
        ("bits_per_byte", list(zip((-RNG.gamma(4.0, 1.0, 300)).tolist(), RNG.integers(2, 9, 300).tolist()))),
        ("brier_score", [(0, [p, 1 - p]) for p in RNG.random(300).tolist()]),
        ("nanmean", [math.nan if i % 3 else x for i, x in enumerate(RNG.random(300).tolist())]),
        ("expected_calibration_error", [(float(p), int(p > 0.4)) for p in RNG.random(300)]),
    ],
)
def test_errors_agree_with_an_ordinary_bootstrap(name, values):
    """Closed forms and weighted sums against the textbook: resample the docs, aggregate, look at the spread."""
    found = of(values, name).estimate
    rnd, aggregation = random.Random(0), AGGREGATIONS[name]
    resampled = [aggregation.fn(rnd.choices(values, k=len(values))) for _ in range(400)]
    assert found.stderr == pytest.approx(stdev(resampled), rel=0.2)
    assert found.low < found.value < found.high


def test_translation_errors_of_lm_eval_stand_beside_our_own():
    words = ["a", "b", "c", "d", "e", "f", "g", "h"]
    rnd = random.Random(3)
    pairs = [[" ".join(rnd.choices(words, k=9)), " ".join(rnd.choices(words, k=9))] for _ in range(40)]
    score = of(pairs, "bleu")
    found = score.estimate
    theirs = random.Random(0)
    replicates = [AGGREGATIONS["bleu"].fn(theirs.choices(pairs, k=40)) for _ in range(100)]
    mu = sum(replicates) / 100
    assert score.lm_eval_stderr == pytest.approx(math.sqrt(sum((x - mu) ** 2 for x in replicates) / 99), rel=1e-9)
    assert found.stderr == pytest.approx(float(np.std(score.draws, ddof=1)))
    assert found.low < found.value < found.high


def test_a_function_of_the_task_gets_an_error_bar_too():
    """lm-evaluation-harness reports N/A for every `!function` aggregation."""
    values = RNG.normal(5, 2, 200).tolist()
    found = of(values, Aggregation("mine", lambda items: sum(items) / len(items))).estimate
    assert found.stderr == pytest.approx(lm_eval_stderr(values), rel=0.25)


def test_draws_in_which_a_function_fails_are_left_out():
    def brittle(items):
        if sum(items) < 3:
            raise ValueError("too few positives")
        return sum(items) / len(items)

    found = of([1.0] * 20 + [0.0] * 180, Aggregation("brittle", brittle)).estimate
    assert found.stderr is not None


def test_clusters_widen_the_interval_and_one_cluster_has_none():
    values = np.repeat(RNG.integers(0, 2, 30), 10).astype(float).tolist()
    clusters = np.repeat(np.arange(30), 10)
    alone, together = of(values).estimate, of(values, clusters=clusters).estimate
    assert together.stderr > 2.5 * alone.stderr
    assert of(values, clusters=np.zeros(300)).estimate.stderr is None
    pairs = [(int(v), int(w)) for v, w in zip(values, reversed(values))]
    assert of(pairs, "f1", clusters=clusters).estimate.stderr > 2 * of(pairs, "f1").estimate.stderr


def test_the_same_docs_get_the_same_replicates_in_any_order():
    values, where = RNG.integers(0, 2, 50).astype(float), keys(50)
    order = RNG.permutation(50)
    a = estimate(values.tolist(), AGGREGATIONS["mean"], where).draws
    b = estimate(values[order].tolist(), AGGREGATIONS["mean"], where[order]).draws
    assert np.allclose(a, b)


def test_scores_hand_counts_and_docs_to_groups():
    score = of([1.0, 0.0, 1.0])
    assert score.draw_counts.tolist() == [[1, 1], [1, 0], [1, 1]]
    assert score.docs[0].tolist() == [1.0, 0.0, 1.0]
    assert of([0.5, 0.0, 1.0], counts=[(2, 1), (2, 0), (2, 2)]).draw_counts.tolist() == [[2, 1], [2, 0], [2, 2]]
    assert of([0.5, 0.0, 1.0]).draw_counts is None


@pytest.mark.parametrize(
    ("right", "docs", "choices", "shown"),
    [
        (10, 100, 4, "below"),
        (40, 120, 2, "below"),
        (25, 100, 4, "nothing"),
        (31, 100, 4, "nothing"),
        (500, 2000, 4, "equal"),
        (520, 2000, 4, "equal"),
        (560, 2000, 4, "above"),
        (60, 100, 4, "above"),
    ],
)
def test_chance_is_a_statement_of_its_own_and_not_the_lack_of_one(
    right: int, docs: int, choices: int, shown: str
) -> None:
    chance = chance_test(of([1.0] * right + [0.0] * (docs - right)), {choices: docs})
    assert (chance.accuracy, chance.shown) == (1 / choices, shown)


def test_chance_counts_docs_with_unequal_numbers_of_choices_and_small_chances() -> None:
    chance = chance_test(of([1.0, 0.0] * 50), {2: 50, 100: 50})
    assert chance.accuracy == pytest.approx(0.255)
    assert chance_test(of([0.0] * 2000), {100: 2000}).margin == pytest.approx(0.005)
    assert chance_test(of([1.0]), {4: 1}).shown == "nothing"


@pytest.mark.parametrize(
    ("p", "wrong"), [(0.25, {"above", "below"}), (0.3, {"equal", "below"}), (0.2, {"equal", "above"})]
)
def test_statements_about_chance_err_seldom_with_clusters_and_many_tasks(p: float, wrong: set[str]) -> None:
    """Ten tasks of 60 clusters of ten docs, at chance or at the margin: any wrong statement in a run counts."""
    rng = np.random.default_rng(5)
    index = np.repeat(np.arange(60), 10)
    errors = 0
    for _ in range(150):
        said = set()
        for _ in range(10):
            values = rng.random(600) < rng.beta(4 * p, 4 * (1 - p), 60)[index]
            keys = rng.integers(0, 2**63, 600, dtype=np.uint64)
            score = estimate(values.astype(float).tolist(), AGGREGATIONS["mean"], keys, index)
            said.add(chance_test(score, {4: 600}, tests=10).shown)
        errors += bool(said & wrong)
    assert errors / 150 <= 0.05 + 3 * 0.0178
