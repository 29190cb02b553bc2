"""A result as rows: the one place that decides order, indentation and wording for every table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from assay.results.health import Health
from assay.results.keys import MetricKey
from assay.results.nodes import GroupResult, TaskResult
from assay.results.run_result import RunResult
from assay.results.scores import GroupScore, Share
from assay.stats import Estimate

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class TableRow:
    """One number of one task or group."""

    depth: int
    name: str
    alias: str
    kind: str
    key: MetricKey | None
    """None for a node without numbers."""
    estimate: Estimate
    higher_is_better: bool | None
    shots: int | None
    marks: tuple[str, ...] = ()
    aggregator: str | None = None
    members: tuple[Share, ...] = ()
    """Of a group: the members that entered, with their weights where they count."""
    missing: tuple[str, ...] = ()
    """Of a group: members whose number is undefined; not those that have no such metric."""
    withheld: str | None = None
    """Why the number must not be used; the estimate is then undefined for this reason, and nobody shows it by mistake."""
    first: bool = True
    """Whether this is the node's first row: the name is shown once."""
    chance: float | None = None
    """The accuracy of guessing, where the number is an accuracy."""
    floors: tuple[tuple[str, float], ...] = ()
    """What the number would be without the ability, by name."""
    floor_mark: str = ""
    gold_checked: Estimate | None = None
    """The number under the right gold answers, as far as people checked them."""

    @property
    def metric(self) -> str:
        return "" if self.key is None else self.key.metric

    @property
    def filter(self) -> str:
        return "" if self.key is None else self.key.filter

    @property
    def arrow(self) -> str:
        return {True: "↑", False: "↓", None: ""}[self.higher_is_better]

    @property
    def value_text(self) -> str:
        if self.withheld:
            return "withheld"
        return "undefined" if self.estimate.value is None else format_number(self.estimate.value)

    @property
    def made_of(self) -> str:
        """How a group's number was made: `harmonic mean of 3`, `mean of 2, weighted`."""
        if self.aggregator is None or not self.members:
            return ""
        weights = {round(each.weight, 9) for each in self.members if each.weight is not None}
        weighted = ", weighted" if len(weights) > 1 and not self.aggregator.startswith("weighted") else ""
        without = f", without {', '.join(self.missing)}" if self.missing else ""
        return f"{self.aggregator.replace('_', ' ')} of {len(self.members)}{weighted}{without}"

    @property
    def blank(self) -> str:
        """Why a number has no interval, if it has none."""
        reason = self.estimate.withheld_reason
        return "" if reason is None else f"no interval: {reason}"

    @property
    def note(self) -> str:
        """What to know, and why there is no interval where there is none."""
        e = self.estimate
        return "; ".join(part for part in (*self.marks, e.caution, e.undefined or self.blank) if part)


def format_number(value: float) -> str:
    """Four decimals for scores, four figures for anything large.

    >>> format_number(0.25), format_number(12345.678), format_number(float("nan"))
    ('0.2500', '1.235e+04', 'nan')
    """
    return f"{value:.4f}" if abs(value) < 1000 or value != value else f"{value:.4g}"


def rows_of(result: RunResult) -> Iterator[TableRow]:
    """Rows in the order of the tree. A task in several groups appears under each."""
    shots = _shots(result)
    for depth, node in result.tree():
        known = shots(node.name)
        yield from _rows_of_node(node, depth, next(iter(known)) if len(known) == 1 else None)


def _shots(result: RunResult) -> Callable[[str], frozenset[int | None]]:
    """Of a task, or of all tasks below a group: the `n-shot` of lm-evaluation-harness's files looks only at those tasks
    that are direct children."""

    @cache
    def shots(name: str) -> frozenset[int | None]:
        if name in result.tasks:
            return frozenset({result.tasks[name].num_fewshot})
        children = result.groups[name].children if name in result.groups else ()
        return frozenset().union(*map(shots, children))

    return shots


def _rows_of_node(node: TaskResult | GroupResult, depth: int, num_fewshot: int | None) -> Iterator[TableRow]:
    kind = "group" if isinstance(node, GroupResult) else "task"
    health = node.health if isinstance(node, TaskResult) else None
    if not node.scores:
        marks = () if health is None else tuple(health.marks())
        nothing = Estimate.missing("")
        yield TableRow(depth, node.name, node.alias, kind, None, nothing, None, num_fewshot, marks)
    filters: set[str] = set()
    for position, (key, score) in enumerate(node.scores.items()):
        marks = ()
        if health is not None and key.filter not in filters:
            marks = tuple(health.filter_marks(key.filter) if position else health.marks(key.filter))
        filters.add(key.filter)
        if health is not None:
            half = score.estimate.half_width
            marks += (*health.score_marks(key), *health.bound_marks(key, None if half is None else 2 * half))
        marks += () if score.judge is None else (score.judge.mark,)
        marks += () if score.gold is None else (score.gold.mark,)
        marks += tuple(map(str, node.overlays)) if isinstance(node, TaskResult) and not position else ()
        yield TableRow(
            depth=depth,
            name=node.name,
            alias=node.alias,
            kind=kind,
            key=key,
            estimate=Estimate.missing(score.withheld, score.estimate.n) if score.withheld else score.estimate,
            higher_is_better=score.higher_is_better,
            shots=num_fewshot,
            marks=marks,
            aggregator=score.aggregation if kind == "group" else None,
            members=score.children if isinstance(score, GroupScore) else (),
            missing=_undefined(score) if isinstance(score, GroupScore) else (),
            withheld=score.withheld,
            first=position == 0,
            chance=_chance(health, key),
            floor_mark=score.floor_mark,
            gold_checked=None if score.gold is None or score.withheld else score.gold.estimate,
            floors=tuple((name, floor.value) for name, floor in score.floors.items() if floor.value is not None),
        )


def _chance(health: Health | None, key: MetricKey) -> float | None:
    if health is None or health.chance is None or not key.metric.startswith("acc"):
        return None
    return health.chance.accuracy


def _undefined(score: GroupScore) -> tuple[str, ...]:
    return tuple(name for name, reason in score.missing.items() if not reason.startswith("has no "))


def to_pandas(result: RunResult) -> pandas.DataFrame:
    """One row a number."""
    import pandas as pd

    rows = [
        {
            "name": row.name,
            "kind": row.kind,
            "depth": row.depth,
            "metric": row.metric,
            "filter": row.filter,
            "value": row.estimate.value,
            "stderr": row.estimate.stderr,
            "low": row.estimate.low,
            "high": row.estimate.high,
            "n": row.estimate.n,
            "method": row.estimate.method,
            "shots": row.shots,
            "higher_is_better": row.higher_is_better,
        }
        for row in rows_of(result)
        if row.key is not None
    ]
    return pd.DataFrame(rows)
