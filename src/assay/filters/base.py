"""What a filter is, the one that is a function of the task, named chains of filters, and how a config becomes one."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from assay.config import FilterConfig, FilterStep, Function, FunctionRef, TaskConfig, what_failed
from assay.errors import AssayError, ConfigError, ScoringError, did_you_mean
from assay.instance import Doc, Instance, Response
from assay.registry import Registry
from assay.request_types import REQUEST_TYPES


class _Dropped:
    """Type of `DROPPED`; a class of its own so that no response can equal it."""

    def __repr__(self) -> str:
        return "DROPPED"


DROPPED: Final = _Dropped()
"""Returned by a filter in place of a doc's responses: the doc is left out under this filter, and counted."""


class Filter(ABC):
    """One step from raw to filtered responses.

    `resps` has one entry per instance, each a list with one response per repeat; a filter such as `take_first` turns
    the list into a single value. Entries come back in the order in which they were given.
    """

    extracts = False
    """Whether the filter can find nothing in a response, so that flags must be carried through the chain."""
    takes_responses = False
    """Whether it is given whole responses in place of their texts; such a filter stands first in its chain."""
    drops = False
    """Whether the filter may return `DROPPED`."""
    gives_value = False
    """Whether it leaves one value of a doc's list, as `take_first` does."""
    takes_lists = False
    """Whether it reads the entry of a doc as a list of answers, so that a text would be read as its characters; a class that
    overrides `apply` says it anew."""
    per_doc = False
    """Whether each doc is filtered by itself. A filter that does not say so is given all docs of the task at once; a class
    that overrides `apply` says it anew."""

    def __init__(self, **kwargs: Any) -> None:  # noqa: B027
        """Filters written for lm-evaluation-harness pass their leftover arguments up; there is no use for them."""

    @abstractmethod
    def apply(self, resps: Iterable[Any], docs: Sequence[Doc]) -> Iterable[Any]:
        """The filtered entries, in order. `docs` is parallel to `resps`."""

    def carry(self, unparsed: list[bool], given: Any, filtered: Any) -> list[bool]:
        """The unparsed flags of one entry after this step turned `given` into `filtered`.

        An extracting filter raises the flags of responses in which it found nothing; a selecting filter keeps the
        flags of what it selected; every other filter leaves them as they are.
        """
        return unparsed


def works_per_doc(step: object) -> bool:
    """Whether a filter says that it filters each doc by itself."""
    return _says(step, "per_doc")


def _says(step: object, what: str) -> bool:
    """What a filter says of its `apply`: the class that defines it, or one derived from that.

    A filter from a task file need not derive from `Filter`.
    """
    for cls in type(step).__mro__:
        if what in vars(cls):
            return bool(vars(cls)[what])
        if "apply" in vars(cls):
            return False
    return False


def _as_filter(name: str, entry: object) -> type[Filter]:
    """A class as it is; a plain function `f(resps, docs)` as the filter that calls it."""
    if isinstance(entry, type):
        return entry
    function = cast("Callable[..., Iterable[Any]]", entry)

    class Function(Filter):
        per_doc = bool(getattr(function, "per_doc", False))

        def apply(self, resps: Iterable[Any], docs: Sequence[Doc]) -> Iterable[Any]:
            return function(resps, docs)

    Function.__name__ = Function.__qualname__ = name
    return Function


FILTERS: Registry[type[Filter]] = Registry("filter", group="assay.filters", made_of=_as_filter)


def register_filter(name: str) -> Callable[[Any], Any]:
    """Decorator: make a class, or a function of `(resps, docs)`, a filter. It stays as it is."""

    def decorate(entry: Any) -> Any:
        FILTERS.add(name, entry)
        return entry

    return decorate


@FILTERS.register("custom")
class Custom(Filter):
    """Calls `filter_fn(resps, docs)`, which returns one entry per instance, in order."""

    def __init__(self, filter_fn: Function, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.filter_fn = filter_fn

    def apply(self, resps: Iterable[Any], docs: Sequence[Doc]) -> Iterable[Any]:
        return self.filter_fn(resps, docs)  # type: ignore[no-any-return]


DEFAULT_FILTER = FilterConfig(name="none", filter=[FilterStep(function="take_first")])
"""What a task without `filter_list` uses."""


def tool_filter(config: TaskConfig) -> FilterConfig:
    """The same for a task whose model calls tools; with `tool_protocol: text` calls that are written as text count too."""
    read = {"tools": config.tools} if config.tool_protocol == "text" else {}
    steps = [FilterStep(function="tool_calls", kwargs=read), FilterStep(function="take_first")]
    return FilterConfig(name="none", filter=steps)


def build_filter(step: FilterStep) -> Filter:
    """The filter that a step names: a registered one, a class behind `!function`, or a class itself."""
    make: Any = step.function
    if isinstance(make, str):
        make = FILTERS[make]
    elif isinstance(make, FunctionRef):
        make = make.load()
    name = str(step.function)
    takes = _arguments(make)
    for given in step.kwargs:
        if takes and given not in takes:
            hint = did_you_mean(given, takes) or f"It takes: {', '.join(takes)}."
            raise ConfigError(f"the filter {name} has no argument {given!r}", hint=hint)
    try:
        return make(**step.kwargs)  # type: ignore[no-any-return]
    except (TypeError, KeyError) as error:
        raise ConfigError(f"filter {name}: {error}", hint=f"Given: {sorted(step.kwargs) or 'no arguments'}.") from error


def _arguments(make: Any) -> list[str]:
    """Names of what a filter is made from; none where it takes any, or does not say."""
    try:
        parameters = inspect.signature(make).parameters.values()
    except (TypeError, ValueError):
        return []
    is_open = any(p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL) for p in parameters)
    return [] if is_open else [p.name for p in parameters]


def _made(given: Filter | Callable[[], Filter]) -> Filter:
    # A filter from a task file need not derive from Filter; it is known by its `apply`.
    ready = hasattr(given, "apply") and not isinstance(given, type)
    return cast(Filter, given) if ready else cast(Callable[[], Filter], given)()


def _whole(instance: Instance) -> list[Response]:
    """What came back for each draw, where more than the text is known."""
    known = [*instance.responses, *[None] * len(instance.resps)]
    return [Response(text) if whole is None else whole for text, whole in zip(instance.resps, known)]


def _is_one_answer(left: list[Any], instance: Instance) -> bool:
    """Whether a request was answered once; all draws of a text that is scored are one computation."""
    row = REQUEST_TYPES.get(instance.request_type)
    is_scored = row is not None and row.scored_argument is not None
    return len(left) == instance.repeats and (instance.repeats == 1 or is_scored)


def _first_lone(resps: Sequence[Any]) -> int | None:
    """The first doc whose answers are one text, or number, in place of a list."""
    lone = (i for i, entry in enumerate(resps) if isinstance(entry, str) or not isinstance(entry, Iterable))
    return next(lone, None)


def _named(step: Filter) -> str:
    """The class, and of a function the function."""
    function = getattr(getattr(step, "filter_fn", None), "__name__", None)
    return type(step).__name__ if function is None else f"{type(step).__name__} ({function})"


@dataclass
class FilterEnsemble:
    """Filters applied one after another, under one name. A class, or whatever else makes a filter, stands for it."""

    name: str
    filters: Sequence[Filter | Callable[[], Filter]]
    unwraps: bool = False
    """Whether the only answer to a request is handed on as itself, and not as a list of one."""
    is_strict: bool = False
    """Whether a step that leaves one value may not stand before one that reads a list. Files of lm-evaluation-harness have
    such chains, in which a text is read as its characters; a text that code of the task gives is never read so."""

    def __post_init__(self) -> None:
        self.steps = [_made(each) for each in self.filters]
        if late := [step for step in self.steps[1:] if getattr(step, "takes_responses", False)]:
            raise ConfigError(
                f"filter {self.name!r}: {type(late[0]).__name__} needs whole responses, but steps before it leave none",
                hint="Put it first.",
            )
        if self.is_strict and (fault := self.splits_answers):
            raise ConfigError(f"filter {self.name!r}: {fault}", hint="Put the step that leaves one answer last.")

    @property
    def gives_value(self) -> bool:
        """Whether one answer is left, and not a list."""
        return any(_says(step, "gives_value") for step in self.steps)

    @property
    def splits_answers(self) -> str | None:
        """Which step takes one answer for a list, and so reads its characters as answers."""
        for step, after in zip(self.steps, self.steps[1:]):
            if _says(step, "gives_value") and _says(after, "takes_lists"):
                return f"{_named(step)} leaves one answer, but {_named(after)} after it reads a list"
        return None

    @classmethod
    def from_config(
        cls, config: FilterConfig, *, unwraps: bool | None = None, is_strict: bool = False
    ) -> FilterEnsemble:
        """Without steps there is nobody to take the only answer out of its list, unless the file says `filter: []`."""
        made = [build_filter(step) for step in config.filter]
        return cls(config.name, made, config.has_steps_unsaid if unwraps is None else unwraps, is_strict)

    def apply(self, instances: Sequence[Instance]) -> None:
        """Set `filtered_resps[name]` and `unparsed[name]` of each instance that was answered and not dropped."""
        answered = [instance for instance in instances if instance.failure is None]
        resps: list[Any] = [instance.resps for instance in answered]
        if self.steps and getattr(self.steps[0], "takes_responses", False):
            resps = [_whole(instance) for instance in answered]
        docs = [instance.doc for instance in answered]
        carries = any(getattr(step, "extracts", False) for step in self.steps)
        flags = [[False] * len(instance.resps) for instance in answered] if carries else []
        for step in self.steps:
            given, resps = resps, self._run(step, resps, docs, answered)
            # A class from a task file need not derive from Filter: then it carries nothing and drops nothing.
            carry = getattr(step, "carry", None) if carries else None
            if carry is not None:
                flags = [carry(*row) for row in zip(flags, given, resps)]
            if getattr(step, "drops", False):
                alive = [i for i, filtered in enumerate(resps) if filtered is not DROPPED]
                answered, resps, docs = (
                    [answered[i] for i in alive],
                    [resps[i] for i in alive],
                    [docs[i] for i in alive],
                )
                flags = [flags[i] for i in alive] if carries else []
        name = self.name
        for instance, filtered in zip(answered, resps):
            is_only = self.unwraps and isinstance(filtered, list) and _is_one_answer(filtered, instance)
            instance.filtered_resps[name] = filtered[0] if is_only else filtered
        if carries:
            self._note_unparsed(answered, flags)

    def _note_unparsed(self, instances: Sequence[Instance], flags: Sequence[list[bool]]) -> None:
        for instance, flag in zip(instances, flags):
            instance.unparsed.pop(self.name, None)
            if any(flag):
                instance.unparsed[self.name] = flag

    def _run(self, step: Filter, resps: list[Any], docs: list[Doc], instances: Sequence[Instance]) -> list[Any]:
        if not instances:
            return []
        where = f"filter {self.name!r}, step {_named(step)}, task {instances[0].task_name!r}"
        before = self.steps[self.steps.index(step) - 1]
        if _says(step, "takes_lists") and not _says(before, "gives_value") and (lone := _first_lone(resps)) is not None:
            raise ScoringError(
                f"{where}, doc {instances[lone].doc_id}: it takes a list of answers, but {_named(before)} gave {resps[lone]!r:.60}",
                hint=f"{_named(before)} must give a list for each doc, or {_named(step)} must go.",
            )
        try:
            given = step.apply(resps, docs)
            if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
                raise ScoringError(
                    f"{where}: it gave {type(given).__name__} {str(given)[:60]!r} for {len(resps)} docs",
                    hint="A filter must return a list with one entry per instance, in the same order.",
                )
            filtered = list(given)
        except AssayError:
            raise
        except Exception as error:  # a filter may be anybody's code
            guilty = self._first_failing(step, resps, instances)
            said, hint = what_failed(error)
            raise ScoringError(f"{where}{guilty}: {said}", hint=hint) from error
        if len(filtered) != len(resps):
            raise ScoringError(
                f"{where}: {len(resps)} entries went in, but {len(filtered)} came out",
                hint="A filter must return one entry per instance, in the same order.",
            )
        return filtered

    def _first_failing(self, step: Filter, resps: list[Any], instances: Sequence[Instance]) -> str:
        """A filter sees all instances at once; the message should still name the doc that broke it."""
        for entry, instance in zip(resps, instances):
            try:
                list(step.apply([entry], [instance.doc]))
            except Exception:  # the error is being raised already; this only finds whose it is
                return f", doc {instance.doc_id}"
        return ""
