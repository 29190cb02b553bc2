"""A named chain of filters, and how a config becomes one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from assay.config import FilterConfig, FilterStep, FunctionRef
from assay.errors import AssayError, ConfigError, ScoringError, did_you_mean
from assay.filters.base import DROPPED, FILTERS, Filter
from assay.instance import Doc, Instance, Response

DEFAULT_FILTER = FilterConfig(name="none", filter=[FilterStep(function="take_first")])
"""What a task without `filter_list` uses."""
TOOL_FILTER = FilterConfig(name="none", filter=[FilterStep(function="tool_calls"), FilterStep(function="take_first")])
"""The same for a task whose model calls tools."""


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


@dataclass
class FilterEnsemble:
    """Filters applied one after another, under one name. A class, or whatever else makes a filter, stands for it."""

    name: str
    filters: Sequence[Filter | Callable[[], Filter]]

    def __post_init__(self) -> None:
        self.steps = [_made(each) for each in self.filters]
        if late := [step for step in self.steps[1:] if getattr(step, "takes_responses", False)]:
            raise ConfigError(
                f"filter {self.name!r}: {type(late[0]).__name__} needs whole responses, but steps before it leave none",
                hint="Put it first.",
            )

    @classmethod
    def from_config(cls, config: FilterConfig) -> FilterEnsemble:
        return cls(config.name, [build_filter(step) for step in config.filter])

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
            instance.filtered_resps[name] = filtered
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
        where = f"filter {self.name!r}, step {type(step).__name__}, task {instances[0].task_name!r}"
        try:
            filtered = list(step.apply(resps, docs))
        except AssayError:
            raise
        except Exception as error:  # a filter may be anybody's code
            guilty = self._first_failing(step, resps, instances)
            raise ScoringError(f"{where}{guilty}: {type(error).__name__}: {error}") from error
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
