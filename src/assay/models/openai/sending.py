"""Prompts on their way to a server: in the order of their prefixes, several in one request where the server takes lists,
and no more of them than the cost allows.

The choices of a question go together: their shared context is sent once to the server's scheduler, whose prefix cache
then hits, and there is one exchange instead of four.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from assay.instance import Response
from assay.models.base import Stop
from assay.models.info import CostLimit
from assay.models.openai.wire import Failed, Job, Unusable
from assay.models.prefix_tree import prefix_order

T = TypeVar("T")

MOST_CHOICES = 16
"""Of one question in a request, where nobody said how many."""
TAKES_LISTS = ("vllm", "sglang")
"""Servers, as `/models` names them under `owned_by`, that answer a list of prompts with a choice for each."""

IMAGE_TOKENS = 4096
"""That an image may count as, at most; its bytes say nothing of it."""


class SendingLine(Protocol):
    """What carries requests: HTTP, or OpenAI's batches."""

    def send_all(self, jobs: Iterable[Job[T]], stop: Stop = ...) -> Iterator[tuple[int, T | Failed]]: ...


class Spending(Protocol):
    """Counts what replies say they took."""

    prices: tuple[float, float]
    cost_limit: CostLimit | None

    @property
    def cost(self) -> float: ...
    def count(self, reply: Mapping[str, Any]) -> Any: ...


def send_by_prefix(
    line: SendingLine,
    spending: Spending,
    write: Callable[[int], Job[Response]],
    prompts: Sequence[Any],
    stop: Stop,
    belong: Callable[[int, int], bool] = lambda one, other: False,
    most: int = 1,
) -> Iterator[tuple[int, Response]]:
    """Send in the order of prefixes, and yield answers under their own positions.

    A request is written when there is room to send it, while others wait for their answers. Prompts that `belong` to one
    another share a request, at most so many; where that fails, each gets its own. On a stop the paid requests under way
    are awaited, and no others are sent.
    """
    groups = list(groups_of(prefix_order(prompts), belong, most))
    alone: list[int] = []

    def write_group(group: list[int]) -> Job[Any]:
        return write(group[0]) if len(group) == 1 else bundle([write(at) for at in group], spending.count)

    for group, outcome in send_affordable(line, spending, groups, write_group, stop):
        if isinstance(outcome, Failed) and len(group) > 1:
            alone += group
        elif isinstance(outcome, Failed):
            yield group[0], Response(None, failure=outcome.reason)
        elif len(group) == 1:
            yield group[0], outcome
        else:
            yield from zip(group, outcome)
    if alone:
        left = [prompts[at] for at in alone]
        for at, answer in send_by_prefix(line, spending, lambda i: write(alone[i]), left, stop):
            yield alone[at], answer


def send_affordable(
    line: SendingLine, spending: Spending, groups: list[list[int]], write: Callable[[list[int]], Job[T]], stop: Stop
) -> Iterator[tuple[list[int], T | Failed]]:
    """All of them; with a limit on the cost, as many as it bears. What is under way is awaited to see what it took,
    before the next request is called too dear."""
    limit, sent = spending.cost_limit, 0
    if limit is None:
        yield from ((groups[at], outcome) for at, outcome in line.send_all(map(write, groups), stop))
        return
    while sent < len(groups) and not stop():
        first, before = sent, spending.cost
        aside: list[float] = []
        too_dear: list[RequestBound] = []

        def affordable(
            aside: list[float] = aside, too_dear: list[RequestBound] = too_dear, first: int = first
        ) -> Iterator[Job[T]]:
            for group in groups[first:]:
                job = write(group)
                bound = RequestBound.of(job.body)
                if not limit.reserve(bound.cost(spending.prices)):
                    too_dear.append(bound)
                    return
                aside.append(bound.cost(spending.prices))
                yield job

        for at, outcome in line.send_all(affordable(), stop):
            spent, before = spending.cost - before, spending.cost
            limit.settle(aside[at], spent=spent)
            yield groups[first + at], outcome
        sent = first + len(aside)
        if too_dear and not aside and not stop():
            [bound] = too_dear
            raise limit.reached(bound.cost(spending.prices), str(bound))


class RequestBound(NamedTuple):
    """The most tokens that a request can take: none has less than a byte, and no answer is longer than requested.

    >>> bound = RequestBound.of({"prompt": "x" * 80, "max_tokens": 100})
    >>> str(bound), round(bound.cost((1.0, 10.0)) * 1e6)
    ('at most 94 tokens of prompt and 100 of answer', 1094)
    """

    prompt: int
    answer: int

    def __str__(self) -> str:
        return f"at most {self.prompt:,} tokens of prompt and {self.answer:,} of answer"

    def cost(self, prices: tuple[float, float]) -> float:
        return (self.prompt * prices[0] + self.answer * prices[1]) / 1e6

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> RequestBound:
        written, images = _written(body)
        prompts = body.get("prompt")
        count = len(prompts) if isinstance(prompts, list) and prompts and not isinstance(prompts[0], int) else 1
        answer = count * int(body.get("max_tokens") or body.get("max_completion_tokens") or 0)
        return cls(written + IMAGE_TOKENS * images, answer)


def _written(body: Mapping[str, Any]) -> tuple[int, int]:
    """Bytes of what the model is shown, and images, which are counted by themselves."""
    shown = {name: body[name] for name in ("prompt", "messages", "tools") if name in body}
    images = 0

    def without_images(part: Any) -> Any:
        nonlocal images
        if isinstance(part, Mapping):
            if part.get("type") == "image_url":
                images += 1
                return ""
            return {name: without_images(value) for name, value in part.items()}
        return [without_images(each) for each in part] if isinstance(part, list | tuple) else part

    return len(json.dumps(without_images(shown), ensure_ascii=False).encode("utf-8", "replace")), images


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

    return Job({**jobs[0].body, "prompt": [job.body["prompt"] for job in jobs]}, read)
