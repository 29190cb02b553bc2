"""What the likeliest tokens alone say of two distributions: bounds.

A server lists twenty tokens of fifty thousand. All that is not listed by both is put into one event, “any other token”.
Merging outcomes can only bring two distributions nearer (the data-processing inequality), so the divergence of what is
left is a lower bound. There is no upper bound on KL: a token that one side does not list may have any probability there,
also next to none. The total variation has one, since what is merged cannot differ by more than its mass.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Bounds:
    kl: float
    """At least, in nats."""
    variation_low: float
    variation_high: float
    same_first: bool
    entropy_a: float
    """At least: of the listed tokens and the rest as one."""
    entropy_b: float


def bounds_of(a: Mapping[str, float], b: Mapping[str, float]) -> Bounds:
    """From the likeliest tokens of A and of B, with log-probabilities.

    >>> found = bounds_of({"x": math.log(0.5), "y": math.log(0.3)}, {"x": math.log(0.8), "z": math.log(0.1)})
    >>> round(found.kl, 4), round(found.variation_low, 4), round(found.variation_high, 4), found.same_first
    (0.2231, 0.3, 0.5, True)
    """
    shared = [token for token in a if token in b and "\ufffd" not in token]
    p, q = ([math.exp(side[token]) for token in shared] for side in (a, b))
    rest_p, rest_q = (max(0.0, 1.0 - sum(listed)) for listed in (p, q))
    kl = sum(x * math.log(x / y) for x, y in zip(p, q, strict=True) if x > 0 and y > 0)
    kl += rest_p * math.log(rest_p / rest_q) if rest_p > 0 and rest_q > 0 else 0.0
    low = (sum(abs(x - y) for x, y in zip(p, q, strict=True)) + abs(rest_p - rest_q)) / 2
    return Bounds(
        kl=max(0.0, kl),
        variation_low=low,
        variation_high=min(1.0, low + min(rest_p, rest_q)),
        same_first=max(a, key=a.__getitem__) == max(b, key=b.__getitem__),
        entropy_a=_entropy(a),
        entropy_b=_entropy(b),
    )


def _entropy(listed: Mapping[str, float]) -> float:
    shares = [math.exp(value) for value in listed.values()]
    shares.append(max(0.0, 1.0 - sum(shares)))
    return -sum(share * math.log(share) for share in shares if share > 0)
