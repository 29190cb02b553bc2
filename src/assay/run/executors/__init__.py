"""Who answers requests: this process, or replicas on a Ray cluster.

An executor is one method: requests in, answers out as they are ready, in any order. Everything else of a run (what to
ask, what is already kept, what the answers are worth) is the same for all executors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from assay.instance import Instance, RequestType
from assay.models import LM

if TYPE_CHECKING:
    from assay.models import Answer


class Executor(Protocol):
    def run(
        self, request_type: RequestType, instances: Sequence[Instance], draws: Sequence[int]
    ) -> Iterator[tuple[int, Answer]]:
        """Answers with the position of their request. Ends early only if it was asked to stop."""

    def close(self) -> None:
        """Let go of models and workers."""


class LocalExecutor:
    """The model in this process."""

    def __init__(self, lm: LM, stop: Callable[[], bool] = lambda: False) -> None:
        self.lm = lm
        # A stream that looks at `should_stop` between packs ends by itself, with the pack complete. The one that a
        # model without its own gets from `LM` does.
        self.stops_itself = hasattr(lm, "should_stop") or type(lm).stream is LM.stream
        if self.stops_itself:
            setattr(lm, "should_stop", stop)  # noqa: B010  not part of the contract, so not an attribute of its type

    def run(
        self, request_type: RequestType, instances: Sequence[Instance], draws: Sequence[int]
    ) -> Iterator[tuple[int, Answer]]:
        return self.lm.stream(request_type, instances, draws)

    def close(self) -> None:
        close = getattr(self.lm, "close", None)
        if callable(close):
            close()


__all__ = ["Executor", "LocalExecutor"]
