"""Scores over time: the runs of a directory ordered by date, or by an argument of their models such as `step`.

Whether a score changed from one run to the next is said by the paired comparison of the two, not by looking at intervals.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any

from assay.analyses.compare import compare_runs
from assay.finished import open_run
from assay.results import MetricKey, read_key, rows_of, write_key
from assay.show import Axis
from assay.stats import Estimate, holm
from assay.view.background import PATIENCE, Computed, attempt
from assay.view.library import RunSummary
from assay.view.render import when
from assay.view.site import NotFound, PageValues, Site

ALPHA = 0.05
MOST_RUNS = 60
"""Runs on one page, the last of them; each is compared with the one before it."""


@dataclass(frozen=True)
class Point:
    """A score of one run."""

    run: RunSummary
    label: str
    estimate: Estimate
    step: Mapping[str, Any] | None = None
    """The comparison with the run before it."""
    change: str = ""
    """`better`, `worse` or `changed` where the score is not what it was, corrected over the steps of its line."""
    x: float = 0.0
    y: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class TrendLine:
    """One task or group and metric over all runs that have it."""

    name: str
    alias: str
    kind: str
    depth: int
    key: MetricKey
    higher_is_better: bool | None
    points: tuple[Point, ...]
    axis: Axis

    @property
    def metric_text(self) -> str:
        """As the page of a comparison has it."""
        return self.key.metric if self.key.filter == "none" else f"{self.key.metric} ({self.key.filter})"

    @property
    def key_text(self) -> str:
        return write_key(self.key)

    @property
    def changes(self) -> list[Point]:
        return [point for point in self.points if point.change]


Step = dict[str, Any]
"""A row of a comparison, as plain values."""


def compare_steps(directories: Sequence[str]) -> list[Computed[list[Step]]]:
    """Each run against the one before it. Two that cannot be compared do not keep the others from it."""
    opened = cache(open_run)

    def work(pair: Sequence[str]) -> list[Step]:
        return [row.to_dict() for row in compare_runs([opened(each) for each in pair])[0].rows]

    return [attempt(work, pair) for pair in pairwise(directories)]


def trend_page(site: Site, params: Mapping[str, str], patience: float = PATIENCE) -> PageValues:
    """All lines, or the one that `name` and `key` ask for."""
    by = params.get("by", "") or "date"
    choices = site.choices()
    arguments = sorted({name for run in choices for name, _ in run.arguments})
    models = sorted({run.model for run in choices if label_of(run, by) is not None})
    model = params.get("model", "") if params.get("model", "") in models else ""
    runs = [run for run in choices if label_of(run, by) is not None and model in ("", run.model)]
    runs = sorted(runs, key=lambda run: (order_of(run, by), run.date))[-MOST_RUNS:]
    context: PageValues = {"by": by, "ways": ["date", *arguments], "models": models, "model": model, "runs": runs}
    context |= {"lines": [], "line": None, "problems": [], "pending": False}
    if len(runs) < 2:
        return context
    found = site.computed(compare_steps, runs, patience)
    steps = [] if found is None else [step.naming(site.names(runs)) for step in found.value or ()]
    lines = lines_of(site, runs, by, steps)
    if params.get("name"):
        wanted = read_key(params["key"]) if params.get("key") else None
        line = next((e for e in lines if e.name == params["name"] and wanted in (None, e.key)), None)
        if line is None:
            raise NotFound(f"No two of these runs have {params['name']!r}.")
        context["line"] = line
    problems = [(a, b, step.problem) for a, b, step in zip(runs, runs[1:], steps) if step.problem]
    return context | {"lines": lines, "pending": found is None, "problems": problems}


def label_of(run: RunSummary, by: str) -> str | None:
    """Where a run stands: its date, or the argument; None where its model was not given that."""
    return when(run.date) if by == "date" else dict(run.arguments).get(by)


def order_of(run: RunSummary, by: str) -> tuple[Any, ...]:
    """Numbers in a text count as numbers: step900 comes before step1000."""
    if by == "date":
        return (run.date,)
    parts = re.split(r"(\d+(?:\.\d+)?)", label_of(run, by) or "")
    return tuple((0, float(part), "") if i % 2 else (1, 0.0, part) for i, part in enumerate(parts))


def lines_of(site: Site, runs: Sequence[RunSummary], by: str, steps: Sequence[Computed[list[Step]]]) -> list[TrendLine]:
    """Tasks and groups in the order of the last run, each with the runs that have it, if those are two or more."""
    changes = [
        {(row["name"], MetricKey(row["metric"], row["filter"])): row for row in step.value or ()} for step in steps
    ]
    points: dict[tuple[str, MetricKey], list[Point]] = {}
    about: dict[tuple[str, MetricKey], Any] = {}
    for position, run in enumerate(runs):
        for row in rows_of(site.results_of(site.run_of(run.id))):
            if row.key is None or row.estimate.value is None:
                continue
            place = (row.name, row.key)
            if points.get(place) and points[place][-1].run is run:
                continue  # a task under several groups
            step = changes[position - 1].get(place) if 0 < position <= len(changes) else None
            points.setdefault(place, []).append(Point(run, label_of(run, by) or "", row.estimate, step))
            about[place] = row
    lines = []
    for place, row in about.items():
        if len(points[place]) > 1:
            marked = with_places(with_changes(points[place], row.higher_is_better))
            axis = close_axis([n for p in marked for n in (p.estimate.value, p.estimate.low, p.estimate.high)])
            lines.append(
                TrendLine(
                    row.name, row.alias, row.kind, row.depth, place[1], row.higher_is_better, drawn(marked, axis), axis
                )
            )
    return lines


def close_axis(ends: Sequence[float | None]) -> Axis:
    """What the intervals span and a little more, so that a step can be seen; a share stays between 0 and 1."""
    numbers = [n for n in ends if n is not None and math.isfinite(n)]
    low, high = min(numbers, default=0.0), max(numbers, default=1.0)
    margin = 0.1 * (high - low) or 0.1 * abs(high) or 0.1
    if low >= 0 and high <= 1:
        return Axis(max(0.0, low - margin), min(1.0, high + margin))
    return Axis(max(0.0, low - margin) if low >= 0 else low - margin, high + margin)


def with_changes(points: Sequence[Point], higher_is_better: bool | None) -> list[Point]:
    """Which steps are changes: their p-values are corrected for the number of steps (Holm)."""
    corrected = holm([None if point.step is None else point.step["p_value"] for point in points])
    marked = []
    for point, p in zip(points, corrected):
        change = ""
        if point.step is not None and p is not None and p < ALPHA and point.step["difference"]:
            rose = point.step["difference"] > 0
            change = "changed" if higher_is_better is None else "better" if rose == higher_is_better else "worse"
        step = None if point.step is None else {**point.step, "p_adjusted": p}
        marked.append(replace(point, change=change, step=step))
    return marked


def with_places(points: Sequence[Point]) -> list[Point]:
    """Places along the axis in percent: by number where all labels are numbers, else evenly."""
    numbers = [number_of(point.label) for point in points]
    known = [n for n in numbers if n is not None]
    even = len(known) < len(points) or len(set(known)) < len(known)
    at = [float(i) for i in range(len(points))] if even else known
    low, width = min(at), (max(at) - min(at)) or 1.0
    return [replace(point, x=4 + 92 * (n - low) / width) for point, n in zip(points, at)]


def number_of(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def drawn(points: Sequence[Point], axis: Axis) -> tuple[Point, ...]:
    def up(value: float | None) -> float | None:
        return None if value is None or not math.isfinite(value) else 100 - (axis.percent(value) or 0.0)

    return tuple(replace(p, y=up(p.estimate.value), low=up(p.estimate.low), high=up(p.estimate.high)) for p in points)


def trend_rows(context: PageValues) -> list[dict[str, Any]]:
    """For “Download what I see”."""
    lines = [context["line"]] if context["line"] is not None else context["lines"]
    return [
        {
            "name": line.name,
            "metric": line.key.metric,
            "filter": line.key.filter,
            context["by"]: point.label,
            "run": point.run.name,
            "model": point.run.model,
            "value": point.estimate.value,
            "stderr": point.estimate.stderr,
            "low": point.estimate.low,
            "high": point.estimate.high,
            "n": point.estimate.n,
            "difference": None if point.step is None else point.step["difference"],
            "difference_low": None if point.step is None else point.step["low"],
            "difference_high": None if point.step is None else point.step["high"],
            "p": None if point.step is None else point.step["p_value"],
            "change": point.change,
        }
        for line in lines
        for point in line.points
    ]
