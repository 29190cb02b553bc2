"""Comparisons for the compare page: computed beside the server, kept, and never waited for longer than a moment."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from assay.errors import AssayError

PATIENCE = 0.25
"""Seconds a page waits before it says that the comparison is under way."""
SMALL = 30_000
"""Samples up to which a comparison runs in a thread; larger ones get a process, and their memory goes when it ends."""


@dataclass(frozen=True)
class Compared:
    """Rows ready to show, or why there are none."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    refusals: list[dict[str, str]] = field(default_factory=list)
    tests: int = 0
    problem: str | None = None
    hint: str | None = None


class Comparisons:
    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(1, "compare")
        self._known: OrderedDict[tuple[Any, ...], Future[Compared]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, directories: Sequence[Path], samples: int, patience: float = PATIENCE) -> Compared | None:
        """The comparison of every further run with the first; None while it is computed."""
        stamps = tuple((directory / "results.json").stat().st_mtime_ns for directory in directories)
        key = (*directories, *stamps)
        with self._lock:
            if key not in self._known:
                work = compare if samples <= SMALL else compare_apart
                self._known[key] = self._threads.submit(work, [str(path) for path in directories])
                while len(self._known) > 32:
                    self._known.popitem(last=False)
            future = self._known[key]
        try:
            return future.result(timeout=patience)
        except NotYet:
            return None

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def compare_apart(directories: Sequence[str]) -> Compared:
    """`compare` in a process that ends with it."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(compare, directories).result()


def compare(directories: Sequence[str]) -> Compared:
    """Runs in a process of its own for large runs, so it takes and gives plain values."""
    from assay.comparison import compare_runs, open_run

    try:
        found = compare_runs([open_run(directory) for directory in directories])
    except AssayError as error:
        return Compared(problem=error.message, hint=error.hint)
    rows = [plain_row(row, number) for number, comparison in enumerate(found) for row in comparison.rows]
    refusals = [{"name": r.name, "reason": r.reason} for comparison in found for r in comparison.refusals]
    return Compared(rows, refusals, max((comparison.family for comparison in found), default=0))


def plain_row(row: Any, number: int) -> dict[str, Any]:
    difference, estimate = row.difference, row.difference.estimate
    return {
        "against": number + 1,
        "name": row.name,
        "alias": row.alias,
        "kind": row.kind,
        "depth": row.depth,
        "key": row.key,
        "a": difference.a,
        "b": difference.b,
        "value": estimate.value,
        "stderr": estimate.stderr,
        "low": estimate.low,
        "high": estimate.high,
        "n": estimate.n,
        "method": estimate.method,
        "p": difference.p_value,
        "p_adjusted": row.p_adjusted,
        "gained": difference.gained,
        "lost": difference.lost,
        "verdict": None if row.verdict is None else row.verdict.kind,
        "docs_needed": None if row.verdict is None else row.verdict.docs_needed,
        "higher_is_better": row.higher_is_better,
        "paired": row.paired,
        "notes": list(row.notes),
    }
