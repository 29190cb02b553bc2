"""What verdicts are worth: whether judges, filters or draws agree (Krippendorff's α, Cohen's κ), and one honest number from
a judge's verdict on every doc and people's on some of them (prediction-powered inference).

A judge errs, and errs to one side. Its mean over all docs is precise and biased; the mean of the labels is unbiased and
imprecise. PPI++ (Angelopoulos, Duchi and Zrnic 2023) takes the best of both:

    θ = λ · mean of all verdicts + mean over labelled docs of (label − λ · verdict)

which is unbiased for every λ where the labelled docs are a random part. The λ of least variance is the regression slope of
labels on verdicts: their λ with the factor 1/(1 + n/N), since here the mean of the verdicts runs over the labelled docs too.

Every doc's part in θ can be written down (`influence`), so that variances add up over docs: clusters sum theirs, and the
difference of two runs subtracts them doc by doc, whichever docs have labels in which run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from assay.stats.bootstrap import bootstrap_estimate, bootstrap_replicates
from assay.stats.closed_form import wilson
from assay.stats.estimate import B_DEFAULT, Basis, Clusters, Estimate, Floats, Keys
from assay.stats.intervals import bounded_interval, normal_quantile, t_quantile, t_sf
from assay.stats.paired import Difference
from assay.stats.units import cluster_index


def krippendorff(ratings: Sequence[Sequence[float]], *, replicates: int = 1000, seed: int = 0) -> Estimate:
    """α for ratings on a scale of numbers: 1 − observed / expected squared difference. 1 is full agreement, 0 chance.

    One sequence a doc, of any length; docs with fewer than two ratings say nothing of agreement. With two values the
    squared difference is the nominal one, so this is α for named verdicts too. The interval is a bootstrap over docs.

    >>> round(krippendorff([[1, 1], [0, 0], [1, 0], [0, 0]]).value, 3)
    0.533
    """
    rated = [np.asarray(each, dtype=np.float64) for each in ratings if len(each) >= 2]
    if len(rated) < 2:
        return Estimate.missing("fewer than two docs have two verdicts", len(rated))
    # Σ over pairs (x − y)² = m·Σx² − (Σx)² within a doc of m ratings, so sums suffice.
    m = np.array([len(each) for each in rated], dtype=np.float64)
    first, second = np.array([each.sum() for each in rated]), np.array([each @ each for each in rated])
    table = np.column_stack([2 * (m * second - first**2) / (m - 1), m, first, second])
    value = float(_alpha(table.sum(axis=0)[None, :])[0])
    if math.isnan(value):
        return Estimate.missing("all verdicts are the same", len(rated))
    rng = np.random.default_rng(seed)
    weights = rng.multinomial(len(rated), np.full(len(rated), 1 / len(rated)), size=replicates)
    parts = _alpha_parts(table, float(np.ptp(np.concatenate(rated))))
    return _beyond_chance(value, parts, _alpha(weights @ table), len(rated), len(rated))


def draw_agreement(counts: Floats, units: Keys) -> Estimate:
    """Krippendorff's α among the draws of each doc, from rows of (draws, right draws); `units` as of `unit_keys`.

    >>> keys = np.arange(4, dtype=np.uint64)
    >>> round(draw_agreement(np.array([[2, 2], [2, 0], [2, 1], [2, 0]]), keys).value, 3)
    0.533
    """
    drawn, right = np.asarray(counts, dtype=np.float64).T
    if len(drawn) < 2 or (drawn < 2).any():
        return Estimate.missing("no doc has several draws", len(drawn))
    table = np.column_stack([2 * right * (drawn - right) / (drawn - 1), drawn, right, right])
    return _of_sums(table, _alpha, _alpha_parts, units, "all draws are the same")


def cohen_kappa(a: Floats, b: Floats, units: Keys) -> Estimate:
    """κ of two ratings of the same docs: how far they agree beyond what their frequencies give by chance.

    >>> keys = np.arange(4, dtype=np.uint64)
    >>> round(cohen_kappa(np.array([1.0, 1, 0, 0]), np.array([1.0, 0, 0, 0]), keys).value, 3)
    0.5
    """
    if len(a) < 2:
        return Estimate.missing("fewer than two docs", len(a))
    labels, index = np.unique(np.concatenate([a, b]), return_inverse=True)
    left, right = np.eye(len(labels))[index.reshape(2, -1)]
    table = np.column_stack([a == b, left, right]).astype(np.float64)
    return _of_sums(table, _kappa, _kappa_parts, units, "all ratings are the same")


Parts = Callable[[Floats], tuple[float, float]]
"""Rows of sums to how far ratings agree, and how far they would by chance; both between 0 and 1."""


def _of_sums(table: Floats, finish: Callable[[Floats], Floats], parts: Parts, units: Keys, flat: str) -> Estimate:
    value = float(finish(table.sum(axis=0)[None, :])[0])
    if math.isnan(value):
        return Estimate.missing(flat, len(table))
    count = len(np.unique(units))
    return _beyond_chance(value, parts(table), bootstrap_replicates(table, finish, units), len(table), count)


def _beyond_chance(
    value: float, parts: tuple[float, float], replicates: Floats, n: int, units: int, level: float = 0.95
) -> Estimate:
    """The interval of (agreement − chance) / (1 − chance): the score interval of the agreement that has its standard error.

    Percentiles of replicates collapse where ratings agree on nearly all docs: κ = .98 on 30 docs was held in 22 % of cases.
    """
    drawn = bootstrap_estimate(value, replicates, n, units=units)
    if drawn.stderr is None:
        return drawn
    agreement, chance = parts
    df, room = float(units - 1), 1 - chance
    stderr = drawn.stderr * math.sqrt(units / df)
    low, high = bounded_interval(agreement, stderr * room, df, level, lost=1 / units)
    low, high = (low - chance) / room, (high - chance) / room
    if (
        drawn.low is not None and drawn.high is not None
    ):  # where one answer is rare, chance itself varies and replicates know
        low, high = min(low, drawn.low), min(1.0, max(high, drawn.high))
    return Estimate(value, stderr, low, high, n, "agreement score", level=level, df=df, caution=drawn.caution)


def _kappa_parts(table: Floats) -> tuple[float, float]:
    sums = table.sum(axis=0)
    left, right = np.split(sums[1:], 2)
    return float(sums[0] / left.sum()), float(left @ right / left.sum() ** 2)


def _alpha_parts(table: Floats, span: float = 1.0) -> tuple[float, float]:
    """`span`: the largest difference of two ratings."""
    within, n, first, second = table.sum(axis=0).tolist()
    observed, expected = within / n, 2 * (n * second - first**2) / (n * (n - 1))
    return 1 - observed / span**2, max(0.0, 1 - expected / span**2)


def _kappa(sums: Floats) -> Floats:
    left, right = np.split(sums[:, 1:], 2, axis=1)
    n = left.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        by_chance = (left * right).sum(axis=1) / n**2
        result: Floats = np.where(by_chance < 1, (sums[:, 0] / n - by_chance) / (1 - by_chance), np.nan)
    return result


def _alpha(sums: Floats) -> Floats:
    within, n, first, second = sums.T
    with np.errstate(divide="ignore", invalid="ignore"):
        observed, expected = within / n, 2 * (n * second - first**2) / (n * (n - 1))
        result: Floats = np.where(expected > 0, 1 - observed / expected, np.nan)
    return result


FEWEST_LABELS = 20
"""Below it no interval is given: what few labels say of a judge is chance."""


@dataclass(frozen=True)
class Rate:
    """A share of labelled docs with its interval."""

    value: float
    low: float
    high: float
    n: int


@dataclass(frozen=True)
class Corrected:
    """A judged mean with the judge's error in it."""

    estimate: Estimate
    labels: int
    weight: float
    """λ: 1 trusts the judge's differences between docs wholly, 0 leaves its verdicts aside."""
    sensitivity: Rate | None = None
    """For two-valued verdicts: of the docs that people call right, the share that the judge does."""
    specificity: Rate | None = None


@dataclass(frozen=True)
class Judged:
    """Verdicts of all docs, with labels on some of them: NaN where a doc has none."""

    verdicts: Floats
    labels: Floats
    weights: Floats | None = None
    """How many docs each labelled one stands for, where they were not drawn with equal chances."""

    @property
    def labelled(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        known: np.ndarray[tuple[int], np.dtype[np.bool_]] = ~np.isnan(self.labels)
        return known

    @property
    def n(self) -> int:
        return int(self.labelled.sum())

    @property
    def is_binary(self) -> bool:
        return _is_binary(self.verdicts) and _is_binary(self.labels[self.labelled])

    @property
    def ends(self) -> tuple[float, float]:
        """Between which values lie: 0 and 1 where all do, else the lowest and highest that anybody gave."""
        seen = np.concatenate([self.verdicts, self.labels[self.labelled]])
        low, high = float(seen.min()), float(seen.max())
        return (0.0, 1.0) if low >= 0 and high <= 1 else (low, high)

    @property
    def at_an_end(self) -> float:
        """The share of labels that are the lowest or highest value there is: such docs hide how far a doc can move."""
        y = self.labels[self.labelled]
        return float(np.isin(y, self.ends).mean()) if len(y) else 0.0

    @property
    def weight(self) -> float:
        """λ, the regression slope; 0 where the verdicts on labelled docs are all alike."""
        y, f, share = self.labels[self.labelled], self.verdicts[self.labelled], self.shares
        spread = float(share @ (f - share @ f) ** 2) if len(f) else 0.0
        return float(share @ ((f - share @ f) * (y - share @ y))) / spread if spread > 0 else 0.0

    @property
    def shares(self) -> Floats:
        """What each labelled doc counts in a mean over them."""
        if self.weights is None:
            return np.full(self.n, 1 / max(1, self.n))
        given: Floats = self.weights[self.labelled] / self.weights[self.labelled].sum()
        return given

    @property
    def value(self) -> float:
        at, weight = self.labelled, self.weight
        return float(weight * self.verdicts.mean() + self.shares @ (self.labels[at] - weight * self.verdicts[at]))

    def influence(self) -> Floats:
        """What each doc adds to θ − E θ. Residuals are scaled for the two parameters that were fitted to them."""
        at, weight = self.labelled, self.weight if self.n else 1.0
        parts: Floats = weight * (self.verdicts - self.verdicts.mean()) / len(self.verdicts)
        if not self.n:
            return parts
        share, f = self.shares, self.verdicts[at]
        residuals = self.labels[at] - weight * f
        residuals = residuals - share @ residuals
        # The labelled docs may have other verdicts than all: the slope's own error then counts, as in any regression.
        apart = f - share @ f
        spread = float(share @ apart**2)
        lever = (self.verdicts.mean() - share @ f) / spread * apart if spread > 0 else np.zeros_like(f)
        parts[at] += residuals * share * (1 + lever) * math.sqrt(self.n / max(1, self.n - 2))
        return parts


def corrected_mean(
    verdicts: Floats, labels: Floats, clusters: Clusters | None = None, *, level: float = 0.95
) -> Corrected:
    """The mean that people would give, had they read every answer. `labels` is NaN where nobody did."""
    judged = Judged(np.asarray(verdicts, dtype=np.float64), np.asarray(labels, dtype=np.float64))
    n, weight = judged.n, judged.weight
    if n < FEWEST_LABELS:
        return Corrected(Estimate.missing(f"{n} labels, fewer than {FEWEST_LABELS}", len(verdicts)), n, weight)
    rates = _rates(judged) if judged.is_binary else None
    if clusters is None and rates is not None:
        return Corrected(stratified(judged, level), n, weight, *rates)
    value, (lowest, highest) = judged.value, judged.ends
    if lowest == highest:
        return Corrected(
            Estimate.bare(value, len(verdicts), "no interval: all verdicts and labels are the same"), n, weight
        )
    stderr, units = spread_of(judged.influence(), clusters), _units(judged, clusters)
    freedom, span = float(max(1, units - 2)), highest - lowest
    # Near the end of the scale value ± t·SE collapses: a score interval on the scale from 0 to 1.
    share = min(1.0, max(0.0, (value - lowest) / span))
    low, high = bounded_interval(share, stderr / span, freedom, level, lost=judged.at_an_end / units)
    estimate = Estimate(
        value,
        stderr,
        lowest + span * low,
        lowest + span * high,
        len(verdicts),
        Basis.LABELS.value,
        level=level,
        df=freedom,
        bounded=(lowest, highest) == (0.0, 1.0) and 0 <= value <= 1,
        basis=Basis.LABELS,
    )
    return Corrected(estimate, n, weight, *(rates or (None, None)))


def _is_binary(values: Floats) -> bool:
    return bool(((values == 0) | (values == 1)).all())


def stratified(judged: Judged, level: float, kept: float = 1.0) -> Estimate:
    """Two-valued verdicts: a regression on two groups is the groups' own means, p·π₁ + (1 − p)·π₀.

    π₁ and π₀ are shares of few docs, often near 0 and 1, where value ± t·SE collapses. Their Jeffreys intervals are put
    together side by side (Zou and Donner 2008), with the part that comes from p. (Wilson intervals, which err on the safe
    side each, do so too much together: 98.9 % on 50 labels.) Labels of unequal weights are as many as they are worth, (Σw)² / Σw².
    `kept` is the share of docs that the mean is over.
    """
    p, value, total = float(judged.verdicts.mean()), judged.value, len(judged.verdicts)
    stderr = spread_of(judged.influence(), None) / kept
    at = judged.labelled
    f, y, weights = judged.verdicts[at], judged.labels[at], judged.shares
    shares, down, up = [], 0.0, 0.0

    def made(stderr: float, low: float, high: float) -> Estimate:
        freedom, labels = float(len(y) - 2), Basis.LABELS
        estimate = Estimate(value, stderr, low, high, total, labels.value, level=level, df=freedom, basis=labels)
        return replace(estimate, bounded=True)

    for verdict, part in ((1.0, p), (0.0, 1 - p)):
        here = f == verdict
        if not here.any():  # nobody read such an answer: the labels alone are what is known
            return made(stderr, *wilson(float(y.sum()), len(y), level=level))
        own = weights[here]
        count = float(own.sum() ** 2 / (own @ own))
        share = float(own @ y[here] / own.sum())
        low, high = jeffreys(share * count, count, level=level)
        shares.append(share)
        down, up = down + (part * (share - low)) ** 2, up + (part * (high - share)) ** 2
    z = normal_quantile((1 + level) / 2)
    of_p = (z * (shares[0] - shares[1])) ** 2 * p * (1 - p) / total
    down, up = math.sqrt(down + of_p) / kept, math.sqrt(up + of_p) / kept
    low, high = max(0.0, value - down), min(1.0, value + up)
    # Groups combine standard errors, and the plain one collapses with the shares.
    return made(max(stderr, (down + up) / 2 / z), low, high)


def jeffreys(successes: float, n: float, *, level: float = 0.95) -> tuple[float, float]:
    """The interval of a proportion that holds its level on average over proportions (Brown, Cai and DasGupta 2001).

    >>> [round(x, 4) for x in jeffreys(0, 10)]
    [0.0, 0.2172]
    """
    from scipy.special import betaincinv

    tail = (1 - level) / 2
    low = 0.0 if successes <= 0 else float(betaincinv(successes + 0.5, n - successes + 0.5, tail))
    high = 1.0 if successes >= n - 1e-9 else float(betaincinv(successes + 0.5, n - successes + 0.5, 1 - tail))
    return low, high


def _rates(judged: Judged) -> tuple[Rate | None, Rate | None]:
    at = judged.labelled
    f, y = judged.verdicts[at], judged.labels[at]
    return _rate(f[y == 1]), _rate(1 - f[y == 0])


def _rate(right: Floats) -> Rate | None:
    if not len(right):
        return None
    return Rate(float(right.mean()), *wilson(float(right.sum()), len(right)), len(right))


def spread_of(influence: Floats, clusters: Clusters | None) -> float:
    """Docs of one cluster move together: Σ over clusters of (Σ influence)²."""
    if clusters is None:
        n = len(influence)
        return math.sqrt(n / max(1, n - 1) * float(influence @ influence))
    index = cluster_index(clusters)
    count = int(index.max(initial=-1)) + 1
    sums = np.bincount(index, weights=influence, minlength=count)
    return math.sqrt(count / max(1, count - 1) * float(sums @ sums))


def _units(judged: Judged, clusters: Clusters | None) -> int:
    """Independent units among the labelled docs; among all where there are no labels."""
    at = judged.labelled if judged.n else np.ones(len(judged.verdicts), dtype=bool)
    return int(at.sum()) if clusters is None else len(np.unique(cluster_index(clusters)[at]))


def corrected_replicates(
    verdicts: Floats, labels: Floats, keys: Keys, clusters: Clusters | None = None, replicates: int = B_DEFAULT
) -> Callable[[], Floats]:
    """Bootstrap replicates of θ: with the weights of the docs' content, as all others, so that groups and paired
    differences carry the judge's error too."""
    judged = Judged(np.asarray(verdicts, dtype=np.float64), np.asarray(labels, dtype=np.float64))
    at, weight = judged.labelled, judged.weight
    residuals = np.where(at, np.nan_to_num(judged.labels) - weight * judged.verdicts, 0.0)
    table = np.column_stack([judged.verdicts, np.ones(len(at)), residuals, at.astype(np.float64)])

    def finish(sums: Floats) -> Floats:
        result: Floats = weight * sums[:, 0] / sums[:, 1] + sums[:, 2] / sums[:, 3]
        return result

    return partial(bootstrap_replicates, table, finish, keys, clusters, replicates)


def corrected_difference(a: Judged, b: Judged, clusters: Clusters | None = None, *, level: float = 0.95) -> Difference:
    """B − A on the same docs in the same order; either may have labels on docs of its own, or none at all."""
    values = [each.value if each.n else float(each.verdicts.mean()) for each in (a, b)]
    n = len(a.verdicts)
    # Half a doc more on which judge and people differ as far as they can: where all of few docs are at an end of the scale, or
    # judge and people agree on them, there is no spread to see.
    alike = np.array_equal(a.verdicts, b.verdicts) and np.array_equal(a.labels, b.labels, equal_nan=True)
    unseen = sum(
        0.5 * np.ptp(each.ends) ** 2 * each.at_an_end / each.n**2
        for each in (a, b)
        if each.n and (each.is_binary or not alike)
    )
    spread = math.hypot(spread_of(b.influence() - a.influence(), clusters), math.sqrt(unseen))
    freedom = float(max(1, min(_units(each, clusters) - 2 for each in (a, b) if each.n) if a.n or b.n else n - 1))
    difference = values[1] - values[0]
    p = 1.0 if spread == 0 else 2 * t_sf(abs(difference) / spread, freedom)
    reach = t_quantile((1 + level) / 2, freedom) * spread
    estimate = Estimate(
        difference,
        spread,
        difference - reach,
        difference + reach,
        n,
        Basis.LABELS.value,
        level=level,
        basis=Basis.LABELS,
    )
    return Difference(estimate, values[0], values[1], p, "paired, prediction-powered", spread, freedom, spread**2 * n)
