"""Which runs there are below the given directories. A run is known by an id; no path ever comes from a URL."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from assay.errors import AssayError, ConfigError
from assay.report.rows import rows_of

_RESCAN_SECONDS = 2.0
_SILENCE_SECONDS = 120.0
"""A run writes how far it is every second; after so long without a word it is not running any more."""
_DEPTH = 6
_KEPT_RESULTS = 16
"""Parsed results files that are kept in memory; the file of a large suite is megabytes."""


@dataclass(frozen=True)
class Run:
    """One run on disk: a directory of ours, or a results file of lm-evaluation-harness."""

    id: str
    path: Path
    root: Path
    kind: str = "assay"
    """`assay`, or `lm-eval`: then `path` is the results file."""

    @property
    def name(self) -> str:
        """Where it lies below the directory that was given."""
        relative = self.path.relative_to(self.root)
        return str(relative) if str(relative) != "." else self.path.name


@dataclass(frozen=True)
class Summary:
    """What the list of runs shows of one."""

    id: str
    name: str
    kind: str
    model: str
    date: float
    status: str
    seconds: float | None
    tasks: tuple[str, ...]
    samples: int
    headline: tuple[dict[str, Any], ...]
    """The numbers of the topmost rows of the tree."""
    progress: float | None = None
    problem: str | None = None
    heard: float = 0.0
    """When the run last wrote something of itself."""


class Library:
    """The runs below some directories, read when they are asked for and again when their files change."""

    def __init__(self, directories: Sequence[Path], scratch: Path) -> None:
        self.roots = [directory.resolve() for directory in directories]
        self.scratch = scratch
        """Where results of other harnesses are kept once they are converted."""
        self._runs: dict[str, Run] = {}
        self._scanned = 0.0
        self._parsed: OrderedDict[tuple[Path, int, int], dict[str, Any]] = OrderedDict()
        self._summaries: dict[str, tuple[tuple[int, ...], Summary]] = {}
        self._lock = threading.RLock()

    def runs(self) -> list[Run]:
        with self._lock:
            if time.monotonic() - self._scanned > _RESCAN_SECONDS:
                self._runs = {run.id: run for root in self.roots for run in find_runs(root)}
                self._scanned = time.monotonic()
            return list(self._runs.values())

    def get(self, run_id: str) -> Run | None:
        if run_id not in self._runs:
            self.runs()
        return self._runs.get(run_id)

    def directory(self, run: Run) -> Path:
        """Where the run's files lie; results of lm-evaluation-harness are converted once, into the scratch directory."""
        if run.kind == "assay":
            return run.path
        target = self.scratch / run.id
        with self._lock:
            if not (target / "results.json").is_file():
                from assay.report.importing import import_lm_eval

                import_lm_eval(run.path, target)
        return target

    def results(self, run: Run) -> dict[str, Any] | None:
        """The results file, or None while the run goes on."""
        return self._json(self.directory(run) / "results.json")

    def run_file(self, run: Run) -> dict[str, Any]:
        return self._json(self.directory(run) / "run.json") or {}

    def progress(self, run: Run) -> dict[str, Any] | None:
        return self._json(self.directory(run) / "progress.json") if run.kind == "assay" else None

    def sample_file(self, run: Run, task: str) -> Path | None:
        """The task's samples. The name stands in the results, which may be anyone's: it must lead into the run."""
        results = self.results(run)
        name = ((results or {}).get("assay") or {}).get("samples", {}).get(task)
        if not isinstance(name, str):
            return None
        directory = self.directory(run).resolve()
        path = (directory / name).resolve()
        inside = path.is_relative_to(directory) and path.suffix == ".parquet" and path.is_file()
        return path if inside else None

    def summary(self, run: Run) -> Summary:
        stamp = _stamps(run)
        with self._lock:
            known = self._summaries.get(run.id)
            if known is None or known[0] != stamp:
                known = (stamp, self._summarise(run))
                self._summaries[run.id] = known
            return still_alive(known[1])

    def _summarise(self, run: Run) -> Summary:
        try:
            data = self.results(run) if run.kind == "assay" else self._json(run.path)
            about = self.run_file(run) if run.kind == "assay" else {}
            progress = self.progress(run)
        except AssayError as error:
            return Summary(
                run.id,
                run.name,
                run.kind,
                "",
                run.path.stat().st_mtime,
                "unreadable",
                None,
                (),
                0,
                (),
                problem=str(error),
            )
        return summary_of(run, data, about, progress)

    def _json(self, path: Path) -> dict[str, Any] | None:
        try:
            stat = path.stat()
        except OSError:
            return None
        key = (path, stat.st_mtime_ns, stat.st_size)
        with self._lock:
            if key in self._parsed:
                self._parsed.move_to_end(key)
                return self._parsed[key]
        try:
            found = json.loads(path.read_text(encoding="utf-8", errors="surrogatepass"))
        except (OSError, ValueError) as error:
            raise ConfigError(f"{path.name} of this run cannot be read: {error}") from error
        if not isinstance(found, dict):
            raise ConfigError(f"{path.name} of this run does not hold a JSON object")
        with self._lock:
            self._parsed[key] = found
            while len(self._parsed) > _KEPT_RESULTS:
                self._parsed.popitem(last=False)
        return found


def find_runs(root: Path) -> Iterator[Run]:
    """Run directories and results files below a directory. Links are not followed: they may lead out of it."""
    for folder, inner, files in os.walk(root, followlinks=False):
        path = Path(folder)
        depth = len(path.relative_to(root).parts)
        inner[:] = [] if depth >= _DEPTH else sorted(name for name in inner if not name.startswith("."))
        if "run.json" in files:
            inner[:] = []
            yield Run(_id_of(path), path, root)
        else:
            for name in sorted(files):
                if name.startswith("results") and name.endswith(".json"):
                    yield Run(_id_of(path / name), path / name, root, "lm-eval")


def _id_of(path: Path) -> str:
    """The same for the same place, so that a link lives longer than the server."""
    return hashlib.sha256(str(path).encode("utf-8", "surrogateescape")).hexdigest()[:12]


def _stamps(run: Run) -> tuple[int, ...]:
    names = ("run.json", "results.json", "progress.json") if run.kind == "assay" else ("",)
    stamps = []
    for name in names:
        try:
            stamps.append((run.path / name).stat().st_mtime_ns if name else run.path.stat().st_mtime_ns)
        except OSError:
            stamps.append(0)
    return tuple(stamps)


def summary_of(
    run: Run, data: dict[str, Any] | None, about: dict[str, Any], progress: dict[str, Any] | None
) -> Summary:
    """The line of one run."""
    data = data or {}
    counts = progress or about.get("counts") or {}
    model = (
        data.get("model_name") or (about.get("model") or {}).get("name") or data.get("model_source") or "unknown model"
    )
    status = status_of(run, data, about)
    total = counts.get("docs_total") or 0
    lengths = data.get("n-samples") or {}
    return Summary(
        id=run.id,
        name=run.name,
        kind=run.kind,
        model=str(model),
        date=float(about.get("date") or data.get("date") or run.path.stat().st_mtime),
        status=status,
        seconds=(about.get("seconds") or {}).get("total") or _number(data.get("total_evaluation_time_seconds")),
        tasks=tuple(data.get("configs") or (about.get("config") or {}).get("tasks") or ()),
        samples=sum(int(found.get("effective") or 0) for found in lengths.values())
        or int(counts.get("docs_done") or 0),
        headline=tuple(headline(data)),
        progress=(counts.get("docs_done") or 0) / total if status == "running" and total else None,
        heard=float((progress or {}).get("updated") or about.get("date") or 0),
    )


def status_of(run: Run, data: dict[str, Any], about: dict[str, Any]) -> str:
    """As recorded: `finished`, `imported`, `interrupted`, `failed`, or `running` where there is no end yet."""
    if run.kind == "lm-eval" or about.get("status") == "imported":
        return "imported"
    if about.get("status") in ("interrupted", "failed"):
        return str(about["status"])
    return "finished" if data else "running"


def still_alive(summary: Summary) -> Summary:
    """A run that was killed cannot say so, and its files never change again: only the clock tells."""
    if summary.status == "running" and time.time() - summary.heard > _SILENCE_SECONDS:
        return replace(summary, status="stopped", progress=None)
    return summary


def headline(data: dict[str, Any], most: int = 4) -> Iterator[dict[str, Any]]:
    if "assay" in data:
        roots = (row for row in rows_of(data) if row.depth == 0 and row.first and row.metric)
        for row in islice(roots, most):
            yield {"name": row.alias, "key": f"{row.metric},{row.filter}", "value": row.estimate.value, "stderr": row.estimate.stderr}  # fmt: skip
        return
    shown = data.get("groups") or data.get("results") or {}
    for name, entry in list(shown.items())[:most]:
        for key, value in entry.items():
            if "," in key and "_stderr," not in key and isinstance(value, int | float):
                stderr = entry.get(key.replace(",", "_stderr,", 1))
                yield {"name": str(entry.get("alias", name)).strip(" -"), "key": key, "value": value, "stderr": stderr if isinstance(stderr, int | float) else None}  # fmt: skip
                break


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
