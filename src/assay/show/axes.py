"""Where a number stands on an axis, in percent of its width; and one number with its interval, ready to be drawn."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from assay.stats import Estimate


def _short(value: float) -> str:
    """Two of these have room below a small plot.

    >>> _short(-41278.5), _short(0.379), _short(2.5e6), _short(1e-5), _short(3e14)
    ('-41.3k', '0.379', '2.5M', '1e-05', '3e+14')
    """
    for unit, sign in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if unit <= abs(value) < 1e3 * unit and abs(value) >= 1e4:
            return f"{value / unit:.3g}{sign}"
    return f"{value:.3g}"


@dataclass(frozen=True)
class Axis:
    """What one metric is drawn on."""

    low: float
    high: float
    is_log: bool = False
    has_steps: bool = False
    """Whether it counts: ranks need no numbers at their ends."""

    @classmethod
    def over(cls, ends: Iterable[float | None]) -> Axis:
        """0 to 1 for shares, else what the numbers span."""
        numbers = [n for n in ends if n is not None and math.isfinite(n)]
        if not numbers or (min(numbers) >= 0 and max(numbers) <= 1):
            return cls(0.0, 1.0)
        low, high = min(numbers), max(numbers)
        margin = (high - low) * 0.08 or abs(low) * 0.1 or 1.0
        # A perplexity has nothing below zero to show.
        return cls(max(0.0, low - margin) if low >= 0 else low - margin, high + margin)

    @classmethod
    def around(cls, estimates: Iterable[Estimate]) -> Axis:
        return cls.over(end for e in estimates for end in (e.value, e.low, e.high))

    @classmethod
    def about_zero(cls, estimates: Iterable[Estimate]) -> Axis:
        """As far to the left of no difference as to the right."""
        ends = [abs(end) for e in estimates for end in (e.value, e.low, e.high) if end is not None]
        reach = 1.05 * max((end for end in ends if math.isfinite(end)), default=0.0) or 1.0
        return cls(-reach, reach)

    @classmethod
    def powers_of_ten(cls, ends: Iterable[float | None]) -> Axis:
        """Powers of ten that hold all ends. What is zero, or reaches below, begins at the left edge."""
        positive = [end for end in ends if end is not None and end > 0]
        if not positive:
            return cls(1e-6, 1.0, is_log=True)
        low, high = math.floor(math.log10(min(positive))) - 1, math.ceil(math.log10(max(positive)) + 1e-9)
        return cls(10.0**low, 10.0**high, is_log=True)

    @property
    def ends(self) -> tuple[str, str] | None:
        """What is written at its ends; nothing where they are 0 and 1."""
        if self.has_steps or (self.low, self.high) == (0, 1):
            return None
        return _short(self.low), _short(self.high)

    @property
    def text(self) -> str:
        return f"{self.low:.3g} … {self.high:.3g}{', logarithmic' if self.is_log else ''}"

    def percent(self, value: float | None) -> float | None:
        if value is None or value != value:
            return None
        if self.is_log:
            low, high = math.log10(self.low), math.log10(self.high)
            share = 0.0 if value <= 0 else (math.log10(value) - low) / (high - low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return min(100.0, max(0.0, 100.0 * share))


@dataclass(frozen=True)
class Whisker:
    """A number and its interval on an axis."""

    value: float | None
    low: float | None
    high: float | None
    axis: Axis
    reference: float | None = None
    """Where a line is drawn: chance, no difference, a limit."""
    ticks: tuple[tuple[str, float], ...] = ()
    """Further numbers on the axis, with their names: floors."""
    band: float | None = None
    """How far from zero nothing matters."""
    label: str = ""
    """What is said of it, for whoever points at it or cannot see it."""
    text: str = ""
    """What stands beside it in a plot."""
    is_bold: bool = False

    @classmethod
    def of(cls, estimate: Estimate, axis: Axis, **about: object) -> Whisker:
        return cls(estimate.value, estimate.low, estimate.high, axis, **about)  # type: ignore[arg-type]
