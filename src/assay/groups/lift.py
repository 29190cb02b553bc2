"""The error bar of a group's number: what its members know of themselves, given to the methods of `assay.stats`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from assay.groups.aggregators import ArrayAggregator
from assay.groups.members import Floats, Member, Select, draw_table
from assay.results import Score
from assay.stats import (
    ChildEvidence,
    Estimate,
    all_docs,
    distinct_docs,
    ends,
    estimate_from_children,
    extreme_end,
    extreme_replicates,
    pooled_stderr,
    share_docs,
    summed_replicates,
    unweighted_stderr,
)

Keys = NDArray[np.uint64]
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
    scores = [member.score for member in members]

    @cache
    def draw() -> Floats:
        if aggregator.linear and select is None and weights.sum() > 0:
            return summed_replicates([score.draws for score in scores], weights / weights.sum())
        if aggregator.extreme is not None and select is None:
            return extreme_replicates(aggregator.extreme, [score.draws for score in scores])
        table = draw_table(members)
        if not len(table):
            return np.empty(0)  # a child has no replicates
        return aggregator.combine(table, weights, None if select is None else select(True))

    known: list[Keys] = []

    @cache
    def shared() -> bool | None:
        if len(scores) < 2:
            return False
        parts = [keys for score in scores if (keys := score.doc_keys) is not None]
        return None if len(parts) < len(scores) else share_docs(parts, known)

    evidence = ChildEvidence(
        aggregator,
        [member.name for member in members],
        scores,
        weights,
        count_docs(scores),
        shared,
        draw,
        None if select is None else select(False),
        None if select is None else select.by_rank,
    )
    is_linear = aggregator.linear and select is None
    return Lifted(
        estimate_from_children(evidence),
        draw,
        lambda level: ends(estimate_from_children(evidence, level)),
        _lm_eval_stderr(members, weights, by_size=by_size) if is_linear else None,
        cache(partial(extreme_end, aggregator.extreme, scores)) if evidence.is_extreme and aggregator.extreme else None,
        lambda: known[0] if known else docs_below(scores),
    )


def count_docs(scores: Sequence[Score]) -> int:
    """How many docs the number rests on: one that two children have is one doc, also where only one of them has clusters."""
    docs = documents_below(scores) if len(scores) > 1 else None
    return sum(score.estimate.n for score in scores) if docs is None else len(docs)


def documents_below(scores: Sequence[Score]) -> Keys | None:
    """The docs behind these numbers, each as often as the child that has it most often; None where one does not tell."""
    parts = [docs for score in scores if score.documents is not None and (docs := score.documents()) is not None]
    return all_docs(parts) if parts and len(parts) == len(scores) else None


def docs_below(scores: Sequence[Score]) -> Keys | None:
    """The docs behind any of these numbers, each once; None where one does not tell."""
    parts = [keys for score in scores if (keys := score.doc_keys) is not None]
    return distinct_docs(parts) if parts and len(parts) == len(scores) else None


def _lm_eval_stderr(members: Sequence[Member], weights: Floats, *, by_size: bool) -> float | None:
    """lm-evaluation-harness takes members for independent, and pools variances where they count by size."""
    theirs = [member.score.estimate.stderr for member in members]
    known = [s if m.score.lm_eval_stderr is None else m.score.lm_eval_stderr for m, s in zip(members, theirs)]
    errors = [error for error in known if error is not None]
    if len(errors) < len(members) or any(m.score.estimate.n < (m.score.asked or m.score.size) for m in members):
        return None
    if by_size:
        return pooled_stderr(errors, [m.sent for m in members])
    return unweighted_stderr(errors) if np.ptp(weights) == 0 else None
