"""From the estimates of children to that of a number made of them: closed forms for means, replicates for everything else."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from assay.stats.bootstrap import bootstrap_estimate, replicate_spread
from assay.stats.closed_form import combined_estimate, stratified_estimate
from assay.stats.estimate import Basis, Estimate, Floats, Keys
from assay.stats.intervals import (
    INTERVAL_METHODS,
    IntervalMethod,
    first_that_holds,
    methods_of,
    normal_quantile,
    t_quantile,
    wilson_interval,
)

Mask = NDArray[np.bool_]
Bounds = tuple[float, float] | None
_AT_A_TIME = 128


class Child(Protocol):
    """A child's number with the evidence behind it."""

    @property
    def estimate(self) -> Estimate: ...
    @property
    def draws(self) -> Floats: ...
    @property
    def docs(self) -> tuple[Floats, Keys] | None: ...
    @property
    def doc_keys(self) -> Keys | None: ...
    def bounds(self, level: float) -> Bounds: ...
    def end(self, side: int, level: float) -> float | None: ...


class Combination(Protocol):
    """What makes one number of the children's. Its traits say which methods hold."""

    @property
    def name(self) -> str: ...
    @property
    def combine(self) -> Callable[[Floats, Floats, Mask | None], Floats]: ...
    @property
    def linear(self) -> bool: ...
    @property
    def extreme(self) -> Callable[..., float] | None: ...
    @property
    def monotone(self) -> bool: ...
    @property
    def smooth(self) -> bool: ...
    @property
    def on_samples(self) -> bool: ...


@dataclass(frozen=True)
class ChildEvidence:
    """What is known of a number that children make."""

    rule: Combination
    names: Sequence[str]
    children: Sequence[Child]
    weights: Floats
    n: int
    """How many docs the number rests on."""
    shared: Callable[[], bool | None]
    """Whether two children contain the same doc; None where a child does not tell its docs."""
    draws: Callable[[], Floats]
    """Its replicates."""
    mask: Mask | None = None
    """Which children enter, where a filter chooses among them; None where all do."""
    by_rank: Callable[[Floats], Mask] | None = None
    """Whom the filter would choose if the children had these values; only where the best or worst k enter."""
    threshold: float | None = None
    """Beyond which children enter, where that is the whole filter."""

    @cached_property
    def values(self) -> Floats:
        return np.array([child.estimate.value for child in self.children], dtype=np.float64)

    @cached_property
    def value(self) -> float:
        return float(self.rule.combine(self.values, self.weights, self.mask))

    @cached_property
    def spread(self) -> float | None:
        return replicate_spread(self.draws())

    @cached_property
    def units(self) -> int | None:
        """Docs, or clusters of docs, behind all children; None where a child does not tell its own."""
        parts = [keys for child in self.children if (keys := child.doc_keys) is not None]
        return len(distinct_docs(parts)) if parts and len(parts) == len(self.children) else None

    @property
    def is_mean(self) -> bool:
        return self.rule.linear and self.mask is None

    @property
    def is_its_child(self) -> bool:
        """Whether it is the number of its only child: it then has that child's interval."""
        return len(self.children) == 1 and not self.rule.on_samples and self.value == float(self.values[0])

    @property
    def is_extreme(self) -> bool:
        return self.rule.extreme is not None and self.mask is None

    @property
    def shares(self) -> Floats:
        return np.asarray(self.weights / self.weights.sum())

    @property
    def bounded(self) -> bool:
        return all(child.estimate.bounded for child in self.children)

    @property
    def stderrs(self) -> Floats | None:
        found = [child.estimate.stderr for child in self.children]
        return None if any(each is None for each in found) else np.array(found, dtype=np.float64)

    def without_stderr(self) -> str | None:
        """The reason why there is no error bar, where children that enter have none."""
        entering = [i for i in range(len(self.children)) if self.mask is None or self.mask[i]]
        without = [self.names[i] for i in entering if self.children[i].estimate.stderr is None]
        if without:
            return f"{', '.join(without[:3])} has no standard error"
        known = [(self.names[i], self.children[i].estimate) for i in entering if self.weights[i] > 0]
        withheld = [name for name, estimate in known if estimate.low is None and not estimate.stderr]
        return f"{', '.join(withheld[:3])} has no interval" if withheld else None


def estimate_from_children(evidence: ChildEvidence, level: float = 0.95) -> Estimate:
    if evidence.mask is not None and not evidence.mask.any():
        return Estimate.missing("no child passes the group filter", evidence.n)
    if not math.isfinite(evidence.value):
        return Estimate.missing(f"{evidence.rule.name} has no value here", evidence.n)
    if evidence.is_its_child:
        return replace(_at(evidence.children[0], level), n=evidence.n)
    made = first_that_holds(methods_of("children"), evidence, level)[1]
    return made if made.caution or made.stderr is None else replace(made, caution=_cautions(evidence))


def _cautions(e: ChildEvidence) -> str | None:
    """What children say before their error bars are trusted; of a mean, those children that hold a tenth of its variance."""
    said: dict[str, list[str]] = {}
    parts = (e.shares * e.stderrs) ** 2 if e.is_mean and e.stderrs is not None else np.ones(len(e.children))
    for name, child, part in zip(e.names, e.children, parts.tolist()):
        if child.estimate.caution and part >= _TOO_MUCH * float(parts.sum() if e.is_mean else 0.0):
            said.setdefault(child.estimate.caution, []).append(name)
    texts = [f"{', '.join(names[:3])}{' …' if len(names) > 3 else ''}: {caution}" for caution, names in said.items()]
    return "; ".join(texts[:3]) or None


_TOO_MUCH = 0.1


# Replicates


def summed_replicates(rows: Sequence[Floats], shares: Floats) -> Floats:
    """The replicates of a mean, some children at a time: the table of 10,000 children fits into no cache."""
    total = np.zeros(min(map(len, rows), default=0))
    for start in range(0, len(rows), _AT_A_TIME):
        some = slice(start, start + _AT_A_TIME)
        total += shares[some] @ np.stack([row[: len(total)] for row in rows[some]])
    return total


def extreme_replicates(pick: Callable[..., float], rows: Sequence[Floats]) -> Floats:
    """The replicates of the smallest or the largest child, in the same way."""
    length = min(map(len, rows), default=0)
    keep = np.minimum if pick is min else np.maximum
    blocks = (rows[start : start + _AT_A_TIME] for start in range(0, len(rows), _AT_A_TIME))
    best = [keep.reduce(np.stack([row[:length] for row in some])) for some in blocks if length]
    return np.asarray(keep.reduce(best), dtype=np.float64) if best else np.empty(0)


# Docs that several children have


def share_docs(parts: Sequence[Keys], known: list[Keys] | None = None) -> bool:
    """Whether two children contain the same doc: then they are not independent and no sum of squares holds.

    Where no doc occurs twice, `known` is given all of them in order: sorting them again would cost as much as the rest.
    """
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


def all_docs(parts: Sequence[Keys]) -> Keys:
    """The docs of all children, each as often as the child that has it most often: two rows of one task stay two."""
    ordered = np.sort(np.concatenate(parts))
    if not (ordered[1:] == ordered[:-1]).any():  # the usual case, in a tenth of the time
        return ordered
    counted = [np.unique(part, return_counts=True) for part in parts]
    keys, times = (np.concatenate(column) for column in zip(*counted))
    order = np.argsort(keys, kind="stable")
    keys, starts = np.unique(keys[order], return_index=True)
    return np.repeat(keys, np.maximum.reduceat(times[order], starts)) if len(keys) else keys


def distinct_docs(parts: Sequence[Keys]) -> Keys:
    """The docs of all children, each once."""
    ordered = np.sort(np.concatenate(parts))  # numpy's own `unique` takes four times as long
    return ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])] if len(ordered) else ordered


# Means


def _sequences(e: ChildEvidence, level: float) -> Estimate:
    stderr = None if e.stderrs is None else float(np.linalg.norm(e.shares * e.stderrs))
    return _from_sides(e, stderr, e.shares, "confidence sequences", level=level)


def _stratified(e: ChildEvidence, level: float) -> Estimate:
    docs = [child.docs for child in e.children if child.docs is not None]
    made = replace(stratified_estimate(docs, e.shares, bounded=e.bounded, level=level), value=e.value, n=e.n)
    if not e.bounded or made.low is None or made.df is None or e.without_stderr():
        return made
    low, high = _widened_for_sharing(e, made, made.df, level)
    return replace(made, low=low, high=high)


def _widened_for_sharing(e: ChildEvidence, made: Estimate, df: float, level: float) -> tuple[float, float]:
    """The interval of independent children, wider by as much as the spread by shared units is larger than theirs apart. So a small
    child that is all right counts here as it does where nothing is shared."""
    members = [_at(child, level) for child in e.children]
    apart = combined_estimate(e.value, members, e.shares, e.n, level=level)
    assert apart.low is not None
    assert apart.high is not None
    assert apart.df is not None
    half = (1 + level) / 2
    counts = all(m.basis is Basis.COUNTS for m in members)
    usual = normal_quantile(half) if counts else t_quantile(half, max(1.0, sum(m.df or m.n - 1 for m in members)))
    # Half a unit more at either end, as in a score interval: units that are all right may still go wrong.
    unseen = 0.5 * (e.value**2 + (1 - e.value) ** 2)
    together, alone = (
        (each.stderr or 0.0) ** 2 + unseen / ((own + 1) ** 2) for each, own in ((made, df), (apart, apart.df))
    )
    wider = max(1.0, math.sqrt(together / alone) * t_quantile(half, df) / usual)
    return max(0.0, e.value - wider * (e.value - apart.low)), min(1.0, e.value + wider * (apart.high - e.value))


def _combined(e: ChildEvidence, level: float) -> Estimate | None:
    shared = e.shared()
    if shared or (shared is None and len(e.draws())):
        return None
    if reason := e.without_stderr():
        return Estimate.bare(e.value, e.n, reason)
    return combined_estimate(e.value, [_at(child, level) for child in e.children], e.shares, e.n, level=level)


def _at(child: Child, level: float) -> Estimate:
    """The child's estimate with its interval at this level."""
    if level == child.estimate.level:
        return child.estimate
    made = child.estimate
    if made.basis is Basis.COUNTS and made.value is not None and made.df is not None:  # without a look at the docs
        ends: Bounds = wilson_interval(made.value, made.df + 1, normal_quantile((1 + level) / 2))
    else:
        ends = child.bounds(level)
    low, high = ends or (None, None)
    return replace(made, low=low, high=high, level=level)


def _added_up(e: ChildEvidence, level: float) -> Estimate:
    """Nothing to draw from, or nothing that varies: children that share docs may all move together."""
    stderr = None if e.stderrs is None else float(e.shares @ e.stderrs)
    return _from_sides(e, stderr, e.shares, "shared docs", level=level, order=1)


# The best and the worst


def extreme_end(pick: Callable[..., float], children: Sequence[Child], side: int, level: float) -> float | None:
    """Of the smallest child. The least low end holds, for it is below that of the child which is truly the smallest; that
    all high ends hold takes a level at which none of so many errs (Šidák 1967). Of the largest, the other way round.

    Percentiles do not serve: the smallest of noisy numbers is too small, and the smallest of replicates more so.
    """
    if side != (0 if pick is min else 1):
        level = 2 * ((1 + level) / 2) ** (1 / len(children)) - 1
    found = [child.end(side, level) for child in children]
    known = [end for end in found if end is not None]
    return pick(known) if len(known) == len(found) else None


def _extreme(e: ChildEvidence, level: float) -> Estimate:
    assert e.rule.extreme is not None
    low, high = (extreme_end(e.rule.extreme, e.children, side, level) for side in (0, 1))
    if low is None or high is None:
        return Estimate.bare(e.value, e.n, "a child has no interval")
    stderr = e.spread or next((c.estimate.stderr for c in e.children if c.estimate.value == e.value), None)
    return Estimate(e.value, stderr, low, high, e.n, "Šidák", level=level, bounded=e.bounded)


def _ranked(e: ChildEvidence, level: float) -> Estimate | None:
    """Of the best two, or the median: the same rule applied to the children's low ends, and to their high ends, at a level
    at which none of so many errs. It holds whoever the best two truly are, ties among them too.

    None where replicates serve; where the ends show who enters, so that there was no choice; and where the rule could fall
    though a child rises.
    """
    if e.mask is None and (e.rule.smooth or _replicates(e, level).low is not None):
        return None
    if not e.rule.monotone or (e.mask is not None and (e.by_rank is None or np.ptp(e.weights) > 0)):
        return None
    tail = 1 - ((1 + level) / 2) ** (1 / len(e.children))
    ends_of = [child.bounds(1 - 2 * tail) for child in e.children]
    if any(bounds is None for bounds in ends_of):
        return None
    ends_now = np.array([bounds for bounds in ends_of if bounds]).T
    masks: list[Mask | None] = [None, None]
    if e.by_rank is not None:
        inside = e.by_rank(e.values)
        low, high = ends_now
        if low[inside].min() > high[~inside].max(initial=-np.inf) or high[inside].max() < low[~inside].min(
            initial=np.inf
        ):
            return None
        masks = [e.by_rank(side) for side in ends_now]
    low_end, high_end = (float(e.rule.combine(side, e.weights, mask)) for side, mask in zip(ends_now, masks))
    if not (math.isfinite(low_end) and math.isfinite(high_end)):
        return None
    return Estimate(e.value, e.spread, low_end, high_end, e.n, "Šidák", level=level, bounded=e.bounded)


def _beyond_threshold(e: ChildEvidence, level: float) -> Estimate | None:
    """A mean of the children beyond a threshold. The interval of the mean of the children that truly are beyond it holds; who they
    are is known but for those whose own intervals, on a tenth of the error rate, hold the threshold. So the ends are the least
    and the largest that any choice among these gives.

    Replicates, which choose anew, are pushed up as the docs' own choice was: with many small children they held the mean in 71 %.
    """
    assert e.mask is not None
    assert e.threshold is not None
    if e.shared() is not False or any(child.estimate.stderr is None for child in e.children):
        return None
    tail, inner = (1 - level) / 2 * _FOR_WHO, 1 - (1 - level) * (1 - _FOR_WHO)
    sides = [child.bounds(2 * (1 - tail) ** (1 / len(e.children)) - 1) for child in e.children]
    open_now = np.array([ends is None or ends[0] <= e.threshold <= ends[1] for ends in sides])
    surely = e.mask & ~open_now
    members = [_at(child, inner) for child in e.children]

    def ends_of(inside: Mask) -> tuple[float, float]:
        shares = np.where(inside, e.weights, 0.0) / float(e.weights[inside].sum())
        value = float(shares @ e.values)
        made = combined_estimate(value, members, shares, e.n, level=inner)
        return (value if made.low is None else made.low), (value if made.high is None else made.high)

    middle = float(np.average(e.values[surely], weights=e.weights[surely])) if surely.any() else e.value
    choices = [surely | (open_now & extra) for extra in (False, e.values < middle, e.values > middle, True, e.mask)]
    ends = [ends_of(inside) for inside in choices if inside.any() and e.weights[inside].sum() > 0]
    low, high = min(low for low, _ in ends), max(high for _, high in ends)
    # Whoever they are, they are all beyond it.
    is_least = float(e.values[e.mask].min()) >= e.threshold
    low, high = (max(low, min(e.threshold, e.value)), high) if is_least else (low, min(high, max(e.threshold, e.value)))
    return Estimate(e.value, e.spread, low, high, e.n, "beyond a threshold", level=level, bounded=e.bounded)


_FOR_WHO = 0.1
"""The part of the error rate that goes to who is beyond the threshold."""


# Anything else


def _replicates(e: ChildEvidence, level: float) -> Estimate:
    selects = e.mask is not None or not e.rule.smooth
    return bootstrap_estimate(e.value, e.draws(), e.n, units=e.units, level=level, selects=selects)


def _varying(e: ChildEvidence, level: float) -> Estimate | None:
    """None without replicates, and where every doc of every child is right: they cannot vary, but the children's own
    intervals know better."""
    lifted = _replicates(e, level)
    return lifted if e.rule.on_samples or lifted.stderr or (len(e.draws()) and e.spread != 0.0) else None


def _delta(e: ChildEvidence, level: float) -> Estimate:
    """First-order error: how far the number moves when one child moves by its standard error.

    Children that share docs may all move together, so their parts are added up and not their squares: at most so much.
    """
    if reason := e.without_stderr():
        return Estimate.bare(e.value, e.n, reason)
    gradient = _gradient(e)
    if not np.isfinite(gradient).all():
        return Estimate.bare(e.value, e.n, "too close to a point where it is undefined")
    moves = gradient * np.array([child.estimate.stderr or 0.0 for child in e.children])
    order = 1 if e.shared() else 2
    return _from_sides(e, float(np.linalg.norm(moves, order)), gradient, "delta", order=order, level=level)


def _gradient(e: ChildEvidence) -> Floats:
    values = e.values
    step = 1e-6 * max(1.0, float(np.abs(values).max()))
    gradient = np.empty(len(values))
    for start in range(0, len(values), 256):  # rows in blocks: a table of k × k numbers need not exist at once
        rows = min(256, len(values) - start)
        shifts = step * np.eye(rows, len(values), k=start)
        moved = np.concatenate([values + shifts, values - shifts])
        results = e.rule.combine(moved, e.weights, None if e.mask is None else np.broadcast_to(e.mask, moved.shape))
        gradient[start : start + rows] = (results[:rows] - results[rows:]) / (2 * step)
    return gradient


def _from_sides(
    e: ChildEvidence, stderr: float | None, slopes: Floats, method: str, *, level: float, order: int = 2
) -> Estimate:
    """Combine the children's intervals, each side by itself (Zou and Donner 2008), where there is nothing but those.

    `order` 2 is the root of the sum of squares, 1 the sum.
    """
    value, sides = e.value, [child.bounds(level) for child in e.children]
    if any(bounds is None for bounds in sides):
        if stderr is None:
            return Estimate.bare(value, e.n, "a child has no interval")
        reach = t_quantile((1 + level) / 2, max(1, e.n - len(e.children))) * stderr
        return Estimate(value, stderr, value - reach, value + reach, e.n, method, level=level)
    down, up = (np.abs(e.values - [bounds[side] for bounds in sides if bounds]) for side in (0, 1))
    low = value - float(np.linalg.norm(slopes * np.where(slopes >= 0, down, up), order))
    high = value + float(np.linalg.norm(slopes * np.where(slopes >= 0, up, down), order))
    return Estimate(value, stderr, low, high, e.n, method, level=level)


_of_children = partial(IntervalMethod, of="children")
for _method in (
    _of_children(
        "confidence sequences",
        "a mean with a child that was stopped by its own scores (`--until`): its interval holds however often one looks",
        lambda e: e.is_mean and any(child.estimate.basis is Basis.LOOKS for child in e.children),
        _sequences,
        rank=100,
    ),
    _of_children(
        "shared docs",
        "a mean of children that have docs in common, where each doc's value is known",
        lambda e: e.is_mean and bool(e.shared()) and all(child.docs is not None for child in e.children),
        _stratified,
        rank=110,
    ),
    _of_children("combined", "a mean of independent children", lambda e: e.is_mean, _combined, rank=120),
    _of_children(
        "replicates of a mean",
        "a mean of children that may have docs in common, where their replicates vary",
        lambda e: e.is_mean,
        lambda e, level: bootstrap_estimate(e.value, e.draws(), e.n, units=e.units, level=level) if e.spread else None,
        rank=130,
    ),
    _of_children("added up", "a mean of children that may all move together", lambda e: e.is_mean, _added_up, rank=140),
    _of_children("Šidák", "the smallest or the largest child", lambda e: e.is_extreme, _extreme, rank=150),
    _of_children(
        "Šidák by rank",
        "a number that never falls when a child rises, where choosing among the children biases replicates",
        lambda e: not e.rule.on_samples,
        _ranked,
        rank=160,
    ),
    _of_children(
        "beyond a threshold",
        "a mean of the independent children beyond a threshold",
        lambda e: e.rule.linear and e.mask is not None and e.threshold is not None,
        _beyond_threshold,
        rank=165,
    ),
    _of_children("replicates", "any number, where its replicates vary", lambda e: True, _varying, rank=170),
    _of_children("delta", "any number of children with standard errors", lambda e: True, _delta, rank=180),
):
    INTERVAL_METHODS.add(_method.name, _method)
