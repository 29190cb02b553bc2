"""From the values of docs to an estimate: by an interval method, or with an earlier run's values as control variates."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from assay.stats.bootstrap import bootstrap_estimate
from assay.stats.closed_form import mean_estimate, mean_stderr, transformed
from assay.stats.estimate import Basis, Clusters, Estimate, Floats
from assay.stats.intervals import (
    BUILT_IN,
    INTERVAL_METHODS,
    DocEvidence,
    IntervalMethod,
    Spread,
    first_that_holds,
    method_for_docs,
    methods_of,
    skewed_interval,
    spread_of,
)
from assay.stats.units import cluster_index


def estimate_from_docs(evidence: DocEvidence, level: float = 0.95, *, method: str | None = None) -> Estimate:
    """The number with its interval, by the first method that holds. Where the conditions of a `method` that is named do not hold, there is none."""
    if method is None:
        chosen, made = first_that_holds(methods_of("docs"), evidence, level)
        made = made if chosen.rank >= BUILT_IN else replace(made, basis=Basis.OTHER)
    else:
        chosen = method_for_docs(method)
        found = chosen.estimate(evidence, level) if chosen.holds(evidence) else None
        if found is None:
            return Estimate.bare(evidence.value, evidence.n, f"{method} does not hold here; it is for: {chosen.when}")
        usual = next(row for row in methods_of("docs") if row.rank >= BUILT_IN and row.holds(evidence))
        made = found if chosen is usual else replace(found, basis=Basis.OTHER)
    if chosen.of_ratio and evidence.transform is not None:
        return transformed(made, evidence.transform, evidence.value)
    if chosen.of_ratio and evidence.is_mean and evidence.clusters is None and made.stderr is not None:
        made = replace(made, stderr=mean_stderr(evidence.values))  # to lm-evaluation-harness's last digit
    return made if made.value is None else replace(made, value=evidence.value)


INTERVAL_METHODS.add(
    "formula",
    IntervalMethod(
        "formula",
        "the aggregation has a formula of its own (f1, Matthews' correlation)",
        lambda evidence: evidence.formula is not None,
        lambda evidence, level: evidence.formula(level),
        rank=100,
    ),
)
INTERVAL_METHODS.add(
    "bootstrap",
    IntervalMethod(
        "bootstrap",
        "any number that can be computed again from docs drawn with replacement",
        lambda evidence: True,
        lambda e, level: bootstrap_estimate(
            e.value, e.draws(), e.n, units=e.units, level=level, requested=e.requested_draws
        ),
        rank=190,
    ),
)


@dataclass(frozen=True)
class Controlled:
    """A score on some docs, tightened by an earlier run on all of them.

    `effective_n` is the number of docs that would give the same standard error without the earlier run.
    """

    estimate: Estimate
    plain: Estimate
    effective_n: float
    correlation: float
    slope: float


_FEW_TO_REGRESS = 30
"""Scores without bounds may be skewed, which fewer residuals than this do not show: the earlier run is then left aside."""


def _togetherness(residual: Floats, units: Spread) -> float:
    """What a unit's sum of residuals is to the sum of as many full ones, by the docs seen: 1 for docs by themselves and for clusters
    whose docs are all alike, 1/√size for clusters whose docs have nothing to do with each other."""
    n = len(residual)
    size, alone = n * units.unit_share, float(residual @ residual) / n**2
    return 1.0 if alone == 0 else math.sqrt(min(1.0, max(1.0, units.stderr**2 / alone) / size))


def control_estimate(
    scores: Floats,
    control: Floats,
    control_all: Floats,
    clusters: Clusters | None = None,
    *,
    level: float = 0.95,
) -> Controlled:
    """The mean over all docs, from scores on a random part of them and an earlier run's on that part and on all.

    θ = mean(y) − λ·(mean of the control on the part − its mean on all docs), λ the regression slope. With a correlation
    ρ the variance is σ²(1−ρ²)/n + σ²ρ²/N, that of the docs as a sample of the docs there could be, as everywhere else.
    The docs of the part must be drawn at random; the first so many of a sorted data set are no sample of it. Residuals are
    summed by `clusters`, and one more counts that is as large as scores can differ: where all but a few docs are right,
    the few that are not decide, and a small part may hold none of them. With few docs and scores without bounds, the mean of
    the part stands as it is.
    """
    y, f = np.asarray(scores, dtype=np.float64), np.asarray(control, dtype=np.float64)
    everything = np.asarray(control_all, dtype=np.float64)
    n, total = len(y), len(everything)
    if n != len(f):
        raise ValueError(f"{n} scores and {len(f)} control scores do not form pairs")
    if n < 4 or total < n:
        why = "fewer than 4 docs in common" if n < 4 else "the earlier run has fewer docs"
        empty = Estimate.missing(why, n)
        return Controlled(empty, empty, float(n), math.nan, math.nan)
    plain = mean_estimate(y, clusters, level=level)
    variance = (plain.stderr or 0.0) ** 2 * n
    spread = float(f.var(ddof=1))
    if spread == 0 or variance == 0 or plain.stderr is None or (not plain.bounded and n < _FEW_TO_REGRESS):
        return Controlled(plain, plain, float(n), 0.0, 0.0)
    slope = float(np.cov(y, f)[0, 1]) / spread
    value = float(y.mean() - slope * (f.mean() - everything.mean()))
    residual = y - y.mean() - slope * (f - f.mean())
    index = None if clusters is None else cluster_index(clusters)
    units, of_control = (spread_of(x, np.ones(n), index) for x in (residual, f - f.mean()))
    assert units is not None, "a mean with a standard error has two units"
    assert of_control is not None
    # Scores without bounds have no full range. The docs of a cluster err together no more than those that were seen.
    largest = units.unit_share * _togetherness(residual, units) if plain.bounded else 0.0
    left = (units.stderr**2 + largest**2) * n * (n - 1) / (n - 2)
    # Leverage of the point that is predicted, as in any regression: the part may have easier docs than the whole.
    leverage = (f.mean() - everything.mean()) ** 2 / (spread * (n - 1))
    # All docs come in clusters as the part does.
    stderr = math.sqrt(left * (1 / n + leverage) + (slope * of_control.stderr) ** 2 * n / total)
    freedom = max(1.0, units.df - 1)
    low, high = skewed_interval(value, stderr, freedom, units.skew, level)
    if plain.bounded:
        low, high = max(0.0, low), min(1.0, high)
    estimate = Estimate(value, stderr, low, high, n, Basis.CONTROL.value, level=level, df=freedom, basis=Basis.CONTROL)
    correlation = slope * math.sqrt(spread / float(y.var(ddof=1)))
    return Controlled(estimate, plain, variance / stderr**2, correlation, slope)
