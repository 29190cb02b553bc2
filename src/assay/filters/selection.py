"""Filters that choose: among the repeats of one request, or which docs count."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from assay.errors import ConfigError
from assay.filters.base import DROPPED, FILTERS, Filter
from assay.instance import Doc


@FILTERS.register("take_first")
class TakeFirst(Filter):
    """The first response, no longer in a list."""

    per_doc = True

    def apply(self, resps: Iterable[Any], docs: Sequence[Doc]) -> list[Any]:
        return [entry[0] for entry in resps]

    def carry(self, unparsed: list[bool], given: Any, filtered: Any) -> list[bool]:
        return unparsed[:1]


@FILTERS.register("take_first_k")
class TakeFirstK(Filter):
    """The first `k` responses, as a list."""

    per_doc = True

    def __init__(self, k: int) -> None:
        self.k = k

    def apply(self, resps: Iterable[Any], docs: Sequence[Doc]) -> list[Any]:
        entries = list(resps)
        fewest = min((len(entry) for entry in entries), default=self.k)
        if fewest < self.k:
            raise ConfigError(
                f"filter take_first_k: k is {self.k}, but there are {fewest} responses per request",
                hint=f"Set repeats to at least {self.k}.",
            )
        return [entry[: self.k] for entry in entries]

    def carry(self, unparsed: list[bool], given: Any, filtered: Any) -> list[bool]:
        return unparsed[: self.k]


@FILTERS.register("majority_vote")
class MajorityVote(Filter):
    """The most frequent response, in a list of one; the first one if several tie."""

    per_doc = True

    def apply(self, resps: Iterable[Any], docs: Sequence[Doc]) -> list[Any]:
        return [[Counter(entry).most_common(1)[0][0]] for entry in resps]

    def carry(self, unparsed: list[bool], given: Any, filtered: Any) -> list[bool]:
        return [unparsed[list(given).index(filtered[0])]]


@FILTERS.register("decontaminate")
class Decontaminate(Filter):
    """Drops docs that share an n-gram of `n` words with the file at `path` (one training text per line).

    The score under this filter is the score on clean docs; the dropped ones are counted in the task's health. Words are
    compared in lower case and without punctuation. `column` names the text to look at; by default it is all text of the
    doc. A doc with fewer than `n` words is contaminated only if a whole line equals it.
    """

    per_doc = True

    drops = True

    def __init__(self, path: str, n: int = 13, column: str | None = None) -> None:
        self.path, self.n, self.column = Path(path), n, column
        if not self.path.is_file():
            raise ConfigError(f"filter decontaminate: there is no file {path}")

    @cached_property
    def known(self) -> set[tuple[str, ...]]:
        with self.path.open(encoding="utf-8") as lines:
            return {gram for line in lines for gram in self._grams(line)}

    def apply(self, resps: Iterable[Any], docs: Sequence[Doc]) -> list[Any]:
        return [DROPPED if self.is_contaminated(doc) else entry for entry, doc in zip(resps, docs)]

    def is_contaminated(self, doc: Doc) -> bool:
        values = doc.values() if self.column is None else [doc[self.column]]
        return any(gram in self.known for text in values if isinstance(text, str) for gram in self._grams(text))

    def _grams(self, text: str) -> Iterable[tuple[str, ...]]:
        words = re.findall(r"\w+", text.lower())
        if len(words) < self.n:
            return [tuple(words)] if words else []
        return zip(*(words[i:] for i in range(self.n)))
