"""What can be known of a task before it runs: whether all it names exists and fits.

To check a task everything is really looked up, the way a run would: functions are imported, filters built, templates
compiled and, where the data are at hand, rendered for the first doc. Nothing is sent to a model and nothing is downloaded.
Inside `reading_only`, code of strangers is read instead, and each thing that only running it could show is
an `UntrustedCode` among what is returned.
"""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel

from assay.config import FILE_FORMATS, FunctionRef, MetricConfig, Origin, TaskConfig, locate, what_failed
from assay.data import iter_docs, mirror_dir
from assay.errors import AssayError, ConfigError, ConfigWarning, UnknownName, UntrustedCode, did_you_mean
from assay.instance import Doc
from assay.metrics import get_reducer
from assay.request_types import OUTPUT_TYPES
from assay.scoring import (
    check_filter,
    check_metric,
    check_reads_likelihoods,
    check_scorer,
    ensembles_of,
    filters_of,
    gold_indices,
)
from assay.tasks.base import Task
from assay.tasks.fewshot import SAMPLERS
from assay.tasks.fields import is_template
from assay.tasks.formats import apply_format, offer_choices
from assay.tasks.perturbation import read_perturbation
from assay.tasks.positions import one_sided
from assay.tasks.prompt import RequestOptions
from assay.tasks.questions import NO_GOLD, FieldQuestions, HookQuestions, gold_index
from assay.tasks.styled import StyledField, apply_style, clean_questions, shuffle_of
from assay.templates import compile_template, get_n_letters

_TEMPLATES = ("doc_to_text", "doc_to_target", "doc_to_choice", "description", "gen_prefix", "doc_to_question")


def check_task(
    config: TaskConfig,
    origins: Mapping[str, Origin] | None = None,
    *,
    data_dir: Path | None = None,
    read_docs: bool = True,
) -> list[ConfigError]:
    """Everything that is wrong with a task, each with the file and line of the field.

    With `read_docs`, docs that are on this machine are looked at too.
    """
    # Functions first: importing a task's module may register the filters and metrics that its file names.
    faults: list[ConfigError] = []
    known: set[str] = set()
    for looks in (_function_looks, partial(_looks, data_dir=data_dir)):
        for location, look in looks(config):
            try:
                with code_of_task():
                    look()
            except ConfigError as error:
                error = may_be_registered(error, config) if faults else error
                if error.message not in known:  # one broken module behind five fields is one fault
                    faults.append(_placed(error, location, config, origins or {}))
                known.add(error.message)
        if not all(isinstance(fault, UntrustedCode) for fault in faults):
            return faults
    if faults or not read_docs:  # docs go through the code
        return faults
    fault = _fault_of_docs(config, origins or {}, data_dir)
    return [] if fault is None else [fault]


def _fault_of_docs(config: TaskConfig, origins: Mapping[str, Origin], data_dir: Path | None) -> ConfigError | None:
    try:
        if (task := _at_hand(config, data_dir)) is not None:
            # Tools are offered in chats alone.
            options = RequestOptions(apply_chat_template=config.agent is not None)
            for remark in check_docs(task, origins, options, count=True):
                warnings.warn(f"task {config.task!r}: {remark}", ConfigWarning, stacklevel=2)
    except ConfigError as error:
        return error
    except AssayError as error:
        return _placed(ConfigError(error.message, hint=error.hint), ("dataset_path",), config, origins)
    return None


def may_be_registered(error: ConfigError, config: BaseModel) -> ConfigError:
    """An unknown name may become known once the code of the file runs: then nobody can tell before."""
    if isinstance(error, UnknownName):
        for _, ref in functions_in(config):
            with suppress(UntrustedCode):
                ref.require_trust()
                continue
            source = ref.outline()
            if source is None or source.registers:
                return UntrustedCode(f"{error.message}, unless the code of {ref} registers it", hint=error.hint)
    return error


@contextmanager
def code_of_task() -> Iterator[None]:
    """Any exception from code that a task file names becomes an error of the file."""
    try:
        yield
    except ConfigError:
        raise
    except AssayError as error:
        raise ConfigError(error.message, hint=error.hint) from error
    except Exception as error:
        said, hint = what_failed(error)
        raise ConfigError(said, hint=hint) from error


def check_docs(
    task: Task,
    origins: Mapping[str, Origin] | None = None,
    options: RequestOptions | None = None,
    *,
    count: bool = False,
) -> list[str]:
    """Check the docs as a run would: the fields of the first one, its shots, its requests, and where its answer is.

    Raises `ConfigError` with the place of the field at fault; gives back what is to be said though nothing is wrong. `count`
    looks through all docs of a large task too.
    """
    remarks: list[str] = []
    if task.config.class_ is not None:
        return remarks
    with _untouched_randomness():
        first = next(iter_docs(task.eval_docs))
        for location, look in _doc_looks(task, first, options or RequestOptions(), remarks, count=count):
            try:
                with code_of_task():
                    look()
            except ConfigError as error:
                # Later looks say themselves which doc it was.
                named = error if re.search(r"\bdocs?\b", error.message) else error.reworded(f"doc 0: {error.message}")
                raise _placed(named, location, task.config, origins or {}) from error
    return remarks


def _doc_looks(task: Task, first: Doc, options: RequestOptions, remarks: list[str], *, count: bool) -> Iterator[Look]:
    """The fields one by one, so that the one at fault is known, then the whole request."""
    if task.has_choices:
        yield ("doc_to_choice",), lambda: _check_choices(task.doc_to_choice(first))
    for name in ("doc_to_text", "doc_to_target"):
        yield (name,), partial(_check_word, task, first, name, remarks)
    yield ("doc_to_text",), lambda: task.multiple_input or (task.NEEDS_CONTEXT and task.doc_to_text(first))
    yield ("doc_to_target",), lambda: task.doc_to_target(first)
    known = OUTPUT_TYPES.get(task.config.output_type)
    is_choice = known is not None and known.is_choice and task.has_choices and not task.multiple_input
    if is_choice or isinstance(task.config.doc_to_target, StyledField):
        yield ("doc_to_target",), lambda: remarks.extend(_check_gold(task, every=count))
    if task.num_fewshot(options):
        yield ("num_fewshot",), lambda: next(task.iter_requests(replace(options, samples=None, limit=1, only=None)))
    else:
        yield ("doc_to_text",), lambda: next(task.iter_requests(replace(options, samples=None, limit=1, only=None)))


def _no_column(task: Task, field: str) -> str | None:
    """The word that a field consists of, if it is no column."""
    word = _written_target(task) if field == "doc_to_target" else getattr(task.config, field)
    is_word = isinstance(word, str) and re.fullmatch(r"[^\W\d]\w*", word) is not None
    return word if is_word and word not in task.features else None


def _written_target(task: Task) -> Any:
    """`doc_to_target` as the file has it, also where a style has worded the task anew."""
    field = task.config.doc_to_target
    return getattr(clean_questions(field.questions), "target", None) if isinstance(field, StyledField) else field


def _check_word(task: Task, first: Doc, field: str, remarks: list[str]) -> None:
    """A word that is no column is text, the same for every doc: a column that was misspelt, as a rule."""
    word = _no_column(task, field)
    if word is None or (field == "doc_to_text" and not task.NEEDS_CONTEXT):
        return
    if field == "doc_to_target" and task.has_choices and word in map(str, task.doc_to_choice(first)):
        return
    near = did_you_mean(word, task.features)
    what = f"there is no column {word!r}, so {field} is that word for every doc"
    if near is not None and task.config.has_own_defaults:
        raise ConfigError(what, hint=near)
    listed = ", ".join(task.features)
    remarks.append(f"{what}. {near or f'Columns: {listed}.'}")


def _check_choices(choices: Any) -> None:
    if not isinstance(choices, list | tuple) or not choices:
        raise ConfigError(
            f"the choices are {choices!r}, expected a list of strings", hint="Use a list, or a column of lists."
        )


LOOKED_AT = 5000
"""Docs whose right choice a run looks for before it begins; evenly spaced where there are more."""


def _check_gold(task: Task, *, every: bool) -> Iterator[str]:
    """Whether each doc has its answer among the choices, and not always at one place.

    A task none of whose docs has it would score 0 for every model. In files of ours one doc is enough, if it names a place
    that there is not: labels that run from 1 are the usual reason. `every` looks at all docs of a large task too.
    """
    written = _written_target(task)
    gold, total = Gold(written if isinstance(written, str) and written.isidentifier() else "label"), task.doc_count
    step = 1 if every or task.config.has_own_defaults else max(1, total // LOOKED_AT)
    for doc_id in range(0, total, step):
        try:
            with code_of_task():
                gold.look(task, doc_id, cast(Doc, task.eval_docs[doc_id]))
        except ConfigError as error:
            raise error.reworded(f"doc {doc_id}: {error.message}") from error
    if gold.misplaced and task.config.has_own_defaults:
        doc_id, label, choices = gold.misplaced[0]
        raise ConfigError(
            f"doc {doc_id}: the right choice is given as {label}, but the {choices} choices are 0 to {choices - 1}",
            hint=gold.cause
            or "doc_to_target gives the index of a choice, from 0. Leave such docs out with process_docs.",
        )
    if gold.without and gold.are_written_numbers and task.config.has_own_defaults:
        what = (
            f"{gold.without} of {gold.looked_at} docs do not have their right answer among the choices: {gold.example}"
        )
        raise ConfigError(what, hint=gold.cause)
    if gold.without == gold.looked_at:
        word = _no_column(task, "doc_to_target")
        near = None if word is None else did_you_mean(word, task.features)
        raise ConfigError(
            f"no doc has its right answer among its choices: {gold.example}",
            hint=gold.cause
            or near
            or "doc_to_target gives the index of a choice, or its text exactly as in doc_to_choice.",
        )
    if gold.without:
        without = f"{gold.without} of {gold.looked_at} docs do not have their right answer among the choices"
        yield f"{without}: {gold.example}" + (f" ({gold.cause})" if gold.cause else "")
    if side := one_sided(gold.places):
        yield f"the right choice is {side}: where a prompt lists the choices, a model may score merely by preferring one place"


@dataclass
class Gold:
    """What the docs of a choice task say of their right answers."""

    column: str = "label"
    looked_at: int = 0
    without: int = 0
    example: str = ""
    places: list[tuple[int, int]] = field(default_factory=list)
    """The place of each doc's right choice, and how many choices there are."""
    misplaced: list[tuple[int, int, int]] = field(default_factory=list)
    """(doc, label, choices) where the label is a number that is no choice's."""
    labels: set[int] = field(default_factory=set)
    """All labels that are numbers."""
    texts: set[str] = field(default_factory=set)
    """All labels that are texts; a few thousand are enough to tell what they are."""
    most: int = 0
    """The largest number of choices."""
    has_lists: bool = False
    """Whether a doc has a list of labels."""
    has_parts: bool = False
    """Whether a label is written as 1.0."""

    def look(self, task: Task, doc_id: int, doc: Doc) -> None:
        self.looked_at += 1
        target, choices = _given_gold(task, doc)
        # What a styled task has generated is a text, or nothing where no choice is right.
        found = gold_indices(target, choices) if choices is not None else 0 if target is not None else -1
        self.has_lists = self.has_lists or isinstance(doc.get(self.column, target), list | tuple)
        for label in (target if isinstance(target, list | tuple) else [target]) if choices is not None else ():
            self.most = max(self.most, len(choices or ()))
            if isinstance(label, int) or (isinstance(label, float) and label.is_integer()):
                self.labels.add(int(label))
                self.has_parts = self.has_parts or isinstance(label, float)
                if not 0 <= label < len(choices or ()):
                    self.misplaced.append((doc_id, int(label), len(choices or ())))
            elif isinstance(label, str) and len(self.texts) < LOOKED_AT:
                self.texts.add(label)
        if any(index >= 0 for index in (found if isinstance(found, list) else [found])):
            # Where choices are put into another order, theirs is the one that counts.
            shuffle = shuffle_of(task.config)
            if choices is not None and isinstance(found, int) and not (shuffle is not None and shuffle.is_on):
                self.places.append((found, len(choices)))
            return
        self.without += 1
        self.example = self.example or (
            f"doc {doc_id}" if choices is None else f"doc {doc_id}: {target!r} is not one of {[*choices][:6]!r}"
        )

    @property
    def are_written_numbers(self) -> bool:
        """Whether all labels are digits, and could be places: as text they are compared with the choices."""
        return bool(self.texts) and all(
            re.fullmatch("[0-9]{1,4}", each) and int(each) <= self.most for each in self.texts
        )

    @property
    def cause(self) -> str | None:
        """What labels that are no choice's usually are: places counted from 1, places or letters as text."""
        if self.misplaced and min(self.labels) == 1 and max(self.labels) == self.most:
            one_less = f"({self.column} - 1) | int" if self.has_parts else f"{self.column} - 1"
            how = "." if self.has_lists else f", as in doc_to_target: '{{{{{one_less}}}}}'."
            return f"The labels run from 1 to {self.most}: subtract one{how}"
        if self.has_lists:
            return None
        if self.are_written_numbers:
            minus = "" if "0" in self.texts else " - 1"
            return (
                "The labels are text, which is compared with the choices; "
                f"as a place: doc_to_target: '{{{{{self.column} | int{minus}}}}}'."
            )
        if self.texts and all(len(each) == 1 and "A" <= each <= "Z" for each in self.texts):
            return f"The labels are letters; as a place: doc_to_target: '{{{{ \"{''.join(get_n_letters(self.most))}\".index({self.column}) }}}}'."
        return None


def _given_gold(task: Task, doc: Doc) -> tuple[Any, Sequence[str] | None]:
    """The right answer as the file gives it, and the choices; of a styled task those of the question behind its words."""
    field = task.config.doc_to_target
    questions = clean_questions(field.questions) if isinstance(field, StyledField) else None
    if isinstance(questions, FieldQuestions):
        target, choices = questions.gold(doc)
        index = gold_index(target, choices)  # also by its letter
        return (target if index == NO_GOLD else index), choices
    if isinstance(questions, HookQuestions):
        return questions.task._get_correct_index(doc), questions.task._get_choices(doc)
    return task.doc_to_target(doc), task.doc_to_choice(doc) if task.has_choices else None


@contextmanager
def _untouched_randomness() -> Iterator[None]:
    """Code of task files may draw from the global generators; the run's own draws must not depend on this look."""
    import numpy as np

    states = random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])


Look = tuple[tuple[str | int, ...], Callable[[], object]]


def _function_looks(config: TaskConfig) -> Iterator[Look]:
    for location, ref in functions_in(config):
        yield location, ref.load


def _looks(config: TaskConfig, data_dir: Path | None) -> Iterator[Look]:
    if config.class_ is not None:
        return
    yield ("dataset_path",), lambda: _check_source(config)
    yield (
        ("dataset_kwargs" if config.dataset_kwargs else "dataset_path",),
        lambda: _check_files(config, mirror_dir(data_dir)),
    )
    for name in ("test_split", "validation_split", "training_split", "fewshot_split"):
        yield (name,), partial(_check_split, config, getattr(config, name), mirror_dir(data_dir))
    for i, chain in enumerate(config.filter_list or []):
        for j, step in enumerate(chain.filter):
            yield ("filter_list", i, "filter", j), partial(check_filter, step)
        yield from _metric_looks(chain.metric_list or [], config, ("filter_list", i, "metric_list"))
    yield ("scorer",), lambda: check_scorer(offer_choices(config))
    yield from _metric_looks(config.metric_list or [], config, ("metric_list",))
    yield ("filter_list" if config.filter_list else "metric_list",), lambda: filters_of(config)
    if config.filter_list:
        yield ("filter_list",), lambda: _check_chains(config)
    yield ("formats",), lambda: apply_format(config)
    yield ("style",), lambda: apply_style(config)
    yield ("perturbation",), lambda: [read_perturbation(spec) for spec in config.perturbation or ()]
    yield ("reducer",), lambda: None if config.reducer is None else get_reducer(config.reducer)
    sampler = config.fewshot_config.sampler
    if isinstance(sampler, str):
        yield ("fewshot_config", "sampler"), lambda: SAMPLERS[sampler]
    for owner, prefix in ((config, ()), (config.fewshot_config, ("fewshot_config",))):
        for name in _TEMPLATES:
            if isinstance(source := getattr(owner, name, None), str):
                yield (*prefix, name), partial(compile_template, source)
        for name in ("doc_to_choice", "doc_to_target"):
            yield (*prefix, name), partial(_check_list, getattr(owner, name), config)
    for i, turn in enumerate(config.turns or []):
        if isinstance(turn, str):
            yield ("turns", i), partial(compile_template, turn)


def _check_chains(config: TaskConfig) -> None:
    """Whether steps fit to each other; what is wrong with one alone is a fault of its own."""
    try:
        for chain in config.filter_list or []:
            for step in chain.filter:
                check_filter(step)
    except ConfigError:
        return
    ensembles_of(config)
    for chain in config.filter_list or []:
        check_reads_likelihoods(chain, config)


def _check_list(value: Any, config: TaskConfig) -> None:
    """Templates inside a list are text to lm-evaluation-harness: a model would be asked for the braces."""
    values = list(value.values()) if isinstance(value, dict) else value
    found = next(filter(is_template, values), None) if isinstance(values, list) else None
    if found is None:
        return
    if config.has_own_defaults:
        for each in filter(is_template, values):
            compile_template(each)
    elif config.lm_eval_version is None:
        raise ConfigError(
            f"{found!r} stands in a list, where lm-evaluation-harness takes it as text and not as a template",
            hint='Write one template that gives the list: "{{[right, wrong]}}".',
        )
    else:
        what = f"task {config.task!r}: {found!r} stands in a list and is taken as text"
        warnings.warn(what, ConfigWarning, stacklevel=2)


def functions_in(
    value: Any, location: tuple[str | int, ...] = ()
) -> Iterator[tuple[tuple[str | int, ...], FunctionRef]]:
    """Every `!function` inside a config, with its place."""
    if isinstance(value, FunctionRef):
        yield location, value
    elif isinstance(value, BaseModel):
        for name in value.model_fields_set:
            alias = type(value).model_fields[name].alias or name
            yield from functions_in(getattr(value, name), (*location, alias))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from functions_in(item, (*location, key))
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield from functions_in(item, (*location, position))


def _check_source(config: TaskConfig) -> None:
    if config.dataset_path is None and config.custom_dataset is None:
        raise ConfigError("it has no dataset", hint="Set dataset_path, or custom_dataset: !function module.name.")
    if config.eval_split is None:
        raise ConfigError("it has no split to evaluate", hint="Set test_split or validation_split.")


def _metric_looks(metrics: list[MetricConfig], config: TaskConfig, where: tuple[str | int, ...]) -> Iterator[Look]:
    for i, metric in enumerate(metrics):
        yield (*where, i), partial(check_metric, metric, config)


def _placed(
    error: ConfigError, location: tuple[str | int, ...], config: TaskConfig, origins: Mapping[str, Origin]
) -> ConfigError:
    origin = (
        locate(origins.get(str(location[0])), location) or origins.get("task") or next(iter(origins.values()), None)
    )
    # Code of the class itself has said its line, which is nearer than the hook that was looked at.
    own = re.fullmatch(r"(doc \d+: )(.+:\d+): (.*)", error.message, re.DOTALL)
    if own is not None and origin is not None and own[2].rpartition(":")[0] == str(origin).rpartition(":")[0]:
        return error.reworded(f"{own[2]}: task {config.task!r}: {own[1]}{own[3]}")
    where = f"{origin}: " if origin is not None else ""
    field = ".".join(str(part) for part in location)
    return error.reworded(f"{where}task {config.task!r}: {field}: {error.message}")


def _at_hand(config: TaskConfig, data_dir: Path | None) -> Task | None:
    """The task, if its docs can be read without a download and without code that is run for them alone."""
    if config.class_ is not None or config.custom_dataset is not None:
        return None
    task = Task.from_config(config, data_dir=data_dir)
    return task if task.source.mirror_files() or _is_local(config) else None


def _is_local(config: TaskConfig) -> bool:
    path = config.dataset_path or ""
    if path not in FILE_FORMATS:
        return (Path(path) / "dataset_dict.json").exists()
    names = _data_files(config)
    return bool(names) and all(Path(name).is_file() for name in names)


def _data_files(config: TaskConfig) -> list[str]:
    files = (config.dataset_kwargs or {}).get("data_files")
    listed = files.values() if isinstance(files, dict) else [files]
    return [str(name) for item in listed for name in (item if isinstance(item, list) else [item]) if name is not None]


def _check_split(config: TaskConfig, split: str | None, mirror: Path | None) -> None:
    """Named files are the splits there are; what a dataset of the hub has is known once it is loaded."""
    files = (config.dataset_kwargs or {}).get("data_files")
    if split is None or files is None or config.dataset_path not in FILE_FORMATS or mirror is not None:
        return
    splits = [*files] if isinstance(files, dict) else ["train"]
    if split.partition("[")[0] not in splits:
        raise ConfigError(
            f"data_files has no split {split!r}",
            hint=did_you_mean(split, splits) or f"There are: {', '.join(map(str, splits))}.",
        )


def _check_files(config: TaskConfig, mirror: Path | None) -> None:
    """`dataset_path: json` means files, which have to be named and to be there."""
    if config.dataset_path not in FILE_FORMATS or config.custom_dataset is not None or mirror is not None:
        return
    names = _data_files(config)
    if not names and not (config.dataset_kwargs or {}).get("data_dir"):
        raise ConfigError(
            f"dataset_path is {config.dataset_path}, which is a file format, but no files are named",
            hint="Add dataset_kwargs: {data_files: {test: FILE}}.",
        )
    for name in names:
        if "://" in name or any(sign in name for sign in "*?["):
            continue
        if not Path(name).exists():
            raise ConfigError(
                f"there is no file {name}",
                hint="Data files are searched for next to the task file, then in the working directory.",
            )
        if not Path(name).is_file() and not Path(name).is_dir():
            # A pipe waits for ever, and /dev/zero has no end.
            raise ConfigError(f"{name} is not a regular file", hint="Write the docs to a file, and name that.")
