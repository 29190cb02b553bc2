"""What a run tells while it goes on, and how it is told to stop. The command line draws it; the library keeps silent."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from assay.errors import AssayError

if TYPE_CHECKING:
    from assay.run.doc_work import DocWork


@dataclass
class Counts:
    """How far a run is. `reused` requests were answered by the store, `computed` by the model."""

    docs_total: int = 0
    docs_done: int = 0
    computed: int = 0
    reused: int = 0
    failed: int = 0
    tokens_asked: int = 0
    """Tokens a harness that shares nothing would compute, where the backend counts them."""
    tokens_computed: int = 0
    cost: float = 0.0
    """Of a server, at the prices given to it."""
    images: int = 0
    """Images that were sent, and their bytes."""
    image_bytes: int = 0
    sending: str = ""
    """The task whose docs are with the model, and how many more are."""
    running: dict[str, tuple[str, float, int]] = field(default_factory=dict)
    """Task → (metric, mean so far, docs so far)."""
    questions: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Role → (answered, sent) of the questions that scoring puts to another model just now."""
    replicas: str = ""
    """On a cluster: who is there, how fast each is, what was lost."""

    @property
    def answered(self) -> int:
        return self.computed + self.reused


class Progress(Protocol):
    def stage(self, text: str) -> None:
        """A new stage begins: loading, building, sending, scoring."""

    def update(self, counts: Counts) -> None:
        """Called often; drawing is the receiver's business."""

    def message(self, text: str) -> None:
        """A line for the user."""


class Quiet:
    """Tells nobody."""

    def stage(self, text: str) -> None:
        pass

    def update(self, counts: Counts) -> None:
        pass

    def message(self, text: str) -> None:
        pass


class Observer:
    """What the pipeline tells while it goes on. This one does not listen."""

    def sending(self, window: list[DocWork]) -> None:
        """These docs are answered next."""

    def answered(self, work: DocWork) -> None:
        """All requests of a doc's present round have their answers."""

    def scored(self, task: str, running: tuple[str, float, int] | None) -> None:
        """Some docs of a task were scored; `running` is (metric, mean so far, docs)."""

    def summarizing(self) -> None:
        """All docs are scored."""


class Interrupted(AssayError):
    """The user stopped the run. Everything answered so far is in the store."""

    exit_code = 130


class StopRequest:
    """Counts interrupts while a run goes on; outside the main thread it leaves signals alone."""

    def __init__(self, notify: Callable[[str], None] = lambda text: None) -> None:
        self.requested = False
        self._notify = notify
        self._previous: Any = None
        self._armed = False

    def __call__(self) -> bool:
        return self.requested

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(signal.SIGINT, self._on_interrupt)
            self._armed = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._armed:
            signal.signal(signal.SIGINT, self._previous)

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        said = "stopping once the current work is done and kept; press Ctrl-C again to stop now"
        # A thread of its own: the main one may stand in the middle of writing to the same screen.
        threading.Thread(target=self._notify, args=(said,), daemon=True).start()
