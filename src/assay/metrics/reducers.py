"""Reducers: the values of repeated draws of one doc become one.

A reducer that is undefined for the draws at hand (pass@8 of 5 draws) gives None, never a number.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, partial
from math import ceil, comb, log10
from typing import Any, TypeAlias

from assay.config import Function, FunctionRef
from assay.errors import ConfigError, did_you_mean

Reducer: TypeAlias = Callable[[Sequence[Any]], Any]


def first(values: Sequence[Any]) -> Any:
    return values[0]


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def median(values: Sequence[float]) -> float:
    """The ordinary median: for an even number of draws, the mean of the middle two."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def mode(values: Sequence[Any]) -> Any:
    """The most frequent value; the first one if several tie."""
    return Counter(values).most_common(1)[0][0]


def count_right(values: Sequence[Any]) -> int:
    """How many draws were right: values above one half."""
    return sum(1 for value in values if value > 0.5)


def is_right_or_wrong(value: Any) -> bool:
    return isinstance(value, int | float) and value in (0, 1)


def pass_at_k(values: Sequence[Any], k: int) -> float | None:
    """Probability that at least one of k draws without replacement is right: 1 − C(n−c, k)/C(n, k).

    >>> pass_at_k([1, 0, 0, 0], 2)
    0.5
    """
    n, c = len(values), count_right(values)
    return None if n < k else 1.0 - comb(n - c, k) / comb(n, k)


def pass_hat_k(values: Sequence[Any], k: int) -> float | None:
    """Probability that all of k draws are right: C(c, k)/C(n, k)."""
    n, c = len(values), count_right(values)
    return None if n < k else comb(c, k) / comb(n, k)


def g_pass_at_k(values: Sequence[Any], k: int, tau: float) -> float | None:
    """Probability that at least ⌈τ·k⌉ of k draws are right."""
    n, c = len(values), count_right(values)
    if n < k:
        return None
    need = max(1, ceil(tau * k - 1e-9))
    return sum(comb(c, j) * comb(n - c, k - j) for j in range(need, min(c, k) + 1)) / comb(n, k)


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


def average_at_k(values: Sequence[float], k: int) -> float | None:
    """The mean of the first k draws."""
    return None if len(values) < k else mean(values[:k])


def at_least_k(values: Sequence[Any], k: int) -> float | None:
    """1 if at least k draws are right."""
    return None if len(values) < k else float(count_right(values) >= k)


def pass_at_all_k(values: Sequence[Any]) -> Any:
    """pass@k for each k of lm-evaluation-harness 0.5, under its own name; with one draw, the value itself.

    >>> pass_at_all_k([1, 0, 0, 0])
    {'pass@1': 0.25, 'pass@3': 0.75, 'pass@4': 1.0}
    """
    if len(values) == 1:
        return values[0]
    return {f"pass@{k}": pass_at_k(values, k) for k in ks_for(len(values))}


def ks_for(n: int) -> list[int]:
    """1, 3, 5, 10, … up to n, and n itself; above 100 a few for each power of ten.

    >>> ks_for(12), ks_for(1000)
    ([1, 3, 5, 10, 12], [1, 3, 5, 10, 20, 50, 100, 215, 464, 1000])
    """
    steps = max(2, int(log10(n) - 2) * 3) if n > 100 else 0
    between = [int(10 ** (2 + i * (log10(n) - 2) / steps)) for i in range(1, steps)]
    return sorted({k for k in (1, 3, 5, 10, 20, 50, 100, *between, n) if k <= n})


REDUCERS: dict[str, Reducer] = {
    "first": first,
    "mean": mean,
    "median": median,
    "min": min,
    "max": max,
    "mode": mode,
    "pass@k": pass_at_all_k,
    "take_first": first,
}

_WITH_K: tuple[tuple[re.Pattern[str], Callable[..., Any]], ...] = (
    (re.compile(r"pass@(?P<k>\d+)"), pass_at_k),
    (re.compile(r"pass\^(?P<k>\d+)"), pass_hat_k),
    (re.compile(r"avg@(?P<k>\d+)"), average_at_k),
    (re.compile(r"at_least_(?P<k>\d+)"), at_least_k),
    (re.compile(r"(?i:g-pass)@(?P<k>\d+)_(?P<tau>[01](?:\.\d+)?)"), g_pass_at_k),
)
FORMS = ("pass@K", "pass^K", "avg@K", "at_least_K", "G-Pass@K_TAU")


def parse_k(name: str) -> tuple[Callable[..., Any], dict[str, Any]] | None:
    """`pass@5` is `pass_at_k` with k = 5; None if the name is not of such a form."""
    for pattern, function in _WITH_K:
        if found := pattern.fullmatch(name):
            given: dict[str, Any] = {"k": int(found["k"])}
            if given["k"] < 1:
                raise ConfigError(f"reducer {name!r}: k must be at least 1")
            return function, given | ({"tau": float(found["tau"])} if "tau" in pattern.groupindex else {})
    return None


def get_reducer(which: str | Function) -> Reducer:
    """A reducer by name, or the function that was given."""
    if isinstance(which, FunctionRef):
        return which.load()  # type: ignore[no-any-return]
    if not isinstance(which, str):
        return which
    if which in REDUCERS:
        return REDUCERS[which]
    if parsed := parse_k(which):
        return partial(parsed[0], **parsed[1])
    known = [*REDUCERS, *FORMS]
    raise ConfigError(f"unknown reducer {which!r}", hint=did_you_mean(which, known) or f"Known: {', '.join(known)}.")
