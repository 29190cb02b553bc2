"""Python tasks: a class that names its data and gives question, choices and answer of a doc.

    class Capitals(BaseTask[str]):
        NAME = "Capitals"
        DATASET_PATH = "my/capitals"
        SAMPLE_SPLIT = "test"
        FEWSHOT_SPLIT = "train"
        SUBJECTS = ["europe", "asia"]
        LANGUAGE = Language.ENG
        TASK_STYLER = MCStyle()

        def _get_raw_question(self, item): return item["question"]
        def _get_choices(self, item): return item["choices"]
        def _get_correct_index(self, item): return item["answer"]

Deriving from `BaseTask` is optional, and so is a styler: a class may word a doc itself, by `_get_instruction_text`,
`_get_ground_truth`, `_get_possible_completions` and `_get_cue_text`. Every subject is a task of its own
(`Capitals_europe`), and the class is their group.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from assay.config import (
    AggMetricConfig,
    ClassOutline,
    FunctionRef,
    GroupConfig,
    TaskConfig,
    may_run,
    outline,
    untrusted,
)
from assay.errors import ConfigError
from assay.tasks.base import Task
from assay.tasks.base_task import BaseTask, hooked_config, is_worded_by_itself
from assay.tasks.expand import GroupSpec
from assay.tasks.questions import HookQuestions
from assay.tasks.styled import style_config
from assay.tasks.styles import TaskStyler, metric_name

NO_SUBJECT = "no_subject"
HOOKS = ("_get_raw_question", "_get_choices", "_get_correct_index")
_NEEDED = ("NAME", "DATASET_PATH", "SAMPLE_SPLIT")
_WORDED = ("_get_instruction_text", "_get_ground_truth")


def load_python_tasks(path: str | Path) -> list[TaskConfig | GroupConfig]:
    """The tasks of a Python file, and a group for every class with several subjects, in the order of the file.

    Inside `reading_only` they are those that its source shows; none of it runs.
    """
    if not may_run(Path(path)):
        return _outlined(Path(path))
    module = _import(Path(path))
    configs: list[TaskConfig | GroupConfig] = []
    for value in vars(module).values():
        # A base class that others of the file share has no NAME of its own.
        if isinstance(value, type) and value.__module__ == module.__name__ and "NAME" in vars(value):
            configs += configs_of(value)
    if not configs:
        raise _no_class(path)
    return configs


def _no_class(path: str | Path) -> ConfigError:
    return ConfigError(
        f"{path}: no task class", hint="A task class has a NAME, a TASK_STYLER and the three data hooks."
    )


def _outlined(path: Path) -> list[TaskConfig | GroupConfig]:
    """The tasks as far as the source says; `class:` marks each as code that was not run."""
    found = outline(path)
    named = [each for each in found.classes if "NAME" in each.binds]
    if not named and not found.is_open:
        raise _no_class(path)
    configs: list[TaskConfig | GroupConfig] = []
    for each in named:
        fields = _fields_of(each, found.classes)
        name, subjects = fields.get("NAME"), fields.get("SUBJECTS")
        if not isinstance(name, str):
            raise untrusted(f"{path}:{each.line}: the NAME of the task class {each.name}")
        listed = [str(subject) for subject in subjects] if isinstance(subjects, list | tuple) else []
        several = bool(listed) and listed != [NO_SUBJECT]
        names = [f"{name}_{subject}" for subject in listed] if several else [name]
        for task, subject in zip(names, listed if several else [None]):
            configs.append(
                _outlined_config(task, subject, fields, FunctionRef(f"{path.stem}.{each.name}", path.parent))
            )
        if several:
            configs.append(GroupConfig(group=name, task=[*names]))
    return configs


def _fields_of(given: ClassOutline, classes: tuple[ClassOutline, ...]) -> dict[str, Any]:
    """The literals of a class and its bases in the same file; a needed name that none of them has is an error."""
    by_name = {each.name: each for each in classes}
    line, unseen, todo = [], False, [given.name]
    while todo:
        one = by_name.get(todo.pop(0))
        if one is None or one in line:
            continue
        line.append(one)
        todo += one.bases
        unseen = unseen or any(base not in by_name and base not in ("BaseTask", "object") for base in one.bases)
    missing = [name for name in _NEEDED if not any(name in each.binds for each in line)]
    if missing and not unseen:
        raise ConfigError(f"the task class {given.name} has no {' and no '.join(missing)}")
    return {name: value for each in reversed(line) for name, value in each.literals.items()}


def _outlined_config(task: str, subject: str | None, fields: dict[str, Any], code: FunctionRef) -> TaskConfig:
    def text(name: str) -> str | None:
        return value if isinstance(value := fields.get(name), str) and value else None

    shots = fields.get("NUM_FEWSHOT")
    fields_of_file = {
        "task": task,
        "task_alias": subject,
        "class": code,
        "dataset_path": text("DATASET_PATH"),
        "dataset_name": subject,
        "test_split": text("SAMPLE_SPLIT"),
        "fewshot_split": text("FEWSHOT_SPLIT"),
        "num_fewshot": shots if isinstance(shots, int) else None,
        "description": text("DESCRIPTION") or "",
    }
    return TaskConfig.model_validate(fields_of_file)


def tasks_of(given: Any, data_dir: str | Path | None = None) -> tuple[list[Task], list[GroupSpec]]:
    """What an object given as a task stands for: itself, or the tasks of a Python task class and their group."""
    if isinstance(given, Task):
        return [given], []
    cls = given if isinstance(given, type) else type(given)
    if not hasattr(cls, "NAME"):
        raise ConfigError(
            f"{given!r} is no task", hint="Give a name, a Task, or a class with a NAME that derives from BaseTask."
        )
    configs = configs_of(cls)
    tasks = [Task.from_config(config, data_dir=data_dir) for config in configs if isinstance(config, TaskConfig)]
    groups = [config for config in configs if isinstance(config, GroupConfig)]
    return tasks, [GroupSpec(group.group, group, tuple(task.task_name for task in tasks)) for group in groups]


def configs_of(cls: type[Any]) -> list[TaskConfig | GroupConfig]:
    """A task for every subject of the class, and the group of them where there are several."""
    styler = getattr(cls, "TASK_STYLER", None)
    if styler is not None and not isinstance(styler, TaskStyler):
        raise ConfigError(
            f"the task class {cls.__qualname__}: TASK_STYLER is {styler!r}, expected a styler",
            hint="Write, for example, TASK_STYLER = MCStyle().",
        )
    hooks = HOOKS if styler is not None else _WORDED
    missing = [name for name in _NEEDED if not getattr(cls, name, None)]
    missing += [name for name in hooks if getattr(cls, name, None) in (None, getattr(BaseTask, name))]
    if missing:
        missing = missing if styler is not None or "_get_instruction_text" not in missing else ["TASK_STYLER", *missing]
        ways = (
            ""
            if styler
            else "Give a TASK_STYLER with _get_raw_question, _get_choices and _get_correct_index, or these."
        )
        raise ConfigError(f"the task class {cls.__qualname__} has no {' and no '.join(missing)}", hint=ways or None)
    subjects = list(getattr(cls, "SUBJECTS", None) or [NO_SUBJECT])
    if subjects == [NO_SUBJECT]:
        return [_config(cls, cls.NAME, None)]
    tasks = [_config(cls, f"{cls.NAME}_{subject}", subject) for subject in subjects]
    listed = tasks[0].metric_list or []
    metrics = [AggMetricConfig(metric=metric.name) for metric in listed]
    group = GroupConfig(group=cls.NAME, task=[task.task for task in tasks], aggregate_metric_list=metrics)
    return [*tasks, group]


def _config(cls: type[Any], name: str, subject: Any) -> TaskConfig:
    revision = getattr(cls, "HF_REVISION", None)
    language = getattr(cls, "LANGUAGE", None)
    language = language.get(subject) if isinstance(language, dict) else language
    metrics = getattr(cls, "METRICS", None)
    base = TaskConfig(
        task=name,
        task_alias=None if subject is None else str(subject),
        dataset_path=cls.DATASET_PATH,
        dataset_name=None if subject is None else str(subject),
        dataset_kwargs={"revision": revision} if revision else None,
        test_split=cls.SAMPLE_SPLIT,
        fewshot_split=getattr(cls, "FEWSHOT_SPLIT", None) or None,
        num_fewshot=getattr(cls, "NUM_FEWSHOT", None),
        description=getattr(cls, "DESCRIPTION", ""),
        metric_list=[metric_name(metric) for metric in metrics] if metrics else None,
        language=None if language is None else str(getattr(language, "value", language)),
        perturbation=getattr(cls, "PERTURBATION", None),
        unmodifiable_words=list(getattr(cls, "PERTURBATION_UNMODIFIABLE_WORDS", None) or []) or None,
        metadata={"subject": str(subject)} if subject is not None else {},
    )
    styler = getattr(cls, "TASK_STYLER", None)
    if styler is None or is_worded_by_itself(cls):
        return hooked_config(base, cls)
    return style_config(base, styler, HookQuestions(cls()))


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
