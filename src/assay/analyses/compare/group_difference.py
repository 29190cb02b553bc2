"""The difference of two runs on a group, from the differences of its members."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from assay.analyses.compare.model import Floats, GoldPair, MemberDifference, NotComparable
from assay.finished import Keys, Run
from assay.groups import AGGREGATORS, ArrayAggregator, gold_of_group
from assay.results import GroupScore, MetricKey, Score
from assay.stats import (
    Difference,
    all_docs,
    combined_difference,
    extreme_difference,
    influence_difference,
    replicate_difference,
    shared_difference,
)


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
        lacking = [m for m in without if any(m not in run.result or key not in run.result[m].scores for run in (a, b))]
        why = "prompts differ" if any(member in refused for member in without) else "not in both runs"
        if lacking and all(m in run.result for m in lacking for run in (a, b)):
            why = f"it has no {key} in both runs, and its draws do not give one"
        raise NotComparable(f"{', '.join(without[:3])}{' …' if len(without) > 3 else ''}: {why}")
    if not isinstance(aggregator, ArrayAggregator) or not repeatable:
        raise NotComparable(f"the aggregator {left.aggregation} cannot be repeated from the members' numbers")
    chosen = [members[member] for member in names]
    weights = reported_weights(left)
    size = sum(member.size for member in chosen)
    is_known = all(len(member.documents) for member in chosen)
    documents = all_docs([member.documents for member in chosen]) if is_known else np.empty(0, dtype=np.uint64)
    whole = Members(chosen, weights, len(documents) if is_known else size)
    if aggregator.extreme is not None:
        sides = [[partial(_bounds, run.score(member, key)) for member in names] for run in (a, b)]
        differences = [member.difference for member in chosen]
        difference = extreme_difference(aggregator.extreme, differences, sides[0], sides[1], whole.n)
    elif aggregator.linear and not _share_docs(chosen):
        difference = combined_difference([member.difference for member in chosen], weights, whole.n)
    elif aggregator.linear and (moves := whole.moves()) is not None:
        difference = _of_moves(whole, *moves)
    else:
        difference = _lifted(aggregator, whole)
    return MemberDifference(
        difference,
        size,
        np.concatenate([member.docs for member in chosen]),
        lambda: _draws(aggregator, whole),
        documents,
        _gold(name, key, a, members),
        whole.moves if aggregator.linear else lambda: None,
    )


def _gold(name: str, key: MetricKey, a: Run, members: Mapping[str, MemberDifference]) -> GoldPair | None:
    """The docs of all tasks of the group, side by side."""
    pairs = {task: each.gold for task, each in members.items() if each.gold is not None and task in a.tasks}
    left, right = (
        gold_of_group(a.result.groups, name, key, {task: (docs, pairs[task].units) for task, docs in side.items()})
        for side in ({task: pair.a for task, pair in pairs.items()}, {task: pair.b for task, pair in pairs.items()})
    )
    return None if left is None or right is None else GoldPair(left[0], right[0], left[1])


@dataclass(frozen=True)
class Members:
    members: Sequence[MemberDifference]
    weights: Floats
    n: int
    """Docs behind all of them, each once."""

    def moves(self) -> tuple[Floats, Keys] | None:
        """Each doc's part in the difference of the means, member after member; None where one does not tell."""
        found = [each for member in self.members if (each := member.moves()) is not None]
        if len(found) < len(self.members):
            return None
        parts = [weight * moves for weight, (moves, _) in zip(self.weights.tolist(), found, strict=True)]
        return np.concatenate(parts), np.concatenate([keys for _, keys in found])


def _bounds(score: Score | None, level: float) -> tuple[float, float] | None:
    return None if score is None else score.bounds(level)


def _of_moves(whole: Members, moves: Floats, keys: Keys) -> Difference:
    """A mean of members that share docs or clusters: what a unit adds in all of them adds up before it is squared."""
    differences = [member.difference for member in whole.members]
    apart = combined_difference(differences, whole.weights, whole.n)
    lost = float((whole.weights / [member.size for member in whole.members]).max())
    together = influence_difference(apart.a, apart.b, moves, keys, lost=lost)
    # Where no unit moved, or all by the same amount, shared units say nothing that the members do not.
    return apart if together.estimate.stderr == 0 else shared_difference(apart, together)


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


def _draws(aggregator: ArrayAggregator, whole: Members) -> tuple[Floats, Floats]:
    of_a, of_b = zip(*[member.draws() for member in whole.members], strict=True)
    return (
        aggregator.combine(np.stack(of_a, axis=1), whole.weights, None),
        aggregator.combine(np.stack(of_b, axis=1), whole.weights, None),
    )


def _lifted(aggregator: ArrayAggregator, whole: Members) -> Difference:
    numbers = np.array([(member.difference.a, member.difference.b) for member in whole.members])
    a, b = (float(aggregator.combine(numbers[:, side], whole.weights, None)) for side in (0, 1))
    draws_a, draws_b = _draws(aggregator, whole)
    units = _count_distinct(np.concatenate([member.docs for member in whole.members]))
    return replicate_difference(a, b, draws_a, draws_b, whole.n, units=units or None)
