"""Looking after every doc without fooling oneself.

A 95 % interval made for a fixed number of docs, looked at after each doc, will exclude the truth sooner or later. The
two processes here hold their error rate over all looks together: a bettor with a fair game cannot expect to grow rich,
so wealth of 1/α against a claim is evidence at level α whenever it occurs (Ville's inequality).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from assay.stats.estimate import Floats

_CELLS = 1 << 15
"""Docs times candidates that are played at once. Blocks start small and grow as candidates drop out."""
_LONGEST = 512
"""Docs in a block: wealth grows at most 1.5-fold and shrinks at most to half a doc, so this many stay within what a float holds."""
_CAUTION = 0.5
"""Largest share of the wealth put on one doc."""


class ConfidenceSequence:
    """An interval for a mean of scores in [0, 1] that is valid after every doc at once (betting, Waudby-Smith and
    Ramdas 2023).

    Against each candidate mean m two bettors play, one that it is higher and one that it is lower; m is dropped for
    good when half the wealth of either passes 1/α. Bets are sized for the half-width that is wanted: for smaller ones
    the first docs are wasted, for larger ones the last.
    """

    def __init__(self, *, width: float, level: float = 0.95) -> None:
        if not 0 < width < 0.5:
            raise ValueError(f"the half-width must lie between 0 and 0.5, got {width}")
        self.width = width
        self.level = level
        # The interval is known to a grid step; the ends are moved outward by one.
        self._step = width / 20
        self._means = np.arange(self._step / 2, 1.0, self._step)
        self._wealth_up = np.ones(len(self._means))
        self._wealth_down = np.ones(len(self._means))
        self._limit = 2 / (1 - level)
        self.n = 0
        # One imagined doc of each kind keeps the first bets small.
        self._sum, self._squares, self._prior = 1.0, 1.0, 2.0

    def update(self, scores: Floats) -> None:
        values = np.asarray(scores, dtype=np.float64)
        if values.size and not (values.min() >= 0 and values.max() <= 1):
            raise ValueError(f"scores must lie in [0, 1], got {values.min():g} to {values.max():g}")
        start = 0
        while start < len(values):
            stop = start + min(_LONGEST, max(1, _CELLS // (len(self._means) + 1)))
            self._play(values[start:stop])
            start = stop

    def _play(self, x: Floats) -> None:
        # The variance that sizes a bet may know only the docs before it.
        seen = self.n + self._prior + np.arange(len(x))
        sums = self._sum + np.concatenate([[0.0], np.cumsum(x)[:-1]])
        squares = self._squares + np.concatenate([[0.0], np.cumsum(x * x)[:-1]])
        variance = np.maximum(squares / seen - (sums / seen) ** 2, 1e-4)
        bet = (self.width / variance)[:, None]
        self.n += len(x)
        self._sum += float(x.sum())
        self._squares += float((x * x).sum())
        if len(self._means) == 0:
            return
        m = self._means[None, :]
        gain = x[:, None] - m
        # Wealth too small for a float becomes 0 and stays 0, which errs on the side of keeping a candidate.
        up = self._wealth_up * np.cumprod(1 + np.minimum(bet, _CAUTION / m) * gain, axis=0)
        down = self._wealth_down * np.cumprod(1 - np.minimum(bet, _CAUTION / (1 - m)) * gain, axis=0)
        alive = np.maximum(up.max(axis=0), down.max(axis=0)) < self._limit
        self._means = self._means[alive]
        self._wealth_up, self._wealth_down = up[-1][alive], down[-1][alive]

    @property
    def mean(self) -> float:
        return (self._sum - 1.0) / self.n if self.n else math.nan

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
