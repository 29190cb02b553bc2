"""Addresses of pages: of the server, and of files in a bundle. Templates know no other way to make one."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import quote, urlencode


class Links(Protocol):
    live: bool
    """Whether a server answers: then pages can be searched, sorted and downloaded."""

    def static(self, name: str) -> str: ...
    def runs(self, **query: Any) -> str: ...
    def run(self, run_id: str, **query: Any) -> str: ...
    def task(self, run_id: str, task: str, **query: Any) -> str: ...
    def samples(self, run_id: str, task: str, **query: Any) -> str: ...
    def sample(self, run_id: str, task: str, doc_id: int, **query: Any) -> str: ...
    def compare(self, run_ids: Sequence[str], **query: Any) -> str: ...


class ServerLinks:
    live = True

    def static(self, name: str) -> str:
        return f"/static/{name}"

    def runs(self, **query: Any) -> str:
        return _with("/", query)

    def run(self, run_id: str, **query: Any) -> str:
        return _with(f"/run/{run_id}", query)

    def live_part(self, run_id: str) -> str:
        return f"/live/{run_id}"

    def task(self, run_id: str, task: str, **query: Any) -> str:
        return _with(f"/task/{run_id}/{quote(task, safe='')}", query)

    def samples(self, run_id: str, task: str, **query: Any) -> str:
        return _with(f"/samples/{run_id}/{quote(task, safe='')}", query)

    def sample(self, run_id: str, task: str, doc_id: int, **query: Any) -> str:
        return _with(f"/sample/{run_id}/{doc_id}/{quote(task, safe='')}", query)

    def compare(self, run_ids: Sequence[str], **query: Any) -> str:
        return _with("/compare", {**query, "run": list(run_ids)})


class BundleLinks:
    """Files beside each other in one folder; queries are dropped, since a file answers none."""

    live = False

    def __init__(self, samples: Mapping[tuple[str, str], frozenset[int]], compared: frozenset[tuple[str, ...]]) -> None:
        self._samples = samples
        """(run, task) → the docs that have a page."""
        self._compared = compared

    def static(self, name: str) -> str:
        return f"static/{name}"

    def runs(self, **query: Any) -> str:
        return "index.html"

    def run(self, run_id: str, **query: Any) -> str:
        return f"run-{run_id}.html"

    def task(self, run_id: str, task: str, **query: Any) -> str:
        return f"task-{run_id}-{slug(task)}.html"

    def samples(self, run_id: str, task: str, **query: Any) -> str:
        return f"samples-{run_id}-{slug(task)}.html"

    def sample(self, run_id: str, task: str, doc_id: int, **query: Any) -> str:
        if doc_id not in self._samples.get((run_id, task), ()):
            return ""
        return f"sample-{run_id}-{slug(task)}-{doc_id}.html"

    def compare(self, run_ids: Sequence[str], **query: Any) -> str:
        return f"compare-{'-'.join(run_ids)}.html" if tuple(run_ids) in self._compared else ""


def slug(task: str) -> str:
    """A file name for any task name: readable where it can be, distinct always.

    >>> slug("mmlu/anatomy:cloze")
    'mmlu_anatomy_cloze-f2c54c'
    """
    readable = "".join(ch if ch.isascii() and ch.isalnum() else "_" for ch in task)[:60]
    return f"{readable}-{hashlib.sha256(task.encode('utf-8', 'surrogatepass')).hexdigest()[:6]}"


def _with(path: str, query: Mapping[str, Any]) -> str:
    kept = {key: value for key, value in query.items() if value not in (None, "", False, [])}
    return f"{path}?{urlencode(kept, doseq=True)}" if kept else path
