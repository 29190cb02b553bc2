"""maj@k: how often the majority vote of k draws is right, over all subsets of the draws and not over one of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from math import comb
from typing import Any

from assay.errors import ConfigError
from assay.metrics.base import METRICS, Metric
from assay.metrics.matching import plain


def majority_probability(right: int, others: Sequence[int], k: int) -> float | None:
    """Probability that the right answer wins a vote among k of the draws; ties are split evenly.

    `right` draws gave the right answer, `others` counts the draws of each other answer. None if there are fewer than k.

    >>> majority_probability(1, [1], 1)
    0.5
    """
    counts = tuple(sorted(others))
    total = right + sum(counts)
    if total < k:
        return None

    @cache
    def ways(i: int, left: int, most: int) -> tuple[float, ...]:
        """Ways to take `left` draws of answers i…, none more than `most` times, by how many reach `most`."""
        if i == len(counts):
            return (1.0,) if left == 0 else ()
        sums: list[float] = []
        for taken in range(min(counts[i], left, most) + 1):
            tie = int(taken == most and most > 0)
            for ties, number in enumerate(ways(i + 1, left - taken, most)):
                sums.extend([0.0] * (ties + tie + 1 - len(sums)))
                sums[ties + tie] += comb(counts[i], taken) * number
        return tuple(sums)

    wins = sum(
        comb(right, votes) * number / (ties + 1)
        for votes in range(1, min(right, k) + 1)
        for ties, number in enumerate(ways(0, k - votes, votes))
    )
    return float(wins / comb(total, k))


def majority_at_k(*, references: list[Any], predictions: list[Any], k: int | None = None, **options: Any) -> Any:
    """maj@k of one doc: `predictions[0]` holds its draws. Options are those of exact_match."""
    draws = predictions[0] if isinstance(predictions[0], list) else predictions
    if k is None:
        raise ConfigError("metric maj@k needs k", hint="Write `k: 8` beside it.")
    votes = Counter(plain(draw, **options) for draw in draws)
    right = {plain(reference, **options) for reference in references}
    won = [votes.pop(answer, 0) for answer in right]
    # Several right wordings vote apart, as they would in a real vote; each may win.
    parts = [majority_probability(n, [*votes.values(), *won[:i], *won[i + 1 :]], k) for i, n in enumerate(won)]
    return {f"maj@{k}": None if parts[0] is None else sum(p for p in parts if p is not None)}


METRICS.add("maj@k", Metric("maj@k", majority_at_k, takes_draws=True, names_scores=True))
