"""The formats of runs, one row a harness: how its files are found and read, how they are written, and what they lack."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, cast

from assay.data import HubClient
from assay.errors import AssayError, ConfigError, DataError, UnknownName, did_you_mean
from assay.finished.run import Run, blaming
from assay.registry import Registry
from assay.results import RunResult

logger = logging.getLogger(__name__)

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
    joins_draws: bool = False
    """Whether `write` makes one sample of a doc's draws, whose score is their mean."""
    proposed: Callable[[Path, Sequence[Path], Callable[[], str]], dict[str, bytes]] | None = None
    """For a pull request to a model's repository: the files that were written to a folder as files there, by their paths; the
    last argument reads the README that is there now."""
    lacks: Mapping[str, str] = field(default_factory=dict)
    """Parts of a run that its files never have (see `PARTS`), each with what would have them."""
    places: Callable[[Path, Sequence[str]], Iterator[Path]] = lambda folder, names: iter(())
    """For lists of runs: which of the files in a folder, by their names alone, are runs; or the folder itself."""
    scores: Callable[[Path], RunResult] | None = None
    """For lists of runs: the scores without the samples, where that is less to read."""
    is_general: bool = False
    """Whether its files can only be told by their kind, as any CSV; such formats are tried last."""
    files: str = "files of its own"
    """What is looked for, in a few words."""


RUN_FORMATS = Registry[RunFormat](
    "run format",
    group=("assay.run_readers", "assay.exports"),
    lazy={
        "assay": "assay.finished.own:FORMAT",
        "csv": "assay.finished.plain_files:CSV",
        "eee": "assay.finished.every_eval_ever:FORMAT",
        "eval-framework": "assay.finished.eval_framework:FORMAT",
        "eval-results": "assay.finished.publishing:EVAL_RESULTS",
        "harbor": "assay.finished.harbor:FORMAT",
        "inspect": "assay.finished.inspect.reading:FORMAT",
        "jsonl": "assay.finished.plain_files:JSONL",
        "lighteval": "assay.finished.lighteval:FORMAT",
        "lm-eval": "assay.finished.lm_eval.run_files:FORMAT",
        "model-card": "assay.finished.publishing:MODEL_CARD",
        "nemo-evaluator": "assay.finished.nemo_evaluator:FORMAT",
        "openai-evals": "assay.finished.openai_evals:FORMAT",
        "parquet": "assay.finished.plain_files:PARQUET",
        "table": "assay.finished.score_tables:FORMAT",
        "verifiers": "assay.finished.verifiers:FORMAT",
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
        return _checked(row.read(Path(path)))


def open_runs(path: str | Path) -> list[Run]:
    """The run at a path, or all runs of a file that holds several."""
    name, row = format_at(path)
    if row.read_all is None:
        return [open_run(path)]
    with blaming(Path(path), name):
        return [_checked(run) for run in row.read_all(Path(path))]


def read_scores(path: Path, name: str, row: RunFormat) -> RunResult:
    """The scores of a run, without its samples where that is less to read."""
    if row.scores is None:
        return open_run(path).result
    with blaming(path, name):
        return row.scores(path).checked()


def _checked(run: Run) -> Run:
    try:
        return replace(run, result=run.result.checked())
    except DataError as error:
        raise DataError(f"{run.path}: {error.message}", hint=error.hint) from None


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
        hint=f"Looked for: {'; '.join(f'{name}: {row.files}' for name, row in readable_formats())}.",
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
        written = row.write(opened, folder, **settings)
        if row.joins_draws and (tasks := [task for task in opened.tasks if _has_draws(opened, task)]):
            logger.warning(
                "%s: several draws a doc are written as one sample, whose score is their mean", ", ".join(tasks)
            )
        return written
    except AssayError:
        _remove_empty(new)
        raise
    except UnicodeEncodeError as error:
        _remove_empty(new)
        raise ConfigError(
            f"{opened.path} has half of a surrogate pair in a name, {error.object[error.start : error.end]!r}, which no file can have",
            hint="Rename the task, metric or model in its files.",
        ) from error
    except OSError as error:
        _remove_empty(new)
        raise ConfigError(
            f"cannot write to {folder}: {error.strerror or error}", hint="Choose another directory with -o."
        ) from error


def _has_draws(run: Run, task: str) -> bool:
    return any(doc.draws > 1 for doc in islice(run.docs(task), 1))


def propose_run(run: str | Path | Run, to: str, output: str | Path, repo: str, **settings: Any) -> str:
    """Writes the run as `export_run` does and opens a pull request with it at the model's repository; gives its address."""
    row = writable_format(to, settings)
    if row.proposed is None:
        takers = [name for name in RUN_FORMATS if RUN_FORMATS[name].proposed is not None]
        raise ConfigError(f"--to {to} takes no --pull_request", hint=f"It is for --to {', '.join(takers)}.")
    written, hub = export_run(run, to, output, **settings), HubClient()
    files = row.proposed(Path(output), written, lambda: hub.readme(repo))
    return hub.propose(repo, files, "Scores measured with Assay")


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
