"""What a score would be if the gold answers were right: people checked those of some docs, and every doc has its published value.

A doc's value under the right gold answer is known where somebody checked it, and its published value, which is wrong for few, is known
everywhere: prediction-powered inference, with the published value for the verdict. A doc that has no right answer is left out, so the
number is a ratio: such a doc is given the mean itself, which changes nothing, and the error grows by the share of docs that stay.

Docs of several tasks stand side by side, each scaled so that the mean over all of them is the group's number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from assay.stats.bootstrap import bootstrap_replicates
from assay.stats.estimate import B_DEFAULT, Basis, Clusters, Estimate, Floats, Keys
from assay.stats.intervals import bounded_interval, t_quantile
from assay.stats.judging import FEWEST_LABELS, Judged, corrected_mean, spread_of, stratified
from assay.stats.units import cluster_index

_ROUNDS = 50


@dataclass(frozen=True)
class GoldChecked:
    """Docs with their published values; of those that were checked, the value under the right gold answer."""

    values: Floats
    checked: Floats
    """NaN where nobody looked, and where the doc has no right answer."""
    weights: Floats
    """How many docs each checked one stands for; 0 where nobody looked."""
    scale: Floats | None = None
    """By what each doc counts; None: 1 each."""

    @classmethod
    def side_by_side(cls, parts: Sequence[GoldChecked], shares: Sequence[float]) -> GoldChecked:
        """Tasks of a group, each with its share in the group's number."""
        total = sum(len(part.values) for part in parts)
        scale = [np.full(len(part.values), share * total / len(part.values)) for part, share in zip(parts, shares)]
        values = np.concatenate([part.values for part in parts])
        checked = np.concatenate([part.checked for part in parts])
        weights = np.concatenate([part.weights for part in parts])
        return cls(values, checked, weights, np.concatenate(scale))

    def take(self, index: NDArray[np.int64]) -> GoldChecked:
        scale = None if self.scale is None else self.scale[index]
        return GoldChecked(self.values[index], self.checked[index], self.weights[index], scale)

    @property
    def n(self) -> int:
        return int((self.weights > 0).sum())

    @property
    def is_plain(self) -> bool:
        """Whether docs count alike, were drawn with equal chances, and all have a right answer."""
        drawn = self.weights[self.weights > 0]
        alike = self.scale is None or bool(np.ptp(self.scale) < 1e-12)
        return alike and bool(np.ptp(drawn) <= 1e-9 * drawn.max()) and self.kept == 1

    @cached_property
    def kept(self) -> float:
        """The share of docs that have a right answer."""
        counted = self.weights * self._scale
        return float(counted[~np.isnan(self.checked)].sum() / counted.sum()) if counted.sum() > 0 else 1.0

    @cached_property
    def wrong(self) -> float:
        """The share of docs, as far as this metric shows it, whose value is another under the right gold answer, or that have none."""
        looked = self.weights > 0
        return float(self.weights[looked & (self.checked != self.values)].sum() / self.weights.sum())

    @property
    def _scale(self) -> Floats:
        return np.ones(len(self.values)) if self.scale is None else self.scale

    @cached_property
    def judged(self) -> Judged:
        """As verdicts and labels. A doc without a right answer has the mean for its label, whatever that comes to."""
        scale, looked = self._scale, self.weights > 0
        there = np.where(np.isnan(self.checked), 0.0, self.checked)
        value = float((scale * self.values).mean())
        for _ in range(_ROUNDS):
            labels = np.where(looked, scale * np.where(np.isnan(self.checked), value, there), np.nan)
            judged = Judged(scale * self.values, labels, self.weights)
            before, value = value, judged.value
            if abs(value - before) < 1e-12 or self.kept == 1:
                break
        return judged

    def influence(self) -> Floats:
        return self.judged.influence() / self.kept

    @property
    def unseen(self) -> float:
        """The variance of a quarter of a doc more with another value: where few were checked and none was wrong, no error is seen."""
        span = float(np.ptp(self.judged.ends)) if len(self.values) else 0.0
        return 0.25 * (span / self.n / self.kept) ** 2


@dataclass(frozen=True)
class GoldMean:
    """A mean under the right gold answers."""

    estimate: Estimate
    labels: int
    wrong: float | None = None
    """The share of docs on which it matters, or that have no right answer."""


def gold_mean(docs: GoldChecked, clusters: Clusters | None = None, *, level: float = 0.95) -> GoldMean:
    """The mean that the docs would have if every gold answer had been checked."""
    total, n = len(docs.values), docs.n
    if n < FEWEST_LABELS:
        few = f"{n} labels, fewer than {FEWEST_LABELS}"
        return GoldMean(Estimate.missing(few, total), n)
    if (worth := _units(docs, None)) < FEWEST_LABELS:
        few = f"{n} labels, drawn with chances so unequal that they are worth {worth:.0f}, fewer than {FEWEST_LABELS}"
        return GoldMean(Estimate.missing(few, total), n)
    if docs.is_plain:
        plain = corrected_mean(docs.values, docs.judged.labels, clusters, level=level)
        return GoldMean(plain.estimate, n, docs.wrong)
    judged = docs.judged
    is_right_or_wrong = docs.scale is None and bool(np.isin(docs.values, (0.0, 1.0)).all())
    if clusters is None and is_right_or_wrong:
        return GoldMean(stratified(judged, level, docs.kept), n, docs.wrong)
    lowest, highest = judged.ends if docs.scale is None else (0.0, 1.0)
    if not 0 <= float(docs.values.min()) <= float(docs.values.max()) <= 1 and docs.scale is not None:
        lowest, highest = -math.inf, math.inf
    stderr = math.hypot(spread_of(docs.influence(), clusters), math.sqrt(docs.unseen))
    freedom = float(max(1, _units(docs, clusters) - 2))
    if math.isinf(highest) or highest == lowest:
        reach = t_quantile((1 + level) / 2, freedom) * stderr
        low, high = judged.value - reach, judged.value + reach
    else:
        span = highest - lowest
        share = min(1.0, max(0.0, (judged.value - lowest) / span))
        low, high = (
            lowest + span * end for end in bounded_interval(share, stderr / span, freedom, level, lost=1 / total)
        )
    labels = Basis.LABELS
    made = Estimate(judged.value, stderr, low, high, total, labels.value, level=level, df=freedom, basis=labels)
    return GoldMean(replace(made, bounded=(lowest, highest) == (0.0, 1.0)), n, docs.wrong)


def gold_difference(
    a: GoldChecked, b: GoldChecked, clusters: Clusters | None = None, *, level: float = 0.95
) -> Estimate:
    """B − A on the same docs in the same order, of which the same were checked."""
    if min(a.n, b.n) < FEWEST_LABELS:
        return Estimate.missing(f"{min(a.n, b.n)} labels, fewer than {FEWEST_LABELS}", len(a.values))
    value = b.judged.value - a.judged.value
    alike = np.array_equal(a.values, b.values) and np.array_equal(a.checked, b.checked, equal_nan=True)
    # The same docs were checked for both, and a wrong gold answer seldom moves one run alone.
    unseen = 0.0 if alike else max(a.unseen, b.unseen) / 2
    spread = math.hypot(spread_of(b.influence() - a.influence(), clusters), math.sqrt(unseen))
    freedom = float(max(1, min(_units(each, clusters) for each in (a, b)) - 2))
    reach = t_quantile((1 + level) / 2, freedom) * spread
    labels, n = Basis.LABELS, len(a.values)
    return Estimate(value, spread, value - reach, value + reach, n, labels.value, level=level, df=freedom, basis=labels)


def gold_replicates(
    docs: GoldChecked, keys: Keys, clusters: Clusters | None = None, replicates: int = B_DEFAULT
) -> Callable[[], Floats]:
    """Bootstrap replicates of the mean, with the weights of the docs' content, as all others."""
    judged, kept = docs.judged, docs.kept
    value, weight, looked = judged.value, judged.weight, docs.weights > 0
    residuals = np.where(looked, docs.weights * (np.nan_to_num(judged.labels) - weight * judged.verdicts), 0.0)
    table = np.column_stack([judged.verdicts, np.ones(len(looked)), residuals, docs.weights])

    def finish(sums: Floats) -> Floats:
        drawn = weight * sums[:, 0] / sums[:, 1] + sums[:, 2] / sums[:, 3]
        result: Floats = value + (drawn - value) / kept
        return result

    return partial(bootstrap_replicates, table, finish, keys, clusters, replicates)


def _units(docs: GoldChecked, clusters: Clusters | None) -> float:
    """Independent units among the docs that were checked, as many as their unequal weights leave."""
    looked = docs.weights > 0
    w: Floats = docs.weights[looked]
    if clusters is not None:
        w = np.bincount(cluster_index(clusters)[looked], weights=w).astype(np.float64)
    return float(w.sum() ** 2 / (w @ w))
