"""Prompt formats of lm-evaluation-harness 0.5: `formats:` of a task file, and `task@format`.

A format words a task anew: question, choices and answer are taken from its fields, and instruction, labels and cue are
the format's. The prompts are 0.5's to the byte, but that a text which is a prompt already (`Question: …\\nAnswer:`) has
its question taken out first, where 0.5 puts one prompt into the other. `@name` is always this wording; `:name` is a
styler of ours (`styles`).

Layout: `{instruction}{question_prefix}{question}{sep}{label}. {choice}…{sep}{answer_instruction}{answer_prompt}`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from assay.config import FewshotConfig, FunctionRef, GroupConfig, ScorerConfig, TaskConfig
from assay.errors import ConfigError, DataError, did_you_mean
from assay.instance import Doc
from assay.registry import Registry
from assay.scoring import SCORERS
from assay.tasks.questions import NO_GOLD, FieldQuestions, OfferedChoices, OpenQuestions, Question, require_gold
from assay.tasks.styled import LastDoc, ListedChoices, Questions, StyledField, as_asked, clean_questions
from assay.templates import compile_template, get_n_letters


@dataclass(frozen=True)
class PromptFormat:
    """The words around a question. Texts are templates: `_num_choices`, `_choice_labels`, `_choice_list_and` ("A, B and
    C") and `_choice_list_or` are known where choices are labelled, and so are the columns of the doc."""

    output_type: str = "multiple_choice"
    instruction: str | None = None
    question_prefix: str = "Question: "
    choice_labels: Literal["letters", "numbers"] | Sequence[str] | None = "letters"
    """None: choices are not shown."""
    choice_delimiter: str = "\n"
    section_separator: str = "\n"
    answer_instruction: str | None = None
    answer_prompt: str = "Answer:"
    gen_prefix: str | None = None
    target_delimiter: str = " "
    fewshot_delimiter: str = "\n\n"
    scorer: Any = None

    @property
    def needs_choices(self) -> bool:
        texts = (self.instruction, self.answer_instruction, self.answer_prompt)
        return self.output_type == "multiple_choice" or any("_choice" in (text or "") for text in texts)

    def labels(self, choices: Sequence[str]) -> list[str]:
        """
        >>> PromptFormat(choice_labels="numbers").labels(["yes", "no"]), PromptFormat(choice_labels=None).labels(["yes"])
        (['1', '2'], [])
        """
        if self.choice_labels is None or not choices:
            return []
        if self.choice_labels == "letters":
            return get_n_letters(len(choices))
        if self.choice_labels == "numbers":
            return [str(number) for number in range(1, len(choices) + 1)]
        if len(self.choice_labels) < len(choices):
            raise DataError(
                f"there are {len(choices)} choices and {len(self.choice_labels)} labels: {self.choice_labels}"
            )
        return [str(label) for label in self.choice_labels[: len(choices)]]

    @property
    def own_labels(self) -> list[str] | None:
        """Labels that are not the letters."""
        if self.choice_labels == "numbers":
            return [str(number) for number in range(1, 100)]
        return None if self.choice_labels in ("letters", None) else [str(label) for label in self.choice_labels]

    def word(self, question: Question, doc: Doc) -> str:
        r"""The prompt up to the answer.

        >>> print(PromptFormat().word(Question("Why?", ["x", "y"], 0), {}))
        Question: Why?
        A. x
        B. y
        Answer:
        """
        labels = self.labels(question.choices)
        known = {**doc, **_about(labels)}
        prefix = "" if question.has_prefix else self.question_prefix
        shown = self.choice_delimiter.join(f"{label}. {choice}" for label, choice in zip(labels, question.choices))
        sections = [prefix + question.text, *([shown] if labels else [])]
        cue = _rendered(self.answer_instruction, known) + _rendered(self.answer_prompt, known)
        return _rendered(self.instruction, known) + self.section_separator.join([*sections, cue])


def _about(labels: Sequence[str]) -> dict[str, Any]:
    if not labels:
        return {}
    listed = ", ".join(labels[:-1])
    both = {word: f"{listed} {word} {labels[-1]}" if listed else labels[-1] for word in ("and", "or")}
    return {
        "_num_choices": len(labels),
        "_choice_labels": labels,
        "_choice_list_and": both["and"],
        "_choice_list_or": both["or"],
    }


def _rendered(text: str | None, known: Mapping[str, Any]) -> str:
    return "" if not text else compile_template(text).render(dict(known)) if "{" in text else text


FORMATS: Registry[PromptFormat] = Registry("format", group="assay.formats")

_GENERATE = PromptFormat(
    output_type="generate_until",
    instruction="Given the following question and {{_num_choices}} candidate answers ({{_choice_list_and}}), "
    "choose the best answer.\n",
    answer_prompt='Your response should end with "The best answer is [answer_letter]" where the [answer_letter] is one of '
    "{{_choice_list_or}}.",
    gen_prefix="The best answer is",
    target_delimiter="\n",
    scorer="first_token",
)
for _name, _format in (
    ("mcqa", PromptFormat()),
    ("cloze", PromptFormat(choice_labels=None)),
    ("generate", _GENERATE),
    (
        "cot",
        replace(
            _GENERATE,
            instruction="Given the following problem, reason step by step to find the final answer.\n",
            question_prefix="Problem: ",
            choice_labels=None,
            answer_prompt='Your response should end with "The final answer is [answer]" where [answer] is the response to '
            "the problem.",
            gen_prefix=None,
        ),
    ),
):
    FORMATS.add(_name, _format)


_DRAWING = frozenset({"sampler", "split", "process_docs", "samples", "fewshot_indices"})
"""What `fewshot_config` says of which shots there are, and not of their words."""


class FormattedText(StyledField):
    def __call__(self, doc: Doc) -> str:
        return str(self.styler.word(self.questions(doc), doc))


class FormattedChoices(StyledField):
    def __call__(self, doc: Doc) -> list[str]:
        choices = self.questions(doc).choices
        return self.styler.labels(choices) or list(choices)


class FormattedTarget(StyledField):
    """The index of the right choice; for generation its label, or its text where choices have no labels."""

    def __call__(self, doc: Doc) -> int | str | None:
        question = self.questions(doc)
        if self.styler.output_type != "generate_until":
            return question.correct_index
        if not question.choices:
            return question.answer
        if question.correct_index == NO_GOLD:
            return None
        return (self.styler.labels(question.choices) or question.choices)[question.correct_index]


class FormattedShot(FormattedTarget):
    """The same for an example that is shown: it has to have a right answer."""

    def __call__(self, doc: Doc) -> int | str | None:
        require_gold(self.questions(doc))
        return super().__call__(doc)


# ---------------------------------------------------------------------- which format, and a task in it


def select_format(config: TaskConfig, name: str) -> Any:
    """What `formats:` says once one of them is chosen; where a file lists none, the chosen name itself is the format."""
    formats = config.formats
    if not isinstance(formats, Mapping) or "type" in formats:
        return name
    if name not in formats:
        raise ConfigError(
            f"task {config.task} has no format {name!r}",
            hint=did_you_mean(name, formats) or f"The task has: {', '.join(formats)}.",
        )
    return {name: formats[name]}


def read_format(formats: Any) -> PromptFormat:
    """
    >>> read_format({"short": {"type": "mcqa", "answer_prompt": "A:"}, "mcqa": None}).answer_prompt
    'A:'
    """
    if isinstance(formats, str):
        return FORMATS[formats]
    if not isinstance(formats, Mapping) or not formats:
        raise ConfigError(f"formats is {formats!r}", hint="Use a name, a mapping with type, or a mapping of formats.")
    if "type" not in formats:
        name, given = next(iter(formats.items()))
        if isinstance(given, Mapping):
            return read_format({"type": name, **given})
        return read_format(name if given is None else given)
    known = {field.name for field in fields(PromptFormat)}
    changed = {key: value for key, value in formats.items() if key != "type"}
    for key in changed:
        if key not in known:
            hint = did_you_mean(key, known) or f"There are: {', '.join(sorted(known))}."
            raise ConfigError(f"a format has no field {key!r}", hint=hint)
    return replace(FORMATS[formats["type"]], **changed)


def written_group(config: GroupConfig, variant: Sequence[str]) -> GroupConfig:
    """A group whose members are to write their answers (`mmlu@generate`): what was `acc` there is `exact_match` now."""
    chosen = [part[1:] for part in variant if part.startswith("@") and part[1:] in FORMATS]
    entries = config.aggregate_metric_list
    if not chosen or not entries or FORMATS[chosen[-1]].output_type != "generate_until":
        return config
    named = [
        entry.model_copy(update={"metric": "exact_match"}) if entry.metric == "acc" else entry for entry in entries
    ]
    return config.model_copy(
        update={"aggregate_metric_list": [entry for entry in named if entry.metric not in ("acc_norm", "acc_bytes")]}
    )


def apply_format(config: TaskConfig) -> TaskConfig:
    """The config of a task that has `formats`, worded; any other config as it is."""
    if config.formats is None:
        return config
    try:
        chosen = read_format(config.formats)
    except ConfigError as error:
        raise ConfigError(f"task {config.task}: formats: {error.message}", hint=error.hint) from error
    is_open = config.doc_to_choice is None and not isinstance(config.doc_to_text, StyledField)
    if (is_open and chosen.needs_choices) or (config.doc_to_choice is None and chosen.output_type == "multiple_choice"):
        raise ConfigError(
            f"task {config.task} has no choices, which this format needs", hint="Set doc_to_choice, or use @cot."
        )
    return format_config(config, chosen)


def offer_choices(config: TaskConfig) -> TaskConfig:
    """Tell `scorer: choice` of a task that writes its answers what the choices are: their texts, as the target names them."""
    scorer = config.scorer
    if scorer is not None and isinstance(scorer.type, str) and scorer.type not in SCORERS:
        # Code of the task may register it, and runs when it is first needed: now.
        for value in config.__dict__.values():
            if isinstance(value, FunctionRef):
                value.load()
    if scorer is None or scorer.type != "choice" or "choices" in scorer.kwargs or config.doc_to_choice is None:
        return config
    offered = {"choices": OfferedChoices(config.doc_to_choice), "give": "text"}
    return config.override(scorer=scorer.model_copy(update={"kwargs": {**offered, **scorer.kwargs}}))


def _scorer(chosen: PromptFormat, config: TaskConfig, questions: Questions) -> ScorerConfig:
    scorer = ScorerConfig.model_validate(chosen.scorer)
    if scorer.type != "choice" or config.doc_to_choice is None:
        return scorer
    give = "text" if chosen.choice_labels is None else "label"
    known = {"choices": ListedChoices(chosen, questions), "labels": chosen.own_labels, "give": give}
    return scorer.model_copy(update={"kwargs": {**known, **scorer.kwargs}})


def format_config(config: TaskConfig, chosen: PromptFormat) -> TaskConfig:
    clean = LastDoc(_questions(config))
    questions = as_asked(clean, config)
    is_choice = chosen.output_type == "multiple_choice"
    shots = {name: getattr(config.fewshot_config, name) for name in _DRAWING & config.fewshot_config.model_fields_set}
    shots |= {"doc_to_text": FormattedText(chosen, clean), "doc_to_target": FormattedShot(chosen, clean)}
    if is_choice:
        shots["doc_to_choice"] = FormattedChoices(chosen, clean)
    worded: dict[str, Any] = {
        "output_type": chosen.output_type,
        "doc_to_text": FormattedText(chosen, questions),
        "doc_to_target": FormattedTarget(chosen, questions),
        "doc_to_choice": FormattedChoices(chosen, questions) if is_choice else None,
        "target_delimiter": chosen.target_delimiter,
        "fewshot_delimiter": chosen.fewshot_delimiter,
        "fewshot_config": FewshotConfig(**shots),
        "formats": None,
        "doc_to_question": None,
        "style": None,
    }
    if chosen.gen_prefix is not None:
        worded["gen_prefix"] = chosen.gen_prefix
    if chosen.scorer is not None:
        worded["scorer"] = _scorer(chosen, config, questions)
    if config.output_type != chosen.output_type:
        # Metrics, filters, scorers and code for another kind of answer say nothing about this one.
        worded |= dict.fromkeys(("metric_list", "filter_list", "process_results"))
        worded.setdefault("scorer", None)
    return config.override(**worded)


def _questions(config: TaskConfig) -> Any:
    if isinstance(config.doc_to_text, StyledField):  # a Python task: its questions are known
        return clean_questions(config.doc_to_text.questions)
    target = "answer" if config.doc_to_target is None else config.doc_to_target
    text = "question" if config.doc_to_text is None else config.doc_to_text
    if config.doc_to_choice is None:
        return OpenQuestions(config.doc_to_question, text, target)
    return FieldQuestions(config.doc_to_question, text, config.doc_to_choice, target)
