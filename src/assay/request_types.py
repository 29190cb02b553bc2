"""The tables of what can be requested of a model, and of what a task can request.

A request type says what its requests hold, what comes back, what a model must be able to do, and how a model without a method
of that name answers it from what it can do. One that also says which task makes its requests is an output type too, so that
a new kind of evaluation is one row (a package adds it through the entry points `assay.request_types`):

    REQUEST_TYPES.add("rank", RequestType("rank", ("context", "candidates"), plain=list, answer=…, build=…, scorer=…))

An output type is what a task file names: its requests, the class that makes them, and how they are scored unless the task
says otherwise. Several may share a request type (`multiple_choice` is made of `loglikelihood`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from assay.registry import Registry, load_object

LABEL_LOGPROBS = "letters"
"""The request type for the probabilities of labels as the first token; files and stores know it by this name."""


@dataclass(frozen=True, slots=True)
class RequestType:
    """What a request holds, and what comes back."""

    name: str
    """In files, stores and `Instance.request_type`; the method of `LM` that answers it unless `answer` does."""
    arguments: tuple[str, ...]
    """What stands at each place of `Instance.arguments`. A first argument `context` is a prompt whose length is checked."""
    plain: Callable[[Any], Any]
    """An answer as values that JSON can hold, whatever types a backend uses: the store and the samples have it so, and
    give it back through this function too."""
    is_sampled: Callable[[Sequence[Any]], bool] = lambda arguments: False
    """Whether repeated draws of these arguments differ. If not, all repeats are one computation."""
    is_text: bool = False
    """Whether the answer is text that the model wrote: it may be cut off, empty, refused, or not to be parsed."""
    scored_argument: int | None = None
    """The place of a given text that is scored and not written, where there is one."""
    fault: Callable[[Any], str | None] = lambda answer: None
    """Why an answer cannot be one, or None."""
    needs: tuple[str, ...] = ()
    """Abilities of a model of which it takes one (`assay.models.ABILITIES`); none where any model will do."""
    needs_words: str = ""
    """The same in a message: `TASK needs …, which this model does not give`."""
    choice_style: str | None = None
    """The style that words a choice question for it, for models that cannot do better."""
    answer: Callable[[Any, Sequence[Any]], Sequence[Any]] | None = None
    """(model, instances) → answers in order, for models without a method of this name."""

    # Of a request type that is an output type too:
    build: Callable[[dict[str, Any], Any], tuple[Any, ...]] | None = None
    """(doc, context) → arguments: what the task asks about a doc."""
    task: str | type[Any] = "assay.tasks.types:RequestTask"
    """The class that makes its requests; that one makes one for each doc, by `build`."""
    scorer: str | type[Any] = "assay.scoring:AnswerScorer"
    metric_kind: str = "generation"
    metrics: tuple[str, ...] = ("exact_match",)

    @property
    def has_context(self) -> bool:
        return self.arguments[:1] == ("context",)


@dataclass(frozen=True, slots=True)
class OutputType:
    """What a task file calls `output_type`. Classes are named as `"module:attribute"`, or given themselves."""

    name: str
    request_type: str
    task: str | type[Any]
    scorer: str | type[Any]
    metric_kind: str
    """What its metrics take, in the words in which metrics are registered."""
    metrics: tuple[str, ...] = ()
    """What a task without `metric_list` is scored by."""

    @property
    def requests(self) -> RequestType:
        return REQUEST_TYPES[self.request_type]

    @property
    def is_choice(self) -> bool:
        return self.metric_kind == "choice"

    @property
    def task_class(self) -> type[Any]:
        return self._load(self.task)

    @property
    def scorer_class(self) -> type[Any]:
        return self._load(self.scorer)

    def _load(self, target: str | type[Any]) -> type[Any]:
        return cast(type[Any], load_object(target, kind="output type")) if isinstance(target, str) else target


class OutputTypes(Registry[OutputType]):
    """With every request type that says what it asks about a doc, under its own name."""

    def __getitem__(self, name: str) -> OutputType:
        self._add_request_type(name)
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self._add_request_type(name)
        return super().__contains__(name)

    def _read_plugins(self) -> None:
        super()._read_plugins()
        for name in REQUEST_TYPES:
            self._add_request_type(name)

    def _add_request_type(self, name: object) -> None:
        if not isinstance(name, str) or name in self._entries or name in self._lazy or name not in REQUEST_TYPES:
            return
        row = REQUEST_TYPES[name]
        if row.build is not None or row.task != RequestType.__dataclass_fields__["task"].default:
            self._entries[name] = OutputType(name, name, row.task, row.scorer, row.metric_kind, row.metrics)


def plain_text(answer: Any) -> str:
    """Text and nothing else: what a model did not answer must not become the word `None`."""
    if not isinstance(answer, str):
        raise TypeError("expected text")
    return str(answer)


def plain_loglikelihood(answer: Any) -> tuple[float, bool]:
    """
    >>> plain_loglikelihood([-1, 1])
    (-1.0, True)
    """
    if isinstance(answer, str) or len(answer) != 2:
        raise TypeError("expected a pair (loglikelihood, is_greedy)")
    return float(answer[0]), bool(answer[1])


def plain_rolling(answer: Any) -> float:
    """lm-evaluation-harness documents `(logprob,)` and its backends return floats; both are met in the wild."""
    return float(answer[0] if isinstance(answer, tuple | list) else answer)


def plain_label_logprobs(answer: Any) -> tuple[tuple[float, bool], ...]:
    """
    >>> plain_label_logprobs([[-1, 1], [-7.5, 0]])
    ((-1.0, True), (-7.5, False))
    """
    return tuple((float(ll), bool(is_listed)) for ll, is_listed in answer)


def samples_text(arguments: Sequence[Any]) -> bool:
    """Whether generation settings ask for sampling; `do_sample` decides where it is said."""
    settings = arguments[1]
    do_sample = settings.get("do_sample")
    return bool(settings.get("temperature")) if do_sample is None else bool(do_sample)


def not_a_loglikelihood(answer: Any) -> str | None:
    """Why an answer cannot be compared: NaN and +∞ are no logarithm of a probability. −∞ is: that of zero.

    An answer is the loglikelihood of a text, of a continuation with whether it is greedy, or of each label with whether it was
    listed.
    """
    lls: Sequence[float] = (answer,)
    if isinstance(answer, tuple | list):
        lls = [each[0] for each in answer] if isinstance(answer[0], tuple | list) else answer[:1]
    return next((f"the model gave the loglikelihood {ll}" for ll in lls if ll != ll or ll == math.inf), None)


REQUEST_TYPES: Registry[RequestType] = Registry("request type", group="assay.request_types")
OUTPUT_TYPES: OutputTypes = OutputTypes("output type", group="assay.output_types")


def request_type_of(output_type: str) -> RequestType | None:
    """What tasks of an output type request; None for one that only its own class knows."""
    found = OUTPUT_TYPES.get(output_type)
    return None if found is None else found.requests


for _request_type in (
    RequestType(
        "loglikelihood",
        ("context", "continuation"),
        plain_loglikelihood,
        scored_argument=1,
        fault=not_a_loglikelihood,
        needs=("likelihoods",),
        needs_words="likelihoods",
    ),
    RequestType(
        "loglikelihood_rolling",
        ("text",),
        plain_rolling,
        scored_argument=0,
        fault=not_a_loglikelihood,
        needs=("likelihoods",),
        needs_words="likelihoods",
    ),
    RequestType(
        LABEL_LOGPROBS,
        ("context", "labels"),
        plain_label_logprobs,
        fault=not_a_loglikelihood,
        needs=("top_logprobs", "likelihoods"),
        needs_words="the probabilities of the most likely tokens (top_logprobs)",
        choice_style="letters",
    ),
    RequestType(
        "generate_until",
        ("context", "generation_kwargs"),
        plain_text,
        is_sampled=samples_text,
        is_text=True,
        choice_style="gen",
    ),
    RequestType(
        # What a doc of an agent task requests; it is answered by the requests of its steps, and its answer is the last one.
        "agent",
        ("context", "settings"),
        plain_text,
        is_sampled=lambda arguments: True,
        is_text=True,
    ),
    RequestType("tool_call", ("call",), plain_text, is_sampled=lambda arguments: True),
):
    REQUEST_TYPES.add(_request_type.name, _request_type)

for _output_type in (
    OutputType(
        name="loglikelihood",
        request_type="loglikelihood",
        task="assay.tasks.types:LoglikelihoodTask",
        scorer="assay.scoring:LoglikelihoodScorer",
        metric_kind="loglikelihood",
        metrics=("perplexity", "acc"),
    ),
    OutputType(
        name="loglikelihood_rolling",
        request_type="loglikelihood_rolling",
        task="assay.tasks.types:RollingTask",
        scorer="assay.scoring:RollingScorer",
        metric_kind="rolling",
        metrics=("word_perplexity", "byte_perplexity", "bits_per_byte"),
    ),
    OutputType(
        name="generate_until",
        request_type="generate_until",
        task="assay.tasks.types:GenerateTask",
        scorer="assay.scoring:GenerateScorer",
        metric_kind="generation",
        metrics=("exact_match",),
    ),
    OutputType(
        name="agent",
        request_type="agent",
        task="assay.tasks.agent:AgentTask",
        scorer="assay.scoring:AgentScorer",
        metric_kind="trajectory",
        metrics=("exact_match",),
    ),
    OutputType(
        name="multiple_choice",
        request_type="loglikelihood",
        task="assay.tasks.types:MultipleChoiceTask",
        scorer="assay.scoring:MultipleChoiceScorer",
        metric_kind="choice",
        metrics=("acc", "acc_norm"),
    ),
    OutputType(
        name=LABEL_LOGPROBS,
        request_type=LABEL_LOGPROBS,
        task="assay.tasks.types:LabelLogprobsTask",
        scorer="assay.scoring:LabelLogprobsScorer",
        metric_kind="choice",
        metrics=("acc",),
    ),
):
    OUTPUT_TYPES.add(_output_type.name, _output_type)
