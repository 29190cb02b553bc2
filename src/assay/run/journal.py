"""What a run writes down about itself while it goes on: `run.json`, `progress.json`, and how long each part took."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

from assay.config import RunConfig
from assay.errors import AssayError
from assay.results import LAYOUT, RunDirectory, recorded
from assay.run.environment import describe_environment
from assay.run.interrupt import Interrupted
from assay.run.progress import Counts

PROGRESS_SECONDS = 1.0


class Journal:
    """One run's notes. Without a directory it only keeps time."""

    def __init__(self, config: RunConfig, counts: Counts) -> None:
        self.config, self.counts = config, counts
        self.directory: RunDirectory | None = None
        self.model: dict[str, Any] = {}
        self.extra: dict[str, Any] = {}
        self.began = time.time()
        self.seconds: dict[str, float] = {}
        self._mark = time.perf_counter()
        self._showed_progress = 0.0

    def lap(self, name: str) -> None:
        """The time since the last lap was spent on this."""
        now = time.perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._mark
        self._mark = now

    @property
    def is_due(self) -> bool:
        """Whether a second has passed since progress was last shown."""
        return time.monotonic() - self._showed_progress >= PROGRESS_SECONDS

    def write_progress(self) -> None:
        """At most once a second, however often it is called."""
        if self.is_due:
            self._showed_progress = time.monotonic()
            if self.directory is not None:
                self.directory.write_json("progress.json", {**asdict(self.counts), "updated": time.time()})

    def write_status(self, status: str) -> None:
        if self.directory is None:
            return
        if status != "running":
            (self.directory.path / "progress.json").unlink(missing_ok=True)
        self.directory.write_json(
            "run.json",
            {
                "format": LAYOUT,
                "status": status,
                "config": recorded(self.config),
                "model": self.model,
                "environment": describe_environment(),
                "date": self.began,
                "seconds": self.seconds,
                "counts": asdict(self.counts),
                **self.extra,
            },
        )

    def write_failure(self, error: BaseException) -> None:
        """Say that the run ended before its time. The error that ended it is the one to show."""
        stopped = isinstance(error, Interrupted | KeyboardInterrupt)
        try:
            self.write_status("interrupted" if stopped else "failed")
        except AssayError as second:
            error.add_note(str(second))
