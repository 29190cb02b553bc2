"""A results file as rows: the one place that decides order, indentation and wording for every table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from assay.report.withheld import withheld_in
from assay.stats import Estimate


@dataclass(frozen=True)
class Row:
    """One number of one task or group."""

    depth: int
    name: str
    alias: str
    kind: str
    metric: str
    filter: str
    estimate: Estimate
    higher_is_better: bool | None
    shots: int | None
    marks: tuple[str, ...] = ()
    aggregator: str | None = None
    withheld: str | None = None
    """Why the number must not be used; the estimate is then undefined for this reason, and nobody shows it by mistake."""
    first: bool = True
    """Whether this is the node's first row: the name is shown once."""

    @property
    def arrow(self) -> str:
        return {True: "↑", False: "↓", None: ""}[self.higher_is_better]

    @property
    def value_text(self) -> str:
        if self.withheld:
            return "withheld"
        return "undefined" if self.estimate.value is None else format_number(self.estimate.value)

    @property
    def stderr_text(self) -> str:
        return "" if self.estimate.stderr is None else f"± {format_number(self.estimate.stderr)}"

    @property
    def interval_text(self) -> str:
        low, high = self.estimate.low, self.estimate.high
        return "" if low is None or high is None else f"[{format_number(low)}, {format_number(high)}]"

    @property
    def note(self) -> str:
        return "; ".join(part for part in (*self.marks, self.estimate.undefined) if part)


def format_number(value: float) -> str:
    """Four decimals for scores, four figures for anything large.

    >>> format_number(0.25), format_number(12345.678), format_number(float("nan"))
    ('0.2500', '1.235e+04', 'nan')
    """
    return f"{value:.4f}" if abs(value) < 1000 or value != value else f"{value:.4g}"


def rows_of(data: dict[str, Any]) -> Iterator[Row]:
    """Rows of a results file in the order of its tree. A task in several groups appears under each."""
    block = data["assay"]
    withheld = withheld_in(block)
    for node in block["tree"]:
        name = node["name"]
        entries = block["estimates"].get(name, {})
        health = block["health"].get(name, {})
        marks = tuple(health.get("marks", ()))
        shared = {
            "depth": node["depth"],
            "name": name,
            "alias": node.get("alias") or name,
            "kind": node["kind"],
            "shots": data["n-shot"].get(name),
        }
        if not entries:
            empty = Estimate.missing("")
            yield Row(**shared, metric="", filter="", estimate=empty, higher_is_better=None, marks=marks)
        for position, (key, entry) in enumerate(entries.items()):
            metric, _, filter_name = key.rpartition(",")
            reason = withheld.get((name, key))
            yield Row(
                **shared,
                metric=metric,
                filter=filter_name,
                estimate=Estimate.missing(reason, entry["n"]) if reason else estimate_of(entry),
                higher_is_better=entry.get("higher_is_better"),
                marks=marks if position == 0 else (),
                aggregator=entry.get("aggregator"),
                withheld=reason,
                first=position == 0,
            )


def estimate_of(entry: dict[str, Any]) -> Estimate:
    return Estimate(
        value=entry["value"],
        stderr=entry["stderr"],
        low=entry["low"],
        high=entry["high"],
        n=entry["n"],
        method=entry["method"],
        undefined=entry.get("undefined"),
        level=entry.get("level", 0.95),
    )
