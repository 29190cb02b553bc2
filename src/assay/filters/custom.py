"""A filter that is a function of the task: `filter_fn(resps, docs)`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from assay.config import Function
from assay.filters.base import FILTERS, Filter
from assay.instance import Doc


@FILTERS.register("custom")
class Custom(Filter):
    """Calls `filter_fn(resps, docs)`; it returns one entry per instance, in order."""

    def __init__(self, filter_fn: Function, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.filter_fn = filter_fn

    def apply(self, resps: Iterable[Any], docs: Sequence[Doc]) -> Iterable[Any]:
        return self.filter_fn(resps, docs)  # type: ignore[no-any-return]
