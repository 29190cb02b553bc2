"""Which runs there are below the given directories. A run is known by an id; no path ever comes from a URL."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from assay.errors import ConfigError
from assay.finished import RUN_FORMATS, export_run, read_scores, readable_formats
from assay.results import RunResult, TableRow, rows_of
from assay.run import Counts
from assay.show import marks_of
from assay.view.untrusted import blaming, parse_result, read_json, require_plain_files

T = TypeVar("T")

_RESCAN_SECONDS = 2.0
_SILENCE_SECONDS = 120.0
"""A run writes how far it is every second; after so long without a word it is not running any more."""
_DEPTH = 6
_HELD_FILES = 16
"""Parsed files that are held in memory; the results of a large suite are megabytes."""


@dataclass(frozen=True)
class RunEntry:
    """One run on disk: a directory of ours, or what another harness wrote."""

    id: str
    path: Path
    root: Path
    kind: str = "assay"
    """The name of its format. A run of another harness may be a file."""

    @property
    def name(self) -> str:
        """Where it lies below the directory that was given."""
        relative = self.path.relative_to(self.root)
        return str(relative) if str(relative) != "." else self.path.name


@dataclass(frozen=True)
class RunFile:
    """What `run.json` says, as far as pages show it."""

    status: str = ""
    date: float = 0.0
    model: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    counts: Counts | None = None

    @classmethod
    def parse(cls, data: Any) -> RunFile:
        known = _known_fields(cls, data)
        return cls(
            **{**known, "counts": Counts(**_known_fields(Counts, known["counts"])) if known.get("counts") else None}
        )


@dataclass(frozen=True)
class ProgressFile:
    """`progress.json`: how far a run is, and when it said so."""

    counts: Counts
    updated: float = 0.0

    @classmethod
    def parse(cls, data: Any) -> ProgressFile:
        return cls(Counts(**_known_fields(Counts, data)), data.get("updated") or 0.0)


def _known_fields(kind: Any, data: Any) -> dict[str, Any]:
    """The fields that a file sets. A newer version may have written more."""
    return {each.name: data[each.name] for each in fields(kind) if data.get(each.name) is not None}


@dataclass(frozen=True)
class RunSummary:
    """What the list of runs shows of one."""

    id: str
    name: str
    kind: str
    model: str
    date: float
    status: str
    seconds: float | None = None
    tasks: tuple[str, ...] = ()
    samples: int = 0
    headline: tuple[TableRow, ...] = ()
    """The first number of the topmost tasks and groups."""
    progress: float | None = None
    problem: str | None = None
    marks: tuple[str, ...] = ()
    """What is not as usual about how it was made: limit, shots, chat, seeds."""
    arguments: tuple[tuple[str, str], ...] = ()
    """Of the model, as far as they tell runs apart: revision, step, …"""
    heard: float = 0.0
    """When the run last wrote something of itself."""


class Library:
    """The runs below some directories, read when they are wanted and again when their files change."""

    def __init__(self, places: Sequence[Path], scratch: Path) -> None:
        """`places` are directories, or files of other harnesses."""
        self.places = [place.resolve() for place in places]
        self.roots = [place for place in self.places if not place.is_file()]
        self.scratch = scratch
        """Where runs of other harnesses are stored once they are converted."""
        for file in self.places:
            if file.is_file() and not any(find_runs(file)):
                raise ConfigError(
                    f"{file} is no run with samples to view",
                    hint="A table of scores has none; `assay rank` ranks its runs.",
                )
        self._runs: dict[str, RunEntry] = {}
        self._scanned = 0.0
        self._parsed: OrderedDict[tuple[Path, int, int], Any] = OrderedDict()
        self._summaries: dict[str, tuple[tuple[int, ...], RunSummary]] = {}
        self._lock = threading.RLock()

    def runs(self) -> list[RunEntry]:
        with self._lock:
            if time.monotonic() - self._scanned > _RESCAN_SECONDS:
                self._runs = {run.id: run for place in self.places for run in find_runs(place)}
                self._scanned = time.monotonic()
            return list(self._runs.values())

    def get(self, run_id: str) -> RunEntry | None:
        if run_id not in self._runs:
            self.runs()
        return self._runs.get(run_id)

    def directory(self, run: RunEntry) -> Path:
        """Where the run's files lie; runs of other harnesses are converted once, into the scratch directory."""
        if run.kind == "assay":
            return run.path
        target = self.scratch / run.id / run.path.name  # people read the name, in comparisons
        with self._lock:
            if not (target / "results.json").is_file():
                with blaming(run.path):
                    require_plain_files(run.path, run.root)
                    export_run(run.path, "assay", target)
        return target

    def results(self, run: RunEntry) -> RunResult | None:
        """What the run found, or None while it goes on."""
        return self._parse(self.directory(run) / "results.json", parse_result)

    def run_file(self, run: RunEntry) -> RunFile:
        return self._parse(self.directory(run) / "run.json", RunFile.parse) or RunFile()

    def progress(self, run: RunEntry) -> ProgressFile | None:
        return self._parse(run.path / "progress.json", ProgressFile.parse) if run.kind == "assay" else None

    def sample_file(self, run: RunEntry, task: str) -> Path | None:
        """The task's samples. The name stands in the results, which may be anyone's: it must lead into the run."""
        result = self.results(run)
        name = result.tasks[task].sample_file if result is not None and task in result.tasks else None
        if name is None or "\0" in name:
            return None
        directory = self.directory(run).resolve()
        path = (directory / name).resolve()
        inside = path.is_relative_to(directory) and path.suffix == ".parquet" and path.is_file()
        return path if inside else None

    def summary(self, run: RunEntry) -> RunSummary:
        stamps = _stamps(run)
        with self._lock:
            known = self._summaries.get(run.id)
            if known is None or known[0] != stamps:
                known = (stamps, self._summarize(run))
                self._summaries[run.id] = known
            return still_alive(known[1])

    def _summarize(self, run: RunEntry) -> RunSummary:
        try:
            return self._read_summary(run)
        except Exception as error:  # one bad run is one bad row, whatever is bad about it
            return RunSummary(run.id, run.name, run.kind, "", _modified(run.path), "unreadable", problem=str(error))

    def _read_summary(self, run: RunEntry) -> RunSummary:
        if run.kind != "assay":  # the numbers alone: converting all samples of all runs would take minutes
            return summary_of(run, read_foreign_scores(run), RunFile(), None)
        return summary_of(run, self.results(run), self.run_file(run), self.progress(run))

    def _parse(self, path: Path, parse: Callable[[Any], T]) -> T | None:
        """What a file holds; None where there is none. Held until the file changes."""
        try:
            stat = path.stat()
        except OSError:
            return None
        key = (path, stat.st_mtime_ns, stat.st_size)
        with self._lock:
            if key in self._parsed:
                self._parsed.move_to_end(key)
                held: T = self._parsed[key]
                return held
        parsed = read_json(path, parse)
        with self._lock:
            self._parsed[key] = parsed
            while len(self._parsed) > _HELD_FILES:
                self._parsed.popitem(last=False)
        return parsed


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def read_foreign_scores(run: RunEntry) -> RunResult:
    """The numbers of a run of another harness."""
    row = RUN_FORMATS[run.kind]
    with blaming(run.path):
        require_plain_files(run.path, run.root)
        return read_scores(run.path, run.kind, row)


def find_runs(root: Path) -> Iterator[RunEntry]:
    """The runs of any format below a directory, or in one file. Links are not followed: they may lead out of it."""
    if root.is_file():
        yield from _foreign_runs(root.parent, [root.name], root.parent)
        return
    for folder, inner, files in os.walk(root, followlinks=False):
        path = Path(folder)
        depth = len(path.relative_to(root).parts)
        inner[:] = [] if depth >= _DEPTH else sorted(name for name in inner if not name.startswith("."))
        if "run.json" in files:
            inner[:] = []
            yield RunEntry(_id_of(path), path, root)
        else:
            yield from _foreign_runs(path, sorted(files), root)


def _foreign_runs(folder: Path, names: Sequence[str], root: Path) -> Iterator[RunEntry]:
    for kind, row in readable_formats():
        for place in row.places(folder, names):
            if not place.is_symlink():
                yield RunEntry(_id_of(place), place, root, kind)


def _id_of(path: Path) -> str:
    """The same for the same place, so that a link lives longer than the server."""
    return hashlib.sha256(str(path).encode("utf-8", "surrogateescape")).hexdigest()[:12]


def _stamps(run: RunEntry) -> tuple[int, ...]:
    names = ("run.json", "results.json", "progress.json") if run.kind == "assay" else ("",)
    stamps = []
    for name in names:
        try:
            stamps.append((run.path / name).stat().st_mtime_ns if name else run.path.stat().st_mtime_ns)
        except OSError:
            stamps.append(0)
    return tuple(stamps)


def summary_of(run: RunEntry, result: RunResult | None, about: RunFile, progress: ProgressFile | None) -> RunSummary:
    """The line of one run. `about` knows more of a run of ours than its results do."""
    counts = (progress.counts if progress is not None else about.counts) or Counts()
    status = status_of(run, result, about)
    model = (result.model_name if result is not None else "") or about.model.get("name")
    dates = (about.date, result.date if result is not None else 0.0)
    planned = about.config.get("tasks")
    docs = sum(task.sample_len for task in result.tasks.values()) if result is not None else 0
    config = about.config or (result.config if result is not None else {})
    shots = tuple(task.num_fewshot or 0 for task in result.tasks.values()) if result is not None else ()
    return RunSummary(
        id=run.id,
        name=run.name,
        kind=run.kind,
        model=str(model or "unknown model"),
        date=next((date for date in dates if 0 < date < _YEAR_3000), run.path.stat().st_mtime),
        status=status,
        seconds=about.seconds.get("total") or (result.seconds if result is not None else None),
        tasks=tuple(
            sorted(result.tasks) if result is not None else map(str, planned if isinstance(planned, list) else ())
        ),
        samples=docs or counts.docs_done,
        headline=tuple(headline(result)) if result is not None else (),
        progress=counts.docs_done / counts.docs_total if status == "running" and counts.docs_total else None,
        marks=tuple(marks_of(config, shots)),
        arguments=tuple(plain_arguments(config.get("model_args"))),
        heard=(progress.updated if progress is not None else 0.0) or about.date,
    )


def plain_arguments(given: Any) -> Iterator[tuple[str, str]]:
    """The arguments of a model that are names and numbers; addresses and nested settings tell a reader little."""
    for name, value in given.items() if isinstance(given, Mapping) else ():
        if isinstance(value, str | int | float) and "://" not in str(value) and len(str(value)) <= 80:
            yield str(name), str(value)


_YEAR_3000 = 32_503_680_000
"""A date beyond is none: clocks cannot show it."""


def status_of(run: RunEntry, result: RunResult | None, about: RunFile) -> str:
    """As recorded: `finished`, `imported`, `interrupted`, `failed`, or `running` where there is no end yet."""
    if run.kind != "assay" or about.status == "imported":
        return "imported"
    if about.status in ("interrupted", "failed"):
        return about.status
    return "running" if result is None else "finished"


def still_alive(summary: RunSummary) -> RunSummary:
    """A run that was killed cannot say so, and its files never change again: only the clock tells."""
    if summary.status == "running" and time.time() - summary.heard > _SILENCE_SECONDS:
        return replace(summary, status="stopped", progress=None)
    return summary


def headline(result: RunResult, most: int = 4) -> Iterator[TableRow]:
    """The first number of each of the topmost tasks and groups."""
    return islice((row for row in rows_of(result) if row.depth == 0 and row.first and row.key is not None), most)
