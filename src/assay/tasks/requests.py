"""What is asked of a task, and what it gives back for each doc."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from assay.data import Docs, doc_hash, iter_docs
from assay.errors import ConfigError
from assay.instance import Doc, Instance
from assay.tasks.prompt import ChatTemplate

DEFAULT_FEWSHOT_SEED = 1234


@dataclass(frozen=True)
class RequestOptions:
    """The part of a run's config that decides about requests. None means: as the task says."""

    num_fewshot: int | None = None
    limit: int | float | None = None
    """A number of docs, or below 1 a fraction of them."""
    samples: list[int] | None = None
    """Ids of the docs to ask about, in any order; an empty list asks about none."""
    system_instruction: str | None = None
    apply_chat_template: bool = False
    fewshot_as_multiturn: bool = False
    chat_template: ChatTemplate | None = None
    fewshot_seed: int | None = DEFAULT_FEWSHOT_SEED
    gen_kwargs: dict[str, Any] = field(default_factory=dict)
    repeats: int | None = None
    only: frozenset[int] | None = None
    """Build requests for these docs alone, with the very shots they have in a run over all docs. For previews, and for
    processes that share the docs of a run."""


@dataclass(slots=True)
class DocRequests:
    """The requests of one doc."""

    doc_id: int
    doc: Doc
    target: Any
    instances: list[Instance]
    shot_replaced: bool = False
    """Whether the doc was drawn as its own shot and got another one, which lm-evaluation-harness does not do."""
    _hash: str | None = None

    @property
    def doc_hash(self) -> str:
        """SHA-256 (hex) of the doc as canonical JSON."""
        if self._hash is None:
            self._hash = doc_hash(self.doc)
        return self._hash


def select_docs(docs: Docs, options: RequestOptions) -> Iterator[tuple[int, Doc]]:
    """(doc_id, doc) of the docs asked for, in the order of the dataset; a doc's id is its position in all docs."""
    total = len(docs)
    if options.samples is None:
        stop = total if options.limit is None else min(total, limit_count(options.limit, total))
        for doc_id, doc in enumerate(iter_docs(docs)):
            if doc_id >= stop:
                return
            yield doc_id, doc
        return
    wanted = set(options.samples)
    outside = sorted(i for i in wanted if not 0 <= i < total)
    if outside:
        raise ConfigError(
            f"samples {outside[:5]} do not exist", hint=f"There are {total} docs, with ids 0 to {total - 1}."
        )
    if not wanted:
        return
    for doc_id, doc in enumerate(iter_docs(docs, min(wanted)), min(wanted)):
        if doc_id in wanted:
            yield doc_id, doc
            wanted.discard(doc_id)
            if not wanted:
                return


def limit_count(limit: int | float, total: int) -> int:
    """How many docs a limit means.

    >>> limit_count(10, 100), limit_count(0.25, 90), limit_count(1.0, 100)
    (10, 23, 1)
    """
    return math.ceil(total * limit) if limit < 1 else int(limit)


def count_docs(total: int, options: RequestOptions) -> int:
    """How many docs these options ask about."""
    if options.samples is not None:
        return len(set(options.samples))
    return total if options.limit is None else min(total, limit_count(options.limit, total))
