"""BLEU, chrF, chrF++ and TER over (reference, prediction) pairs, as sacrebleu defines them.

sacrebleu counts n-grams and edits per sentence and computes the score from the sums. Here the counts of each doc are
the aggregation's statistics, so a bootstrap replicate is a weighted sum of counts and no text is read twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from assay.errors import ScoringError
from assay.metrics.base import AGGREGATIONS
from assay.stats import Aggregation, Floats

Pair = Sequence[Any]
"""`(reference, prediction)`; the reference may be a list of texts, the prediction a list of one."""


def _several(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str)


def split_pairs(pairs: Sequence[Pair]) -> tuple[list[str], list[tuple[str, ...]]]:
    """Predictions, and references as sacrebleu wants them: stream j holds the j-th reference of each doc."""
    predictions: list[str] = []
    references: list[list[str]] = []
    for reference, prediction in pairs:
        if _several(prediction):
            if len(prediction) != 1:
                raise ScoringError(
                    f"a doc has {len(prediction)} predictions, but only one can be scored",
                    hint="End the filter with take_first or majority_vote, or name a reducer.",
                )
            prediction = prediction[0]
        predictions.append(prediction)
        references.append(list(reference) if _several(reference) else [reference])
    # sacrebleu takes None for "no such reference"; a shorter list is not a reason to drop references of others.
    return predictions, list(zip_longest(*references))


def _corpus_statistics(metric: Any, pairs: Sequence[Pair]) -> Floats:
    predictions, references = split_pairs(pairs)
    for text in predictions:
        if not isinstance(text, str):
            raise ScoringError(f"a prediction is {text!r}, not text", hint="Check the filters of the task.")
    rows = metric._extract_corpus_statistics(predictions, references)
    return np.asarray(rows, dtype=np.float64)


def bleu_finish(sums: Floats) -> Floats:
    """BLEU-4 from [hypothesis length, reference length, matches 1–4, totals 1–4], smoothed as sacrebleu's default is.

    A precision without a match counts as 1/(2·total), 1/(4·total), … for the first, second, … such order.
    """
    hyp, ref = sums[..., 0], sums[..., 1]
    matches, totals = sums[..., 2:6], sums[..., 6:10]
    empty = matches == 0
    halving = 2.0 ** np.cumsum(empty, axis=-1)
    safe = np.where(totals > 0, totals, 1.0)
    precision = np.where(empty, 1.0 / (halving * safe), matches / safe)
    brevity = np.where(hyp < ref, np.exp(1 - ref / np.where(hyp > 0, hyp, 1.0)), 1.0)
    score = 100.0 * brevity * np.exp(np.log(precision).mean(axis=-1))
    # Without any match, or without an n-gram of some order, sacrebleu gives zero.
    return np.where((hyp > 0) & (matches.sum(-1) > 0) & (totals > 0).all(-1), score, 0.0)


def chrf_finish(sums: Floats) -> Floats:
    """chrF (β = 2) from [hypothesis, reference, match] counts per n-gram order, averaged over orders that occur."""
    counts = sums.reshape(*sums.shape[:-1], -1, 3)
    hyp, ref, match = counts[..., 0], counts[..., 1], counts[..., 2]
    eps = 1e-16
    precision = np.where(hyp > 0, match / np.where(hyp > 0, hyp, 1.0), eps)
    recall = np.where(ref > 0, match / np.where(ref > 0, ref, 1.0), eps)
    effective = (hyp > 0) & (ref > 0)
    orders = effective.sum(-1)
    average_p = np.where(effective, precision, 0.0).sum(-1) / np.maximum(orders, 1)
    average_r = np.where(effective, recall, 0.0).sum(-1) / np.maximum(orders, 1)
    both = average_p + average_r
    score = 100 * 5 * average_p * average_r / np.where(both > 0, 4 * average_p + average_r, 1.0)
    return np.where((orders > 0) & (both > 0), score, 0.0)


def ter_finish(sums: Floats) -> Floats:
    """Edits per reference word; with no reference words 1 if there was anything to edit, else 0."""
    edits, length = sums[..., 0], sums[..., 1]
    return 100 * np.where(length > 0, edits / np.where(length > 0, length, 1.0), (edits > 0).astype(np.float64))


def _aggregation(
    name: str, function: str, counter: str, finish: Callable[[Floats], Floats], **options: Any
) -> Aggregation:
    """`function` of sacrebleu gives the score, its class `counter` the counts of each doc."""

    def score(pairs: Sequence[Pair]) -> float:
        import sacrebleu

        predictions, references = split_pairs(pairs)
        return float(getattr(sacrebleu, function)(predictions, references, **options).score)

    def statistics(pairs: Sequence[Pair]) -> Floats:
        from sacrebleu import metrics

        return _corpus_statistics(getattr(metrics, counter)(**options), pairs)

    return Aggregation(name, score, statistics, finish, resamples=100)


for _each in (
    _aggregation("bleu", "corpus_bleu", "BLEU", bleu_finish),
    _aggregation("chrf", "corpus_chrf", "CHRF", chrf_finish),
    _aggregation("chrf++", "corpus_chrf", "CHRF", chrf_finish, word_order=2),
    _aggregation("ter", "corpus_ter", "TER", ter_finish),
):
    AGGREGATIONS.add(_each.name, _each)
