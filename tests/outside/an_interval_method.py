"""Jeffreys' interval, for tasks that name it."""

from scipy.stats import beta

from assay.stats import Estimate, IntervalMethod


def jeffreys(evidence, level):
    right, n = sum(evidence.values), evidence.n
    low, high = beta.ppf([(1 - level) / 2, (1 + level) / 2], right + 0.5, n - right + 0.5)
    return Estimate(evidence.value, (high - low) / 4, float(low), float(high), n, "jeffreys", level=level, bounded=True)


JEFFREYS = IntervalMethod(
    "jeffreys",
    when="every doc is right or wrong and stands for itself",
    holds=lambda evidence: evidence.is_mean and evidence.clusters is None and evidence.is_count,
    estimate=jeffreys,
    rank=900,
)
