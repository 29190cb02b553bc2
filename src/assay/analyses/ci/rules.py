"""One rule of `assay.yaml` on the docs sent so far: holds, does not, or cannot tell yet.

Half of the error rate is for looking while docs come in (confidence sequences, valid at every look), half for the last look
at what the budget bought, where the sharper interval for a fixed number of docs may be used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from assay.analyses.compare import CompareOptions
from assay.analyses.gate import GateCheck
from assay.analyses.noise_file import NoiseFile
from assay.config import CIConfig, CIRule
from assay.finished import DocColumn, Run, align, is_higher_better
from assay.stats import (
    ConfidenceSequence,
    Floats,
    GateResult,
    above_threshold,
    mean_estimate,
    non_inferiority,
    paired_difference,
    rescaled,
    sums_by,
    unit_index,
    unit_keys,
    widened,
)

NARROWEST, WIDEST = 0.002, 0.25
NEAREST, USUAL = 0.01, 0.05
"""The least distance of a score from its limit that bets are made for, and the one where there is no baseline."""
NOT_YET = "no docs in common with the baseline yet"


@dataclass(frozen=True)
class RuleEvidence:
    """The docs of one task so far, in the order of asking, under one metric."""

    task: str
    column: DocColumn
    baseline: DocColumn | None
    place: Mapping[int, int]
    """Doc id to its place in the order of asking."""
    noise: NoiseFile | None = None
    largest: int = 1
    """Docs in the largest unit of the task, sent or not: bets must not depend on docs that come later."""

    def __post_init__(self) -> None:
        """Only docs with a score, and in the order of asking."""
        scored = self.column.scored()
        order = np.argsort([self.place.get(int(doc), 0) for doc in scored.doc_ids], kind="stable")
        object.__setattr__(self, "column", scored.take(order))

    @property
    def units(self) -> NDArray[np.int64] | None:
        return unit_index(unit_keys(self.column.docs, self.column.clusters))

    def paired(self) -> tuple[RuleEvidence, Floats]:
        """The docs that the baseline has too, and its scores of them. Docs are paired by content, also where prompts
        differ: a changed template is a change that a gate must see."""
        assert self.baseline is not None
        before = self.baseline.scored()
        at, at_before = align(self.column, before).shared
        return replace(self, column=self.column.take(at)), before.values[at_before]


def decide(rule: CIRule, evidence: RuleEvidence, alpha: float, *, last: bool) -> GateCheck:
    """What the rule says of these docs; at the `last` look by the interval for so many docs."""
    options = CompareOptions(margin=rule.limit, alpha=alpha)
    if rule.needs_baseline and evidence.baseline is None:
        why = f"the baseline has no {evidence.column.key} of this task"
        return replace(GateCheck.failed(evidence.task, None, why, options), rule=rule.text)
    check = {"not worse": _not_worse, "at least": _at_least, "newly wrong": _newly_wrong}[rule.kind]
    # What passes must do so on half of the error rate, at looks and at the last one alike.
    found = check(rule.limit, evidence, alpha / 2, last)
    return replace(found, rule=rule.text, result=replace(found.result, alpha=alpha))


def _at_least(limit: float, evidence: RuleEvidence, alpha: float, last: bool) -> GateCheck:
    values, up = evidence.column.values, is_higher_better(evidence.column)
    if len(values) < 2:
        return _nothing(evidence, "too few docs have a score", limit, alpha)
    estimate = mean_estimate(values, evidence.units, level=1 - 2 * alpha)
    row = None if evidence.noise is None else evidence.noise.row(evidence.task, evidence.column.key)
    floor = 0.0 if row is None else row.serving.floor / 2
    bounds = None if estimate.low is None or estimate.high is None else (estimate.low, estimate.high)
    if not last:
        bounds = _anytime(values, evidence.units, _distance(limit, evidence), alpha, evidence.largest)
    if row is not None and bounds is not None:
        bounds = widened(float(values.mean()), lambda _: bounds, float("inf"), row.serving, 1, 1 - 2 * alpha)
    known = estimate if last else None
    result = above_threshold(bounds, limit, alpha=alpha, higher_is_better=up, estimate=known, floor=floor)
    return GateCheck(evidence.task, evidence.column.key, result, "threshold", estimate.value, None, len(values))


def floor_checks(config: CIConfig, run: Run) -> list[GateCheck]:
    """Whether the benchmark's own floors are as low as its author wants: each on the docs that were sent."""
    options = CompareOptions(alpha=config.alpha)
    checks = []
    for name, allowed in config.floors.items():
        for task in run.result.tasks.values():
            text = f"floor {name}: at most {allowed.limit:g}{' above chance' if allowed.above_chance else ''}"
            found = next(
                ((key, score.floors[name]) for key, score in task.scores.items() if name in score.floors), None
            )
            chance = task.health.chance.accuracy if task.health.chance is not None else None
            if found is None or (allowed.above_chance and chance is None):
                missing = "it has no such floor" if found is None else "guessing has no accuracy here"
                checks.append(replace(GateCheck.failed(task.name, None, missing, options), rule=text))
                continue
            key, estimate = found
            limit = allowed.limit + (chance or 0.0) * allowed.above_chance
            bounds = rescaled(estimate, 1 - 2 * config.alpha)
            result = above_threshold(bounds, limit, alpha=config.alpha, higher_is_better=False, estimate=estimate)
            checks.append(GateCheck(task.name, key, result, "threshold", estimate.value, None, estimate.n, text))
    return checks


def _distance(limit: float, evidence: RuleEvidence) -> float:
    """How far from the limit the score is likely to lie, by what was known before the first doc: the docs themselves must not say
    how much is bet on them."""
    before = None if evidence.baseline is None else evidence.baseline.scored().values
    return USUAL if before is None or len(before) == 0 else max(NEAREST, abs(limit - float(before.mean())))


def _not_worse(margin: float, evidence: RuleEvidence, alpha: float, last: bool) -> GateCheck:
    here, before = evidence.paired()
    now, up, key = here.column.values, is_higher_better(here.column), here.column.key
    if len(now) < 2:
        return _nothing(evidence, NOT_YET, -margin, alpha)
    difference = paired_difference(before, now, here.units)
    if not last:
        sums = (1 + now - before) / 2
        bounds = _anytime(sums, here.units, margin / 2, alpha, evidence.largest)
        ends = None if bounds is None else (2 * bounds[0] - 1, 2 * bounds[1] - 1)
        said: Callable[[float], tuple[float, float]] | None = None if ends is None else partial(_fixed, ends)
        if said is None:
            return _nothing(evidence, "scores outside [0, 1] are decided at the last look only", -margin, alpha)
        difference = replace(difference, interval=said, cautious=None)
    if evidence.noise is not None:
        difference, _ = evidence.noise.add_to(difference, evidence.task, key)
    margin = CompareOptions(margin=margin).margin_for(difference.a, difference.b)
    result = non_inferiority(difference, margin, alpha=alpha, higher_is_better=up)
    return GateCheck(evidence.task, key, result, "paired", difference.b, difference.a, len(now))


def _fixed(ends: tuple[float, float], level: float) -> tuple[float, float]:
    return ends


def _newly_wrong(limit: float, evidence: RuleEvidence, alpha: float, last: bool) -> GateCheck:
    here, before = evidence.paired()
    now = here.column.values
    if len(now) < 2:
        return _nothing(evidence, NOT_YET, limit, alpha)
    lost = (now < before) if is_higher_better(here.column) else (now > before)
    values = lost.astype(np.float64)
    estimate = mean_estimate(values, here.units, level=1 - 2 * alpha)
    bounds = None if estimate.low is None or estimate.high is None else (estimate.low, estimate.high)
    if not last:
        bounds = _anytime(values, here.units, limit / 2, alpha, evidence.largest)
    known = estimate if last else None
    result = above_threshold(bounds, limit, alpha=alpha, higher_is_better=False, estimate=known)
    return GateCheck(evidence.task, here.column.key, result, "newly wrong", estimate.value, None, len(now))


def _nothing(evidence: RuleEvidence, why: str, limit: float, alpha: float) -> GateCheck:
    result = GateResult(False, None, limit, alpha, unclear=True)
    return GateCheck(evidence.task, evidence.column.key, result, why, None, None, 0)


def _anytime(
    values: Floats, units: NDArray[np.int64] | None, width: float, alpha: float, largest: int
) -> tuple[float, float] | None:
    """An interval that is valid at every look; None for scores that are not in [0, 1]."""
    if len(values) == 0 or not (values.min() >= 0 and values.max() <= 1):
        return None
    sums, sizes = values, np.ones(len(values))
    if units is not None:
        sums, sizes = sums_by(units, values), sums_by(units, np.ones(len(values)))
    wanted = min(WIDEST, max(NARROWEST, width))
    sequence = ConfidenceSequence(width=wanted, level=1 - 2 * alpha, largest=max(largest, int(sizes.max())))
    sequence.update(sums, sizes)
    return sequence.interval
