"""Leave out docs whose text is known from training data."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from assay.errors import ConfigError
from assay.filters.base import DROPPED, FILTERS, Filter
from assay.instance import Doc


@FILTERS.register("decontaminate")
class Decontaminate(Filter):
    """Drops docs that share an n-gram of `n` words with the file at `path` (one training text a line).

    The score under this filter is the score on clean docs; the dropped ones are counted in the task's health. Words are
    compared in lower case and without punctuation. `column` names the text to look at; by default it is all text of the
    doc. A doc with fewer than `n` words is contaminated only if a whole line equals it.
    """

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
