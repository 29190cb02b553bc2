"""A number and what it is worth; and what makes one of the values of all docs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Keys = NDArray[np.uint64]
Clusters = Sequence[Any] | NDArray[Any]

B_DEFAULT = 1000
"""Bootstrap replicates, unless a run says otherwise."""


class Basis(Enum):
    """What an interval rests on, where the code that uses it has to know. The values are the methods' names in files."""

    DOCS = ""
    """The docs' values: whoever has them can make the interval again."""
    COUNTS = "wilson"
    """The same, where every doc stands for itself and is right or wrong."""
    LOOKS = "confidence sequence"
    """Docs that were watched as they came: it holds however often one looked, and one made for a fixed number of docs would not."""
    CONTROL = "control variate"
    """An earlier run on all docs, beside this one on some."""
    LABELS = "prediction-powered"
    """People's labels on some docs, beside a judge's verdicts on all."""
    OTHER = "other"
    """A method that was named, or that another package brought: the docs' values alone do not tell which."""


RECOMPUTABLE = (Basis.DOCS, Basis.COUNTS)


def is_a_point(low: float, high: float) -> bool:
    """Whether an interval has no width but that of rounding: what did not vary was not seen to vary."""
    return math.isclose(low, high, rel_tol=1e-12)


@dataclass(frozen=True, repr=False)
class Estimate:
    """A value with its standard error, interval and the method that gave them.

    >>> Estimate(0.787, 0.028, 0.727, 0.836, 208, "wilson")
    Estimate(0.787 ± 0.028 [0.73, 0.84], n=208, wilson)

    `value` is None when the number is undefined, and `undefined` says why. `stderr` is None when nothing honest can be
    said about the error (one doc, error bars turned off); the interval is then absent too.
    """

    value: float | None
    stderr: float | None
    low: float | None
    high: float | None
    n: int
    method: str
    undefined: str | None = None
    level: float = 0.95
    df: float | None = None
    """Degrees of freedom behind the standard error: independent units less one. None: not known, taken for many."""
    bounded: bool = False
    """Whether the number is a mean of values in [0, 1]: its interval is then a score interval and stays in there."""
    caution: str | None = None
    """What to know before the error bar is trusted."""
    withheld_reason: str | None = field(default=None, compare=False)
    """Why a number that is defined has no interval."""
    basis: Basis = field(default=Basis.DOCS, compare=False)
    skew: float = field(default=0.0, compare=False)
    """Skewness of the error itself, where it is known: what a group must know of its members."""

    @property
    def is_recomputable(self) -> bool:
        """Whether the docs' values alone give the interval."""
        return self.basis in RECOMPUTABLE

    def to_dict(self) -> dict[str, Any]:
        """As it is written to files. `basis` and `withheld_reason` are told there by `method`, but for `Basis.OTHER`; `skew` serves
        a run in memory alone."""
        written = as_written(vars(self).items())
        return {**written, "basis": self.basis.value} if self.basis is Basis.OTHER else written

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> Estimate:
        """What `to_dict` wrote; other keys are passed over."""
        made = cls(**{name: entry[name] for name in _WRITTEN if name in entry})
        withheld = made.method.removeprefix(NO_INTERVAL) if made.value is not None and made.low is None else None
        named = made.method.partition(" (")[0]  # of an imported run, who computed it follows in brackets
        named = entry.get("basis", named)
        basis = Basis(named) if named in {each.value for each in Basis} else Basis.DOCS
        return replace(made, withheld_reason=withheld, basis=basis)

    @classmethod
    def missing(cls, reason: str, n: int = 0) -> Estimate:
        """No number, and why.

        >>> Estimate.missing("no docs").undefined
        'no docs'
        """
        return cls(None, None, None, None, n, "undefined", undefined=reason)

    @classmethod
    def bare(cls, value: float, n: int, reason: str) -> Estimate:
        """A number without an error bar, and why there is none."""
        return cls(value, None, None, None, n, reason, withheld_reason=reason.removeprefix(NO_INTERVAL))

    def without_interval(self, reason: str) -> Estimate:
        """The same number and standard error; what was seen does not tell how far it may be off."""
        return replace(self, low=None, high=None, method=f"{NO_INTERVAL}{reason}", withheld_reason=reason)

    def __str__(self) -> str:
        """As people write it.

        >>> print(Estimate(0.787, 0.028, 0.727, 0.836, 208, "wilson"), "|", Estimate.missing("no docs"))
        0.787 ± 0.028 [0.73, 0.84] | undefined: no docs
        """
        if self.value is None:
            return f"undefined: {self.undefined}"
        figures = _figures(self.stderr)
        error = "" if self.stderr is None else f" ± {_number(self.stderr, figures)}"
        if self.low is None or self.high is None:
            return f"{_number(self.value, figures)}{error}"
        low, high = (_number(end, figures - 1) for end in (self.low, self.high))
        return f"{_number(self.value, figures)}{error} [{low}, {high}]"

    def __repr__(self) -> str:
        return f"Estimate({self}, n={self.n:,}, {self.method})"

    @property
    def half_width(self) -> float | None:
        return None if self.low is None or self.high is None else (self.high - self.low) / 2


NO_INTERVAL = "no interval: "
_NOT_WRITTEN = ("withheld_reason", "basis", "skew")
_WRITTEN = tuple(f.name for f in fields(Estimate) if f.name not in _NOT_WRITTEN)


def as_written(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """For `asdict(…, dict_factory=as_written)`: estimates among the fields as files have them.

    >>> from dataclasses import asdict
    >>> asdict(Estimate.bare(0.5, 1, "one doc"), dict_factory=as_written).keys() == Estimate.missing("").to_dict().keys()
    True
    """
    return {name: value for name, value in pairs if name not in _NOT_WRITTEN}


def _figures(stderr: float | None) -> int:
    """Decimals: three, and more where the error is so small that it would vanish."""
    return 3 if not stderr or stderr >= 0.001 or not math.isfinite(stderr) else 2 - math.floor(math.log10(stderr))


def _number(value: float, decimals: int) -> str:
    return f"{value:.{decimals}f}" if abs(value) < 1000 or value != value else f"{value:.4g}"


def ends(estimate: Estimate) -> tuple[float, float] | None:
    """The interval; None where there is none."""
    return None if estimate.low is None or estimate.high is None else (estimate.low, estimate.high)


@dataclass(frozen=True)
class Aggregation:
    """Values of all docs to one number.

    With `statistics` (a row per doc) and `finish` (sums of rows to numbers) a bootstrap replicate is
    `finish(weights @ statistics)`; `replicate(values, weights)` serves numbers that are no function of sums (median),
    and values for which `statistics` gives None. Without either, an estimate repeats items and calls `fn`.
    """

    name: str
    fn: Callable[[Sequence[Any]], Any]
    statistics: Callable[[Sequence[Any]], Floats | None] | None = None
    finish: Callable[[Floats], Floats] | None = None
    replicate: Callable[[Sequence[Any], NDArray[Any]], Floats] | None = None
    transform: Callable[[float], float] | None = None
    """Monotone map from the ratio of the two columns of `statistics` to the number: mean and ratios have a formula."""
    estimate: Callable[[float, Floats, Clusters | None, float], Estimate] | None = None
    """(number, table of `statistics`, clusters, level) → estimate, for numbers with a formula of their own: f1, mcc."""
    resamples: int = 0
    """To how many resamples lm-evaluation-harness bounds the standard error of this aggregation; 0: no bound of its own."""
    interval: str | None = None
    """The interval method that a task names for it; None: the first that holds."""
