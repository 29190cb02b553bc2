"""Several prompts in one completions request, for servers that take a list of them.

The choices of a question go together: their shared context is sent once to the server's scheduler, whose prefix cache
then hits, and there is one exchange instead of four.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from assay.models.openai.wire import Job, Unusable

T = TypeVar("T")

MOST_CHOICES = 16
"""Of one question in a request, where nobody said how many."""
TAKES_LISTS = ("vllm", "sglang")
"""Servers, as `/models` names them under `owned_by`, that answer a list of prompts with a choice for each."""


def groups_of(order: Sequence[int], belong: Callable[[int, int], bool], most: int) -> Iterator[list[int]]:
    """Neighbours that belong together, at most so many.

    >>> list(groups_of([0, 1, 2, 3, 4], lambda a, b: a // 3 == b // 3, 2))
    [[0, 1], [2], [3, 4]]
    """
    group: list[int] = []
    for at in order:
        if group and (len(group) == most or not belong(group[0], at)):
            yield group
            group = []
        group.append(at)
    if group:
        yield group


def bundle(jobs: Sequence[Job[T]], count: Callable[[Mapping[str, Any]], Any]) -> Job[list[T]]:
    """One request for all: the jobs differ in their prompt alone. `count` is told what the whole of it took."""

    def read(reply: Any) -> list[T]:
        choices = sorted(reply["choices"], key=lambda choice: int(choice["index"]))
        if [choice["index"] for choice in choices] != list(range(len(jobs))):
            raise Unusable(f"it has {len(choices)} choices for {len(jobs)} prompts", again=False)
        rest = {name: value for name, value in reply.items() if name not in ("choices", "usage")}
        values = [job.read({**rest, "choices": [choice]}) for job, choice in zip(jobs, choices)]
        count(reply)
        return values

    return Job({**jobs[0].body, "prompt": [job.body["prompt"] for job in jobs]}, read, jobs[0].parse)
