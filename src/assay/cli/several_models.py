"""`assay run` with several models: each on every task, one table at the end."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.cli.display import what_is_missing
from assay.cli.emit import Outputs, emit
from assay.cli.output import echo
from assay.errors import ConfigError, did_you_mean
from assay.results import RunResult, TableRow, rows_of
from assay.show import Column, Findings, Table, kinds
from assay.show.kinds import Name

if TYPE_CHECKING:
    from assay.config import RunConfig
    from assay.run import Cell, MatrixModel


def run_models(
    config: RunConfig, models_file: Path | None, given: Sequence[str], only: str | None, outputs: Outputs
) -> int:
    """Evaluate every model on every task. The directory is the only state: the same command again does what is missing."""
    from assay.evaluation import check_first
    from assay.run import missing_by_model, models_named, plan_cells, read_models

    if not config.tasks:
        raise ConfigError("no tasks were named", hint="Add --tasks NAMES.")
    models = read_models(models_file, config) if models_file is not None else models_named(given, config)
    if only is not None:
        models = [_named(only, models)]
    for model in models:
        check_first(model.config)
    directory = Path(config.run_dir or config.output_path or "runs")
    cells = plan_cells(models, config.tasks, directory)
    missing = missing_by_model(cells)
    echo(f"{len(cells)} cells, {sum(map(len, missing.values()))} to do", err=True)
    if config.dry_run:
        return _forecast(missing, outputs)
    if config.executor != "local" and len(missing) > 1:
        flags = (
            [word for text in given for word in ("--model", text)]
            if models_file is None
            else ["--models", str(models_file)]
        )
        failures = _several_at_once(flags, config, missing, directory)
    else:
        failures = _here(missing, quiet=outputs.is_quiet)
    results = {(cell.model, cell.task): RunResult.load(cell.directory) for cell in cells if cell.is_done()}
    emit(findings(results), outputs)
    for cell, reason in failures.items():
        echo(f"{cell.model} on {cell.task}: {reason}", err=True)
    codes = [3] if failures else [0]
    for (name, _), result in results.items():
        code, said = what_is_missing(result)
        codes.append(code)
        if code:
            echo(f"{name}: {said}", err=True)
    return max(codes)


def _named(name: str, models: Sequence[MatrixModel]) -> MatrixModel:
    by_name = {model.name: model for model in models}
    if name not in by_name:
        hint = did_you_mean(name, by_name) or f"There are: {', '.join(by_name)}."
        raise ConfigError(f"there is no model {name!r}", hint=hint)
    return by_name[name]


@dataclass(frozen=True)
class Forecasts:
    """Of each model over all of its missing cells; every model is loaded once."""

    by_model: Mapping[str, Any]

    def to_dict(self) -> list[dict[str, Any]]:
        return [expected.to_dict() for expected in self.by_model.values()]


def _forecast(missing: dict[str, list[Cell]], outputs: Outputs) -> int:
    from assay.cli.dry_run import forecast_findings, forecast_shown

    made = {}
    for model, cells in missing.items():
        config = cells[0].config.model_copy(update={"tasks": [cell.task for cell in cells], "run_dir": None})
        expected = forecast_shown(config, quiet=outputs.is_quiet)
        made[model] = forecast_findings(expected, f"What {model} would be sent", model=model)
    tables = tuple(Table(t.columns, t.rows, t.title, each.notes[:-1]) for each in made.values() for t in each.tables)
    result = Forecasts({model: each.result for model, each in made.items()})
    return emit(
        Findings("What these runs would send", tables=tables, notes=("Nothing was sent.",), result=result), outputs
    )


def _here(missing: dict[str, list[Cell]], *, quiet: bool) -> dict[Cell, str]:
    """Model after model, in this process."""
    from assay.cli.display import show_progress
    from assay.evaluation import evaluate
    from assay.run import run_model

    failures: dict[Cell, str] = {}
    for cells in missing.values():
        with show_progress(quiet=quiet) as progress:
            failures |= run_model(
                cells, lambda config, lm: evaluate(config, model=lm, progress=progress), progress.message
            )
    return failures


def _several_at_once(
    models: Sequence[str], config: RunConfig, missing: dict[str, list[Cell]], directory: Path
) -> dict[Cell, str]:
    """Each model driven by a process of its own, which shares the executor's machines and the store."""
    from assay.run import executor_of

    directory.mkdir(parents=True, exist_ok=True)
    with executor_of(config).share(config, len(missing), lambda text: echo(text, err=True)) as (at_once, shared):
        changes = {**shared, "run_dir": None, "output_path": str(directory)}
        # Its processes need the whole config, secrets too; so nobody else may read it, and it goes with them.
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".json") as written:
            written.write(config.model_copy(update=changes).model_dump_json(exclude_none=True))
            written.flush()
            command = [sys.executable, "-m", "assay", "run", *models, "--config", written.name]
            return _drive(command, missing, at_once, directory)


def _drive(base: Sequence[str], missing: dict[str, list[Cell]], at_once: int, directory: Path) -> dict[Cell, str]:
    """Run one process a model, so many at once; what a process left undone failed."""
    import time

    waiting = list(missing)
    running: dict[str, subprocess.Popen[bytes]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                name = waiting.pop(0)
                with open(directory / f"{missing[name][0].directory.parent.name}.log", "a", encoding="utf-8") as log:
                    running[name] = subprocess.Popen([*base, "--only", name], stdout=log, stderr=log)
                echo(f"{name}: started", err=True)
            for name in [name for name, process in running.items() if process.poll() is not None]:
                code = running.pop(name).returncode
                echo(f"{name}: {'done' if code == 0 else f'ended with {code}'}", err=True)
            time.sleep(0.2)
    finally:
        for process in running.values():
            process.terminate()
        for process in running.values():
            process.wait()
    return {
        cell: f"not finished; see {directory / cell.directory.parent.name}.log"
        for cells in missing.values()
        for cell in cells
        if not cell.is_done()
    }


@dataclass(frozen=True)
class ModelNumbers:
    """Every number of every cell."""

    results: Mapping[tuple[str, str], RunResult]

    def to_dict(self) -> list[dict[str, Any]]:
        of_row = ("name", "depth", "metric", "filter")
        of_estimate = ("value", "stderr", "low", "high", "n", "undefined")
        return [
            {
                "model": model,
                "cell": task,
                **{name: getattr(row, name) for name in of_row},
                **{name: getattr(row.estimate, name) for name in of_estimate},
            }
            for (model, task), result in self.results.items()
            for row in rows_of(result)
            if row.key is not None
        ]


ModelRow = tuple[str, TableRow]
COLUMNS: tuple[Column[ModelRow], ...] = (
    Column("task", kinds.NAME, lambda item: Name(item[1].alias, item[1].name), "name", shrinks=True),
    Column("metric", kinds.TEXT, lambda item: item[1].metric, shrinks=True),
    Column("model", kinds.TEXT, lambda item: item[0], shrinks=True),
    Column("value ± stderr", kinds.WITH_ERROR, lambda item: item[1].estimate, "value"),
    Column("95 % interval", kinds.INTERVAL, lambda item: item[1].estimate, "", rank=1),
    Column("n", kinds.COUNT, lambda item: item[1].estimate.n, rank=2),
)


def findings(results: Mapping[tuple[str, str], RunResult]) -> Findings:
    """The first number of every task, model under model."""
    first = [
        (model, row)
        for task in dict.fromkeys(task for _, task in results)
        for (model, of_task), result in results.items()
        if of_task == task and (row := next((row for row in rows_of(result) if row.key is not None), None)) is not None
    ]
    table = Table.of(COLUMNS, first, row=lambda item: {"note": item[1].note, "note_tone": "warn"})
    models = len({model for model, _ in results})
    return Findings(f"{models} models", tables=(table,), result=ModelNumbers(results))
