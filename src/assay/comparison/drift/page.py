"""A drift as one HTML page: KL of each part with its interval, on a logarithmic axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from assay.comparison.drift.engine import Drift, DriftPart
from assay.comparison.drift.render import drift_legend, part_cells, small
from assay.comparison.templating import page_template


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
