"""The table of what can be asked of a model, and of what a task can ask.

A request type is a method of `LM`. An output type is what a task file names: its requests, the class that makes them,
and how they are scored unless the task says otherwise. A new kind of evaluation adds an entry to each table (a package
through the entry points `assay.request_types` and `assay.output_types`), a task class, a scorer, and the method to the
models that can answer it:

    REQUEST_TYPES.add("rank", RequestType("rank", ("context", "candidates"), plain=list))
    OUTPUT_TYPES.add("ranking", OutputType("ranking", "rank", task="mine:RankTask", scorer="mine:RankScorer", …))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from assay.registry import Registry, load_object


@dataclass(frozen=True, slots=True)
class RequestType:
    """One method of `LM`: what its requests hold, and what comes back."""

    name: str
    """The method's."""
    arguments: tuple[str, ...]
    """What stands at each place of `Instance.arguments`."""
    plain: Callable[[Any], Any]
    """An answer as values that JSON can hold, whatever types a backend uses: the store and the samples keep it so, and
    give it back through this function too."""
    is_sampled: Callable[[Sequence[Any]], bool] = lambda arguments: False
    """Whether repeated draws of these arguments differ. If not, all repeats are one computation."""
    is_text: bool = False
    """Whether the answer is text that the model wrote: it may be cut off, empty, refused, or not to be parsed."""


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
    def task_class(self) -> type[Any]:
        return self._load(self.task)

    @property
    def scorer_class(self) -> type[Any]:
        return self._load(self.scorer)

    def _load(self, target: str | type[Any]) -> type[Any]:
        return cast(type[Any], load_object(target, kind="output type")) if isinstance(target, str) else target


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


def plain_letters(answer: Any) -> tuple[tuple[float, bool], ...]:
    """
    >>> plain_letters([[-1, 1], [-7.5, 0]])
    ((-1.0, True), (-7.5, False))
    """
    return tuple((float(ll), bool(is_listed)) for ll, is_listed in answer)


def samples_text(arguments: Sequence[Any]) -> bool:
    """Whether generation settings ask for sampling; `do_sample` decides where it is said."""
    settings = arguments[1]
    do_sample = settings.get("do_sample")
    return bool(settings.get("temperature")) if do_sample is None else bool(do_sample)


REQUEST_TYPES: Registry[RequestType] = Registry("request type", group="assay.request_types")
OUTPUT_TYPES: Registry[OutputType] = Registry("output type", group="assay.output_types")

for _request_type in (
    RequestType("loglikelihood", ("context", "continuation"), plain_loglikelihood),
    RequestType("loglikelihood_rolling", ("text",), plain_rolling),
    RequestType("letters", ("context", "labels"), plain_letters),
    RequestType("generate_until", ("context", "generation_kwargs"), plain_text, is_sampled=samples_text, is_text=True),
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
        name="multiple_choice",
        request_type="loglikelihood",
        task="assay.tasks.types:MultipleChoiceTask",
        scorer="assay.scoring:MultipleChoiceScorer",
        metric_kind="choice",
        metrics=("acc", "acc_norm"),
    ),
    OutputType(
        name="letters",
        request_type="letters",
        task="assay.tasks.types:LettersTask",
        scorer="assay.scoring:LettersScorer",
        metric_kind="choice",
        metrics=("acc",),
    ),
):
    OUTPUT_TYPES.add(_output_type.name, _output_type)
