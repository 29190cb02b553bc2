"""What is requested of a task, what it gives back for each doc, and how questions and answers become one prompt: plain text, or
turns of a conversation.

The joints, where `|` is `target_delimiter` and `‖` is `fewshot_delimiter`:

    plain          system question|answer‖question|answer‖question
    several turns  system / user: question / assistant: answer / … / user: question
    one turn       system / user: question|answer‖question|answer‖question

Nothing stands between the system text and the first question, and nothing after the last one: the continuation brings
its own delimiter. With a `gen_prefix` the answer's turn is open: `question|prefix`, where the delimiter is left out if
there is white space on either side already.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeAlias, TypeVar

from assay.data import Docs, doc_hash, iter_docs
from assay.errors import ConfigError, DataError
from assay.instance import Doc, Instance

Message: TypeAlias = dict[str, str]
"""`role` and `content`."""
ChatTemplate: TypeAlias = Callable[[list[Message], bool], Any]
"""(messages, add_generation_prompt) → the prompt: text, or a tuple of `Message` for a model that takes messages."""


@dataclass(frozen=True, slots=True)
class Shot:
    """One solved example, rendered once. `answer` is None where the doc has neither answer nor prefix."""

    doc: Doc
    question: str
    answer: str | None
    text: str
    """The example in a plain prompt, delimiters included."""

    @property
    def turns(self) -> list[Message]:
        user = {"role": "user", "content": self.question}
        return [user] if self.answer is None else [user, {"role": "assistant", "content": self.answer}]


def join_spaced(left: str | None, right: str | None, delimiter: str) -> str:
    """`left` and `right`, with the delimiter between them unless there is white space at the joint or one is empty.

    >>> join_spaced("A", "b", " "), join_spaced("A ", "b", " "), join_spaced("", "b", " ")
    ('A b', 'A b', 'b')
    """
    if not left or not right:
        return left or right or ""
    return left + right if left[-1].isspace() or right[0].isspace() else left + delimiter + right


def prefix_delimiter(question: str, prefix: str | None, delimiter: str) -> str:
    """What stands between a question and the prefix of its answer."""
    if not prefix or not question or question[-1].isspace() or prefix[0].isspace():
        return ""
    return delimiter


def make_shot(
    doc: Doc,
    question: Any,
    answer: Any,
    choices: Sequence[str] | None,
    prefix: str | None,
    *,
    target_delimiter: str,
    fewshot_delimiter: str,
) -> Shot:
    """A shot from the values of its fields; `answer` may be an index into `choices`, or a list whose first one counts."""
    if not isinstance(question, str):
        raise DataError(f"the question of a shot is {question!r}, expected text")
    if answer is None or answer == "":
        text = question + prefix_delimiter(question, prefix, target_delimiter) + (prefix or "")
        return Shot(doc, question, prefix or None, text)
    joint = prefix_delimiter(question, prefix, target_delimiter) if prefix else target_delimiter
    answer = join_spaced(prefix, _answer_text(answer, choices), " ")
    return Shot(doc, question, answer, f"{question}{joint}{answer}{fewshot_delimiter}")


def _answer_text(answer: Any, choices: Sequence[str] | None) -> str:
    if isinstance(answer, list):
        if not answer:
            raise DataError("the target of a shot is an empty list")
        answer = answer[0]
    if choices and isinstance(answer, int):
        try:
            answer = choices[answer]
        except IndexError:
            raise DataError(f"the target of a shot is {answer}, but it has {len(choices)} choices") from None
    if not isinstance(answer, str):
        raise DataError(
            f"the answer of a shot is {answer!r}, expected text", hint="Write doc_to_target so that it gives text."
        )
    return answer


def plain_prompt(head: str, question: str, prefix: str | None, delimiter: str) -> str:
    """`head` is the system text and all shots."""
    if prefix:
        return f"{head}{question}{prefix_delimiter(question, prefix, delimiter)}{prefix}"
    return head + question


def chat_messages(system: str, shots: Sequence[Shot], question: str, *, multiturn: bool) -> list[Message]:
    """The conversation up to the question; shots are turns of their own, or stand before it in one."""
    messages: list[Message] = [{"role": "system", "content": system}] if system else []
    if multiturn:
        for shot in shots:
            messages += shot.turns
        return [*messages, {"role": "user", "content": question}]
    return [*messages, {"role": "user", "content": "".join(shot.text for shot in shots) + question}]


def chat_prompt(template: ChatTemplate, messages: list[Message], prefix: str | None) -> Any:
    """The conversation through the model's chat template; a prefix leaves the assistant's turn open."""
    if prefix:
        return template([*messages, {"role": "assistant", "content": prefix}], False)
    return template(messages, True)


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
    system: str | None = None
    """In place of all system text that the run and the task have."""
    apply_chat_template: bool = False
    fewshot_as_multiturn: bool = False
    chat_template: ChatTemplate | None = None
    fewshot_seed: int | None = DEFAULT_FEWSHOT_SEED
    gen_kwargs: dict[str, Any] = field(default_factory=dict)
    repeats: int | None = None
    prices: tuple[float, float] | None = None
    """Of a million tokens of prompts, and of answers, where the model has prices: an agent may have a limit of cost."""
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
