"""What a run kept of its docs, read while docs are asked for: sample files have them in the same order."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from assay.results.samples import read_columns, unpack_arguments

if TYPE_CHECKING:
    from assay.instance import Instance

COLUMNS = ("doc_id", "doc_hash", "request_hash", "doc", "arguments", "resps", "stops", "tokens", "failure")


@dataclass(frozen=True, slots=True)
class Kept:
    """One doc as its sample row has it; texts are JSON."""

    doc_hash: str
    request_hash: str
    doc: str
    arguments: str
    resps: str
    stops: str | None
    tokens: str | None
    failure: str | None
    """Why there is no answer, where a request failed; older files do not say."""

    def give_answers(self, instances: list[Instance]) -> bool:
        """Answer the requests with what was kept. False, and nothing done, where there are more or fewer than then.

        A request that failed was kept with null for an answer, and is a failed request again.
        """
        resps = json.loads(self.resps)
        if len(resps) != len(instances):
            return False
        for instance, answers in zip(instances, resps):
            instance.resps = [tuple(a) if isinstance(a, list) else a for a in answers]
            if not answers or None in answers:
                instance.failure = self.failure or "the request failed"
        if self.stops is not None:
            for instance, reasons in zip(instances, json.loads(self.stops)):
                instance.stop_reasons = reasons
        if self.tokens is not None:
            for instance, counts in zip(instances, json.loads(self.tokens)):
                instance.tokens = [tuple(count) if count else None for count in counts]
        return True

    def give_arguments(self, instances: list[Instance]) -> None:
        """The requests as they were asked."""
        for instance, given in zip(instances, unpack_arguments(self.arguments)):
            instance.arguments = tuple(given)


class KeptDocs:
    """The docs of one sample file, each to be taken once. Those that are passed over wait until they are asked for."""

    def __init__(self, path: Path) -> None:
        self._rows = self._read(path)
        self._waiting: dict[int, Kept] = {}

    def take(self, doc_id: int) -> Kept | None:
        if doc_id in self._waiting:
            return self._waiting.pop(doc_id)
        for found, kept in self._rows:
            if found == doc_id:
                return kept
            self._waiting[found] = kept
        return None

    def _read(self, path: Path) -> Iterator[tuple[int, Kept]]:
        """One for each doc: the rows of its filters stand together and differ in nothing that is read here."""
        last = None
        for doc_id, *kept in read_columns(path, COLUMNS):
            if doc_id != last:
                last = doc_id
                yield doc_id, Kept(*kept)
