"""What a difference means: better, worse, no difference that matters, or not yet known; and the gate."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from assay.stats.estimate import Basis, Estimate
from assay.stats.intervals import normal_quantile, t_quantile
from assay.stats.paired import Difference

Kind = Literal["better", "worse", "equivalent", "same", "undecided"]


@dataclass(frozen=True)
class Verdict:
    """*same* says nothing of docs that were not asked: too few to call the runs equivalent, but not one differs."""

    kind: Kind
    margin: float
    docs_needed: int | None = None
    """For *undecided*: docs that would show the observed difference in 80 % of cases, if it is the true one."""
    detectable: float | None = None
    """For *undecided*: the smallest true difference that this comparison would have shown in 80 % of cases."""

    def __str__(self) -> str:
        match self.kind:
            case "equivalent":
                return f"no difference larger than {self.margin:g}"
            case "same":
                return "the same on every doc"
            case "undecided" if self.detectable is not None:
                shown = float(f"{self.detectable:.2g}")
                seen = f"undecided: this many docs usually show a difference of {shown:,g} or more"
                return (
                    seen if self.docs_needed is None else f"{seen}; the one seen takes about {self.docs_needed:,} docs"
                )
            case _:
                return self.kind


def decide(
    difference: Difference,
    *,
    margin: float,
    alpha: float = 0.05,
    p_value: float | None = None,
    tests: int = 1,
    higher_is_better: bool = True,
) -> Verdict:
    """The verdict on B against A. `p_value` is the corrected one of a family of `tests`; None takes the row's own.

    Significance goes first, where the interval agrees; equivalence is two one-sided tests at `alpha` over the number of tests:
    of the two hypotheses of a row, no difference and one that matters, at most one is true. When neither is refuted, the
    verdict says what a comparison of this size can show.
    """
    p = difference.p_value if p_value is None else p_value
    value = difference.estimate.value
    if p is not None and value is not None and p < alpha and value != 0:
        ends = difference.bounds(_level_of(difference, p, alpha, tests))
        if ends is None or not ends[0] <= 0 <= ends[1]:
            return Verdict("better" if (value > 0) == higher_is_better else "worse", margin)
    inner = difference.cautious_bounds(1 - 2 * alpha / max(1, tests))
    if inner is not None and max(abs(inner[0]), abs(inner[1])) < margin:
        return Verdict("equivalent", margin)
    if value == 0 and difference.estimate.stderr == 0:
        return Verdict("same", margin)
    if difference.spread is None:
        return Verdict("undecided", margin)
    # The smallest p-value of the family must pass alpha over its number (Holm's first step).
    reach = normal_quantile(1 - alpha / max(1, tests) / 2) + normal_quantile(_POWER)
    needed = _docs_to_show(value or 0.0, difference.doc_variance, difference.estimate.n, reach, difference.floor)
    return Verdict("undecided", margin, needed, reach * difference.spread)


_POWER = 0.8


def _level_of(difference: Difference, p_adjusted: float | None, alpha: float, tests: int) -> float:
    """The level at which a row's interval holds together with those of all rows: 1 − alpha / tests. Holm's procedure tests a row
    that it rejects at a larger rate where others were rejected before; its interval then has the level of that test."""
    level = 1 - alpha / max(1, tests)
    p, ends = difference.p_value, difference.bounds(level)
    if p_adjusted is None or not p or p_adjusted >= alpha or ends is None or not ends[0] <= 0 <= ends[1]:
        return level
    return 1 - alpha * min(1.0, p / p_adjusted)


def interval_beside(
    difference: Difference, verdict: Verdict, *, alpha: float = 0.05, p_value: float | None = None, tests: int = 1
) -> Estimate:
    """The difference with the interval that belongs to its verdict: those of all `tests` rows hold together, each at
    1 − alpha / tests. Where the verdict says more than that interval (Holm's procedure rejects a little more, and two one-sided
    tests look at one side each), it ends at what the verdict says. So it excludes zero where B is better or worse, and only
    there, and lies inside the margin where no difference is larger.
    """
    level = 1 - alpha / max(1, tests)
    ends = difference.bounds(level)
    if ends is None:
        return difference.estimate
    low, high = ends
    if verdict.kind in ("better", "worse"):
        near = difference.bounds(_level_of(difference, p_value, alpha, tests)) or ends
        low, high = (max(low, near[0]), high) if near[0] > 0 else (low, min(high, near[1]))
    else:  # an exact test may be a little more careful than the interval
        low, high = min(low, 0.0), max(high, 0.0)
    if verdict.kind == "equivalent":
        low, high = max(low, -verdict.margin), min(high, verdict.margin)
    return replace(difference.estimate, low=low, high=high, level=level)


def _docs_to_show(distance: float, doc_variance: float | None, n: int, reach: float, floor: float = 0.0) -> int | None:
    """Docs at which a distance from the limit is `reach` standard errors; None where no number of docs is likely to do."""
    if not doc_variance or abs(distance) < 1e-9 * math.sqrt(doc_variance):
        return None
    room = distance**2 / reach**2 - floor
    return max(n + 1, math.ceil(doc_variance / room)) if room > 0 else None


def _docs_without_spread(unseen: float, allowed: float, n: int) -> int | None:
    """Docs at which a score interval reaches no further than `allowed`, if all go on as they did: not one differs, all are right.

    Such an interval reaches z²/(n + z²), so it shrinks with n and not with its root. `unseen` is how far it reaches now.
    """
    if not 0 < unseen < 1 or not 0 < allowed < 1:
        return None
    return max(n + 1, math.ceil(n * unseen / (1 - unseen) * (1 - allowed) / allowed))


@dataclass(frozen=True)
class GateResult:
    """`bound` is the worst value that the data allow at this error rate; it passes on the right side of `limit`."""

    passed: bool
    bound: float | None
    limit: float
    alpha: float
    unclear: bool = False
    """Whether the data allow both: neither shown to be good enough nor shown not to be. More docs would tell."""
    docs_needed: int | None = None
    """Where it is unclear: docs that would tell in 80 % of cases, if the number that was seen is the true one."""
    best: float | None = None
    """The best value that the data allow: where even this is on the wrong side of the limit, it has failed."""

    @property
    def deciding_bound(self) -> float | None:
        """The bound from which the outcome can be checked."""
        return self.bound if self.passed or self.unclear or self.best is None else self.best


def non_inferiority(
    difference: Difference, margin: float, *, alpha: float = 0.05, higher_is_better: bool = True
) -> GateResult:
    """B is not worse than A by more than `margin`. If it is, this passes with a probability of at most `alpha`."""
    bounds = difference.cautious_bounds(1 - 2 * alpha)
    if bounds is None:
        return GateResult(False, None, -margin, alpha, unclear=True)
    bound, best = bounds if higher_is_better else (-bounds[1], -bounds[0])
    if bound > -margin or best <= -margin:
        return GateResult(bound > -margin, bound, -margin, alpha, best=best)
    n, value = difference.estimate.n, difference.estimate.value or 0.0
    if value == 0 and difference.estimate.stderr == 0 and not difference.floor:
        needed = _docs_without_spread(-bound, margin, n)
    else:
        distance = (value if higher_is_better else -value) + margin
        reach = normal_quantile(1 - alpha) + normal_quantile(_POWER)
        needed = _docs_to_show(distance, difference.doc_variance, n, reach, difference.floor)
    return GateResult(False, bound, -margin, alpha, unclear=True, docs_needed=needed, best=best)


def above_threshold(
    bounds: tuple[float, float] | None,
    threshold: float,
    *,
    alpha: float = 0.05,
    higher_is_better: bool = True,
    estimate: Estimate | None = None,
    floor: float = 0.0,
) -> GateResult:
    """A score's own interval at 1 − 2·alpha against a fixed threshold.

    The `estimate` itself tells how many docs are needed, and of how many clusters one might be lost. `floor` is what a server
    adds to its variance, however many docs there are.
    """
    if bounds is None:
        return GateResult(False, None, threshold, alpha, unclear=True)
    low, high = bounds if estimate is None else _with_a_lost_cluster(bounds, estimate, 1 - 2 * alpha)
    if estimate is not None and estimate.basis is Basis.COUNTS and not floor:
        low, high = exact_bounds(estimate, 1 - 2 * alpha)
    bound, best = (low, high) if higher_is_better else (high, low)
    passed = bound >= threshold if higher_is_better else bound <= threshold
    if passed or (best < threshold if higher_is_better else best > threshold):
        return GateResult(passed, bound, threshold, alpha, best=best)
    needed = None
    if estimate is not None and estimate.bounded and estimate.stderr == 0 and not floor and estimate.value in (0, 1):
        allowed = abs(estimate.value - threshold)
        if estimate.basis is Basis.COUNTS and 0 < allowed < 1:
            needed = max(estimate.n + 1, math.ceil(math.log(alpha) / math.log(1 - allowed)))
        else:
            far = bound if (estimate.value > threshold) == higher_is_better else best
            needed = _docs_without_spread(abs(estimate.value - far), allowed, estimate.n)
    elif estimate is not None and estimate.value is not None:
        one_sided = normal_quantile(1 - alpha)
        width = bounds[1] - bounds[0] if estimate.basis is Basis.COUNTS else high - low
        doc_variance = estimate.n * max(0.0, width**2 / (2 * one_sided) ** 2 - floor)
        reach = one_sided + normal_quantile(_POWER)
        needed = _docs_to_show(estimate.value - threshold, doc_variance, estimate.n, reach, floor)
    return GateResult(False, bound, threshold, alpha, unclear=True, docs_needed=needed, best=best)


def exact_bounds(estimate: Estimate, level: float) -> tuple[float, float]:
    """Of a share of docs (Clopper and Pearson 1934): each end errs at most as often as it says. A score interval keeps its level
    on average over both sides; by its lower end, three of three docs pass a threshold of .5 in 12.5 % of cases instead of 5.
    """
    from scipy.special import betaincinv

    assert estimate.value is not None
    n, tail = estimate.n if estimate.df is None else round(estimate.df) + 1, (1 - level) / 2
    right = round(estimate.value * n)
    low = 0.0 if right == 0 else float(betaincinv(right, n - right + 1, tail))
    high = 1.0 if right == n else float(betaincinv(right + 1, n - right, 1 - tail))
    return low, high


def _with_a_lost_cluster(bounds: tuple[float, float], estimate: Estimate, level: float) -> tuple[float, float]:
    """Half a cluster of the typical size more, all wrong, or all right: large ones of that kind may not have been seen.

    Docs that stand alone need none: their score interval counts what was not seen.
    """
    if not estimate.bounded or estimate.value is None or estimate.df is None or estimate.df + 1 >= estimate.n:
        return bounds
    reach = t_quantile((1 + level) / 2, estimate.df) * math.sqrt(0.5) / (estimate.df + 1)
    low = estimate.value - math.hypot(estimate.value - bounds[0], reach * estimate.value)
    high = estimate.value + math.hypot(bounds[1] - estimate.value, reach * (1 - estimate.value))
    return max(0.0, low), min(1.0, high)
