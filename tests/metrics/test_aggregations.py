"""Aggregations against scikit-learn and sacrebleu, and their sufficient statistics against themselves."""

from __future__ import annotations

import math
import random
import tracemalloc

import numpy as np
import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score
from sklearn.metrics import matthews_corrcoef as sklearn_mcc

from assay.errors import ScoringError
from assay.metrics import AGGREGATIONS

labels = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=40)
classes = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=40)
numbers = st.lists(st.floats(-50, 50), min_size=1, max_size=30)


@given(labels)
def test_f1_is_that_of_sklearn(pairs):
    golds, predictions = zip(*pairs)
    assert AGGREGATIONS["f1"].fn(pairs) == f1_score(golds, predictions, zero_division=0.0)


@given(classes)
def test_mcc_is_that_of_sklearn(pairs):
    golds, predictions = zip(*pairs)
    assert AGGREGATIONS["matthews_corrcoef"].fn(pairs) == pytest.approx(sklearn_mcc(golds, predictions), abs=1e-15)


def test_mcc_takes_words_for_labels():
    assert AGGREGATIONS["matthews_corrcoef"].fn([("yes", "yes"), ("no", "no"), ("yes", "no")]) == pytest.approx(0.5)


def test_f1_refuses_a_third_class():
    with pytest.raises(ScoringError, match="two classes"):
        AGGREGATIONS["f1"].fn([(0, 1), (2, 1)])


@given(st.lists(st.tuples(*[st.sampled_from([0, 1, 2, -1])] * 2), min_size=1, max_size=6))
def test_f1_takes_and_refuses_what_sklearn_does(pairs):
    golds, predictions = zip(*pairs)
    try:
        expected = f1_score(golds, predictions, zero_division=0.0)
    except ValueError:  # a third class, or two without a 1
        with pytest.raises(ScoringError, match="1 as the positive one"):
            AGGREGATIONS["f1"].fn(pairs)
    else:
        assert AGGREGATIONS["f1"].fn(pairs) == expected


def test_mcc_of_free_text_needs_no_table_of_labels_by_labels():
    pairs = [(f"gold {i % 700}", f"gold {i}" if i % 3 else f"said {i}") for i in range(1500)]
    mcc = AGGREGATIONS["matthews_corrcoef"]
    tracemalloc.start()
    value, rows = mcc.fn(pairs), mcc.statistics(pairs)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert rows is None
    assert most < 5_000_000
    assert value == pytest.approx(sklearn_mcc(*zip(*pairs)), abs=1e-12)


@given(classes, st.integers(0, 2**32 - 1))
def test_mcc_replicates_are_those_of_its_statistics(pairs, seed):
    mcc = AGGREGATIONS["matthews_corrcoef"]
    weights = np.random.default_rng(seed).poisson(1.0, (8, len(pairs)))
    assert mcc.replicate(pairs, weights) == pytest.approx(mcc.finish(weights @ mcc.statistics(pairs)))


@given(numbers)
def test_median_is_the_upper_one(values):
    assert AGGREGATIONS["median"].fn(values) == sorted(values)[len(values) // 2]


@given(numbers, st.integers(0, 2**32 - 1))
def test_median_replicates_are_medians_of_repeated_items(values, seed):
    weights = np.random.default_rng(seed).poisson(1.0, (8, len(values)))
    found = AGGREGATIONS["median"].replicate(values, weights)
    for row, value in zip(weights, found):
        items = [x for x, times in zip(values, row) for _ in range(times)]
        assert (math.isnan(value) and not items) or value == sorted(items)[len(items) // 2]


def test_perplexities_and_bits():
    assert AGGREGATIONS["perplexity"].fn([-1.0, -3.0]) == pytest.approx(math.exp(2))
    pairs = [(-10.0, 5), (-2.0, 7)]
    assert AGGREGATIONS["weighted_perplexity"].fn(pairs) == pytest.approx(math.exp(1))
    assert AGGREGATIONS["bits_per_byte"].fn(pairs) == pytest.approx(1 / math.log(2))
    assert AGGREGATIONS["perplexity"].fn([-math.inf]) == math.inf
    assert AGGREGATIONS["perplexity"].fn([-1e6]) == math.inf


def test_texts_without_words_have_no_perplexity():
    with pytest.raises(ScoringError, match="zero"):
        AGGREGATIONS["weighted_perplexity"].fn([(0.0, 0)])


def test_nanmean_leaves_nan_out():
    assert AGGREGATIONS["nanmean"].fn([1.0, math.nan, 3.0]) == 2.0
    assert math.isnan(AGGREGATIONS["nanmean"].fn([math.nan]))


def test_brier_allows_docs_with_different_choices():
    pairs = [(0, [1.0, 0.0]), (1, [0.5, 0.25, 0.25])]
    assert AGGREGATIONS["brier_score"].fn(pairs) == pytest.approx((0 + 0.25 + 0.5625 + 0.0625) / 2)


WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "then", "ate", "some", "fish", ",", "didn't", "it", "?"]


def translations(seed: int, n: int, noise: float) -> list[list[str]]:
    rng, pairs = random.Random(seed), []
    for _ in range(n):
        reference = [rng.choice(WORDS) for _ in range(rng.randint(1, 14))]
        prediction = [rng.choice(WORDS) if rng.random() < noise else word for word in reference]
        pairs.append([" ".join(reference), " ".join(prediction[: rng.randint(0, len(prediction))])])
    return pairs


@pytest.mark.parametrize("noise", [0.0, 0.3, 1.0])
@pytest.mark.parametrize(
    ("name", "corpus"),
    [
        ("bleu", sacrebleu.corpus_bleu),
        ("chrf", sacrebleu.corpus_chrf),
        ("chrf++", lambda p, r: sacrebleu.corpus_chrf(p, r, word_order=2)),
        ("ter", sacrebleu.corpus_ter),
    ],
)
def test_sums_of_counts_give_sacrebleus_score(name, corpus, noise):
    for seed in range(5):
        pairs = translations(seed, 12, noise)
        references, predictions = zip(*pairs)
        aggregation = AGGREGATIONS[name]
        expected = corpus(list(predictions), [list(references)]).score
        assert aggregation.fn(pairs) == expected
        assert float(aggregation.finish(aggregation.statistics(pairs).sum(axis=0))) == pytest.approx(expected, abs=1e-9)


def test_translations_of_nothing_score_zero():
    for name, worst in (("bleu", 0.0), ("chrf", 0.0), ("ter", 100.0)):
        aggregation = AGGREGATIONS[name]
        sums = aggregation.statistics([["a b c", ""]]).sum(axis=0)
        assert aggregation.fn([["a b c", ""]]) == float(aggregation.finish(sums)) == worst


def test_several_references_are_all_used():
    pairs = [[["a b c d", "the cat sat here"], "the cat sat here"], [["x y z w"], "x y z w"]]
    assert AGGREGATIONS["bleu"].fn(pairs) == pytest.approx(100.0)


def test_a_list_of_predictions_is_an_error():
    with pytest.raises(ScoringError, match="2 predictions"):
        AGGREGATIONS["bleu"].fn([["a", ["b", "c"]]])


@settings(max_examples=30)
@given(st.lists(st.text(max_size=30), min_size=1, max_size=4))
def test_any_text_can_be_translated(texts):
    pairs = [[text, text] for text in texts]
    for name in ("bleu", "chrf", "ter"):
        assert math.isfinite(AGGREGATIONS[name].fn(pairs))
