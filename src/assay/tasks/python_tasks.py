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
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, cast

from assay.config import (
    AggMetricConfig,
    ClassOutline,
    FunctionRef,
    GroupConfig,
    Origin,
    TaskConfig,
    build_task_config,
    import_failure,
    locate_data_files,
    may_run,
    outline,
    untrusted,
)
from assay.errors import AssayError, ConfigError
from assay.tasks.base import Task
from assay.tasks.base_task import BaseTask, Hook, hooked_config, is_worded_by_itself, unknown_attribute
from assay.tasks.expansion import GroupSpec, ReadyConfig
from assay.tasks.languages import words_of
from assay.tasks.questions import HookQuestions
from assay.tasks.styled import style_config
from assay.tasks.styles import TaskStyler, metric_name

NO_SUBJECT = "no_subject"
HOOKS = ("_get_raw_question", "_get_choices", "_get_correct_index")
_NEEDED = ("NAME", "DATASET_PATH", "SAMPLE_SPLIT")
_WORDED = ("_get_instruction_text", "_get_ground_truth")


def read_python_tasks(path: str | Path) -> list[ReadyConfig]:
    """The tasks of a Python file, and a group for every class with several subjects, in the order of the file; each with the
    lines that set its fields.

    Inside `reading_only` they are those that its source shows; none of it runs.
    """
    file = Path(path)
    if not may_run(file):
        return _outlined(file)
    module = _import(file)
    made: list[ReadyConfig] = []
    for value in vars(module).values():
        # A base class that others of the file share has no NAME of its own.
        if isinstance(value, type) and value.__module__ == module.__name__ and "NAME" in vars(value):
            lines = _ClassLines(file, value.__name__)
            try:
                configs = configs_of(value)
            except AssayError as error:
                raise lines.placed(error) from error
            made += [ReadyConfig(config, file, lines.origins) for config in configs]
    if not made:
        raise _no_class(path)
    return made


_FIELDS = {
    "NAME": "task",
    "DATASET_PATH": "dataset_path",
    "DATASET_KWARGS": "dataset_kwargs",
    "SAMPLE_SPLIT": "test_split",
    "FEWSHOT_SPLIT": "fewshot_split",
    "NUM_FEWSHOT": "num_fewshot",
    "METRICS": "metric_list",
    "LANGUAGE": "language",
    "PERTURBATION": "perturbation",
    "SHUFFLE_CHOICES": "shuffle_choices",
    "_get_raw_question": "doc_to_text",
    "_get_instruction_text": "doc_to_text",
    "_get_choices": "doc_to_choice",
    "_get_possible_completions": "doc_to_choice",
    "_get_correct_index": "doc_to_target",
    "_get_ground_truth": "doc_to_target",
}
"""What of a class becomes which field of a task."""


class _ClassLines:
    """The lines of a file that say what a class is, its bases in the same file included."""

    def __init__(self, file: Path, name: str) -> None:
        self.file, self.name = file, name
        by_name = {each.name: each for each in outline(file).classes}
        self.line = by_name[name].line if name in by_name else 1
        self.lines: dict[str, int] = {}
        for each in reversed(_with_bases(name, by_name)):
            self.lines |= each.lines

    @property
    def origins(self) -> dict[str, Origin]:
        given = {field: self.lines[name] for name, field in _FIELDS.items() if name in self.lines}
        return {field: Origin(self.file, line) for field, line in {"task": self.line, **given}.items()}

    def placed(self, error: AssayError) -> ConfigError:
        """The error with the line of the attribute that it names first, or that of the class."""
        places = {}
        for name, line in self.lines.items():
            field = _FIELDS.get(name, name) if name != "NAME" else name
            if match := re.search(rf"\b({name}|{field})\b", error.message):
                places[match.start()] = line
        line = places[min(places)] if places else self.line
        return ConfigError(f"{self.file}:{line}: {error.message}", hint=error.hint)


def _with_bases(name: str, by_name: Mapping[str, ClassOutline]) -> list[ClassOutline]:
    """A class and what it derives from, as far as the file shows."""
    line: list[ClassOutline] = []
    todo = [name]
    while todo:
        one = by_name.get(todo.pop(0))
        if one is not None and one not in line:
            line.append(one)
            todo += one.bases
    return line


def _no_class(path: str | Path) -> ConfigError:
    return ConfigError(
        f"{path}:1: no task class", hint="A task class has a NAME, a TASK_STYLER and the three data hooks."
    )


def _outlined(path: Path) -> list[ReadyConfig]:
    """The tasks as far as the source says; `class:` marks each as code that was not run."""
    source = outline(path)
    named = [each for each in source.classes if "NAME" in each.binds]
    if not named and not source.is_open:
        raise _no_class(path)
    made: list[ReadyConfig] = []
    for each in named:
        lines = _ClassLines(path, each.name)
        try:
            fields = _fields_of(each, source.classes)
        except ConfigError as error:
            raise lines.placed(error) from error
        name, subjects = fields.get("NAME"), fields.get("SUBJECTS")
        if not isinstance(name, str):
            raise untrusted(f"{path}:{each.line}: the NAME of the task class {each.name}")
        listed = [str(subject) for subject in subjects] if isinstance(subjects, list | tuple) else []
        several = bool(listed) and listed != [NO_SUBJECT]
        names = [f"{name}_{subject}" for subject in listed] if several else [name]
        code = FunctionRef(f"{path.stem}.{each.name}", path.parent)
        configs: list[TaskConfig | GroupConfig] = [
            _outlined_config(task, subject, fields, code) for task, subject in zip(names, listed if several else [None])
        ]
        configs += [GroupConfig(group=name, task=[*names])] if several else []
        made += [ReadyConfig(config, path, lines.origins) for config in configs]
    return made


def _fields_of(given: ClassOutline, classes: tuple[ClassOutline, ...]) -> dict[str, Any]:
    """The literals of a class and its bases in the same file. A needed name that none of them has, a name that nobody
    knows, and a language that there is not, are errors."""
    by_name = {each.name: each for each in classes}
    line = _with_bases(given.name, by_name)
    unseen = any(base not in by_name and base not in ("BaseTask", "object") for each in line for base in each.bases)
    missing = [name for name in _NEEDED if not any(name in each.binds for each in line)]
    if missing and not unseen:
        raise _lacking(given.name, missing)
    literals = {name: value for each in reversed(line) for name, value in each.literals.items()}
    _check_attributes(given.name, [name for each in line for name in each.binds], literals.get("LANGUAGE"))
    return literals


def _lacking(name: str, missing: Sequence[str], hint: str | None = None) -> ConfigError:
    return ConfigError(f"the task class {name} has no {' and no '.join(missing)}", hint=hint or f"Add {missing[0]}.")


def _check_attributes(name: str, attributes: Iterable[str], language: Any) -> None:
    """Nothing that a class says is passed over: an attribute that nobody reads, a language that nobody knows."""
    if unknown := unknown_attribute(attributes):
        raise ConfigError(f"the task class {name} has an unknown attribute {unknown[0]}", hint=unknown[1])
    for each in language.values() if isinstance(language, Mapping) else [language]:
        if each is not None:
            try:
                words_of(each)
            except ConfigError as error:
                raise error.reworded(f"the task class {name}: LANGUAGE: {error.message}") from error


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
    """The tasks that an object stands for: itself, or the tasks of a Python task class and their group."""
    if isinstance(given, Task):
        return [given], []
    cls = given if isinstance(given, type) else type(given)
    if not hasattr(cls, "NAME"):
        raise ConfigError(
            f"{given!r} is not a task", hint="Use a name, a Task, or a class with a NAME that derives from BaseTask."
        )
    configs = configs_of(cls)
    tasks = [Task.from_config(config, data_dir=data_dir) for config in configs if isinstance(config, TaskConfig)]
    groups = [config for config in configs if isinstance(config, GroupConfig)]
    return tasks, [GroupSpec(group.group, group, tuple(task.task_name for task in tasks)) for group in groups]


def configs_of(cls: type[Any]) -> list[TaskConfig | GroupConfig]:
    """A task for every subject of the class, and the group of them where there are several."""
    own = [base for base in cls.__mro__ if base not in (BaseTask, Generic, object)]
    _check_attributes(cls.__qualname__, [name for base in own for name in vars(base)], getattr(cls, "LANGUAGE", None))
    styler = getattr(cls, "TASK_STYLER", None)
    if styler is not None and not isinstance(styler, TaskStyler):
        raise ConfigError(
            f"the task class {cls.__qualname__}: TASK_STYLER is {styler!r}, expected a styler",
            hint="Write, for example, TASK_STYLER = MCStyle().",
        )
    _check_complete(cls, styler)
    subjects = list(getattr(cls, "SUBJECTS", None) or [NO_SUBJECT])
    if subjects == [NO_SUBJECT]:
        return [_config(cls, cls.NAME, None)]
    tasks = [_config(cls, f"{cls.NAME}_{subject}", subject) for subject in subjects]
    listed = tasks[0].metric_list or []
    metrics = [AggMetricConfig(metric=metric.name) for metric in listed]
    group = GroupConfig(group=cls.NAME, task=[task.task for task in tasks], aggregate_metric_list=metrics)
    return [*tasks, group]


def _check_complete(cls: type[Any], styler: TaskStyler | None) -> None:
    hooks = HOOKS if styler is not None else _WORDED
    missing = [name for name in _NEEDED if not getattr(cls, name, None)]
    missing += [name for name in hooks if getattr(cls, name, None) in (None, getattr(BaseTask, name))]
    if missing and styler is not None:
        raise _lacking(cls.__qualname__, missing, "")
    if missing:
        missing = ["TASK_STYLER", *missing] if "_get_instruction_text" in missing else missing
        ways = "Define these, or a TASK_STYLER with _get_raw_question, _get_choices and _get_correct_index."
        raise _lacking(cls.__qualname__, missing, ways)


def _config(cls: type[Any], name: str, subject: Any) -> TaskConfig:
    revision = getattr(cls, "HF_REVISION", None)
    language = getattr(cls, "LANGUAGE", None)
    language = language.get(subject) if isinstance(language, dict) else language
    metrics = getattr(cls, "METRICS", None)
    kwargs = {**(getattr(cls, "DATASET_KWARGS", None) or {}), **({"revision": revision} if revision else {})}
    code = sys.modules.get(cls.__module__)
    if (file := getattr(code, "__file__", None)) is not None:
        kwargs = locate_data_files(cls.DATASET_PATH, kwargs, Path(file).resolve().parent)
    fields: dict[str, Any] = {
        "task": name,
        "task_alias": None if subject is None else str(subject),
        "dataset_path": cls.DATASET_PATH,
        "dataset_name": None if subject is None else str(subject),
        "dataset_kwargs": kwargs or None,
        "test_split": cls.SAMPLE_SPLIT,
        "fewshot_split": getattr(cls, "FEWSHOT_SPLIT", None) or None,
        "num_fewshot": getattr(cls, "NUM_FEWSHOT", None),
        "description": getattr(cls, "DESCRIPTION", ""),
        "metric_list": [metric_name(metric) for metric in metrics] if metrics else None,
        "language": None if language is None else str(getattr(language, "value", language)),
        "perturbation": getattr(cls, "PERTURBATION", None),
        "unmodifiable_words": list(getattr(cls, "PERTURBATION_UNMODIFIABLE_WORDS", None) or []) or None,
        "metadata": {"subject": str(subject)} if subject is not None else {},
        "shuffle_choices": getattr(cls, "SHUFFLE_CHOICES", None),
    }
    base = build_task_config({key: value for key, value in fields.items() if value is not None})
    styler = getattr(cls, "TASK_STYLER", None)
    if styler is None:
        return hooked_config(base, cls)
    return (
        _worded_beside(base, cls, styler)
        if is_worded_by_itself(cls)
        else style_config(base, styler, HookQuestions(cls()))
    )


_NOT_WORDS = ("output_type", "target_delimiter", "generation_kwargs", "form_stops")
"""What a styler settles beside the words of a doc."""


def _worded_beside(base: TaskConfig, cls: type[Any], styler: TaskStyler) -> TaskConfig:
    """A class that words some of a doc itself: what it does not say is the styler's, also how an answer is written and read.

    An answer is compared with a ground truth of the class's own as it is written.
    """
    hooked = hooked_config(base, cls)
    task = cast(Hook, hooked.doc_to_text).task
    if str(task.RESPONSE_TYPE) != str(styler.response_type):
        return hooked
    # The hooks give choices in their order already.
    styled = style_config(base.override(shuffle_choices=False), styler, HookQuestions(task))
    kept = (
        _NOT_WORDS if type(task)._get_ground_truth is not BaseTask._get_ground_truth else (*_NOT_WORDS, "filter_list")
    )
    shots = hooked.fewshot_config.model_copy(update={"target_delimiter": styled.target_delimiter})
    return hooked.override(**{name: getattr(styled, name) for name in kept}, fewshot_config=shots)


def _import(path: Path) -> ModuleType:
    """The file as a module of its own name, imported once per content."""
    if not path.is_file():
        raise ConfigError(f"{path}: no such file", hint="Use a Python file with task classes.")
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
    except (Exception, SystemExit) as error:  # the file may do anything at all, also exit
        del sys.modules[name]
        raise import_failure(error, path) from error
    return module
