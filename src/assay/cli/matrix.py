"""`assay matrix`: several models on many tasks, one table at the end."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli.foreign_flags import RunCommand
from assay.cli.options import RUN_OPTIONS, with_options
from assay.cli.output import echo, echo_json
from assay.errors import ConfigError, did_you_mean
from assay.show import EDGE, Column, FittedTable
from assay.terminal_text import one_line

if TYPE_CHECKING:
    from assay.config import RunConfig
    from assay.results import RunResult
    from assay.run import Cell, MatrixModel


@click.command("matrix", cls=RunCommand, short_help="Evaluate several models on many tasks, in one table.")
@click.option(
    "--models",
    "models_file",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="YAML list of models; each can set any flag of `assay run`.",
)
@click.option("--only", metavar="NAME", help="Only this model from the list.")
@click.option("--json", "as_json", is_flag=True, help="Print every number as JSON.")
@with_options(RUN_OPTIONS)
def command(models_file: Path, only: str | None, as_json: bool, **given: Any) -> None:
    """Evaluate every model in a list on every task.

    \b
    assay matrix --models models.yaml --tasks arc_easy,gsm8k --output_path nightly
    assay matrix --models models.yaml --tasks arc_easy --dry_run
    assay matrix --models models.yaml --tasks mmlu --executor ray --ray_address auto

    The directory is the only state: run the same command again and it does only what is missing. Models are loaded once
    for all their tasks; on a cluster, several are evaluated at once.
    """
    from assay.cli.options import resolve_config
    from assay.evaluation import check_first
    from assay.run import missing_by_model, plan_cells, read_models

    config = resolve_config(given, output_path="matrix")
    if not config.tasks:
        raise ConfigError("no tasks were named", hint="Add --tasks NAMES.")
    models = read_models(models_file, config)
    if only is not None:
        models = [_named(only, models, models_file)]
    for model in models:
        check_first(model.config)
    directory = Path(config.run_dir or config.output_path or "matrix")
    cells = plan_cells(models, config.tasks, directory)
    missing = missing_by_model(cells)
    echo(f"{len(cells)} cells, {sum(map(len, missing.values()))} to do", err=True)
    if config.dry_run:
        _forecast(missing, as_json=as_json)
        return
    if config.executor == "ray" and len(missing) > 1:
        failures = _on_cluster(models_file, config, missing, directory)
    else:
        failures = _here(missing, quiet=as_json)
    withheld = _show(cells, models, config.tasks, as_json=as_json)
    for cell, reason in failures.items():
        echo(f"{cell.model} on {cell.task}: {reason}", err=True)
    if withheld:
        echo(f"withheld: {', '.join(withheld)}", err=True)
    if failures or withheld:
        sys.exit(3 if failures else 1)


def _named(name: str, models: Sequence[MatrixModel], file: Path) -> MatrixModel:
    by_name = {model.name: model for model in models}
    if name not in by_name:
        hint = did_you_mean(name, by_name) or f"It has: {', '.join(by_name)}."
        raise ConfigError(f"{file} has no model {name!r}", hint=hint)
    return by_name[name]


def _forecast(missing: dict[str, list[Cell]], *, as_json: bool) -> None:
    """What each model would be asked over all of its missing cells; every model is loaded once."""

    from assay.cli.dry_run import forecast_dict, forecast_shown, show_forecast

    forecasts = {}
    for model, cells in missing.items():
        config = cells[0].config.model_copy(update={"tasks": [cell.task for cell in cells], "run_dir": None})
        forecasts[model] = forecast_shown(config, quiet=as_json)
        if not as_json:
            show_forecast(forecasts[model], f"What {model} would be asked")
    if as_json:
        echo_json([{"model": model, **forecast_dict(f)} for model, f in forecasts.items()], indent=2)
    else:
        echo("Nothing was sent.")


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


def _on_cluster(
    models_file: Path, config: RunConfig, missing: dict[str, list[Cell]], directory: Path
) -> dict[Cell, str]:
    """Several models at once, each driven by a process of its own that shares the cluster and the store."""
    from assay.cluster import connect, import_ray, node_resources, plan_replicas
    from assay.run import share_out

    started_here = connect(config.ray_address, config.replicas)
    ray = import_ray()
    try:
        replicas, each = plan_replicas(
            config.replicas, config.gpus_per_replica or 0.0, config.cpus_per_replica, node_resources()
        )
        per_model, at_once = share_out(len(missing), replicas)
        address = ray.get_runtime_context().gcs_address
        echo(f"{at_once} models at once, {per_model} replicas each, on {address}", err=True)
        shared = {"ray_address": address, "replicas": per_model, "cpus_per_replica": each.cpus}
        shared |= {"run_dir": None, "output_path": str(directory)}
        directory.mkdir(parents=True, exist_ok=True)
        # Its processes need the whole config, secrets too; so nobody else may read it, and it goes with them.
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".json") as written:
            written.write(config.model_copy(update=shared).model_dump_json(exclude_none=True))
            written.flush()
            command = [sys.executable, "-m", "assay", "matrix", "--models", str(models_file), "--config", written.name]
            return _drive(command, missing, at_once, directory)
    finally:
        ray.shutdown()
        if started_here:
            echo("the local cluster was stopped", err=True)


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


def _number_rows(results: Mapping[tuple[str, str], RunResult]) -> list[dict[str, Any]]:
    from assay.results import rows_of

    of_row, of_estimate = ("name", "depth", "metric", "filter"), ("value", "stderr", "low", "high", "n", "undefined")
    return [
        {
            "model": model,
            "cell": task,
            **{name: getattr(row, name) for name in of_row},
            **{name: getattr(row.estimate, name) for name in of_estimate},
        }
        for (model, task), result in results.items()
        for row in rows_of(result)
        if row.key is not None
    ]


def _show(cells: Sequence[Cell], models: Sequence[MatrixModel], tasks: Sequence[str], *, as_json: bool) -> list[str]:
    """A row a task, a column a model; every number of every cell with --json. Which scores are withheld."""

    from assay.cli.display import console
    from assay.results import RunResult

    results = {(cell.model, cell.task): RunResult.load(cell.directory) for cell in cells if cell.is_done()}
    withheld = [f"{task} of {model}" for (model, _), result in results.items() for task in result.withheld]
    if as_json:
        echo_json(_number_rows(results), indent=2)
        return withheld
    out = console()
    wide, tall = matrix_tables(results, [model.name for model in models], tasks)
    out.print(wide if wide.fits(out.width - 2 * EDGE) else tall)
    return withheld


def matrix_tables(
    results: Mapping[tuple[str, str], RunResult], models: Sequence[str], tasks: Sequence[str]
) -> tuple[FittedTable, FittedTable]:
    """A column a model; and, for a window that has no room for them, a row for each task and model."""
    from assay.results import rows_of

    names = [Column("task", shrinks=True), Column("metric", shrinks=True)]
    wide = FittedTable([*names, *(Column(one_line(model), right=True) for model in models)])
    tall = FittedTable([*names, Column("model", shrinks=True), Column("value", right=True)])
    for task in tasks:
        rows = {
            model: next((row for row in rows_of(results[model, task]) if row.key is not None), None)
            for model in models
            if (model, task) in results
        }
        metric = one_line(next((row.metric for row in rows.values() if row is not None), ""))
        shown = {model: f"{row.value_text} {row.stderr_text}" if (row := rows.get(model)) else "–" for model in models}
        notes = {model: one_line(row.note) for model, row in rows.items() if row is not None and row.note}
        wide.add(
            [one_line(task), metric, *shown.values()], "; ".join(f"{one_line(m)}: {note}" for m, note in notes.items())
        )
        for position, (model, value) in enumerate(shown.items()):
            first = ["" if position else one_line(task), "" if position else metric]
            tall.add([*first, one_line(model), value], notes.get(model, ""))
    return wide, tall
