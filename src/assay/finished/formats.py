"""The formats of runs, one row a harness: how its files are found and read, how they are written, and what they lack."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from assay.errors import AssayError, ConfigError, UnknownName, did_you_mean
from assay.finished.run import Run, blaming
from assay.registry import Registry
from assay.results import RunResult

WriteRun = Callable[..., list[Path]]
"""`(run, folder, **settings)` to the files that were written there."""


@dataclass(frozen=True)
class RunFormat:
    """One format of runs: readable, writable or both."""

    finds: Callable[[Path], bool] = lambda path: False
    """Whether a run of this format is at a path or below it."""
    read: Callable[[Path], Run] | None = None
    read_all: Callable[[Path], list[Run]] | None = None
    """Where one file may hold several runs."""
    write: WriteRun | None = None
    settings: tuple[str, ...] = ()
    """Keyword arguments that `write` takes."""
    needs: tuple[str, ...] = ()
    """Parts that a run must have to be written so."""
    lacks: Mapping[str, str] = field(default_factory=dict)
    """Parts of a run that its files never have (see `PARTS`), each with what would have them."""
    places: Callable[[Path, Sequence[str]], Iterator[Path]] = lambda folder, names: iter(())
    """For lists of runs: which of the files in a folder, by their names alone, are runs; or the folder itself."""
    scores: Callable[[Path], RunResult] | None = None
    """For lists of runs: the scores without the samples, where that is less to read."""
    is_general: bool = False
    """Whether its files can only be told by their kind, as any CSV; such formats are tried last."""


RUN_FORMATS = Registry[RunFormat](
    "run format",
    group=("assay.run_readers", "assay.exports"),
    lazy={
        "assay": "assay.finished.own:FORMAT",
        "csv": "assay.finished.plain_files:CSV",
        "eee": "assay.finished.publishing:EVERY_EVAL_EVER",
        "eval-results": "assay.finished.publishing:EVAL_RESULTS",
        "harbor": "assay.finished.harbor:FORMAT",
        "inspect": "assay.finished.inspect.reading:FORMAT",
        "jsonl": "assay.finished.plain_files:JSONL",
        "lighteval": "assay.finished.lighteval:FORMAT",
        "lm-eval": "assay.finished.lm_eval.run_files:FORMAT",
        "model-card": "assay.finished.publishing:MODEL_CARD",
        "nemo-evaluator": "assay.finished.nemo_evaluator:FORMAT",
        "parquet": "assay.finished.plain_files:PARQUET",
        "table": "assay.finished.score_tables:FORMAT",
    },
    made_of=lambda name, entry: entry if isinstance(entry, RunFormat) else RunFormat(write=cast(WriteRun, entry)),
)
"""All formats by name. Packages add rows, or plain functions `(run, folder)` that write; the first that finds its files reads them."""


def readable_formats() -> Iterator[tuple[str, RunFormat]]:
    """In the order in which they are tried."""
    rows = [(name, row) for name in RUN_FORMATS if (row := RUN_FORMATS.get_installed(name)) is not None]
    return iter(sorted((each for each in rows if each[1].read is not None), key=lambda each: each[1].is_general))


def open_run(path: str | Path) -> Run:
    """A run directory of ours, or what another harness wrote (also a single file of theirs)."""
    name, row = format_at(path)
    assert row.read is not None
    with blaming(Path(path), name):
        return row.read(Path(path))


def open_runs(path: str | Path) -> list[Run]:
    """The run at a path, or all runs of a file that holds several."""
    name, row = format_at(path)
    if row.read_all is None:
        return [open_run(path)]
    with blaming(Path(path), name):
        return row.read_all(Path(path))


def format_at(path: str | Path) -> tuple[str, RunFormat]:
    """Whose files are at a path."""
    where = Path(path)
    if not where.exists():
        raise ConfigError(f"{path} does not exist", hint="Use the directory of a finished run.")
    for name, row in readable_formats():
        if row.finds(where):
            return name, row
    raise ConfigError(
        f"{path} contains no run that can be read",
        hint="Known: run directories of Assay, results and samples of lm-evaluation-harness, details of lighteval (Parquet), "
        ".eval logs of inspect, tables of scores (CSV, Parquet, npz).",
    )


def export_run(run: str | Path | Run, to: str, output: str | Path, **settings: Any) -> list[Path]:
    """Writes any run in the named format to `output` and returns the files. `settings` are what that format takes."""
    row = writable_format(to, settings)
    opened = run if isinstance(run, Run) else open_run(run)
    opened.require(*row.needs)
    folder = Path(output)
    new = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        assert row.write is not None
        return row.write(opened, folder, **settings)
    except AssayError:
        _remove_empty(new)
        raise
    except OSError as error:
        _remove_empty(new)
        raise ConfigError(
            f"cannot write to {folder}: {error.strerror or error}", hint="Choose another directory with -o."
        ) from error


def _remove_empty(made: Sequence[Path]) -> None:
    """Directories that were made for files that were not written, the innermost first."""
    for place in made:
        inside = sorted((each for each in place.rglob("*") if each.is_dir()), reverse=True) if place.is_dir() else []
        for each in (*inside, place):
            with suppress(OSError):  # it holds something, or was never made
                each.rmdir()


def writable_format(to: str, settings: Mapping[str, Any]) -> RunFormat:
    """The format of this name; an error where it cannot be written, which names those that can, or takes no such setting."""
    row = RUN_FORMATS.get(to)
    if row is None or row.write is None:
        known = [name for name in RUN_FORMATS if RUN_FORMATS[name].write is not None]
        why = "cannot be written" if row is not None else "is not known"
        raise UnknownName(
            f"the format {to!r} {why}", hint=did_you_mean(to, known) or f"Formats to write: {', '.join(known)}."
        )
    for name in settings:
        if name not in row.settings:
            takers = [each for each in RUN_FORMATS if name in RUN_FORMATS[each].settings]
            raise ConfigError(f"--to {to} takes no --{name}", hint=f"It is for --to {', '.join(takers)}.")
    return row
