"""Filters that choose among the repeats of one request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from assay.errors import ConfigError
from assay.filters.base import FILTERS, Filter
from assay.instance import Doc


@FILTERS.register("take_first")
class TakeFirst(Filter):
    """The first response, no longer in a list."""

    def apply(self, resps: Iterable[Any], docs: Sequence[Doc]) -> list[Any]:
        return [entry[0] for entry in resps]

    def carry(self, unparsed: list[bool], given: Any, filtered: Any) -> list[bool]:
        return unparsed[:1]


@FILTERS.register("take_first_k")
class TakeFirstK(Filter):
    """The first `k` responses, as a list."""

    def __init__(self, k: int) -> None:
        self.k = k

    def apply(self, resps: Iterable[Any], docs: Sequence[Doc]) -> list[Any]:
        entries = list(resps)
        fewest = min((len(entry) for entry in entries), default=self.k)
        if fewest < self.k:
            raise ConfigError(
                f"filter take_first_k: k is {self.k}, and there are {fewest} responses per request",
                hint=f"Set repeats to at least {self.k}.",
            )
        return [entry[: self.k] for entry in entries]

    def carry(self, unparsed: list[bool], given: Any, filtered: Any) -> list[bool]:
        return unparsed[: self.k]


@FILTERS.register("majority_vote")
class MajorityVote(Filter):
    """The most frequent response, in a list of one; among equals the one that came first."""

    def apply(self, resps: Iterable[Any], docs: Sequence[Doc]) -> list[Any]:
        return [[Counter(entry).most_common(1)[0][0]] for entry in resps]

    def carry(self, unparsed: list[bool], given: Any, filtered: Any) -> list[bool]:
        return [unparsed[list(given).index(filtered[0])]]
