"""What `assay ci` can detect with its budget, said beforehand."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from assay.analyses.ci.execution import CIPlan, means_of
from assay.config import CIRule
from assay.results import matching
from assay.show import Column, Findings, Table, kinds
from assay.show.kinds import Name
from assay.stats import normal_quantile

CORRELATION = 0.5
POWER = 0.8


@dataclass(frozen=True)
class Prospect:
    """One rule on one task."""

    rule: str
    task: str
    docs: int
    """That the budget allows."""
    needed: int | None
    """To pass a model that is as good as the baseline, in 80 % of cases; None where no number would do."""
    shows: float
    """The distance from the limit that so many docs show in 80 % of cases."""
    words: str


class Prospects(tuple[Prospect, ...]):
    """Of every rule on every task that it is about."""

    def to_dict(self) -> list[dict[str, Any]]:
        return [asdict(each) for each in self]


PROSPECTS: tuple[Column[Prospect], ...] = (
    Column("task", kinds.NAME, lambda each: Name(each.task), shrinks=True),
    Column("rule", kinds.TEXT, lambda each: each.rule, shrinks=True),
    Column("docs", kinds.COUNT, lambda each: each.docs),
    Column("needed", kinds.COUNT, lambda each: each.needed, rank=1, moves=True),
    Column("can show", kinds.NUMBER, lambda each: each.shows, "shows", rank=2, moves=True),
)


def prospect_findings(prospects: Prospects) -> Findings:
    said = (
        "At 80 % power; models are assumed to correlate by 0.5 over docs. Time and cost may allow fewer docs. "
        "Nothing was sent."
    )
    table = Table.of(PROSPECTS, prospects, row=lambda each: {"note": each.words})
    return Findings("What the budget can detect", tables=(table,), notes=(said,), result=prospects)


def explain_ci(plan: CIPlan) -> Prospects:
    """By the baseline's own variance where there is one; models are assumed to correlate by 0.5 over docs."""
    return Prospects(_prospect(plan, task, rule) for task in plan.docs for rule in plan.rules_of(task))


def _prospect(plan: CIPlan, task: str, rule: CIRule) -> Prospect:
    mean = _baseline_mean(plan, task, rule)
    p = 0.5 if mean is None or not 0 < mean < 1 else mean
    n = plan.most(task)
    # The last look has half of the error rate.
    reach = normal_quantile(1 - plan.config.alpha / 2) + normal_quantile(POWER)
    rows = [] if plan.noise is None else [each for each in plan.noise.rows if each.name == task]
    row = next((each for each in rows if rule.metric is None or matching(rule.metric, [each.key])), None)
    floor = 0.0 if row is None else row.serving.floor
    if rule.kind == "not worse":
        variance, distance = 2 * (1 - CORRELATION) * p * (1 - p), rule.limit
    elif rule.kind == "at least":
        variance, distance, floor = p * (1 - p), abs((mean if mean is not None else 1.0) - rule.limit), floor / 2
    else:
        variance, distance, floor = rule.limit * (1 - rule.limit), rule.limit / 2, 0.0
    shows = reach * math.sqrt(variance / max(1, n) + floor)
    room = (distance / reach) ** 2 - floor
    needed = math.ceil(variance / room) if room > 0 else None
    same = None
    if rule.kind == "not worse" and not floor:
        # A score interval without a loss reaches z²/(n + z²).
        same = math.ceil(normal_quantile(1 - plan.config.alpha / 2) ** 2 * (1 - rule.limit) / rule.limit)
    words = _words(rule, mean, n, needed, same, shows)
    if (largest := plan.docs[task].largest) > 1:
        words += f"; docs come in clusters of up to {largest:,}, which tell less than docs that stand alone"
    return Prospect(rule.text, task, n, needed, shows, words)


def _words(rule: CIRule, mean: float | None, n: int, needed: int | None, same: int | None, shows: float) -> str:
    enough = needed is not None and needed <= n
    takes = (
        "would not be decided by any number of docs: it lies at the limit, or serving noise hides it"
        if needed is None
        else f"needs about {needed:,} docs to pass"
    )
    if rule.kind == "not worse":
        told = f"{n:,} docs tell a loss of {rule.limit + shows:.3f} or more from one of {rule.limit:g}"
        if enough:
            return f"{told}; a model that is as good passes"
        if same is None:
            return f"{told}; a model that is as good {takes}"
        alike = "passes" if same <= n else f"needs {same:,} docs to pass"
        return f"{told}; a model with the same answers {alike}; one that is as good but answers otherwise {takes}"
    if rule.kind == "at least":
        above, below = rule.limit + shows, rule.limit - shows
        ends = [f"above {above:.3f}"] if above <= 1 or rule.limit > 1 else []
        ends += [f"below {below:.3f}"] if below >= 0 else []
        told = f"{n:,} docs decide on scores {' or '.join(ends)}" if ends else f"{n:,} docs are too few for any score"
        here = "" if mean is None else f"; a model like the baseline ({mean:.3f}) {'is decided' if enough else takes}"
        return told + here
    told = f"{n:,} docs tell a share above {rule.limit + shows:.3f} from one of {rule.limit:g}"
    return f"{told}; a model that loses half of what is allowed {'passes' if enough else takes}"


def _baseline_mean(plan: CIPlan, task: str, rule: CIRule) -> float | None:
    if plan.baseline is None or task not in plan.baseline.tasks:
        return None
    columns = plan.baseline.columns(task)
    means = means_of(plan.baseline, task)
    keys = means if rule.metric is None else matching(rule.metric, means)
    values = columns[keys[0]].scored().values if keys else np.empty(0)
    return float(values.mean()) if len(values) else None
