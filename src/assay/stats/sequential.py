"""Looking after every doc without fooling oneself, and when a run may stop: `--until ci=0.01`, `decided vs RUN`.

A 95 % interval made for a fixed number of docs, looked at after each doc, will exclude the truth sooner or later. The
two processes here hold their error rate over all looks together: a bettor with a fair game cannot expect to grow rich,
so wealth of 1/α against a claim is evidence at level α whenever it occurs (Ville's inequality).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from assay.errors import ConfigError
from assay.stats.estimate import Floats
from assay.stats.units import cluster_index, sums_by

_CELLS = 1 << 15
"""Docs times candidates that are played at once. Blocks start small and grow as candidates drop out."""
_LONGEST = 512
"""Docs in a block: a doc makes wealth at most 1.5-fold and at least half, so this many stay within what a float holds."""
_CAUTION = 0.5
"""Largest share of the wealth put on one doc."""
_WIDEST = 0.1
"""Half-width for which the largest bets are made."""
_ASIDE = 0.1
"""Part of the wealth that is played for wider intervals than the one requested; it costs the others about 3 % more docs."""
_LAST_LOOK = 0.5
"""Part of the error rate that is kept for a last look at all docs, where they are in clusters."""
_CI = re.compile(r"ci\s*=\s*±?(?P<width>[0-9.eE+-]+)\s*(?P<percent>%|pt)?")
_DECIDED = re.compile(r"decided\s+vs\s+(?P<run>.+?)(?:\s+margin\s*=\s*(?P<margin>[0-9.eE+-]+))?")


class ConfidenceSequence:
    """An interval for a mean of scores in [0, 1] that is valid after every doc at once (betting, Waudby-Smith and
    Ramdas 2023).

    Against each candidate mean m two bettors play, one that it is higher and one that it is lower; m is dropped for
    good when half the wealth of either passes 1/α. Bets are sized for the half-width that is wanted: for smaller ones
    the first docs are wasted, for larger ones the last. Where it is so small that the docs may end long before, a tenth of
    the wealth is played for wider intervals, so that a few hundred docs say at least what they can.

    Docs that belong together are one bet, on Σ(x − m) of the unit: units drawn at random win and lose nothing on average
    if m is the mean of all docs. `largest` is the most docs that a unit has.
    """

    def __init__(self, *, width: float, level: float = 0.95, largest: int = 1) -> None:
        if not 0 < width < 0.5:
            raise ValueError(f"the half-width must lie between 0 and 0.5, got {width}")
        self.width = width
        self.level = level
        # The interval is known to a grid step; the ends are moved outward by one.
        self._step = width / 20
        self._means = np.arange(self._step / 2, 1.0, self._step)
        self._widths = [width, *(width * 4**i for i in range(1, 12) if width * 4**i <= _WIDEST)]
        others = len(self._widths) - 1
        # A row a size of bets; rows add up to the wealth.
        start = np.array([1 - _ASIDE, *[_ASIDE / others] * others] if others else [1.0])
        self._wealth_up = np.repeat(start[:, None], len(self._means), axis=1)
        self._wealth_down = self._wealth_up.copy()
        self._limit = 2 / (1 - level)
        self.n = 0
        self._largest = largest
        # Of the units so far: their number, Σx, Σw, Σx², Σxw, Σw². One imagined doc of each kind keeps the first bets small.
        self._moments = np.array([2.0, 1.0, 2.0, 1.0, 1.0, 2.0])
        self._totals = np.zeros(2)

    def update(self, scores: Floats, sizes: Floats | None = None) -> None:
        """Scores of docs; with `sizes`, sums over units and the number of docs in each."""
        values = np.asarray(scores, dtype=np.float64)
        docs = np.ones(len(values)) if sizes is None else np.asarray(sizes, dtype=np.float64)
        if values.size and not (values.min() >= 0 and (values <= docs + 1e-9).all()):
            raise ValueError(f"scores must lie in [0, 1], got {values.min():g} to {(values / docs).max():g}")
        self.n += int(docs.sum())
        self._totals += values.sum(), docs.sum()
        start = 0
        while start < len(values):
            stop = start + min(_LONGEST, max(1, _CELLS // (len(self._means) + 1)))
            self._play(values[start:stop] / self._largest, docs[start:stop] / self._largest)
            start = stop

    def _play(self, x: Floats, w: Floats) -> None:
        """`w` is the size of a unit as a part of the largest: 1 where docs stand alone."""
        rows = np.stack([np.ones(len(x)), x, w, x * x, x * w, w * w])
        after = self._moments[:, None] + np.cumsum(rows, axis=1)
        # The variance that sizes a bet may know only the units before it.
        count, sx, sw, sxx, sxw, sww = np.concatenate([self._moments[:, None], after[:, :-1]], axis=1)
        mean = sx / sw
        variance = np.maximum((sxx - 2 * mean * sxw + mean**2 * sww) / count, 1e-4)
        self._moments = after[:, -1]
        if len(self._means) == 0:
            return
        m = self._means[None, :]
        gain = x[:, None] - w[:, None] * m
        # Wealth too small for a float becomes 0 and stays 0, which errs on the side of keeping a candidate.
        total = np.zeros((2, *gain.shape))
        for row, width in enumerate(self._widths):
            bet = (width * (sw / count) / variance)[:, None]
            up = self._wealth_up[row] * np.cumprod(1 + np.minimum(bet, _CAUTION / m) * gain, axis=0)
            down = self._wealth_down[row] * np.cumprod(1 - np.minimum(bet, _CAUTION / (1 - m)) * gain, axis=0)
            total += up, down
            self._wealth_up[row], self._wealth_down[row] = up[-1], down[-1]
        alive = total.max(axis=(0, 1)) < self._limit
        self._means = self._means[alive]
        self._wealth_up, self._wealth_down = self._wealth_up[:, alive], self._wealth_down[:, alive]

    @property
    def mean(self) -> float:
        return float(self._totals[0] / self._totals[1]) if self.n else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """Nothing left alive means the scores are no draws of one mean; the last estimate is then all there is."""
        if len(self._means) == 0:
            return self.mean, self.mean
        return max(0.0, float(self._means[0]) - self._step), min(1.0, float(self._means[-1]) + self._step)

    @property
    def half_width(self) -> float:
        low, high = self.interval
        return (high - low) / 2


@dataclass
class DiscordantEvidence:
    """Evidence that flips are not equally likely in both directions.

    E = 2ⁿ·B(k+1, n−k+1): the likelihood of the flips, averaged over all probabilities, against that of a fair coin.
    Under a fair coin it passes 1/α at any time with a probability of at most α.
    """

    gained: int = 0
    lost: int = 0
    peak: float = 0.0
    """The largest log E so far: evidence once reached is not lost by looking on."""

    def update(self, a: Floats, b: Floats) -> None:
        from scipy.special import betaln

        up = np.cumsum((np.asarray(a) < 0.5) & (np.asarray(b) > 0.5)) + self.gained
        down = np.cumsum((np.asarray(a) > 0.5) & (np.asarray(b) < 0.5)) + self.lost
        if len(up) == 0:
            return
        log_e = (up + down) * math.log(2) + betaln(up + 1, down + 1)
        self.peak = max(self.peak, float(log_e.max()))
        self.gained, self.lost = int(up[-1]), int(down[-1])

    @property
    def p_value(self) -> float:
        """Valid whenever it is looked at."""
        return math.exp(-self.peak)


@dataclass
class StoppingRule:
    """Fed with the scores of each doc once, in a random order; says when to stop and why.

    One rule watches one task: `fresh()` makes another of the same text.
    """

    text: str
    width: float | None = None
    baseline: str | None = None
    margin: float | None = None
    alpha: float = 0.05
    largest: int = 1
    """Docs in the largest unit: clusters, and docs of equal content, are taken in as one."""
    n: int = 0
    _interval: ConfidenceSequence | None = field(default=None, repr=False)
    _flips: DiscordantEvidence | None = field(default=None, repr=False)
    _score: ConfidenceSequence | None = field(default=None, repr=False)
    """Of the score itself, while the rule looks at differences."""

    @classmethod
    def parse(cls, text: str, *, alpha: float = 0.05) -> StoppingRule:
        """`ci=0.01` (half-width; also `ci=1pt`), or `decided vs RUN [margin=0.02]`.

        >>> StoppingRule.parse("ci=1pt").width
        0.01
        >>> StoppingRule.parse("decided vs runs/base margin=0.02").baseline
        'runs/base'
        """
        if match := _CI.fullmatch(text.strip()):
            width = _number(match["width"], text) / (100 if match["percent"] else 1)
            if not 0 < width < 0.5:
                raise ConfigError(f"--until {text!r}: the half-width must lie between 0 and 0.5", hint="Try ci=0.01.")
            return cls(text, width=width, alpha=alpha)
        if match := _DECIDED.fullmatch(text.strip()):
            margin = _number(match["margin"], text) if match["margin"] else None
            if margin is not None and not 0 < margin < 1:
                raise ConfigError(f"--until {text!r}: the margin must lie between 0 and 1", hint="Try margin=0.02.")
            return cls(text, baseline=match["run"].strip("'\""), margin=margin, alpha=alpha)
        raise ConfigError(
            f"--until {text!r} is not understood", hint='Use ci=0.01 (half-width of the interval) or "decided vs RUN".'
        )

    @property
    def last_look(self) -> float:
        """The part of the error rate kept for one look at a fixed number of docs, all there are. Bets on whole clusters are few and
        careful, and a few hundred docs in clusters would end with an interval from 0 to 1."""
        return self.alpha * _LAST_LOOK if self.largest > 1 else 0.0

    @property
    def interval(self) -> tuple[float, float] | None:
        """Of the score, valid whenever one looks; a fixed-n interval is not, after a stop. None before the first doc."""
        watched = self._interval if self.width is not None else self._score
        return None if watched is None else watched.interval

    def fresh(self) -> StoppingRule:
        return StoppingRule(self.text, self.width, self.baseline, self.margin, self.alpha, self.largest)

    def update(self, scores: Floats, baseline: Floats | None = None, units: Sequence[int] | None = None) -> str | None:
        """Take in the scores of further docs (and the baseline's on the same docs); the reason to stop, or None.

        `units` says which docs belong together; all docs of a unit come in one call.
        """
        values = np.asarray(scores, dtype=np.float64)
        if values.size and not (np.nanmin(values) >= 0 and np.nanmax(values) <= 1):
            raise ConfigError(
                f"--until {self.text!r} needs scores in [0, 1], got {np.nanmin(values):g} to {np.nanmax(values):g}",
                hint="Name a metric such as acc or exact_match, or leave out --until for this task.",
            )
        if self.width is not None:
            there = ~np.isnan(values)
            return self._until_narrow(*_by_unit(values, units, there))
        if baseline is None:
            raise ConfigError(f"--until {self.text!r} needs the scores of {self.baseline} on the same docs")
        pair = np.asarray(baseline, dtype=np.float64)
        both = ~(np.isnan(values) | np.isnan(pair))
        sums, sizes = _by_unit(values, units, both)
        return self._until_decided(sums, _by_unit(pair, units, both)[0], sizes)

    def _until_narrow(self, values: Floats, sizes: Floats) -> str | None:
        assert self.width is not None
        if self._interval is None:
            self._interval = ConfidenceSequence(
                width=self.width, level=1 - self.alpha + self.last_look, largest=self.largest
            )
        self._interval.update(values, sizes)
        self.n += int(sizes.sum())
        if self._interval.half_width > self.width:
            return None
        low, high = self._interval.interval
        return f"interval [{low:.4f}, {high:.4f}] is within ±{self.width:g} after {self.n} docs"

    def _until_decided(self, b: Floats, a: Floats, sizes: Floats) -> str | None:
        self.n += int(sizes.sum())
        # Flips of docs in a cluster come together, and the e-process of flips is for docs that stand alone.
        alone = self.largest == 1
        binary = alone and bool(np.isin(a, (0.0, 1.0)).all() and np.isin(b, (0.0, 1.0)).all())
        if self._interval is None:
            # Differences lie in [−1, 1]; the sequence lives on [0, 1], where no difference is one half.
            wanted = self.margin if self.margin is not None else 0.05
            level = 1 - self.alpha / (2 if self.margin else 1)
            self._interval = ConfidenceSequence(width=wanted / 2, level=level, largest=self.largest)
            self._flips = DiscordantEvidence()
            self._score = ConfidenceSequence(width=0.05, level=1 - self.alpha + self.last_look, largest=self.largest)
        assert self._score is not None
        self._score.update(b, sizes)
        if not binary and self._flips is not None:
            self._flips = None
        return self._decision(a, b, sizes)

    def _decision(self, a: Floats, b: Floats, sizes: Floats) -> str | None:
        assert self._interval is not None
        # Two ways to end share the error rate between them.
        alpha = self.alpha / 2 if self.margin is not None else self.alpha
        if self._flips is not None:
            self._flips.update(a, b)
            if self._flips.p_value <= alpha:
                word = "better" if self._flips.gained > self._flips.lost else "worse"
                return f"{word} than {self.baseline} after {self.n} docs (anytime p = {self._flips.p_value:.2g})"
        if self._flips is None or self.margin is not None:
            self._interval.update((sizes + b - a) / 2, sizes)
            low, high = (2 * end - 1 for end in self._interval.interval)
            if self._flips is None and (low > 0 or high < 0):
                word = "better" if low > 0 else "worse"
                return f"{word} than {self.baseline} after {self.n} docs (difference in [{low:.4f}, {high:.4f}])"
            if self.margin is not None and max(abs(low), abs(high)) < self.margin:
                return f"no difference larger than {self.margin:g} from {self.baseline} after {self.n} docs"
        return None


def _by_unit(values: Floats, units: Sequence[int] | None, there: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Sums and sizes of the units, over the docs that are there."""
    present = values[there]
    if units is None:
        return present, np.ones(len(present))
    index = cluster_index(np.asarray(units, dtype=np.int64)[there])
    return sums_by(index, present), sums_by(index, np.ones(len(present)))


def _number(text: str, whole: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"--until {whole!r}: {text!r} is not a number", hint="Try ci=0.01.") from None
