"""A progress that also says what is waited for, while nothing else happens."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from assay.models import waiting_for
from assay.run.progress import Counts, Progress, Quiet

TICK = 0.5
"""Seconds between two looks at whether something is waited for."""


class WatchedProgress:
    """Hands everything on, and shows what is waited for in place of the stage."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self._stage = ""
        self._shown: str | None = None
        self._over = threading.Event()

    def stage(self, text: str) -> None:
        self._stage, self._shown = text, None
        self.progress.stage(text)

    def update(self, counts: Counts) -> None:
        self.progress.update(counts)

    def message(self, text: str) -> None:
        self.progress.message(text)

    def look(self) -> None:
        """Show what is waited for where that is news; the stage again when it is over."""
        text = waiting_for()
        if text == self._shown:
            return
        self._shown = text
        self.progress.stage(text or self._stage)

    def _watch(self) -> None:
        while not self._over.wait(TICK):
            self.look()


@contextmanager
def watched(progress: Progress) -> Iterator[Progress]:
    """Inside, whoever is shown the progress is also told what is waited for; who is told nothing is not."""
    if isinstance(progress, Quiet):
        yield progress
        return
    made = WatchedProgress(progress)
    thread = threading.Thread(target=made._watch, name="assay-waiting", daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made._over.set()
        thread.join(timeout=2)
