"""Whether to try again, and when. Arithmetic only: sending and sleeping are the batch's.

Two kinds of failed tries are counted apart. An error (a 500, a cut connection) says something about the request or the
server; being told to wait (429, 503) says only that there are many of us, so it may happen ten times as often.
"""

from __future__ import annotations

from dataclasses import dataclass

from assay.models.openai.wire import Retry

LONGEST_BACKOFF = 60.0
LONGEST_WAIT = 600.0
"""`Retry-After` may name tomorrow; asking once in ten minutes does no harm, and a run is not left for a day."""


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

    def _jittered(self, doublings: int, chance: float) -> float:
        longest = min(LONGEST_BACKOFF, self.backoff * 2.0 ** min(doublings, 60))
        return (0.5 + 0.5 * chance) * longest
