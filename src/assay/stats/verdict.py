"""What a difference means: better, worse, no difference that matters, or not yet known; and the gate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from assay.stats.paired import Difference
from assay.stats.significance import normal_quantile

Kind = Literal["better", "worse", "equivalent", "same", "undecided"]


@dataclass(frozen=True)
class Verdict:
    """`docs_needed` is set for *undecided*: with so many docs, one of the other verdicts is certain to come.

    *same* says nothing of docs that were not asked: too few to call the runs equivalent, but not one differs.
    """

    kind: Kind
    margin: float
    docs_needed: int | None = None
    detectable: float | None = None
    """For *undecided*: the smallest true difference that this comparison would have shown in 80 % of cases."""

    def __str__(self) -> str:
        match self.kind:
            case "equivalent":
                return f"no difference larger than {self.margin:g}"
            case "same":
                return "the same on every doc"
            case "undecided" if self.docs_needed is not None:
                return f"undecided: would need {self.docs_needed:,} docs"
            case _:
                return self.kind


def judge(
    difference: Difference,
    *,
    margin: float,
    alpha: float = 0.05,
    p_value: float | None = None,
    tests: int = 1,
    higher_is_better: bool = True,
) -> Verdict:
    """The verdict on B against A. `p_value` is the corrected one of a family of `tests`; None takes the row's own.

    Significance goes first; equivalence is two one-sided tests at `alpha`. When neither holds, the docs needed are
    those at which both intervals together are narrower than the margin, so that every outcome is a verdict.
    """
    p = difference.p_value if p_value is None else p_value
    value = difference.estimate.value
    if p is not None and value is not None and p < alpha and value != 0:
        return Verdict("better" if (value > 0) == higher_is_better else "worse", margin)
    inner = difference.cautious_bounds(1 - 2 * alpha)
    if inner is not None and max(abs(inner[0]), abs(inner[1])) < margin:
        return Verdict("equivalent", margin)
    if value == 0 and difference.estimate.stderr == 0:
        return Verdict("same", margin)
    needed = _docs_to_decide(difference, margin, alpha / max(1, tests), alpha)
    reach = normal_quantile(1 - alpha / max(1, tests) / 2) + normal_quantile(0.8)
    detectable = None if difference.spread is None else reach * difference.spread
    return Verdict("undecided", margin, needed, detectable)


def _docs_to_decide(difference: Difference, margin: float, alpha_test: float, alpha: float) -> int | None:
    if not difference.doc_variance or margin <= 0:
        return None
    reach = normal_quantile(1 - alpha_test / 2) + normal_quantile(1 - alpha)
    return max(difference.estimate.n + 1, math.ceil(reach**2 * difference.doc_variance / margin**2))


@dataclass(frozen=True)
class GateResult:
    """`bound` is the worst value that the data allow at this error rate; it passes on the right side of `limit`."""

    passed: bool
    bound: float | None
    limit: float
    alpha: float
    unclear: bool = False
    """Whether the data allow both: neither shown to be good enough nor shown not to be. More docs would tell."""


def non_inferiority(
    difference: Difference, margin: float, *, alpha: float = 0.05, higher_is_better: bool = True
) -> GateResult:
    """B is not worse than A by more than `margin`. If it is, this passes with a probability of at most `alpha`."""
    bounds = difference.cautious_bounds(1 - 2 * alpha)
    if bounds is None:
        return GateResult(False, None, -margin, alpha)
    bound, best = bounds if higher_is_better else (-bounds[1], -bounds[0])
    return GateResult(bound > -margin, bound, -margin, alpha, unclear=bound <= -margin < best)


def above_threshold(
    bounds: tuple[float, float] | None, threshold: float, *, alpha: float = 0.05, higher_is_better: bool = True
) -> GateResult:
    """A score's own interval at 1 − 2·alpha against a fixed threshold."""
    if bounds is None:
        return GateResult(False, None, threshold, alpha)
    low, high = bounds
    bound = low if higher_is_better else high
    passed = bound >= threshold if higher_is_better else bound <= threshold
    return GateResult(passed, bound, threshold, alpha, unclear=not passed and low < threshold < high)
