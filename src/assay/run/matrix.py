"""Several models on many tasks: what is to be done, what is done already, and in which order.

A cell is one model on one task or group, in a run directory of its own: `DIRECTORY/<model>/<task>`. The directory is
the only state: a cell whose run is finished, had an answer to each request and was run with the same settings is not run
again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from assay.config import RunConfig, parse_settings
from assay.errors import AssayError, ConfigError, did_you_mean
from assay.models import LM
from assay.results import RunDirectory, RunResult, differences, sanitize
from assay.run.prepare import model_for
from assay.run.progress import Interrupted


@dataclass(frozen=True, slots=True)
class MatrixModel:
    name: str
    config: RunConfig


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    model: str
    task: str
    config: RunConfig

    @property
    def directory(self) -> Path:
        assert self.config.run_dir is not None
        return Path(self.config.run_dir)

    def is_done(self) -> bool:
        """Finished, with the settings of now."""
        directory = RunDirectory(self.directory)
        run = directory.read_json("run.json")
        if run is None or run.get("status") != "finished" or directory.read_json("results.json") is None:
            return False
        return not differences(run.get("config", {}), self.config)

    def make_room(self) -> list[str]:
        """Remove a run with other settings, and say which: a cell holds what the matrix says now."""
        directory = RunDirectory(self.directory)
        run = directory.read_json("run.json")
        other = [] if run is None else differences(run.get("config", {}), self.config)
        if other:
            directory.clear()
            (directory.path / "run.json").unlink()
        return other


def read_models(path: Path, base: RunConfig) -> list[MatrixModel]:
    """The models of a YAML file, each with the flags of `assay run` that it needs for itself.

    models:
      - dummy                                     # a backend without arguments
      - name: small                               # names the directory and the column
        model: hf
        model_args: {pretrained: smollm2-135m}
        apply_chat_template: true                 # any flag of `assay run`
    """
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path} cannot be read: {error}", hint="Write `models:` with a list below it.") from error
    entries = found.get("models") if isinstance(found, dict) else found
    if not isinstance(entries, list) or not entries:
        raise ConfigError(f"{path} lists no models", hint="Write `models:` with a list below it.")
    models = [_read_model(path, entry, base) for entry in entries]
    names = [sanitize(model.name) for model in models]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"{path} names {name!r} twice", hint="Give each model a different `name`.")
    return models


def models_named(texts: Sequence[str], base: RunConfig) -> list[MatrixModel]:
    """Models as they are typed, `hf,pretrained=gpt2` each; their names are what tells them apart."""
    models = []
    for text in texts:
        name, _, arguments = text.partition(",")
        config = RunConfig(
            **{**base.model_dump(), "model": name, "model_args": {**base.model_args, **parse_settings(arguments)}}
        )
        args = config.model_args
        models.append(MatrixModel(str(args.get("pretrained") or args.get("model") or text), config))
    if len({sanitize(model.name) for model in models}) < len(models):
        models = [MatrixModel(text, model.config) for text, model in zip(texts, models, strict=True)]
    return models


def _read_model(path: Path, entry: Any, base: RunConfig) -> MatrixModel:
    kwargs: Mapping[str, Any] = {"model": entry} if isinstance(entry, str) else entry
    if not isinstance(kwargs, dict):
        raise ConfigError(
            f"{path}: {entry!r} is not a model", hint="Write a backend's name, or a mapping with `model`."
        )
    for key in kwargs:
        if key != "name" and key not in RunConfig.model_fields:
            raise ConfigError(f"{path}: unknown key {key!r}", hint=did_you_mean(key, ["name", *RunConfig.model_fields]))
    settings = {key: value for key, value in kwargs.items() if key != "name"}
    try:
        config = RunConfig(**{**base.model_dump(), **settings})
    except ConfigError as error:
        named = kwargs.get("name") or kwargs.get("model") or "a model"
        raise error.reworded(f"{path}: {named}: {error.message}") from error
    args = config.model_args
    name = kwargs.get("name") or args.get("pretrained") or args.get("model") or config.model
    return MatrixModel(str(name), config)


def plan_cells(models: Sequence[MatrixModel], tasks: Sequence[str], directory: Path) -> list[Cell]:
    """The cross product, model by model, so that each is loaded once."""
    return [
        Cell(
            model.name,
            task,
            model.config.model_copy(
                update={
                    "tasks": [task],
                    "run_dir": str(directory / sanitize(model.name) / sanitize(task)),
                    "output_path": None,
                }
            ),
        )
        for model in models
        for task in tasks
    ]


def missing_by_model(cells: Iterable[Cell]) -> dict[str, list[Cell]]:
    """Cells that are not done, are to be done afresh, or have requests that failed, by model, in order."""
    found: dict[str, list[Cell]] = {}
    for cell in cells:
        if cell.config.fresh or not cell.is_done() or RunResult.load(cell.directory).unanswered:
            found.setdefault(cell.model, []).append(cell)
    return found


def run_model(
    cells: Sequence[Cell], evaluate: Callable[[RunConfig, LM], object], notify: Callable[[str], None]
) -> dict[Cell, str]:
    """Load the model of these cells once and evaluate each. Failures are returned with their reason; others go on."""
    try:
        lm = model_for(cells[0].config, notify)
    except AssayError as error:
        return dict.fromkeys(cells, str(error))
    failures: dict[Cell, str] = {}
    try:
        for cell in cells:
            try:
                if other := cell.make_room():
                    notify(f"{cell.model} on {cell.task} is run again: {'; '.join(other)}")
                evaluate(cell.config, lm)
            except Interrupted:
                raise
            except AssayError as error:
                failures[cell] = str(error)
                notify(f"{cell.model} on {cell.task} failed: {error}")
    finally:
        lm.close()
    return failures
