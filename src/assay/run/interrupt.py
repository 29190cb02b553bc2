"""`Ctrl-C` keeps what was done: the first one stops after the current pack, the second at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

from assay.errors import AssayError


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
