"""A drift as a table, as JSON and as an HTML page, and what to know beside it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from assay.analyses.compare import page_template
from assay.analyses.drift.engine import Drift, DriftPart
from assay.show import Column, FittedTable
from assay.stats import Estimate
from assay.terminal_text import one_line

_TITLES = {"all": "", "domain": "domain", "position": "position"}


def drift_table(drift: Drift) -> FittedTable:
    columns = [
        Column("", shrinks=True),
        Column("KL(A‖B), nats" if drift.is_exact else "KL(A‖B) at least", right=True),
        Column("95 % interval", right=True),
        Column("same top token", right=True, rank=1),
        Column("entropy A", right=True, rank=4),
        Column("B − A", right=True, rank=4),
        Column("tokens", right=True, rank=2),
        Column("texts", right=True, rank=3),
    ]
    table = FittedTable(columns, title=f"A {one_line(drift.a)}\nB {one_line(drift.b)}")
    kind = "all"
    for part in drift.parts:
        if part.kind != kind:
            table.section()
        kind = part.kind
        table.add([one_line(cell) for cell in part_cells(part)])
    return table


def part_cells(part: DriftPart) -> tuple[str, ...]:
    return (
        f"{_TITLES[part.kind]} {part.name}".strip(),
        small(part.kl.value),
        interval(part.kl),
        share(part.same_first),
        small(part.entropy.value),
        small(part.entropy_change.value, signed=True),
        f"{part.tokens:,}",
        f"{part.texts:,}",
    )


def small(value: float | None, *, signed: bool = False) -> str:
    """Three digits that count, as drifts span ten powers of ten.

    >>> small(0.0), small(0.00123456), small(3.2e-9), small(-0.5, signed=True)
    ('0', '0.00123', '3.2e-09', '-0.5')
    """
    if value is None:
        return ""
    if value == 0:
        return "0"
    return f"{value:+.3g}" if signed else f"{value:.3g}"


def interval(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return ""
    return f"[{small(max(0.0, estimate.low))}, {small(estimate.high)}]"


def share(estimate: Estimate) -> str:
    return "" if estimate.value is None else f"{estimate.value:.2%}"


def drift_legend(drift: Drift) -> Iterator[str]:
    """What the reader must know beside the table."""
    yield "Means over tokens; intervals treat the tokens of one text as a cluster."
    if drift.whole.kl.low is None:
        yield f"No interval for the mean KL: {drift.whole.kl.method}."
    if not drift.is_exact:
        yield "The server lists only its most likely tokens, so KL is a lower bound (all other tokens count as one); there is no upper bound."
    if drift.variation is not None and drift.variation[0].value is not None and drift.variation[1].value is not None:
        low, high = drift.variation
        yield f"Total variation between {small(low.value)} and {small(high.value)}; at 95 % between {small(max(0.0, low.low or 0.0))} and {small(high.high)}."
    if drift.continued is not None and drift.continued.value is not None:
        where = (
            ""
            if drift.first_difference is None
            else f"; those that do, differ from word {drift.first_difference:g} on (median)"
        )
        yield f"Greedy continuations that differ: {drift.continued.value:.1%} of {drift.continued.n}{where}."
    if drift.verdict is not None and drift.max_kl is not None:
        words = {"within": "PASS: within", "beyond": "FAIL: beyond", "open": "CANNOT TELL: neither within nor beyond"}
        reach = (
            "no interval"
            if drift.bounds is None
            else f"95 % bounds {small(max(0.0, drift.bounds[0]))} and {small(drift.bounds[1])}"
        )
        yield f"{words[drift.verdict]} --max_kl {drift.max_kl:g} ({reach})"


def _plain(estimate: Estimate | None) -> dict[str, Any] | None:
    names = ("value", "stderr", "low", "high", "n")
    return None if estimate is None else {name: getattr(estimate, name) for name in names}


def drift_json(drift: Drift) -> str:
    estimates = ("kl", "same_first", "entropy", "entropy_change")
    data = {
        "a": drift.a,
        "b": drift.b,
        "exact": drift.is_exact,
        "parts": [
            {
                "kind": part.kind,
                "name": part.name,
                "tokens": part.tokens,
                "texts": part.texts,
                **{name: _plain(getattr(part, name)) for name in estimates},
            }
            for part in drift.parts
        ],
        "total_variation": None if drift.variation is None else [_plain(each) for each in drift.variation],
        "continuations_that_differ": _plain(drift.continued),
        "max_kl": drift.max_kl,
        "bounds": drift.bounds,
        "verdict": drift.verdict,
    }
    return json.dumps(data, ensure_ascii=False, indent=1)


@dataclass(frozen=True)
class DriftMark:
    """One row; places are percent of the width."""

    part: DriftPart
    cells: tuple[str, ...]
    left: float | None
    right: float | None
    dot: float | None


@dataclass(frozen=True)
class LogAxis:
    """Powers of ten that hold all ends. What is zero, or reaches below, begins at the left edge."""

    low: int
    high: int

    @classmethod
    def around(cls, drifts: Sequence[Drift]) -> LogAxis:
        parts = [part for drift in drifts for part in drift.parts]
        ends = [end for part in parts for end in (part.kl.value, part.kl.high) if end is not None and end > 0]
        ends += [drift.max_kl for drift in drifts if drift.max_kl]
        if not ends:
            return cls(-6, 0)
        return cls(math.floor(math.log10(min(ends))) - 1, math.ceil(math.log10(max(ends)) + 1e-9))

    def percent(self, value: float | None) -> float | None:
        if value is None:
            return None
        if value <= 0:
            return 0.0
        return min(100.0, max(0.0, 100 * (math.log10(value) - self.low) / (self.high - self.low)))

    @property
    def text(self) -> str:
        return f"1e{self.low} … 1e{self.high}"


def drift_page(drifts: Sequence[Drift]) -> str:
    axis = LogAxis.around(drifts)
    sections = []
    for drift in drifts:
        marks = [
            DriftMark(
                part,
                part_cells(part),
                axis.percent(part.kl.low),
                axis.percent(part.kl.high),
                axis.percent(part.kl.value),
            )
            for part in drift.parts
        ]
        sections.append((drift, marks, list(drift_legend(drift)), axis.percent(drift.max_kl)))
    return page_template("drift.html", small=small).render(sections=sections, axis=axis)
