"""What takes longer than a page may: computed beside the server, kept, and never waited for longer than a moment."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Generic, TypeVar

from assay.errors import AssayError

Result = TypeVar("Result")
Work = Callable[[Sequence[str]], Result]
"""From the directories of some runs to what a page shows of them, in plain values: it may run in a process of its own."""
PATIENCE = 0.25
"""Seconds a page waits before it says that its numbers are under way."""
SMALL = 30_000
"""Samples of all runs together up to which work runs in a thread; more get a process, and their memory goes when it ends."""


@dataclass(frozen=True)
class Computed(Generic[Result]):
    """What work found, or why it found nothing."""

    value: Result | None = None
    problem: str | None = None
    hint: str | None = None

    def naming(self, names: Mapping[Path, str]) -> Computed[Result]:
        """With names in place of directories: a page may be shared, and where things lie here is nobody's business."""
        problem = self.problem
        for directory, name in names.items():
            problem = problem and problem.replace(str(directory), name)
        return replace(self, problem=problem)


class Background:
    """One thread for all pages; what it computed is kept until the runs change."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(1, "compare")
        self._known: OrderedDict[tuple[Any, ...], Future[Any]] = OrderedDict()
        self._lock = threading.Lock()

    def get(
        self,
        work: Work[Result],
        directories: Sequence[Path],
        samples: int,
        patience: float = PATIENCE,
        name: Hashable = None,
    ) -> Computed[Result] | None:
        """What `work`, by its `name`, makes of these runs, which have so many samples; None while it is computed."""
        stamps = tuple((directory / "results.json").stat().st_mtime_ns for directory in directories)
        key = (name or getattr(work, "__name__", ""), *directories, *stamps)
        with self._lock:
            if key not in self._known:
                chosen = partial(attempt if samples <= SMALL else apart, work)
                self._known[key] = self._threads.submit(chosen, [str(path) for path in directories])
                while len(self._known) > 32:
                    self._known.popitem(last=False)
            future: Future[Computed[Result]] = self._known[key]
        try:
            return future.result(timeout=patience)
        except NotYet:
            return None

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def attempt(work: Work[Result], directories: Sequence[str]) -> Computed[Result]:
    try:
        return Computed(work(directories))
    except AssayError as error:
        return Computed(problem=error.message, hint=error.hint)


def apart(work: Work[Result], directories: Sequence[str]) -> Computed[Result]:
    """In a process that ends with it."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(attempt, work, directories).result()
