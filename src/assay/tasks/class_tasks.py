"""Tasks that are a class of their own: `class: !function task.Riddles`."""

from __future__ import annotations

from pathlib import Path

from assay.config import FunctionRef, TaskConfig
from assay.errors import AssayError, ConfigError
from assay.tasks.base import Task


def build_class_task(config: TaskConfig, *, data_dir: str | Path | None, name: str | None) -> Task:
    """An object of the class that the config names, set up like any other task."""
    cls = config.class_.load() if isinstance(config.class_, FunctionRef) else config.class_
    if not isinstance(cls, type) or not issubclass(cls, Task):
        raise ConfigError(
            f"task {config.task}: {config.class_} is {getattr(cls, '__name__', cls)!r}, expected a task class",
            hint="Derive the class from one of assay.tasks: GenerateTask, MultipleChoiceTask, …",
        )
    try:
        return cls.from_task_file(config, data_dir=data_dir, name=name)
    except AssayError:
        raise
    except Exception as error:  # code of a task file may raise anything
        raise ConfigError(f"task {config.task}: {config.class_} cannot be made: {error}") from error
