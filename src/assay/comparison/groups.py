"""The difference of two runs on a group, from the differences of its members."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from assay.comparison.model import Floats, Part
from assay.comparison.views import GroupView, RunView
from assay.groups import AGGREGATORS, Formula
from assay.stats import Difference, Estimate, normal_cdf, replicate_difference

_NOTHING = Estimate.missing("not reported")


class NotComparable(Exception):
    """Why a group has no difference."""

    def __init__(self, reason: str, kind: Literal["differs", "undefined"] = "differs") -> None:
        super().__init__(reason)
        self.kind: Literal["differs", "undefined"] = kind


def compare_group(name: str, key: str, a: RunView, b: RunView, parts: Mapping[str, Part], refused: set[str]) -> Part:
    """Combine the members under the group's own rule."""
    left, right = a.groups[name][key], b.groups.get(name, {}).get(key)
    if right is None or set(left.shares) != set(right.shares) or left.aggregator != right.aggregator:
        raise NotComparable("the runs make this number of different members or by different rules")
    members = list(left.shares)
    if not members:
        raise NotComparable(a.reported.get(name, {}).get(key, _NOTHING).undefined or "it is undefined", "undefined")
    without = [m for m in members if m not in parts]
    if without:
        why = "prompts differ" if any(m in refused for m in without) else "not in both runs"
        raise NotComparable(f"{', '.join(without[:3])}{' …' if len(without) > 3 else ''}: {why}")
    formula = AGGREGATORS.get(left.aggregator)
    if not isinstance(formula, Formula) or formula.on_samples or formula.bind is not None:
        raise NotComparable(f"the aggregator {left.aggregator} cannot be repeated from the members' numbers")
    chosen = [parts[m] for m in members]
    weights = _weights(left, a, key, chosen)
    docs = np.concatenate([part.docs for part in chosen])
    if formula.linear and not _share_docs(chosen):
        difference = _linear(chosen, weights)
    else:
        difference = _lifted(formula, chosen, weights)
    return Part(difference, sum(p.size for p in chosen), docs, lambda: _draws(formula, chosen, weights))


def _weights(view: GroupView, run: RunView, key: str, parts: Sequence[Part]) -> Floats:
    """As reported; where they were the sizes, the sizes of what is compared."""
    shares = list(view.shares.values())
    if any(share is None for share in shares):
        return np.ones(len(shares))
    given = np.array(shares, dtype=np.float64)
    sizes = np.array([run.reported.get(m, {}).get(key, _NOTHING).n for m in view.shares], dtype=np.float64)
    if sizes.sum() > 0 and np.allclose(given, sizes / sizes.sum(), rtol=1e-6):
        given = np.array([part.size for part in parts], dtype=np.float64)
    shares_now: Floats = given / given.sum()
    return shares_now


def _share_docs(parts: Sequence[Part]) -> bool:
    """A doc in two members makes them dependent."""
    return _distinct(np.concatenate([part.docs for part in parts])) < sum(_distinct(part.docs) for part in parts)


def _distinct(keys: NDArray[np.uint64]) -> int:
    """How many different keys; sorting is several times faster than numpy's own way on a million of them."""
    ordered = np.sort(keys)
    return len(keys) and 1 + int(np.count_nonzero(ordered[1:] != ordered[:-1]))


def _linear(parts: Sequence[Part], weights: Floats) -> Difference:
    a, b = (float(weights @ [getattr(p.difference, side) for p in parts]) for side in ("a", "b"))
    n = sum(part.size for part in parts)
    if any(part.difference.spread is None or part.difference.estimate.stderr is None for part in parts):
        bare = Estimate.bare(b - a, n, "a member has no error bar")
        return Difference(bare, a, b, None, "none", None, math.inf, None)
    stderr = float(np.linalg.norm(weights * [part.difference.estimate.stderr or 0.0 for part in parts]))
    spread = float(np.linalg.norm(weights * [part.difference.spread or 0.0 for part in parts]))
    interval = partial(_combined, parts, weights)
    estimate = Estimate(b - a, stderr, *interval(0.95), n, "paired, independent members")
    p = 1.0 if spread == 0 else 2 * normal_cdf(-abs(b - a) / spread)
    gained, lost = (_sum([getattr(part.difference, side) for part in parts]) for side in ("gained", "lost"))
    return Difference(estimate, a, b, p, "paired z", spread, math.inf, spread**2 * n, gained, lost, interval)


def _combined(parts: Sequence[Part], weights: Floats, level: float) -> tuple[float, float]:
    """The members' intervals put together, each side by itself (Zou and Donner 2008)."""
    values = np.array([part.difference.estimate.value for part in parts], dtype=np.float64)
    ends = np.array([part.difference.bounds(level) or (math.nan, math.nan) for part in parts])
    value = float(weights @ values)
    low, high = (float(np.linalg.norm(weights * (ends[:, side] - values))) for side in (0, 1))
    return value - low, value + high


def _sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _draws(formula: Formula, parts: Sequence[Part], weights: Floats) -> tuple[Floats, Floats]:
    sides = list(zip(*[part.draws() for part in parts], strict=True))
    return tuple(formula.combine(np.stack(side, axis=1), weights, None) for side in sides)  # type: ignore[return-value]


def _lifted(formula: Formula, parts: Sequence[Part], weights: Floats) -> Difference:
    a, b = (
        float(formula.combine(np.array([getattr(p.difference, s) for p in parts]), weights, None)) for s in ("a", "b")
    )
    draws_a, draws_b = _draws(formula, parts, weights)
    return replicate_difference(a, b, draws_a, draws_b, sum(part.size for part in parts))
