"""The requests of one doc, as `assay show` prints them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from assay.errors import ConfigError
from assay.instance import Instance
from assay.tasks.base import Task
from assay.tasks.requests import RequestOptions

_MARKS = str.maketrans({" ": "·", "\t": "→\t", "\n": "⏎\n", "\u00a0": "⍽", "\r": "␍"})


def preview(task: Task, doc_id: int, options: RequestOptions | None = None) -> list[Instance]:
    """The requests of a doc, with the shots it would have in a run over all docs."""
    total = task.doc_count
    if not 0 <= doc_id < total:
        raise ConfigError(
            f"task {task.task_name} has no doc {doc_id}", hint=f"There are {total} docs, with ids 0 to {total - 1}."
        )
    chosen = replace(options or RequestOptions(), samples=None, limit=doc_id + 1, only=(doc_id,))
    return next(iter(task.iter_requests(chosen))).instances


def visible(text: str) -> str:
    r"""The text with its white space shown.

    >>> visible("A: b\n")
    'A:·b⏎\n'
    """
    return text.translate(_MARKS)


def as_json(instance: Instance) -> dict[str, Any]:
    """A request as plain values: what `assay show --json` prints."""
    return {
        "request_type": instance.request_type,
        "idx": instance.idx,
        "doc_id": instance.doc_id,
        "task": instance.task_name,
        "repeats": instance.repeats,
        "target": instance.target,
        "arguments": list(instance.arguments),
    }
