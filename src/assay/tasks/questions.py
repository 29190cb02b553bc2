"""The bare question, choices and answer of a doc: what a styler words.

A task that says `doc_to_question` gives the question itself. From any other choice task it is derived, from the text
that the task would show:

1. `Answer:` (or `A:`, in any language of `styles`) at the end is cut off, and `Question:` (or `Q:`) at the start.
2. Where the choices are mere labels (A, B, C) and the text lists options under these labels, the option texts become
   the choices and the list is cut off.
3. A text that has a `Question:` line further down (a passage before the question) keeps it and gets no second one.
4. A text without any cue, and without a question mark at its end, is the beginning of a sentence that the choices
   continue; it is not made a question of when the choices are scored as its continuation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from assay.data import CorrectedDoc
from assay.errors import DataError
from assay.instance import Doc
from assay.tasks.fields import choice_field, target_field, text_field
from assay.tasks.languages import ANSWER_WORDS, QUESTION_WORDS
from assay.templates import get_n_letters


class Question(NamedTuple):
    """One choice question. `asks` is False where the text is to be continued, not answered."""

    text: str
    choices: Sequence[str]
    correct_index: int
    has_prefix: bool = False
    asks: bool = True
    answer: str = ""
    """The answer of a question without choices."""


_CUE = re.compile(rf"\s*^[ \t]*(?:{ANSWER_WORDS}|A)[ \t]*[:：][ \t]*\Z", re.IGNORECASE | re.MULTILINE)
_PREFIX = re.compile(rf"\A\s*(?:{QUESTION_WORDS}|Q)[ \t]*[:：]\s*", re.IGNORECASE)
_INNER_PREFIX = re.compile(rf"^[ \t]*(?:{QUESTION_WORDS}|Q)[ \t]*[:：]", re.IGNORECASE | re.MULTILINE)


_QUESTION_MARKS = ("?", "？", "؟")


@dataclass(frozen=True)
class HookQuestions:
    """Questions of a Python task: its three data hooks."""

    task: Any

    def __call__(self, doc: Doc) -> Question:
        question, choices = self.task._get_raw_question(doc), list(self.task._get_choices(doc))
        if isinstance(doc, CorrectedDoc) and doc.gold is not None:
            return checked(Question(question, choices, index_of(doc.gold, choices)))
        return checked(Question(question, choices, self.task._get_correct_index(doc)))


@dataclass(frozen=True)
class FieldQuestions:
    """Questions of a YAML task: its fields, as they are written."""

    question: Any
    text: Any
    choices: Any
    target: Any

    def __call__(self, doc: Doc) -> Question:
        text = self._text(doc) if self.question is None else str(self._question(doc))
        if not isinstance(text, str):
            raise DataError(
                "the task varies its contexts, not its choices, so no question can be extracted from it",
                hint="Set doc_to_question, doc_to_choice and doc_to_target.",
            )
        choices = self._choice(doc)
        if not isinstance(choices, list | tuple) or not choices:
            raise DataError(f"doc_to_choice gives {choices!r}, expected a list of strings")
        choices = [str(choice) for choice in choices]
        index = gold_index(self._target(doc), choices)
        if self.question is not None:
            return checked(Question(text, choices, index), may_lack_gold=True)
        # Some tasks put the space before a continuation into the choice; a listed option has none.
        stripped = [choice.strip() or choice for choice in choices]
        return checked(derive_question(text, stripped, index), may_lack_gold=True)

    def gold(self, doc: Doc) -> tuple[Any, list[str]]:
        """The right answer as it is given, and the choices."""
        target = self._target(doc)
        only = target[0] if isinstance(target, list) and len(target) == 1 else target
        return only, [str(choice) for choice in self._choice(doc)]

    # A column is recognised by the doc itself: these fields are read before any dataset is.
    @cached_property
    def _question(self) -> Callable[[Doc], Any]:
        return _by_doc(lambda columns: text_field(self.question, columns, has_choices=False))

    @cached_property
    def _text(self) -> Callable[[Doc], Any]:
        return _by_doc(lambda columns: text_field(self.text, columns, has_choices=True))

    @cached_property
    def _choice(self) -> Callable[[Doc], Any]:
        return _by_doc(lambda columns: choice_field(self.choices, columns, renders_lists=True))

    @cached_property
    def _target(self) -> Callable[[Doc], Any]:
        return _by_doc(lambda columns: target_field(self.target, columns, has_choices=True, renders_lists=True))


@dataclass(frozen=True)
class OpenQuestions:
    """Questions of a task without choices: the text behind the cues, and the answer as it is."""

    question: Any
    text: Any
    target: Any

    def __call__(self, doc: Doc) -> Question:
        text, answer = str(self._text(doc)), self._target(doc)
        if self.question is None:
            text, _ = without_cues(text)
        answer = answer[0] if isinstance(answer, list) and answer else answer
        return Question(text, (), -1, has_prefix=_INNER_PREFIX.search(text) is not None, answer=str(answer))

    @cached_property
    def _text(self) -> Callable[[Doc], Any]:
        given = self.text if self.question is None else self.question
        return _by_doc(lambda columns: text_field(given, columns, has_choices=False))

    @cached_property
    def _target(self) -> Callable[[Doc], Any]:
        return _by_doc(lambda columns: target_field(self.target, columns, has_choices=False, renders_lists=True))


@dataclass(frozen=True)
class OfferedChoices:
    """The choices of a doc, by the field as it is written."""

    choices: Any

    def __call__(self, doc: Doc) -> list[str]:
        return [str(choice) for choice in self._choice(doc)]

    @cached_property
    def _choice(self) -> Callable[[Doc], Any]:
        return _by_doc(lambda columns: choice_field(self.choices, columns, renders_lists=True))


def without_cues(text: str) -> tuple[str, bool]:
    r"""The text without `Question:` before it and `Answer:` after it, and whether it had one of them.

    >>> without_cues("Q: Why?\nA:"), without_cues("He sat on the")
    (('Why?', True), ('He sat on the', False))
    """
    body, cues = _CUE.subn("", text, count=1)
    body, prefixes = _PREFIX.subn("", body, count=1)
    return body.strip(), bool(cues or prefixes)


def _by_doc(make: Callable[[Sequence[str]], Callable[[Doc], Any]]) -> Callable[[Doc], Any]:
    """A field made for the columns of the first doc it sees; all docs of a dataset have the same."""
    made: list[Callable[[Doc], Any]] = []

    def field(doc: Doc) -> Any:
        if not made:
            made.append(make(list(doc)))
        return made[0](doc)

    return field


def index_of(target: Any, choices: Sequence[str]) -> int:
    """The position of the right choice: given as such, as the text of a choice, or as its letter.

    >>> index_of(1, ["a", "b"]), index_of(1.0, ["a", "b"]), index_of("b", ["a", "b"]), index_of("B", ["yes", "no"])
    (1, 1, 1, 1)
    """
    if isinstance(target, list) and len(target) == 1:
        target = target[0]
    if isinstance(target, int) or (isinstance(target, float) and target.is_integer()):
        return int(target)
    if isinstance(target, str):
        if target in choices:
            return choices.index(target)
        letters = get_n_letters(len(choices))
        if target.strip() in letters:
            return letters.index(target.strip())
    raise DataError(f"the target is {target!r}, expected the index, text or letter of one of {len(choices)} choices")


NO_GOLD = -1
"""The place of the right choice where none is: such a doc is sent, and counted by the rules of its file's line."""


def gold_index(target: Any, choices: Sequence[str]) -> int:
    """The same; `NO_GOLD` for an index or a text that is no choice's.

    >>> gold_index("b", ["a", "b"]), gold_index("green", ["a", "b"]), gold_index(7, ["a", "b"])
    (1, -1, -1)
    """
    try:
        index = index_of(target, choices)
    except DataError:
        if isinstance(target, str):
            return NO_GOLD
        raise
    return index if 0 <= index < len(choices) else NO_GOLD


def require_gold(question: Question) -> int:
    """The place of the right choice, where something is to be said about it."""
    if question.correct_index == NO_GOLD and question.choices:
        raise DataError(
            f"none of the choices {[*question.choices][:6]!r} is right, but the right one is needed here",
            hint="Leave such docs out with process_docs.",
        )
    return question.correct_index


def derive_question(text: str, choices: Sequence[str], correct_index: int) -> Question:
    r"""The question behind a text that a task shows, by the rules above.

    >>> derive_question("Question: Why?\nAnswer:", ["x", "y"], 0)
    Question(text='Why?', choices=['x', 'y'], correct_index=0, has_prefix=False, asks=True, answer='')
    >>> derive_question("Why?\nA. x\nB. y\nAnswer:", ["A", "B"], 1)
    Question(text='Why?', choices=['x', 'y'], correct_index=1, has_prefix=False, asks=True, answer='')
    >>> derive_question("He sat on the", ["mat", "moon"], 0).asks
    False
    """
    body, cues = _CUE.subn("", text, count=1)
    body, prefixes = _PREFIX.subn("", body, count=1)
    asks = bool(cues or prefixes) or body.rstrip().endswith(_QUESTION_MARKS)
    question = Question(body.strip(), choices, correct_index, asks=asks)
    if _are_labels(choices) and (listed := _listed(body, choices)):
        question = question._replace(text=listed[0], choices=listed[1], asks=True)
    return question._replace(has_prefix=not prefixes and _INNER_PREFIX.search(question.text) is not None)


def without_question(text: str, choices: Sequence[str]) -> str:
    r"""What a task shows, without the question in it: cues, and choices where they are listed, stay.

    >>> without_question("Question: Why?\nAnswer:", ["x", "y"]), without_question("Why?\nA. x\nB. y\nAnswer:", ["A", "B"])
    ('Question: \nAnswer:', 'A. x\nB. y\nAnswer:')
    """
    return text.replace(derive_question(text, choices, 0).text, "", 1).lstrip()


def reordered_options(text: str, labels: Sequence[str], order: Sequence[int]) -> str | None:
    r"""What a task shows, with the options that it lists in another order under the same labels; None where it lists none.

    >>> reordered_options("Why?\nA. x\nB. y\nAnswer:", ["A", "B"], [1, 0]), reordered_options("Why?", ["x", "y"], [1, 0])
    ('Why?\nA. y\nB. x\nAnswer:', None)
    """
    body = _PREFIX.sub("", _CUE.sub("", text, count=1), count=1)
    marks = _option_marks(body, labels) if _are_labels(labels) else None
    if marks is None:
        return None
    spans, start, pieces, end = _option_spans(body, marks), text.index(body), [], 0
    for (first, last), place in zip(spans, order):
        pieces += [text[end : start + first], body[slice(*spans[place])]]
        end = start + last
    return "".join([*pieces, text[end:]])


def _are_labels(choices: Sequence[str]) -> bool:
    return all(len(choice.strip(" ().")) == 1 for choice in choices)


def _listed(body: str, labels: Sequence[str]) -> tuple[str, list[str]] | None:
    """Question and option texts where the text ends in a list of options, one label after the other."""
    marks = _option_marks(body, labels)
    if marks is None:
        return None
    return body[: marks[0].start()].strip(), [body[slice(*span)] for span in _option_spans(body, marks)]


def _option_marks(body: str, labels: Sequence[str]) -> list[re.Match[str]] | None:
    marks: list[re.Match[str]] = []
    for label in labels:
        mark = re.compile(rf"^[ \t]*\(?{re.escape(label.strip(' ().'))}[.):][ \t]*", re.MULTILINE)
        match = mark.search(body, marks[-1].end() if marks else 0)
        if match is None:
            return None
        marks.append(match)
    return marks or None


def _option_spans(body: str, marks: Sequence[re.Match[str]]) -> list[tuple[int, int]]:
    """Where the texts of the options stand, from behind their labels to the next, without the white space around them."""
    ends = [*(mark.start() for mark in marks[1:]), len(body)]
    texts = [body[mark.end() : end] for mark, end in zip(marks, ends)]
    starts = [mark.end() + len(text) - len(text.lstrip()) for mark, text in zip(marks, texts)]
    return [(start, start + len(text.strip())) for start, text in zip(starts, texts)]


def checked(question: Question, *, may_lack_gold: bool = False) -> Question:
    """The same question, or an error that says what is wrong with it."""
    n = len(question.choices)
    is_known = isinstance(question.correct_index, int) and 0 <= question.correct_index < n
    if not is_known and not (may_lack_gold and question.correct_index == NO_GOLD):
        raise DataError(f"the right choice is {question.correct_index!r}, but there are {n} choices")
    for number, choice in enumerate(question.choices):
        if not isinstance(choice, str) or not choice:
            raise DataError(f"choice {number} of {n} is {choice!r}, expected text")
    return question
