"""What the page that compares runs shows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from assay.analyses.compare import compare_runs
from assay.finished import Run, open_run
from assay.results import MetricKey, write_key
from assay.show import Axis
from assay.view.background import PATIENCE, Work
from assay.view.site import PageValues, Site, several_runs_page


@dataclass(frozen=True)
class Compared:
    """Rows ready to show."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    refusals: list[dict[str, str]] = field(default_factory=list)
    tests: int = 0


def compare(directories: Sequence[str], opened: Callable[[str], Run] = open_run) -> Compared:
    comparisons = compare_runs([opened(directory) for directory in directories])
    rows = [plain_row(row, number) for number, comparison in enumerate(comparisons) for row in comparison.rows]
    refusals = [{"name": r.name, "reason": r.reason} for comparison in comparisons for r in comparison.refusals]
    return Compared(rows, refusals, max((comparison.family for comparison in comparisons), default=0))


class OpenedRuns:
    """Opens runs once and keeps what is read of them: where small runs are compared each with each."""

    def __init__(self) -> None:
        self._runs: dict[str, Run] = {}

    def __call__(self, directory: str) -> Run:
        if directory not in self._runs:
            run = open_run(directory)
            self._runs[directory] = replace(run, read_columns=cache(run.columns))
        return self._runs[directory]


def plain_row(row: Any, number: int) -> dict[str, Any]:
    difference, estimate = row.difference, row.difference.estimate
    return {
        "against": number + 1,
        "name": row.name,
        "alias": row.alias,
        "kind": row.kind,
        "depth": row.depth,
        "metric": row.key.metric,
        "filter": row.key.filter,
        "a": difference.a,
        "b": difference.b,
        "value": estimate.value,
        "stderr": estimate.stderr,
        "low": estimate.low,
        "high": estimate.high,
        "n": estimate.n,
        "method": estimate.method,
        "p": difference.p_value,
        "p_adjusted": row.p_adjusted,
        "gained": difference.gained,
        "lost": difference.lost,
        "verdict": None if row.verdict is None else row.verdict.kind,
        "verdict_text": None if row.verdict is None else str(row.verdict),
        "higher_is_better": row.higher_is_better,
        "paired": row.paired,
        "notes": list(row.notes),
    }


def compare_page(
    site: Site,
    run_ids: Sequence[str],
    key: str = "",
    patience: float = PATIENCE,
    work: Work[Compared] = compare,
) -> PageValues:
    """Every further run against the first. `key` is the text of one of the comparison's own metrics, or shows all."""
    context = several_runs_page(site, run_ids, work, patience)
    compared = context["found"].value or Compared()
    keys = {write_key(key_of(row)): key_of(row) for row in compared.rows}
    shown = [row for row in compared.rows if keys.get(key) in (None, key_of(row))]
    return context | {
        "compared": compared,
        "keys": list(keys),
        "key": key if key in keys else "",
        "rows": forest(shown, len(context["runs"])),
    }


def key_of(row: Mapping[str, Any]) -> MetricKey:
    return MetricKey(row["metric"], row["filter"])


def forest(rows: Sequence[dict[str, Any]], runs: int) -> list[dict[str, Any]]:
    """One line per node and metric; for each further run its value, difference and where that lies on the metric's axis.

    Each metric has an axis of its own: on that of a perplexity, accuracies would all be zero.
    """
    reaches = {
        metric: reach_of(row for row in rows if row["metric"] == metric) for metric in {r["metric"] for r in rows}
    }
    lines: dict[tuple[str, MetricKey], dict[str, Any]] = {}
    for row in rows:
        reach = reaches[row["metric"]]
        axis = Axis(-reach, reach)
        fresh = {**row, "reach": reach, "others": [None] * (runs - 1), "marks": [None] * (runs - 1)}
        line = lines.setdefault((row["name"], key_of(row)), fresh)
        line["others"][row["against"] - 1] = row
        line["marks"][row["against"] - 1] = {
            side: None if row[side] is None else axis.percent(row[side]) for side in ("low", "value", "high")
        }
    last = None
    for line in lines.values():
        line["first"] = line["name"] != last
        last = line["name"]
    return list(lines.values())


def reach_of(rows: Iterable[Mapping[str, Any]]) -> float:
    """How far from zero the axis of a metric goes."""
    ends = [abs(row[side]) for row in rows for side in ("low", "value", "high") if row[side] is not None]
    return 1.05 * (max((end for end in ends if math.isfinite(end)), default=0.0) or 1.0)
