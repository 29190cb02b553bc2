"""What a filter is, and the one that is a function of the task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, cast

from assay.config import Function
from assay.instance import Doc
from assay.registry import Registry


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
    """Whether a filter says that it filters each doc by itself: the class with its `apply`, or one derived from that.

    A filter from a task file need not derive from `Filter`.
    """
    for cls in type(step).__mro__:
        if "per_doc" in vars(cls):
            return bool(vars(cls)["per_doc"])
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
