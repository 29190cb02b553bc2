"""Python tasks: a class that names its data and gives question, choices and answer of a doc.

    class Capitals:
        NAME = "Capitals"
        DATASET_PATH = "my/capitals"
        SAMPLE_SPLIT = "test"
        FEWSHOT_SPLIT = "train"
        SUBJECTS = ["europe", "asia"]
        LANGUAGE = "English"
        TASK_STYLER = MCStyle()

        def _get_raw_question(self, item): return item["question"]
        def _get_choices(self, item): return item["choices"]
        def _get_correct_index(self, item): return item["answer"]

It need not derive from anything. Every subject is a task of its own (`Capitals_europe`), and the class is their group.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from assay.config import AggMetricConfig, GroupConfig, TaskConfig
from assay.errors import ConfigError
from assay.tasks.questions import HookQuestions
from assay.tasks.styled import style_config
from assay.tasks.styles import TaskStyler

NO_SUBJECT = "no_subject"
HOOKS = ("_get_raw_question", "_get_choices", "_get_correct_index")
_NEEDED = ("NAME", "DATASET_PATH", "SAMPLE_SPLIT", "TASK_STYLER")


def load_python_tasks(path: str | Path) -> list[TaskConfig | GroupConfig]:
    """The tasks of a Python file, and a group for every class with several subjects, in the order of the file."""
    module = _import(Path(path))
    configs: list[TaskConfig | GroupConfig] = []
    for value in vars(module).values():
        # A base class that others of the file share has no NAME of its own.
        if isinstance(value, type) and value.__module__ == module.__name__ and "NAME" in vars(value):
            configs += configs_of(value)
    if not configs:
        raise ConfigError(
            f"{path}: no task class", hint="A task class has a NAME, a TASK_STYLER and the three data hooks."
        )
    return configs


def configs_of(cls: type[Any]) -> list[TaskConfig | GroupConfig]:
    """A task for every subject of the class, and the group of them where there are several."""
    missing = [name for name in (*_NEEDED, *HOOKS) if not hasattr(cls, name)]
    if missing:
        raise ConfigError(f"the task class {cls.__qualname__} has no {' and no '.join(missing)}")
    if not isinstance(cls.TASK_STYLER, TaskStyler):
        raise ConfigError(
            f"the task class {cls.__qualname__}: TASK_STYLER is {cls.TASK_STYLER!r}, expected a styler",
            hint="Write, for example, TASK_STYLER = MCStyle().",
        )
    subjects = list(getattr(cls, "SUBJECTS", None) or [NO_SUBJECT])
    if subjects == [NO_SUBJECT]:
        return [_config(cls, cls.NAME, None)]
    tasks = [_config(cls, f"{cls.NAME}_{subject}", subject) for subject in subjects]
    metrics = [AggMetricConfig(metric=name) for name in cls.TASK_STYLER.metrics]
    group = GroupConfig(group=cls.NAME, task=[task.task for task in tasks], aggregate_metric_list=metrics)
    return [*tasks, group]


def _config(cls: type[Any], name: str, subject: Any) -> TaskConfig:
    revision = getattr(cls, "HF_REVISION", None)
    language = getattr(cls, "LANGUAGE", None)
    language = language.get(subject) if isinstance(language, dict) else language
    base = TaskConfig(
        task=name,
        task_alias=None if subject is None else str(subject),
        dataset_path=cls.DATASET_PATH,
        dataset_name=None if subject is None else str(subject),
        dataset_kwargs={"revision": revision} if revision else None,
        test_split=cls.SAMPLE_SPLIT,
        fewshot_split=getattr(cls, "FEWSHOT_SPLIT", None),
        num_fewshot=getattr(cls, "NUM_FEWSHOT", None),
        description=getattr(cls, "DESCRIPTION", ""),
        metric_list=getattr(cls, "METRICS", None),
        language=None if language is None else str(getattr(language, "value", language)),
        metadata={"subject": str(subject)} if subject is not None else {},
    )
    return style_config(base, cls.TASK_STYLER, HookQuestions(cls()))


def _import(path: Path) -> ModuleType:
    """The file as a module of its own name, imported once per content."""
    if not path.is_file():
        raise ConfigError(f"{path}: no such file", hint="Give a Python file with task classes.")
    digest = hashlib.sha256(str(path.resolve()).encode() + path.read_bytes()).hexdigest()[:12]
    name = f"assay_tasks_{path.stem}_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise ConfigError(f"{path}: importing it failed: {type(error).__name__}: {error}") from error
    return module
