"""Aggregations over docs that need no text: means, median, perplexities, confusion counts, Brier, win rates at equal length.

Values agree with lm-evaluation-harness to the last digit, so sums run in doc order over Python floats.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.errors import ScoringError
from assay.metrics.base import AGGREGATIONS
from assay.stats import (
    Aggregation,
    Clusters,
    Estimate,
    Floats,
    correlation_estimate,
    pooled_stderr,
    ratio_estimate,
    transformed,
)


def mean(values: Sequence[Any]) -> Any:
    return sum(values) / len(values)


def median(values: Sequence[Any]) -> Any:
    """The upper median: for an even number of values, the higher of the middle two."""
    return sorted(values)[len(values) // 2]


def acc_all(items: Sequence[Any]) -> float:
    """The share of questions all of whose answers are judged right; an item is (prediction, doc) of one answer.

    Docs of one question belong together: name their column in `cluster:` of the task, or the error bar is too short.
    """
    questions: dict[tuple[Any, Any], bool] = {}
    for prediction, doc in items:
        question = doc["idx"]["paragraph"], doc["idx"]["question"]
        questions[question] = questions.get(question, True) and (doc["label"] == 1) == prediction
    return sum(questions.values()) / len(questions)


def nanmean(values: Sequence[float]) -> float:
    array = np.asarray(values, dtype=np.float64)
    return float("nan") if array.size == 0 or np.isnan(array).all() else float(np.nanmean(array))


def weighted_mean(pairs: Sequence[tuple[float, float]]) -> float:
    numerators, denominators = zip(*pairs)
    total: float = sum(denominators)
    if total == 0:
        raise ScoringError("the weights of all docs add up to zero, so there is no text to divide by")
    return float(sum(numerators) / total)


def per_solved(pairs: Sequence[tuple[float, float]]) -> float:
    """What a solved doc took, from (spent, solved) of every doc: what was spent on all of them, for each that was solved.

    >>> per_solved([(100, 1), (300, 0), (200, 1)])
    300.0
    """
    spent, solved = zip(*pairs)
    total: float = sum(solved)
    return float(sum(spent) / total) if total else math.nan


def _per_solved_estimate(value: float, table: Floats, clusters: Clusters | None, level: float) -> Estimate:
    """Nothing takes less than nothing."""
    found = ratio_estimate(table[:, 0], table[:, 1], clusters, level=level, may_be_share=False)
    return found if found.low is None else replace(found, low=max(0.0, found.low))


def perplexity(values: Sequence[float]) -> float:
    return _perplexity(mean(values))


def weighted_perplexity(pairs: Sequence[tuple[float, float]]) -> float:
    return _perplexity(weighted_mean(pairs))


def bits_per_byte(pairs: Sequence[tuple[float, float]]) -> float:
    return float(_bits(weighted_mean(pairs)))


def _perplexity(loglikelihood: float) -> float:
    """A loglikelihood of −∞, or one so low that the exponential overflows, is an infinite perplexity."""
    try:
        return math.exp(-loglikelihood)
    except OverflowError:
        return math.inf


def _bits(nats: Any) -> Any:
    return -nats / math.log(2)


def f1(pairs: Sequence[tuple[Any, Any]]) -> float:
    """Binary F1 of (gold, prediction), class 1 positive."""
    return float(_f1_finish(_f1_statistics(pairs).sum(axis=0)))


def _f1_statistics(pairs: Sequence[tuple[Any, Any]]) -> Floats:
    """Columns: true positives, and docs that are positive on either side: F1 is 2J/(1+J) of their ratio J.

    Two labels of which neither is 1 have no positive class; one label alone may be the negative one.
    """
    labels = np.asarray([(int(gold), int(prediction)) for gold, prediction in pairs])
    known = np.unique(labels).tolist()
    if len(known) > 2 or (len(known) == 2 and 1 not in known):
        raise ScoringError(
            f"aggregation f1 is for two classes, with 1 as the positive one, but the labels are {known}",
            hint="Use a macro or weighted F1 (aggregation: !function ...) or another metric.",
        )
    gold, prediction = (labels == 1).T
    return np.stack([gold & prediction, gold | prediction], axis=1).astype(np.float64)


def _f1_finish(sums: Floats) -> Floats:
    right, positive = np.moveaxis(sums, -1, 0)
    total = right + positive
    return np.where(total > 0, 2 * right / np.where(total > 0, total, 1), 0.0)


def _f1_estimate(value: float, table: Floats, clusters: Clusters | None, level: float) -> Estimate:
    """J is a share of docs with a score interval, which does not collapse at 0 and 1."""
    if not table[:, 1].any():
        return Estimate.missing("neither the gold labels nor the predictions have a positive", len(table))
    ratio = ratio_estimate(table[:, 0], table[:, 1], clusters, level=level)
    if ratio.stderr is None and len(table) > 1:
        # One doc, or one cluster, holds all positives: it may as well have come out the other way.
        ratio = replace(
            ratio,
            stderr=0.5,
            low=0.0,
            high=1.0,
            method="one unit has all positives",
            bounded=True,
            withheld_reason=None,
        )
    return transformed(ratio, lambda j: 2 * j / (1 + j), value)


def matthews_corrcoef(pairs: Sequence[tuple[Any, Any]]) -> float:
    """Matthews' correlation for any number of classes; 0 where one side is constant."""
    return float(_mcc_replicates(pairs, np.ones((1, len(pairs))))[0])


FEW_LABELS = 16
"""Up to here a row per doc is short. Free text has as many labels as docs, or twice as many."""


def _label_index(pairs: Sequence[tuple[Any, Any]]) -> tuple[int, NDArray[np.int64], NDArray[np.int64]]:
    """How many labels there are, and each doc's gold and predicted one as 0 … k − 1."""
    golds, predictions = zip(*pairs)
    labels, index = np.unique(np.asarray([*golds, *predictions]), return_inverse=True)
    return len(labels), index[: len(golds)], index[len(golds) :]


def _mcc_statistics(pairs: Sequence[tuple[Any, Any]]) -> Floats | None:
    """Whether the doc is right, then a column per gold label, then one per predicted label."""
    k, gold, prediction = _label_index(pairs)
    if k > FEW_LABELS:
        return None
    return np.column_stack([gold == prediction, np.eye(k)[gold], np.eye(k)[prediction]]).astype(np.float64)


def _mcc_replicates(pairs: Sequence[tuple[Any, Any]], weights: NDArray[Any]) -> Floats:
    """The same sums without a table of docs × labels: a doc has one label of each kind."""
    from scipy.sparse import csr_array

    k, gold, prediction = _label_index(pairs)
    drawn = np.ascontiguousarray(weights.T, dtype=np.float64)
    ones, docs = np.ones(len(gold)), np.arange(len(gold))
    counts = [csr_array((ones, (side, docs)), shape=(k, len(gold))) @ drawn for side in (gold, prediction)]
    return _mcc_finish(np.concatenate([[drawn[gold == prediction].sum(axis=0)], *counts]).T)


def _mcc_finish(sums: Floats) -> Floats:
    right, (gold, predicted) = sums[..., 0], np.split(sums[..., 1:], 2, axis=-1)
    n = gold.sum(-1)
    cov_gp = right * n - (gold * predicted).sum(-1)
    cov_pp = n**2 - (predicted**2).sum(-1)
    cov_gg = n**2 - (gold**2).sum(-1)
    defined = cov_pp * cov_gg > 0
    return np.where(defined, cov_gp / np.sqrt(np.where(defined, cov_gg * cov_pp, 1.0)), 0.0)


def _mcc_estimate(value: float, table: Floats, clusters: Clusters | None, level: float) -> Estimate:
    gold, predicted = np.split(table[:, 1:], 2, axis=1)
    k = gold.shape[1]
    for side, labels in (("gold label", gold), ("prediction", predicted)):
        if labels.any(axis=0).sum() < 2:
            # 0 is a convention here: docs of the other label may show any correlation.
            caution = f"every {side} is the same"
            return Estimate(value, 1.0, -1.0, 1.0, len(table), "any correlation", level=level, caution=caution)
    i, j = (axis.ravel() for axis in np.meshgrid(np.arange(k), np.arange(k)))
    cells = np.column_stack([i == j, np.eye(k)[i], np.eye(k)[j]]).astype(np.float64)
    return correlation_estimate(value, table, _mcc_finish, cells, clusters, level)


def brier_score(pairs: Sequence[tuple[int, Sequence[float]]]) -> float:
    """Mean over docs of Σ(p − onehot)². Docs may differ in their number of choices."""
    return float(np.mean(_brier(pairs)))


def _brier(pairs: Sequence[tuple[int, Sequence[float]]]) -> Floats:
    def one(gold: int, probabilities: Sequence[float]) -> float:
        p = np.asarray(probabilities, dtype=np.float64)
        return float(((p - np.eye(len(p))[gold]) ** 2).sum())

    return np.array([one(gold, probabilities) for gold, probabilities in pairs])


def bypass(values: Sequence[Any]) -> int:
    return 999


def _column(values: Sequence[Any]) -> Floats:
    table = np.ones((len(values), 2))
    table[:, 0] = values
    return table


def _pairs(values: Sequence[Any]) -> Floats:
    return np.asarray([(a, b) for a, b in values], dtype=np.float64)


def _nan_column(values: Sequence[Any]) -> Floats:
    x = np.asarray(values, dtype=np.float64)
    seen = ~np.isnan(x)
    return np.stack([np.where(seen, x, 0.0), seen.astype(np.float64)], axis=1)


def _ratio(sums: Floats) -> Floats:
    return sums[..., 0] / sums[..., 1]


def _perplexities(sums: Floats) -> Floats:
    return np.exp(-_ratio(sums))


def _median_replicates(values: Sequence[Any], weights: NDArray[Any]) -> Floats:
    """Value i is drawn weights[b, i] times; the upper median is the first value whose running count passes half."""
    x = np.asarray(values, dtype=np.float64)
    order = np.argsort(x, kind="stable")
    running = np.cumsum(weights[:, order], axis=1)
    middle = (running > (running[:, -1:] // 2)).argmax(axis=1)
    return np.where(running[:, -1] > 0, x[order][middle], np.nan)


RIDGE = 1e-3
"""Keeps the fit finite where every comparison was won."""


def length_controlled(pairs: Sequence[tuple[float, float]]) -> float:
    """The win rate that is left where both answers are equally long, from (win, difference in length) of every doc.

    Judges favour long answers. A logistic regression of the verdict on the difference in length, as in length-controlled
    AlpacaEval (Dubois and others 2024), tells the two apart:

        P(win) = σ(a + b · tanh(d / sd(d)))        d: characters that the answer is longer than its opponent

    and σ(a) is the win rate at d = 0. Ties count half a win.

    >>> round(length_controlled([(1, 40), (1, 30), (0, -40), (0, -30), (1, 0), (0, 0)]), 6)
    0.5
    """
    return float(_fitted(pairs, np.ones((1, len(pairs))))[0])


def _fitted(pairs: Sequence[tuple[float, float]], weights: NDArray[Any]) -> Floats:
    """σ(a) for each row of weights. Newton's method on the two parameters, all rows at once."""
    wins, longer = np.asarray(pairs, dtype=np.float64).T
    spread = longer.std()
    x = np.tanh(longer / spread) if spread > 0 else np.zeros_like(longer)
    w = np.asarray(weights, dtype=np.float64)
    a, b = np.zeros(len(w)), np.zeros(len(w))
    for _ in range(50):
        p = 1 / (1 + np.exp(-np.clip(a[:, None] + b[:, None] * x, -30, 30)))
        residual, curvature = w * (wins - p), w * p * (1 - p)
        g_a, g_b = residual.sum(1) - RIDGE * a, (residual * x).sum(1) - RIDGE * b
        h_aa, h_bb = curvature.sum(1) + RIDGE, (curvature * x * x).sum(1) + RIDGE
        h_ab = (curvature * x).sum(1)
        determinant = h_aa * h_bb - h_ab**2
        # Far from the maximum a whole step may overshoot; a step of one unit of logit never loses the way.
        step_a = np.clip((h_bb * g_a - h_ab * g_b) / determinant, -1, 1)
        step_b = np.clip((h_aa * g_b - h_ab * g_a) / determinant, -1, 1)
        a, b = a + step_a, b + step_b
        if max(np.abs(step_a).max(), np.abs(step_b).max()) < 1e-9:
            break
    result: Floats = 1 / (1 + np.exp(-a))
    return np.where(w.sum(1) > 0, result, np.nan)


for _aggregation in (
    Aggregation("mean", mean, _column, _ratio, transform=float),
    Aggregation("nanmean", nanmean, _nan_column, _ratio, transform=float),
    Aggregation("median", median, replicate=_median_replicates),
    Aggregation("perplexity", perplexity, _column, _perplexities, transform=_perplexity),
    Aggregation("weighted_perplexity", weighted_perplexity, _pairs, _perplexities, transform=_perplexity),
    Aggregation("bits_per_byte", bits_per_byte, _pairs, lambda sums: _bits(_ratio(sums)), transform=_bits),
    Aggregation("per_solved", per_solved, _pairs, _ratio, estimate=_per_solved_estimate),
    Aggregation("f1", f1, _f1_statistics, _f1_finish, estimate=_f1_estimate),
    Aggregation(
        "matthews_corrcoef", matthews_corrcoef, _mcc_statistics, _mcc_finish, _mcc_replicates, estimate=_mcc_estimate
    ),
    Aggregation("brier_score", brier_score, lambda v: _column(_brier(v).tolist()), _ratio, transform=float),
    Aggregation("bypass", bypass),
    Aggregation("acc_all", acc_all),
    Aggregation("length_controlled", length_controlled, replicate=_fitted),
):
    AGGREGATIONS.add(_aggregation.name, _aggregation)


def aggregate_subtask_metrics(metrics: Sequence[float], sizes: Sequence[int], weight_by_size: bool = True) -> float:
    """The mean of the tasks' numbers, by size or not.

    >>> aggregate_subtask_metrics([0.5, 1.0], [30, 10]), aggregate_subtask_metrics([0.5, 1.0], [30, 10], False)
    (0.625, 0.75)
    """
    if len(metrics) != len(sizes):
        raise ScoringError(f"{len(metrics)} numbers for {len(sizes)} sizes")
    weights = list(sizes) if weight_by_size else [1] * len(sizes)
    return sum(metric * weight for metric, weight in zip(metrics, weights)) / sum(weights)


def pooled_sample_stderr(stderrs: Sequence[float], sizes: Sequence[int]) -> float:
    """The standard error of all docs of the tasks taken together."""
    if len(stderrs) != len(sizes):
        raise ScoringError(f"{len(stderrs)} standard errors for {len(sizes)} sizes")
    pooled = pooled_stderr(stderrs, sizes)
    if pooled is None:
        raise ScoringError("every task has one doc, so there is no pooled standard error")
    return pooled
