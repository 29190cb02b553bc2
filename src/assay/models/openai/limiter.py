"""How many requests may be under way: more while all is well, half when the server complains.

The rule is TCP's. Until the first complaint the limit grows by one with every answer, which doubles it each round; after
a complaint it is halved and then grows by one each round. Complaints about requests that were sent before the last
halving are echoes of the same overload and do not halve again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf


@dataclass(slots=True)
class AdaptiveLimit:
    """Pure bookkeeping: the caller says what happened and when."""

    ceiling: int
    limit: float = 2.0
    threshold: float = inf
    paused_until: float = 0.0
    _epoch: int = field(default=0)

    def __post_init__(self) -> None:
        self.limit = float(min(self.limit, self.ceiling))

    @property
    def slots(self) -> int:
        return max(1, int(self.limit))

    @property
    def epoch(self) -> int:
        """Remembered with each request when it is sent, and given back with its outcome."""
        return self._epoch

    def succeeded(self) -> None:
        step = 1.0 if self.limit < self.threshold else 1.0 / self.limit
        self.limit = min(float(self.ceiling), self.limit + step)

    def complained(self, epoch: int) -> None:
        """A 429, a 5xx, a time-out, a cut connection."""
        if epoch < self._epoch:
            return
        self._epoch += 1
        self.limit = max(1.0, self.limit / 2)
        self.threshold = self.limit

    def pause(self, until: float) -> None:
        """The server named a time (`Retry-After`): nothing is sent before it."""
        self.paused_until = max(self.paused_until, until)
