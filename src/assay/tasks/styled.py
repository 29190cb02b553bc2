"""A styled task is an ordinary task whose fields are worded by a styler.

The instruction is the question, the cue opens the answer (`gen_prefix`), completions bring their own space
(`target_delimiter: ""`), and the answer of a shot is written by the styler. Prompts, few-shot and chat are then those
of any task. A styler is named by the file (`style: cloze`) or by a variant of the task's name (`arc_easy:cloze:5shot`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

from assay.config import FewshotConfig, FilterConfig, FilterStep, TaskConfig
from assay.data import doc_hash
from assay.errors import ConfigError, did_you_mean
from assay.instance import Doc
from assay.tasks.answer_styles import CoTStyle, GenerateStyle
from assay.tasks.base_task import Hook
from assay.tasks.perturbation import choice_order, is_perturbation, perturbed_text, read_perturbation
from assay.tasks.positions import ShuffledQuestions
from assay.tasks.questions import NO_GOLD, FieldQuestions, Question, require_gold
from assay.tasks.styles import (
    STYLERS,
    BPBStyle,
    ClozeStyle,
    MCStyle,
    TaskStyler,
    make_styler,
    metric_name,
)

Questions: TypeAlias = Callable[[Doc], Question]

_SHOTS = re.compile(r"(\d+)shot")
_WORDED_ANEW = frozenset(
    {
        "output_type",
        "formats",
        "metric_list",
        "filter_list",
        "process_results",
        "generation_kwargs",
        "form_stops",
        "gen_prefix",
        "repeats",
    }
    | {"target_delimiter", "style", "class_", "use_prompt", "doc_to_decontamination_query", "turns"}
)
"""What belongs to the wording of the task as it was, and goes with it."""


class LastDoc:
    """Remembers the question of the last doc: the fields of a doc are read one after the other."""

    def __init__(self, questions: Questions) -> None:
        self.questions = questions
        self._last: tuple[Doc, Question] | None = None

    def __call__(self, doc: Doc) -> Question:
        last = self._last
        if last is None or last[0] is not doc:
            last = self._last = (doc, self.questions(doc))
        return last[1]

    def __eq__(self, other: object) -> bool:
        """By what it asks: a task that two groups share is worded twice, and is still one task."""
        return isinstance(other, LastDoc) and self.questions == other.questions

    def __hash__(self) -> int:
        return hash(self.questions)

    def __repr__(self) -> str:
        return repr(self.questions)


@dataclass(frozen=True)
class StyledField:
    """One field of a styled task, as a function of the doc."""

    styler: Any
    """A `TaskStyler`, or the format of lm-evaluation-harness 0.5 (`formats`)."""
    questions: Questions


class StyledText(StyledField):
    def __call__(self, doc: Doc) -> str:
        question = self.questions(doc)
        styler = _without_prefix(self.styler) if question.has_prefix else self.styler
        if not question.asks and isinstance(styler, ClozeStyle):
            return question.text
        return styler.get_instruction_text(question.text, question.choices)


def _without_prefix(styler: TaskStyler) -> TaskStyler:
    bare = copy(styler)
    object.__setattr__(bare, "question_prefix", "")
    return bare


class StyledCue(StyledField):
    def __call__(self, doc: Doc) -> str:
        is_continued = isinstance(self.styler, ClozeStyle) and not self.questions(doc).asks
        return "" if is_continued else self.styler.get_cue_text()


class StyledChoices(StyledField):
    def __call__(self, doc: Doc) -> list[str]:
        question = self.questions(doc)
        index = require_gold(question) if isinstance(self.styler, BPBStyle) else question.correct_index
        return self.styler.get_possible_completions(question.choices, index) or []


class ListedChoices(StyledField):
    """The texts behind the labels, for the filter that reads what a model wrote."""

    def __call__(self, doc: Doc) -> Sequence[str]:
        return self.questions(doc).choices


class StyledTarget(StyledField):
    def __call__(self, doc: Doc) -> int | str | None:
        question = self.questions(doc)
        if self.styler.response_type == "completion":
            if question.correct_index == NO_GOLD and question.choices:
                return None
            return str(self.styler.get_ground_truth(question.choices, question.correct_index))
        return 0 if isinstance(self.styler, BPBStyle) else question.correct_index


class StyledShot(StyledField):
    def __call__(self, doc: Doc) -> str:
        question = self.questions(doc)
        if isinstance(self.styler, ClozeStyle) and not question.asks:
            return self.styler.get_ground_truth(question.choices, require_gold(question))
        return str(self.styler.get_fewshot_target_text(question.choices, require_gold(question)))


_OUTPUT_TYPES = {"completion": "generate_until", "loglikelihoods": "multiple_choice"}
"""Of what a styler calls its responses; any other name is that of an output type."""


@dataclass(frozen=True)
class PerturbedQuestions:
    """Questions with their text changed, or their choices in another order; choices keep their words."""

    questions: Questions
    specs: tuple[str, ...]
    keep: tuple[str, ...] = ()

    def __call__(self, doc: Doc) -> Question:
        question, seed = self.questions(doc), doc_hash(doc)
        names = {read_perturbation(spec)[0] for spec in self.specs}
        text = "" if "blind" in names else perturbed_text(question.text, self.specs, seed, self.keep)
        changed = question._replace(text=text)
        if "choice_order" not in names:
            return changed
        order = choice_order(len(question.choices), seed)
        choices = [question.choices[i] for i in order]
        gold = question.correct_index
        return changed._replace(choices=choices, correct_index=gold if gold == NO_GOLD else order.index(gold))


def as_asked(clean: Questions, config: TaskConfig) -> Questions:
    """The questions with the task's perturbations; shots before them are taken from the clean ones."""
    if not config.perturbation:
        return clean
    return LastDoc(PerturbedQuestions(clean, tuple(config.perturbation), tuple(config.unmodifiable_words or ())))


def style_config(config: TaskConfig, styler: TaskStyler, questions: Questions) -> TaskConfig:
    """The config with its fields worded by the styler; metrics are the styler's unless the config lists its own.

    A perturbation changes what is asked; the solved examples before it stay as they are.
    """
    is_free, states_label = styler.response_type == "completion", isinstance(styler, GenerateStyle)
    delimiter = " " if states_label else ""
    shuffles = styler.lists_choices and config.shuffle_choices is not False and config.lm_eval_version is None
    clean = LastDoc(ShuffledQuestions(questions, config.shuffle_choices) if shuffles else questions)
    questions = as_asked(clean, config)
    worded: dict[str, Any] = {
        "output_type": _OUTPUT_TYPES.get(styler.response_type, styler.response_type),
        "doc_to_text": StyledText(styler, questions),
        "doc_to_target": StyledTarget(styler, questions),
        "doc_to_choice": None if is_free else StyledChoices(styler, questions),
        "gen_prefix": None if states_label else StyledCue(styler, questions),
        "target_delimiter": delimiter,
        "metric_list": config.metric_list or [metric_name(metric) for metric in styler.metrics],
        "fewshot_config": _fewshot(
            config.fewshot_config, StyledText(styler, clean), StyledShot(styler, clean), target_delimiter=delimiter
        ),
        "metadata": {**config.metadata, **styler.get_extra_metadata()},
        "style": None,
        "doc_to_question": None,
        "is_own": True,
    }
    if is_free and "generation_kwargs" not in config.model_fields_set:
        worded |= {"generation_kwargs": dict(styler.generation_kwargs), "form_stops": True}
    if is_free and config.filter_list is None:
        worded["filter_list"] = [FilterConfig(name="none", filter=_answer_steps(styler, questions))]
    return config.override(**worded)


def _answer_steps(styler: TaskStyler, questions: Questions) -> list[FilterStep]:
    # The cue ends in a colon, so an answer begins with a space that is no part of it.
    read = FilterStep(function="remove_whitespace")
    if isinstance(styler, MCStyle):
        # A chat model says the cue again, or the label before the text: what it states is read, not compared as it is.
        give = "label" if isinstance(styler, GenerateStyle) else "text"
        read = FilterStep(function="choice", kwargs={"choices": ListedChoices(styler, questions), "give": give})
    return [read, FilterStep(function="take_first")]


def says_how_to_generate(config: TaskConfig) -> bool:
    """Whether a task has generation settings of its own, and not those that any task has in the form `:cot`."""
    usual = config.generation_kwargs == dict(CoTStyle.generation_kwargs)
    is_form = usual and config.metadata.get("task_style") == CoTStyle.task_style
    return "generation_kwargs" in config.model_fields_set and not is_form


def _fewshot(config: FewshotConfig, text: StyledText, answer: StyledShot, *, target_delimiter: str) -> FewshotConfig:
    drawing = ("sampler", "split", "process_docs", "samples", "fewshot_indices", "fewshot_delimiter")
    own = {name: getattr(config, name) for name in drawing if name in config.model_fields_set}
    return FewshotConfig(
        **own, doc_to_text=text, doc_to_target=answer, gen_prefix="", target_delimiter=target_delimiter
    )


def apply_style(config: TaskConfig) -> TaskConfig:
    """The config of a task that says `style:`, worded. Any other config as it is."""
    if config.style is None:
        return config
    if config.doc_to_choice is None or config.doc_to_target is None:
        raise ConfigError(
            f"task {config.task}: style {config.style!r} needs choices and a target",
            hint="Set doc_to_question, doc_to_choice and doc_to_target.",
        )
    questions = FieldQuestions(config.doc_to_question, config.doc_to_text, config.doc_to_choice, config.doc_to_target)
    return style_config(config, make_styler(config.style, config.language), questions)


# ---------------------------------------------------------------------- variants


def apply_variant(config: TaskConfig, parts: Sequence[str]) -> TaskConfig:
    """The task's config in another wording, with another number of shots, or both; the name is left to the caller."""
    for part in parts:
        if shots := _SHOTS.fullmatch(part):
            config = config.override(num_fewshot=int(shots[1]))
        elif part in STYLERS:
            config = _restyled(config, part)
        elif is_perturbation(part):
            config = _perturbed(config, part)
        else:
            raise ConfigError(
                f"task {config.task}: there is no variant {part!r}",
                hint=did_you_mean(part, STYLERS)
                or f"There are: {', '.join(STYLERS)}, a number of shots such as 5shot, and perturbations such as typo(0.1).",
            )
    return config


def _perturbed(config: TaskConfig, spec: str) -> TaskConfig:
    read_perturbation(spec)
    config = config.override(perturbation=[*(config.perturbation or []), spec])
    written = config.doc_to_text
    if isinstance(written, StyledField):  # worded already, so the questions behind the words are perturbed
        if isinstance(written.styler, GenerateStyle):
            config = config.override(filter_list=None)  # it reads labels by the order of the choices
        return style_config(config, written.styler, clean_questions(written.questions))
    return config


def clean_questions(questions: Questions) -> Questions:
    """The questions as they are in the docs."""
    while isinstance(questions, LastDoc | PerturbedQuestions | ShuffledQuestions):
        questions = questions.questions
    return questions


def shuffle_of(config: TaskConfig) -> ShuffledQuestions | None:
    """What settles the order of a task's choices; None where they stand as they are in the docs."""
    words = config.doc_to_text
    questions = words.questions if isinstance(words, StyledField | Hook) else None
    while isinstance(questions, LastDoc | PerturbedQuestions):
        questions = questions.questions
    return questions if isinstance(questions, ShuffledQuestions) else None


def check_perturbation(config: TaskConfig) -> TaskConfig:
    """Refuse a perturbation that nobody knows, or an order of choices where choices are part of the text."""
    for spec in config.perturbation or ():
        name, _ = read_perturbation(spec)
        if name in ("blind", "choice_order", "no_context") and (
            config.doc_to_choice is None or config.class_ is not None
        ):
            raise ConfigError(f"task {config.task} has no choices", hint=f"{name} is for tasks with doc_to_choice.")
        if name == "synonyms":
            perturbed_text("word", ["synonyms(1.0)"], "")  # raises where WordNet is missing
    return config


def _restyled(config: TaskConfig, name: str) -> TaskConfig:
    written = config.doc_to_text
    if isinstance(written, StyledField):  # a Python task: its questions are known, and are worded again
        styler = make_styler(_style(name, vars(written.styler)), config.language)
        return style_config(_stripped(config), styler, clean_questions(written.questions))
    if config.class_ is not None or config.doc_to_choice is None:
        raise ConfigError(
            f"task {config.task} has no choices, so there is no {name!r} variant",
            hint="Only the number of shots can be changed, as in :5shot.",
        )
    given = config.style if isinstance(config.style, dict) else {}
    return _stripped(config).override(style=_style(name, given))


def _style(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """The style by that name, with the options of the former one that it has as well."""
    known = {field.name for field in fields(STYLERS[name])}
    return {"name": name, **{key: value for key, value in options.items() if key in known}}


def _stripped(config: TaskConfig) -> TaskConfig:
    """Data, shots and fields of the task, without what belonged to its former wording."""
    own = {key: getattr(config, key) for key in config.model_fields_set if key not in _WORDED_ANEW}
    shots = config.fewshot_config
    wording = {"doc_to_text", "doc_to_choice", "doc_to_target", "gen_prefix", "target_delimiter"}
    own["fewshot_config"] = FewshotConfig(**{key: getattr(shots, key) for key in shots.model_fields_set - wording})
    return TaskConfig(**own)
