"""From questions and answers to one prompt: plain text, or turns of a conversation.

The joints, where `|` is `target_delimiter` and `‖` is `fewshot_delimiter`:

    plain          system question|answer‖question|answer‖question
    several turns  system / user: question / assistant: answer / … / user: question
    one turn       system / user: question|answer‖question|answer‖question

Nothing stands between the system text and the first question, and nothing after the last one: the continuation brings
its own delimiter. With a `gen_prefix` the answer's turn is open: `question|prefix`, where the delimiter is left out if
there is white space on either side already.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from assay.errors import DataError
from assay.instance import Doc

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
