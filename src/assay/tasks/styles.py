r"""Stylers: how a choice question is worded, in which language, and what of it is scored.

>>> question, choices = "Capital of France?", ["Berlin", "Paris", "London"]
>>> style = MCStyle()
>>> print(style.get_instruction_text(question, choices) + style.get_cue_text())
Question: Capital of France?
A. Berlin
B. Paris
C. London
Answer:
>>> style.get_possible_completions(choices), style.get_fewshot_target_text(choices, 1)
([' A', ' B', ' C'], 'Answer: B')

>>> style = ClozeStyle()
>>> print(style.get_instruction_text(question, choices) + style.get_cue_text())
Question: Capital of France?
Answer:
>>> style.get_possible_completions(choices), style.get_fewshot_target_text(choices, 1)
([' Berlin', ' Paris', ' London'], 'Answer: Paris')
"""

from __future__ import annotations

import hashlib
import random
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, ClassVar, Self

from assay.errors import ConfigError
from assay.registry import Registry
from assay.tasks.languages import words_of
from assay.templates import get_n_letters


class ResponseType(StrEnum):
    """What is requested of a model."""

    LOGLIKELIHOODS = "loglikelihoods"
    COMPLETION = "completion"
    LETTERS = "letters"


class TaskStyle(StrEnum):
    """How a choice question is worded, for metadata."""

    MULTIPLE_CHOICE = "multiple_choice"
    CLOZE = "cloze"
    BPB = "bpb"


class BaseMetric:
    """A metric by class, as stylers and Python tasks may list it; `NAME` is the metric that scores."""

    NAME: ClassVar[str]


class AccuracyLoglikelihood(BaseMetric):
    NAME = "acc"


class AccuracyNormLoglikelihood(BaseMetric):
    NAME = "acc_norm"


class BitsPerByteLoglikelihood(BaseMetric):
    NAME = "gold_bits_per_byte"


class AccuracyCompletion(BaseMetric):
    NAME = "exact_match"


def metric_name(metric: Any) -> Any:
    """The name of a metric listed by class; anything else unchanged.

    >>> metric_name(AccuracyNormLoglikelihood), metric_name("acc")
    ('acc_norm', 'acc')
    """
    return metric.NAME if isinstance(metric, type) and issubclass(metric, BaseMetric) else metric


@dataclass(frozen=True)
class TaskStyler(ABC):
    """The wording and scoring of a choice task. Override `get_question_text` for an unusual question line."""

    response_type: ClassVar[ResponseType]
    metrics: ClassVar[Sequence[type[BaseMetric] | str]]
    task_style: ClassVar[TaskStyle | str]
    lists_choices: ClassVar[bool] = False
    """Whether the choices stand in the prompt, so that their order may decide."""
    generation_kwargs: ClassVar[Mapping[str, Any]] = {"until": ["\n"], "do_sample": False}
    """The settings for a model that writes its answer, unless the task says."""

    question_prefix: str = "Question: "
    cue_text: str = "Answer:"

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):  # a styler that sets its attributes itself, as classes do that are no dataclass
            cls.__setattr__ = object.__setattr__  # type: ignore[method-assign]

    @abstractmethod
    def get_instruction_text(self, raw_question: str, choices: Sequence[str]) -> str:
        """The question as it is asked, up to the cue."""

    @abstractmethod
    def get_ground_truth(self, choices: Sequence[str], correct_index: int) -> str:
        """The right completion."""

    @abstractmethod
    def get_possible_completions(self, choices: Sequence[str], correct_index: int | None = None) -> list[str] | None:
        """The completions whose probability is requested; None where the model writes freely."""

    def get_cue_text(self) -> str:
        """What opens the answer."""
        return self.cue_text

    def get_question_text(self, raw_question: str) -> str:
        return f"{self.question_prefix}{raw_question}"

    def get_fewshot_target_text(self, choices: Sequence[str], correct_index: int) -> str:
        """The answer of a solved example, cue included."""
        return f"{self.get_cue_text()}{self.get_ground_truth(choices, correct_index)}"

    def get_extra_metadata(self) -> dict[str, Any]:
        return {"task_style": str(self.task_style)}

    @classmethod
    def for_language(cls, language: Any, **options: Any) -> Self:
        """The styler with the words of a language; an option that is given wins.

        >>> MCStyle.for_language("German").get_fewshot_target_text(["Ja", "Nein"], 1)
        'Antwort: B'
        >>> ClozeStyle.for_language("fr", cue_text="R :").get_instruction_text("Capitale de la France ?", [])
        'Question : Capitale de la France ?\\n'
        """
        words = words_of(language)
        defaults: dict[str, Any] = {"question_prefix": words.question, "cue_text": words.answer}
        if "leading_space_continuations" in {field.name for field in fields(cls)}:
            defaults["leading_space_continuations"] = words.spaced
        return cls(**{**defaults, **options})


@dataclass(frozen=True)
class MCStyle(TaskStyler):
    """Choices are listed with labels, and the labels are scored.

    >>> MCStyle(space_prefixed_labels=True).get_instruction_text("1+1?", ["1", "2"])
    'Question: 1+1?\\n A. 1\\n B. 2\\n'
    """

    response_type: ClassVar[ResponseType] = ResponseType.LOGLIKELIHOODS
    metrics: ClassVar[Sequence[type[BaseMetric] | str]] = [
        AccuracyLoglikelihood,
        AccuracyNormLoglikelihood,
        BitsPerByteLoglikelihood,
    ]
    task_style: ClassVar[TaskStyle | str] = TaskStyle.MULTIPLE_CHOICE
    lists_choices: ClassVar[bool] = True

    space_prefixed_labels: bool = False
    """Each option line starts with a space, as in OLMES."""

    def get_instruction_text(self, raw_question: str, choices: Sequence[str]) -> str:
        question = self.get_question_text(raw_question)
        return format_mc_prompt(question, choices, space_prefixed_labels=self.space_prefixed_labels)

    def get_ground_truth(self, choices: Sequence[str], correct_index: int) -> str:
        return f" {get_n_letters(len(choices))[correct_index]}"

    def get_possible_completions(self, choices: Sequence[str], correct_index: int | None = None) -> list[str] | None:
        return [f" {label}" for label in get_n_letters(len(choices))]


@dataclass(frozen=True)
class MCCompletionStyle(MCStyle):
    """Choices are listed with labels, and the model writes the text of its answer.

    >>> MCCompletionStyle().get_fewshot_target_text(["Berlin", "Paris"], 1)
    'Answer: Paris'
    """

    response_type: ClassVar[ResponseType] = ResponseType.COMPLETION
    metrics: ClassVar[Sequence[type[BaseMetric] | str]] = [AccuracyCompletion]

    def get_ground_truth(self, choices: Sequence[str], correct_index: int) -> str:
        return choices[correct_index]

    def get_possible_completions(self, choices: Sequence[str], correct_index: int | None = None) -> list[str] | None:
        return None

    def get_fewshot_target_text(self, choices: Sequence[str], correct_index: int) -> str:
        return f"{self.get_cue_text()} {self.get_ground_truth(choices, correct_index)}"


@dataclass(frozen=True)
class ClozeStyle(TaskStyler):
    """Choices are not shown; the text of each is scored.

    To continue a sentence, drop prefix, newline and cue:

    >>> style = ClozeStyle(question_prefix="", cue_text="", trailing_newline=False)
    >>> style.get_instruction_text("The cat sat on the", ["mat", "sofa"]), style.get_ground_truth(["mat", "sofa"], 0)
    ('The cat sat on the', ' mat')
    """

    response_type: ClassVar[ResponseType] = ResponseType.LOGLIKELIHOODS
    metrics: ClassVar[Sequence[type[BaseMetric] | str]] = [
        AccuracyLoglikelihood,
        AccuracyNormLoglikelihood,
        BitsPerByteLoglikelihood,
    ]
    task_style: ClassVar[TaskStyle | str] = TaskStyle.CLOZE

    trailing_newline: bool = True
    leading_space_continuations: bool = True

    def get_instruction_text(self, raw_question: str, choices: Sequence[str]) -> str:
        return self.get_question_text(raw_question) + ("\n" if self.trailing_newline else "")

    def get_ground_truth(self, choices: Sequence[str], correct_index: int) -> str:
        return self._continuation(choices[correct_index])

    def get_possible_completions(self, choices: Sequence[str], correct_index: int | None = None) -> list[str] | None:
        return [self._continuation(choice) for choice in choices]

    def _continuation(self, choice: str) -> str:
        return f" {choice}" if self.leading_space_continuations else choice


@dataclass(frozen=True)
class BPBStyle(ClozeStyle):
    """Worded like `ClozeStyle`, but only the right answer is scored: one request per doc.

    >>> BPBStyle().get_possible_completions(["Berlin", "Paris"], 1)
    [' Paris']
    """

    metrics: ClassVar[Sequence[type[BaseMetric] | str]] = [BitsPerByteLoglikelihood]
    task_style: ClassVar[TaskStyle | str] = TaskStyle.BPB

    def get_possible_completions(self, choices: Sequence[str], correct_index: int | None = None) -> list[str] | None:
        if correct_index is None:
            raise ValueError("BPBStyle scores only the right answer and needs its index")
        return [self._continuation(choices[correct_index])]


STYLERS: Registry[type[TaskStyler]] = Registry("styler", group="assay.stylers")
STYLERS.add("mc", MCStyle)
STYLERS.add("cloze", ClozeStyle)
STYLERS.add("bpb", BPBStyle)
STYLERS.add("mc_completion", MCCompletionStyle)


def make_styler(style: str | dict[str, Any] | TaskStyler, language: Any = None) -> TaskStyler:
    """The styler that a config names, in the words of the language.

    >>> make_styler({"name": "mc", "cue_text": "A:"})
    MCStyle(question_prefix='Question: ', cue_text='A:', space_prefixed_labels=False)
    """
    if isinstance(style, TaskStyler):
        return style
    options = dict(style) if isinstance(style, dict) else {"name": style}
    name = options.pop("name", None)
    if not isinstance(name, str):
        raise ConfigError(f"style: {style!r} names no styler", hint=f"Add name: one of {', '.join(STYLERS)}.")
    cls = STYLERS[name]
    try:
        return cls(**options) if language is None else cls.for_language(language, **options)
    except TypeError as error:
        known = ", ".join(field.name for field in fields(cls))
        raise ConfigError(f"style {name}: {error}", hint=f"It takes: {known}.") from error


def format_mc_prompt(question_text: str, choices: Sequence[str], *, space_prefixed_labels: bool = False) -> str:
    """Question and labelled choices, each on a line.

    >>> format_mc_prompt("Question: What is 1+1?", ["1", "2", "3"])
    'Question: What is 1+1?\\nA. 1\\nB. 2\\nC. 3\\n'
    """
    space = " " if space_prefixed_labels else ""
    lines = [f"{space}{label}. {choice}" for label, choice in zip(get_n_letters(len(choices)), choices)]
    return "\n".join([question_text, *lines]) + "\n"


def shuffle_correct_with_distractors(correct: str, distractors: Sequence[str], seed_text: str) -> tuple[list[str], int]:
    """All choices in an order that depends only on `seed_text`, and the position of the right one.

    >>> shuffle_correct_with_distractors("Paris", ["Berlin", "Rome"], "Capital of France?")
    (['Rome', 'Paris', 'Berlin'], 1)
    """
    choices = [*distractors, correct]
    order = list(range(len(choices)))
    random.Random(int(hashlib.sha256(seed_text.encode()).hexdigest(), 16)).shuffle(order)
    return [choices[i] for i in order], order.index(len(choices) - 1)
