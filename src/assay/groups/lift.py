"""From the children's estimates to the group's: closed forms for means, replicates for everything else."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from assay.groups.aggregators import ArrayAggregator
from assay.groups.members import Floats, Mask, Member, Select, draw_table
from assay.results import Score
from assay.stats import (
    Estimate,
    bootstrap_estimate,
    normal_quantile,
    pooled_stderr,
    unweighted_stderr,
    weighted_stderr,
)

Keys = NDArray[np.uint64]
_AT_A_TIME = 128


def lift(
    aggregator: ArrayAggregator,
    members: Sequence[Member],
    weights: Floats,
    *,
    by_size: bool,
    select: Select | None = None,
) -> tuple[Estimate, Callable[[], Floats]]:
    """The group's number with what it is worth, and its replicates, computed at most once."""

    @cache
    def draw() -> Floats:
        if aggregator.linear and select is None and weights.sum() > 0:
            return _added_up(members, weights / weights.sum())
        table = draw_table(members)
        if not len(table):
            return np.empty(0)  # a child has no replicates
        return aggregator.combine(table, weights, None if select is None else select(True))

    return _estimate(aggregator, members, weights, draw, by_size=by_size, select=select), draw


def _added_up(members: Sequence[Member], shares: Floats) -> Floats:
    """The replicates of a mean, some children at a time: the table of 10,000 children fits into no cache."""
    rows = [member.score.draws for member in members]
    total = np.zeros(min(map(len, rows), default=0))
    for start in range(0, len(rows), _AT_A_TIME):
        some = slice(start, start + _AT_A_TIME)
        total += shares[some] @ np.stack([row[: len(total)] for row in rows[some]])
    return total


def _estimate(
    aggregator: ArrayAggregator,
    members: Sequence[Member],
    weights: Floats,
    draw: Callable[[], Floats],
    *,
    by_size: bool,
    select: Select | None,
) -> Estimate:
    n = sum(member.score.size for member in members)
    values = np.array([member.value for member in members], dtype=np.float64)
    mask = None if select is None else select(False)
    if mask is not None and not mask.any():
        return Estimate.missing("no child passes the group filter", n)
    value = float(aggregator.combine(values, weights, mask))
    if not math.isfinite(value):
        return Estimate.missing(f"{aggregator.name} has no value here", n)
    has_closed_form = select is None and aggregator.linear
    closed_form = partial(_closed_form, value, members, weights, n, by_size=by_size)
    shared = share_docs(members) if has_closed_form else None
    if has_closed_form and shared is False:
        return closed_form()
    draws = draw()
    if has_closed_form and shared is None and not len(draws):
        return closed_form()
    lifted = bootstrap_estimate(value, draws, n)
    if has_closed_form and len(draws) and all(member.score.repeats_lm_eval for member in members):
        # lm-evaluation-harness pools them as if they shared no docs. The interval is not taken from it.
        return replace(lifted, stderr=closed_form().stderr)
    if aggregator.on_samples or (len(draws) and lifted.stderr != 0.0):
        return lifted
    # No replicates; or every doc of every child is right: they cannot vary, but the children's own intervals know better.
    return _delta(value, aggregator, members, weights, mask, n)


def share_docs(members: Sequence[Member]) -> bool | None:
    """Whether two children contain the same doc: then they are not independent and no sum of squares holds.

    None where a child does not tell its docs.
    """
    if len(members) < 2:
        return False
    parts = [keys for member in members if (keys := member.score.doc_keys) is not None]
    if len(parts) < len(members):
        return None
    keys = np.concatenate(parts)
    ordered = np.sort(keys)  # in a tenth of the time that it takes to keep track of whose they are
    if not (ordered[1:] == ordered[:-1]).any():
        return False
    owner = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    order = np.argsort(keys, kind="stable")
    same_key = keys[order[1:]] == keys[order[:-1]]
    return bool((same_key & (owner[order[1:]] != owner[order[:-1]])).any())


def docs_below(scores: Sequence[Score]) -> Keys | None:
    """The docs behind any of these numbers, each once."""
    parts = [keys for score in scores if (keys := score.doc_keys) is not None]
    return np.unique(np.concatenate(parts)) if parts and len(parts) == len(scores) else None


def _closed_form(value: float, members: Sequence[Member], weights: Floats, n: int, *, by_size: bool) -> Estimate:
    stderrs = [member.stderr for member in members]
    without = [member.name for member in members if member.stderr is None]
    if without:
        return Estimate.bare(value, n, f"{', '.join(without[:3])} has no standard error")
    known = [stderr for stderr in stderrs if stderr is not None]
    if by_size:
        stderr = pooled_stderr(known, [int(w) for w in weights])
    elif np.ptp(weights) == 0:
        stderr = unweighted_stderr(known)
    else:
        stderr = weighted_stderr(known, weights.tolist())
    if stderr is None:
        return Estimate.bare(value, n, "every child has one doc")
    method = "pooled" if by_size else "independent children"
    return _with_interval(value, stderr, weights / weights.sum(), members, n, method)


def _delta(
    value: float, aggregator: ArrayAggregator, members: Sequence[Member], weights: Floats, mask: Mask | None, n: int
) -> Estimate:
    """First-order error: how far the number moves when one child moves by its standard error.

    Children that share docs may all move together, so their parts are added up and not their squares: at most so much.
    """
    entering = [m for i, m in enumerate(members) if mask is None or mask[i]]
    if without := [member.name for member in entering if member.stderr is None]:
        return Estimate.bare(value, n, f"{', '.join(without[:3])} has no standard error")
    gradient = _gradient(aggregator, members, weights, mask)
    if not np.isfinite(gradient).all():
        return Estimate.bare(value, n, "too close to where it is undefined")
    moves = gradient * np.array([member.stderr or 0.0 for member in members])
    order = 1 if share_docs(members) else 2
    return _with_interval(value, float(np.linalg.norm(moves, order)), gradient, members, n, "delta", order=order)


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


def _with_interval(
    value: float, stderr: float, slopes: Floats, members: Sequence[Member], n: int, method: str, *, order: int = 2
) -> Estimate:
    """Combine the children's intervals, each side by itself (Zou and Donner 2008).

    Wilson intervals of the tasks stay lopsided near 0 and 1 and do not collapse when everything is right; a symmetric
    value ± z·SE would. `order` 2 is the root of the sum of squares, 1 the sum.
    """
    sides = [(m.score.estimate.low, m.score.estimate.high, m.value) for m in members]
    if any(low is None or high is None for low, high, _ in sides):
        reach = normal_quantile(0.975) * stderr
        return Estimate(value, stderr, value - reach, value + reach, n, method)
    down = np.array([v - low for low, _, v in sides if low is not None])
    up = np.array([high - v for _, high, v in sides if high is not None])
    low = value - float(np.linalg.norm(slopes * np.where(slopes >= 0, down, up), order))
    high = value + float(np.linalg.norm(slopes * np.where(slopes >= 0, up, down), order))
    return Estimate(value, stderr, low, high, n, method)
