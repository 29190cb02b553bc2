"""From the children's estimates to the group's: closed forms for means, replicates for everything else."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from assay.groups.aggregators import ArrayAggregator
from assay.groups.members import Floats, Mask, Member, Select, draw_table
from assay.results import Score
from assay.stats import (
    Estimate,
    bootstrap_estimate,
    combined_estimate,
    ends,
    pooled_stderr,
    replicate_spread,
    stratified_estimate,
    t_quantile,
    unweighted_stderr,
)

Keys = NDArray[np.uint64]
_AT_A_TIME = 128
Bounds = tuple[float, float] | None


@dataclass(frozen=True)
class Lifted:
    """A group's number with what it is worth."""

    estimate: Estimate
    draw: Callable[[], Floats]
    """Its replicates, computed at most once."""
    interval: Callable[[float], Bounds]
    lm_eval_stderr: float | None
    one_end: Callable[[int, float], float | None] | None = None
    keys: Callable[[], Keys | None] = lambda: None
    """The docs behind the number, each once."""


def lift(
    aggregator: ArrayAggregator,
    members: Sequence[Member],
    weights: Floats,
    *,
    by_size: bool,
    select: Select | None = None,
) -> Lifted:
    @cache
    def draw() -> Floats:
        if aggregator.linear and select is None and weights.sum() > 0:
            return _added_up(members, weights / weights.sum())
        if aggregator.extreme is not None and select is None:
            return _picked(aggregator.extreme, members)
        table = draw_table(members)
        if not len(table):
            return np.empty(0)  # a child has no replicates
        return aggregator.combine(table, weights, None if select is None else select(True))

    known: list[Keys] = []
    shared, count = cache(partial(share_docs, members, known)), cache(partial(count_docs, members))

    def keys() -> Keys | None:
        return known[0] if known else docs_below([member.score for member in members])

    spread = cache(lambda: replicate_spread(draw()))
    one_end = None
    if aggregator.extreme is not None and select is None:
        one_end = cache(partial(_extreme_end, aggregator.extreme, members))
    at_level = partial(_estimate, aggregator, members, weights, draw, spread, shared, count, select, one_end)
    theirs = _lm_eval_stderr(members, weights, by_size=by_size) if aggregator.linear and select is None else None
    return Lifted(at_level(0.95), draw, lambda level: ends(at_level(level)), theirs, one_end, keys)


def _added_up(members: Sequence[Member], shares: Floats) -> Floats:
    """The replicates of a mean, some children at a time: the table of 10,000 children fits into no cache."""
    rows = [member.score.draws for member in members]
    total = np.zeros(min(map(len, rows), default=0))
    for start in range(0, len(rows), _AT_A_TIME):
        some = slice(start, start + _AT_A_TIME)
        total += shares[some] @ np.stack([row[: len(total)] for row in rows[some]])
    return total


def _picked(pick: Callable[..., float], members: Sequence[Member]) -> Floats:
    """The replicates of the smallest or the largest child, in the same way."""
    rows = [member.score.draws for member in members]
    length = min(map(len, rows), default=0)
    keep = np.minimum if pick is min else np.maximum
    blocks = (rows[start : start + _AT_A_TIME] for start in range(0, len(rows), _AT_A_TIME))
    best = [keep.reduce(np.stack([row[:length] for row in some])) for some in blocks if length]
    return np.asarray(keep.reduce(best), dtype=np.float64) if best else np.empty(0)


def _estimate(
    aggregator: ArrayAggregator,
    members: Sequence[Member],
    weights: Floats,
    draw: Callable[[], Floats],
    spread: Callable[[], float | None],
    shared: Callable[[], bool | None],
    count: Callable[[], int],
    select: Select | None,
    one_end: Callable[[int, float], float | None] | None,
    level: float,
) -> Estimate:
    n = count()
    values = np.array([member.value for member in members], dtype=np.float64)
    mask = None if select is None else select(False)
    if mask is not None and not mask.any():
        return Estimate.missing("no child passes the group filter", n)
    value = float(aggregator.combine(values, weights, mask))
    if not math.isfinite(value):
        return Estimate.missing(f"{aggregator.name} has no value here", n)
    if select is None and aggregator.linear:
        return _mean_estimate(value, members, weights / weights.sum(), draw, shared, n, level)
    if one_end is not None:
        return _extreme_estimate(value, one_end, members, spread, n, level)
    draws = draw()
    selects = select is not None or not aggregator.smooth
    lifted = bootstrap_estimate(value, draws, n, level=level, selects=selects)
    if not aggregator.on_samples and (select is not None or (selects and lifted.low is None)):
        ranked = _ranked_estimate(value, aggregator, members, weights, spread, select, n, level)
        if ranked is not None:
            return ranked
    if aggregator.on_samples or lifted.stderr or (len(draws) and spread() != 0.0):
        return lifted
    # No replicates; or every doc of every child is right: they cannot vary, but the children's own intervals know better.
    return _delta(value, aggregator, members, weights, mask, n, shared=shared(), level=level)


def share_docs(members: Sequence[Member], known: list[Keys] | None = None) -> bool | None:
    """Whether two children contain the same doc: then they are not independent and no sum of squares holds.

    None where a child does not tell its docs. Where no doc occurs twice, `known` is given all of them in order: sorting
    them again would cost as much as the rest.
    """
    if len(members) < 2:
        return False
    parts = [keys for member in members if (keys := member.score.doc_keys) is not None]
    if len(parts) < len(members):
        return None
    keys = np.concatenate(parts)
    ordered = np.sort(keys)  # in a tenth of the time that it takes to keep track of whose they are
    if not (ordered[1:] == ordered[:-1]).any():
        if known is not None:
            known.append(ordered)
        return False
    owner = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    order = np.argsort(keys, kind="stable")
    same_key = keys[order[1:]] == keys[order[:-1]]
    return bool((same_key & (owner[order[1:]] != owner[order[:-1]])).any())


def count_docs(members: Sequence[Member]) -> int:
    """How many docs the number rests on: one that two children ask is one doc, also where only one of them has clusters."""
    parts = [docs for member in members if (docs := documents_of(member.score)) is not None]
    if len(members) < 2 or len(parts) < len(members):
        return sum(member.score.estimate.n for member in members)
    ordered = np.sort(np.concatenate(parts))
    if not (ordered[1:] == ordered[:-1]).any():  # the usual case, in a tenth of the time
        return len(ordered)
    docs = documents_below([member.score for member in members])
    return 0 if docs is None else len(docs)


def documents_of(score: Score) -> Keys | None:
    return None if score.documents is None else score.documents()


def documents_below(scores: Sequence[Score]) -> Keys | None:
    """The docs behind these numbers, each as often as the child that has it most often: two rows of one task stay two."""
    parts = [docs for score in scores if (docs := documents_of(score)) is not None]
    if not parts or len(parts) < len(scores):
        return None
    counted = [np.unique(part, return_counts=True) for part in parts]
    keys, times = (np.concatenate(column) for column in zip(*counted))
    order = np.argsort(keys, kind="stable")
    keys, starts = np.unique(keys[order], return_index=True)
    return np.repeat(keys, np.maximum.reduceat(times[order], starts)) if len(keys) else keys


def docs_below(scores: Sequence[Score]) -> Keys | None:
    """The docs behind any of these numbers, each once."""
    parts = [keys for score in scores if (keys := score.doc_keys) is not None]
    if not parts or len(parts) < len(scores):
        return None
    ordered = np.sort(np.concatenate(parts))  # numpy's own `unique` takes four times as long
    return ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])] if len(ordered) else ordered


# Means


def _mean_estimate(
    value: float,
    members: Sequence[Member],
    shares: Floats,
    draw: Callable[[], Floats],
    shared: Callable[[], bool | None],
    n: int,
    level: float,
) -> Estimate:
    if any(member.score.estimate.method == "confidence sequence" for member in members):
        # Their intervals outlive looking; one made for a fixed number of docs would not.
        return _from_sides(value, _stderr(members, shares), shares, members, n, "confidence sequences", level=level)
    if shared() and all(member.score.docs is not None for member in members):
        docs = [member.score.docs for member in members if member.score.docs is not None]
        bounded = all(member.score.estimate.bounded for member in members)
        return replace(stratified_estimate(docs, shares, bounded=bounded, level=level), value=value, n=n)
    if shared() is False or (shared() is None and not len(draw())):
        without = [member.name for member in members if member.stderr is None]
        if without:
            return Estimate.bare(value, n, f"{', '.join(without[:3])} has no standard error")
        return combined_estimate(value, [member.score.estimate for member in members], shares, n, level=level)
    if replicate_spread(draw()):
        return bootstrap_estimate(value, draw(), n, level=level)
    # Nothing to draw from, or nothing that varies: children that share docs may all move together.
    stderr = None if any(m.stderr is None for m in members) else float(shares @ [m.stderr or 0.0 for m in members])
    return _from_sides(value, stderr, shares, members, n, "shared docs", level=level, order=1)


def _stderr(members: Sequence[Member], shares: Floats) -> float | None:
    if any(member.stderr is None for member in members):
        return None
    return float(np.linalg.norm(shares * [member.stderr or 0.0 for member in members]))


def _lm_eval_stderr(members: Sequence[Member], weights: Floats, *, by_size: bool) -> float | None:
    """lm-evaluation-harness takes members for independent, and pools variances where they count by size."""
    theirs = [member.score.estimate.stderr for member in members]
    known = [s if m.score.lm_eval_stderr is None else m.score.lm_eval_stderr for m, s in zip(members, theirs)]
    errors = [error for error in known if error is not None]
    if len(errors) < len(members) or any(m.score.estimate.n < (m.score.asked or m.score.size) for m in members):
        return None
    if by_size:
        return pooled_stderr(errors, [m.asked for m in members])
    return unweighted_stderr(errors) if np.ptp(weights) == 0 else None


# The best and the worst


def _extreme_estimate(
    value: float,
    one_end: Callable[[int, float], float | None],
    members: Sequence[Member],
    spread: Callable[[], float | None],
    n: int,
    level: float,
) -> Estimate:
    low, high = one_end(0, level), one_end(1, level)
    if low is None or high is None:
        return Estimate.bare(value, n, "a child has no interval")
    bounded = all(member.score.estimate.bounded for member in members)
    stderr = spread() or next((m.stderr for m in members if m.value == value), None)
    return Estimate(value, stderr, low, high, n, "Šidák", level=level, bounded=bounded)


def _extreme_end(pick: Callable[..., float], members: Sequence[Member], side: int, level: float) -> float | None:
    """Of the smallest child. The least low end holds, for it is below that of the child which is truly the smallest; that
    all high ends hold takes a level at which none of so many errs (Šidák 1967). Of the largest, the other way round.

    Percentiles do not serve: the smallest of noisy numbers is too small, and the smallest of replicates more so.
    """
    if side != (0 if pick is min else 1):
        level = 2 * ((1 + level) / 2) ** (1 / len(members)) - 1
    found = [member.score.end(side, level) for member in members]
    known = [end for end in found if end is not None]
    return pick(known) if len(known) == len(found) else None


def _ranked_estimate(
    value: float,
    aggregator: ArrayAggregator,
    members: Sequence[Member],
    weights: Floats,
    spread: Callable[[], float | None],
    select: Select | None,
    n: int,
    level: float,
) -> Estimate | None:
    """Of the best two, or the median: the same rule applied to the children's low ends, and to their high ends, at a level
    at which none of so many errs. It holds whoever the best two truly are, ties among them too.

    None where the ends show who enters, so that there was no choice; and where the rule could fall though a child rises.
    """
    by_rank = None if select is None else select.by_rank
    if not aggregator.monotone or (select is not None and (by_rank is None or np.ptp(weights) > 0)):
        return None
    tail = 1 - ((1 + level) / 2) ** (1 / len(members))
    ends_of = [member.score.bounds(1 - 2 * tail) for member in members]
    if any(bounds is None for bounds in ends_of):
        return None
    ends_now = np.array([bounds for bounds in ends_of if bounds]).T
    masks: list[Mask | None] = [None, None]
    if by_rank is not None:
        inside = by_rank(np.array([member.value for member in members]))
        low, high = ends_now
        if low[inside].min() > high[~inside].max(initial=-np.inf) or high[inside].max() < low[~inside].min(
            initial=np.inf
        ):
            return None
        masks = [by_rank(side) for side in ends_now]
    low_end, high_end = (float(aggregator.combine(side, weights, mask)) for side, mask in zip(ends_now, masks))
    if not (math.isfinite(low_end) and math.isfinite(high_end)):
        return None
    bounded = all(member.score.estimate.bounded for member in members)
    return Estimate(value, spread(), low_end, high_end, n, "Šidák", level=level, bounded=bounded)


# First-order errors


def _delta(
    value: float,
    aggregator: ArrayAggregator,
    members: Sequence[Member],
    weights: Floats,
    mask: Mask | None,
    n: int,
    *,
    shared: bool | None,
    level: float,
) -> Estimate:
    """First-order error: how far the number moves when one child moves by its standard error.

    Children that share docs may all move together, so their parts are added up and not their squares: at most so much.
    """
    entering = [m for i, m in enumerate(members) if mask is None or mask[i]]
    if without := [member.name for member in entering if member.stderr is None]:
        return Estimate.bare(value, n, f"{', '.join(without[:3])} has no standard error")
    gradient = _gradient(aggregator, members, weights, mask)
    if not np.isfinite(gradient).all():
        return Estimate.bare(value, n, "too close to a point where it is undefined")
    moves = gradient * np.array([member.stderr or 0.0 for member in members])
    order = 1 if shared else 2
    return _from_sides(
        value, float(np.linalg.norm(moves, order)), gradient, members, n, "delta", order=order, level=level
    )


def _gradient(aggregator: ArrayAggregator, members: Sequence[Member], weights: Floats, mask: Mask | None) -> Floats:
    values = np.array([member.value for member in members])
    step = 1e-6 * max(1.0, float(np.abs(values).max()))
    gradient = np.empty(len(values))
    for start in range(0, len(values), 256):  # rows in blocks: a table of k × k numbers need not exist at once
        rows = min(256, len(values) - start)
        shifts = step * np.eye(rows, len(values), k=start)
        moved = np.concatenate([values + shifts, values - shifts])
        results = aggregator.combine(moved, weights, None if mask is None else np.broadcast_to(mask, moved.shape))
        gradient[start : start + rows] = (results[:rows] - results[rows:]) / (2 * step)
    return gradient


def _from_sides(
    value: float,
    stderr: float | None,
    slopes: Floats,
    members: Sequence[Member],
    n: int,
    method: str,
    *,
    level: float,
    order: int = 2,
) -> Estimate:
    """Combine the children's intervals, each side by itself (Zou and Donner 2008), where there is nothing but those.

    `order` 2 is the root of the sum of squares, 1 the sum.
    """
    sides = [member.score.bounds(level) for member in members]
    if any(bounds is None for bounds in sides):
        if stderr is None:
            return Estimate.bare(value, n, "a child has no interval")
        reach = t_quantile((1 + level) / 2, max(1, n - len(members))) * stderr
        return Estimate(value, stderr, value - reach, value + reach, n, method, level=level)
    values = np.array([member.value for member in members])
    down, up = (np.abs(values - [bounds[side] for bounds in sides if bounds]) for side in (0, 1))
    low = value - float(np.linalg.norm(slopes * np.where(slopes >= 0, down, up), order))
    high = value + float(np.linalg.norm(slopes * np.where(slopes >= 0, up, down), order))
    return Estimate(value, stderr, low, high, n, method, level=level)
