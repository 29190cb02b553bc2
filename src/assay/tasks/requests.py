"""What is requested of a task, and what it gives back for each doc."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeVar

from assay.data import Docs, doc_hash, iter_docs
from assay.errors import ConfigError
from assay.instance import Doc, Instance
from assay.tasks.prompt import ChatTemplate

DEFAULT_FEWSHOT_SEED = 1234
T = TypeVar("T")


@dataclass(frozen=True)
class RequestOptions:
    """The part of a run's config that affects requests. None means as the task says."""

    num_fewshot: int | None = None
    limit: int | float | None = None
    """A number of docs, or below 1 a fraction of them."""
    samples: list[int] | None = None
    """Ids of the docs to send, in any order; an empty list sends none."""
    system_instruction: str | None = None
    apply_chat_template: bool = False
    fewshot_as_multiturn: bool = False
    chat_template: ChatTemplate | None = None
    fewshot_seed: int | None = DEFAULT_FEWSHOT_SEED
    gen_kwargs: dict[str, Any] = field(default_factory=dict)
    repeats: int | None = None
    only: Sequence[int] | None = None
    """Build requests for these of the docs alone, in this order, with the very shots they have where all are sent."""


@dataclass(slots=True)
class DocRequests:
    """The requests of one doc."""

    doc_id: int
    doc: Doc
    target: Any
    instances: list[Instance]
    shot_replaced: bool = False
    """Whether the doc was drawn as its own shot and got another one, which lm-evaluation-harness does not do."""
    state: Any = None
    """What a task that goes in rounds remembers for `next_requests`."""
    _hash: str | None = None

    @property
    def doc_hash(self) -> str:
        """SHA-256 (hex) of the doc as canonical JSON."""
        if self._hash is None:
            self._hash = doc_hash(self.doc)
        return self._hash


def select_ids(total: int, options: RequestOptions) -> Sequence[int]:
    """Ids of the docs that `samples` or `limit` select, ascending; a doc's id is its position in all docs."""
    if options.samples is None:
        return range(total if options.limit is None else min(total, limit_count(options.limit, total)))
    wanted = sorted(set(options.samples))
    outside = [i for i in wanted if not 0 <= i < total]
    if outside:
        raise ConfigError(
            f"samples {outside[:5]} do not exist", hint=f"There are {total} docs, with ids 0 to {total - 1}."
        )
    return wanted


def select_docs(docs: Docs, options: RequestOptions) -> Iterator[tuple[int, Doc]]:
    """(doc_id, doc) of the docs that `samples` or `limit` select, in the order of the dataset."""
    wanted = select_ids(len(docs), options)
    first = wanted[0] if wanted else 0
    return pick(enumerate(iter_docs(docs, first), first), wanted)


def pick(walk: Iterable[tuple[int, T]], wanted: Iterable[int]) -> Iterator[tuple[int, T]]:
    """The pairs whose ids are wanted; both ascend. The walk ends with the last of them."""
    ids = iter(wanted)
    if (target := next(ids, None)) is None:
        return
    for pair in walk:
        if pair[0] == target:
            yield pair
            if (target := next(ids, None)) is None:
                return


def ascends(ids: Sequence[int]) -> bool:
    return isinstance(ids, range) or all(a < b for a, b in pairwise(ids))


def limit_count(limit: int | float, total: int) -> int:
    """How many docs a limit means.

    >>> limit_count(10, 100), limit_count(0.25, 90), limit_count(1.0, 100)
    (10, 23, 1)
    """
    return math.ceil(total * limit) if limit < 1 else int(limit)
