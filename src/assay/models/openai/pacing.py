"""When requests go out: how many may be under way, and when one that failed is tried again. Arithmetic only: sending and
sleeping are the dispatch's.

How many: more while all is well, half when the server complains. The rule is TCP's. Until the first complaint the limit
grows by one with every answer, which doubles it each round; after a complaint it is halved and then grows by one each
round. Two things are otherwise:

- One complaint among many answers (a gateway that drops every twentieth request, say) is no overload. It halves nothing
  while complaints are rare among the latest outcomes. Those about requests that were sent before the last halving are
  echoes of the same overload and do not halve again.
- When some rounds went well the limit doubles again, at first to just below where the complaints began, and after a long
  calm beyond it: servers get replicas, and other clients leave.

When again: two kinds of failed tries are counted apart. An error (a 500, a cut connection) says something about the
request or the server; being told to wait (429, 503) says only that there are many of us, so it may happen ten times as
often.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from assay.models.openai.wire import Retry

_RARE = 1 / 8
"""Share of complaints among the latest outcomes up to which they are no overload."""
_SHORTEST_MEMORY = 64
TRUST = 32.0
"""Answers to begin with, as it were: one refusal among the first requests of a server is no overload either."""
_SHORT_CALM, _LONG_CALM = 2.0, 16.0
"""In rounds since the last halving."""
_NEARLY = 0.9
LONGEST_BACKOFF = 60.0
LONGEST_WAIT = 600.0
"""`Retry-After` may name tomorrow; asking once in ten minutes does no harm, and a run is not left for a day."""


@dataclass(slots=True)
class AdaptiveLimit:
    """Pure bookkeeping: the caller says what happened and when."""

    ceiling: int
    limit: float = 2.0
    paused_until: float = 0.0
    _epoch: int = field(default=0)
    _overload: float = field(default=inf)
    """The limit at which it was last halved."""
    _calm: float = field(default=0.0)
    answers: float = 0.0
    """Of the latest outcomes, as the next; older ones fade."""
    _complaints: float = field(default=0.0)

    def __post_init__(self) -> None:
        self.limit = float(max(1, min(self.limit, self.ceiling)))

    @property
    def slots(self) -> int:
        return max(1, int(self.limit))

    @property
    def epoch(self) -> int:
        """Remembered with each request when it is sent, and given back with its outcome."""
        return self._epoch

    @property
    def complaints_are_rare(self) -> bool:
        """Among the latest outcomes."""
        return self._complaints <= _RARE * (self.answers + self._complaints)

    def succeeded(self) -> None:
        self._note(complaint=False)
        self._calm += 1.0 / self.limit
        step = 1.0 if self.limit < self._threshold() else 1.0 / self.limit
        self.limit = min(float(self.ceiling), self.limit + step)

    def complained(self, epoch: int) -> None:
        """A 429, a 5xx, a time-out, a cut connection."""
        self._note(complaint=True)
        if epoch < self._epoch or self.complaints_are_rare:
            return
        self._epoch += 1
        self._overload = self.limit
        self._calm = 0.0
        self.limit = max(1.0, self.limit / 2)

    def pause(self, until: float) -> None:
        """The server named a time (`Retry-After`): nothing is sent before it."""
        self.paused_until = max(self.paused_until, until)

    def _threshold(self) -> float:
        """Below it the limit doubles each round."""
        if self._overload == inf or self._calm >= _LONG_CALM:
            return inf
        return _NEARLY * self._overload if self._calm >= _SHORT_CALM else 0.0

    def _note(self, *, complaint: bool) -> None:
        weight = 1.0 - 1.0 / max(_SHORTEST_MEMORY, self.limit)
        self.answers = self.answers * weight + (not complaint)
        self._complaints = self._complaints * weight + complaint


@dataclass(frozen=True, slots=True)
class Tries:
    """The failed tries of one request."""

    errors: int = 0
    throttled: int = 0

    @property
    def total(self) -> int:
        return self.errors + self.throttled

    def plus(self, last: Retry) -> Tries:
        return Tries(self.errors + (not last.throttled), self.throttled + last.throttled)


@dataclass(frozen=True, slots=True)
class Wait:
    """Seconds before the next try of this request, and before anything is sent at all."""

    own: float
    everyone: float = 0.0


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    max_retries: int = 6
    backoff: float = 0.5

    def wait_after(self, tries: Tries, last: Retry, chance: float) -> Wait | None:
        """How long to wait after `last`, which `tries` counts already; None: give up.

        `chance`, between 0 and 1, spreads clients that failed together, so that they do not come back together.
        """
        if tries.errors > self.max_retries or tries.throttled > 10 * self.max_retries:
            return None
        if last.retry_after is None:
            # Throttling slows down four times as gently as errors do: it goes on for longer.
            return Wait(self._jittered(tries.errors + tries.throttled // 4, chance))
        named = min(last.retry_after, LONGEST_WAIT)
        return Wait(named + self._jittered(0, chance) / 4, everyone=named)

    def time_left(self, tries: Tries, last: Retry) -> float:
        """About how many seconds a request is tried again, if every try ends like `last`, which `tries` counts already."""
        seconds = 0.0
        waits = 10 * self.max_retries - tries.throttled if last.throttled else self.max_retries - tries.errors
        for left in range(waits + 1, 0, -1):
            wait = self.wait_after(tries, last, 0.5)
            if wait is None:
                break
            if last.retry_after is not None or wait.own >= 0.75 * LONGEST_BACKOFF:
                return seconds + left * wait.own  # they grow no longer
            seconds, tries = seconds + wait.own, tries.plus(last)
        return seconds

    def _jittered(self, doublings: int, chance: float) -> float:
        longest = min(LONGEST_BACKOFF, self.backoff * 2.0 ** min(doublings, 60))
        return (0.5 + 0.5 * chance) * longest
