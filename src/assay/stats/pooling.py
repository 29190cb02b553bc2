"""Standard errors of group means, from those of the members."""

from __future__ import annotations

import math
from collections.abc import Sequence


def pooled_stderr(stderrs: Sequence[float], sizes: Sequence[int]) -> float | None:
    """Members weighted by size: the pooled-variance formula of lm-evaluation-harness, operation for operation.

    Docs are seen as one sample of Σn with a common variance within members, the between-member spread left out: the
    members are fixed, only their docs are sampled. None when no member has a second doc.
    """
    docs = sum(sizes)
    if docs == len(sizes):
        return None
    variance = sum([(n - 1) * se**2 * n for n, se in zip(sizes, stderrs, strict=True)]) / (docs - len(sizes))
    return math.sqrt(variance / docs)


def weighted_stderr(stderrs: Sequence[float], weights: Sequence[float]) -> float:
    """√(Σ w²·SE²) of independent members; weights are brought to sum 1.

    >>> weighted_stderr([0.3, 0.4], [1, 1])
    0.25
    """
    total = sum(weights)
    return math.sqrt(sum([(w * se) ** 2 for w, se in zip(weights, stderrs, strict=True)])) / total


def unweighted_stderr(stderrs: Sequence[float]) -> float:
    """Members count alike: √(Σ SE²) / k."""
    return math.sqrt(sum([se**2 for se in stderrs])) / len(stderrs)
