"""The difference of two runs on a group, from the differences of its members."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from assay.analyses.compare.model import Floats, MemberDifference, NotComparable
from assay.finished import Keys, Run
from assay.groups import AGGREGATORS, ArrayAggregator
from assay.results import GroupScore, MetricKey
from assay.stats import Difference, Estimate, replicate_difference, t_quantile, t_sf


def compare_group(
    name: str,
    key: MetricKey,
    a: Run,
    b: Run,
    members: Mapping[str, MemberDifference],
    refused: set[str],
) -> MemberDifference:
    """Combine the members under the group's own aggregator."""
    left = a.result.groups[name].scores[key]
    right = b.result.groups[name].scores.get(key) if name in b.result.groups else None
    names = [share.name for share in left.children]
    if right is None or set(names) != {s.name for s in right.children} or left.aggregation != right.aggregation:
        raise NotComparable("the runs compute this number from different members or by different rules")
    aggregator = AGGREGATORS.get(left.aggregation) if left.aggregation is not None else None
    repeatable = isinstance(aggregator, ArrayAggregator) and not aggregator.on_samples and aggregator.bind is None
    if not names or (left.estimate.value is None and not repeatable):
        raise NotComparable(left.estimate.undefined or "it is undefined", "undefined")
    without = [member for member in names if member not in members]
    if without:
        why = "prompts differ" if any(member in refused for member in without) else "not in both runs"
        raise NotComparable(f"{', '.join(without[:3])}{' …' if len(without) > 3 else ''}: {why}")
    if not isinstance(aggregator, ArrayAggregator) or not repeatable:
        raise NotComparable(f"the aggregator {left.aggregation} cannot be repeated from the members' numbers")
    chosen = [members[member] for member in names]
    weights = reported_weights(left)
    docs = np.concatenate([member.docs for member in chosen])
    if aggregator.linear and not _share_docs(chosen):
        difference = _linear(chosen, weights)
    else:
        difference = _lifted(aggregator, chosen, weights)
    size = sum(member.size for member in chosen)
    return MemberDifference(difference, size, docs, lambda: _draws(aggregator, chosen, weights))


def reported_weights(group: GroupScore) -> Floats:
    """As reported: what a member weighs is a matter of the group, not of the docs that the runs have in common."""
    shares = [child.weight for child in group.children]
    if any(share is None for share in shares):
        return np.ones(len(shares))
    given = np.array(shares, dtype=np.float64)
    shares_now: Floats = given / given.sum()
    return shares_now


def _share_docs(members: Sequence[MemberDifference]) -> bool:
    """A doc in two members makes them dependent."""
    apart = sum(_count_distinct(member.docs) for member in members)
    return _count_distinct(np.concatenate([member.docs for member in members])) < apart


def _count_distinct(keys: Keys) -> int:
    """How many different keys; sorting is several times faster than numpy's own way on a million of them."""
    ordered = np.sort(keys)
    return len(keys) and 1 + int(np.count_nonzero(ordered[1:] != ordered[:-1]))


def _linear(members: Sequence[MemberDifference], weights: Floats) -> Difference:
    differences = [member.difference for member in members]
    a, b = (float(weights @ [getattr(d, side) for d in differences]) for side in ("a", "b"))
    n = sum(member.size for member in members)
    if any(d.spread is None or d.estimate.stderr is None for d in differences):
        bare = Estimate.bare(b - a, n, "a member has no error bar")
        return Difference(bare, a, b, None, "none", None, math.inf, None)
    parts = weights * [d.spread or 0.0 for d in differences]
    stderr = float(np.linalg.norm(weights * [d.estimate.stderr or 0.0 for d in differences]))
    spread = float(np.linalg.norm(parts))
    # Satterthwaite: the members' degrees of freedom by what each adds to the variance.
    below = float(sum(part**4 / d.freedom for part, d in zip(parts.tolist(), differences) if math.isfinite(d.freedom)))
    freedom = spread**4 / below if below > 0 else math.inf
    interval = partial(_t_interval, b - a, spread, freedom)
    cautious = partial(_cautious, b - a, differences, weights)
    estimate = Estimate(b - a, stderr, *interval(0.95), n, "paired t, independent members")
    p = 1.0 if spread == 0 else min(1.0, 2 * t_sf(abs(b - a) / spread, freedom))
    gained, lost = (_sum([getattr(d, side) for d in differences]) for side in ("gained", "lost"))
    return Difference(
        estimate,
        a,
        b,
        p,
        "paired t",
        spread,
        freedom,
        spread**2 * n,
        gained,
        lost,
        interval=interval,
        cautious=cautious,
    )


def _t_interval(value: float, spread: float, freedom: float, level: float) -> tuple[float, float]:
    reach = t_quantile((1 + level) / 2, freedom) * spread
    return value - reach, value + reach


def _cautious(value: float, differences: Sequence[Difference], weights: Floats, level: float) -> tuple[float, float]:
    """The members' cautious intervals put together, each side by itself (Zou and Donner 2008)."""
    values = np.array([d.estimate.value for d in differences], dtype=np.float64)
    ends = np.array([d.cautious_bounds(level) or (math.nan, math.nan) for d in differences])
    low, high = (float(np.linalg.norm(weights * (ends[:, side] - values))) for side in (0, 1))
    return value - low, value + high


def _sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _draws(aggregator: ArrayAggregator, members: Sequence[MemberDifference], weights: Floats) -> tuple[Floats, Floats]:
    of_a, of_b = zip(*[member.draws() for member in members], strict=True)
    return (
        aggregator.combine(np.stack(of_a, axis=1), weights, None),
        aggregator.combine(np.stack(of_b, axis=1), weights, None),
    )


def _lifted(aggregator: ArrayAggregator, members: Sequence[MemberDifference], weights: Floats) -> Difference:
    numbers = np.array([(member.difference.a, member.difference.b) for member in members])
    a, b = (float(aggregator.combine(numbers[:, side], weights, None)) for side in (0, 1))
    draws_a, draws_b = _draws(aggregator, members, weights)
    return replicate_difference(a, b, draws_a, draws_b, sum(member.size for member in members))
