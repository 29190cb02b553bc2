"""The scorers of generations, of conversations, and of tasks that score themselves."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from assay.config import Function, FunctionRef, TaskConfig
from assay.errors import ScoringError, WrongKind
from assay.instance import Instance
from assay.metrics import Reduced, count_right, is_right_or_wrong
from assay.results import Draws, MetricKey
from assay.scoring.base import Scorer, ScoringContext, guarded
from assay.scoring.outcome import ScoringResult, add_or_pass_over, declared
from assay.scoring.resolve import ResolvedMetric
from assay.scoring.results import GenResult, filtered, has_gold


class GenerateScorer(Scorer):
    """Texts against reference texts.

    A filter that leaves several draws of a doc leads to one value per draw, reduced by the metric's or the task's
    reducer (the mean if none is named), unless the metric wants the draws together.
    """

    def lacks_gold(self, instances: Sequence[Instance], task_config: TaskConfig) -> bool:
        one = instances[0]
        if one.target is None:  # a task whose metrics need no right answer names none at all
            return task_config.doc_to_target is not None
        return one.choices is not None and not isinstance(one.target, str) and not has_gold(one.target, one.choices)

    def score_doc(self, instances: Sequence[Instance], metric: ResolvedMetric, filter_name: str) -> Any:
        return self.score_result(self._prepare_data(instances, filter_name), metric)

    def score_result(self, data: GenResult, metric: ResolvedMetric) -> Any:
        instances, prediction = data.instances, data.prediction
        if isinstance(prediction, list) and metric.reducer is None and takes_whole(metric):
            return one_value(metric, *self.references(instances[0], prediction), prediction)
        if not isinstance(prediction, list):
            value = one_value(metric, *self.references(instances[0], prediction), prediction)
            return value if instances[0].repeats == 1 else counted(metric, value, [value])
        # The right answers take the type of what they are compared with, so each draw has its own.
        draws = [one_value(metric, *self.references(instances[0], draw), draw) for draw in prediction]
        return self.reduced(metric, draws, instances[0])

    def reduced(self, metric: ResolvedMetric, draws: list[Any], instance: Instance) -> Any:
        """One value for a doc from those of its draws."""
        return reduce_draws(metric, draws)

    def _prepare_data(self, instances: Sequence[Instance], filter_name: str) -> GenResult:
        return self._create_gen_result(instances, filter_name)

    def _create_gen_result(self, instances: Sequence[Instance], filter_name: str) -> GenResult:
        """The generations of one doc under one filter, as they are scored."""
        return GenResult.from_instances(instances, filter_name=filter_name)

    def references(self, instance: Instance, prediction: Any) -> tuple[list[Any], bool]:
        """The right answers, and whether the task counts several of them per doc."""
        target = instance.target
        if instance.choices is not None and not isinstance(target, str):
            picked = target if isinstance(target, list) else [target]
            return [instance.choices[int(i)] for i in picked], isinstance(target, list)
        several = isinstance(target, list) if self.multiple_target is None else self.multiple_target
        if several:
            return (list(target) if isinstance(target, list | tuple) else [target]), True
        return [as_type_of(prediction, target)], False


class AnswerScorer(GenerateScorer):
    """Answers of any kind against the target, both as they are; several draws of a doc are a list."""

    def lacks_gold(self, instances: Sequence[Instance], task_config: TaskConfig) -> bool:
        return instances[0].target is None and task_config.doc_to_target is not None

    def references(self, instance: Instance, prediction: Any) -> tuple[list[Any], bool]:
        return [instance.target], False


PAIRED = {"bleu", "chrf", "chrf++", "ter", "f1", "matthews_corrcoef"}
"""Aggregations that take texts or labels as they are: their values are no numbers that could be averaged over draws."""


class RollingAnswer(float):
    """The loglikelihood of a whole text: a number, as code for lm-evaluation-harness 0.4 takes it, that unpacks as the
    pair `(loglikelihood, is_greedy)` that code for 0.5 takes. Nobody asks whether a whole text is greedy: False.

    >>> ll, is_greedy = RollingAnswer(-2.5)
    >>> ll, is_greedy, RollingAnswer(-2.5)[0] + 1
    (-2.5, False, -1.5)
    """

    def __iter__(self) -> Iterator[Any]:
        return iter((float(self), False))

    def __getitem__(self, place: int) -> Any:
        return (float(self), False)[place]

    def __len__(self) -> int:
        return 2


def as_task_code_takes(instance: Instance, filter_name: str) -> Any:
    response = filtered(instance, filter_name)
    if instance.request_type == "loglikelihood_rolling" and isinstance(response, float):
        return RollingAnswer(response)
    return response


def takes_whole(metric: ResolvedMetric) -> bool:
    """Whether the metric, or its aggregation, wants all draws of a doc in one prediction."""
    return metric.takes_draws or (metric.metric is not None and metric.metric.aggregation in PAIRED)


def as_type_of(prediction: Any, target: Any) -> Any:
    """The target in the type of the prediction: task files write numbers where models write text.

    Of several draws together the first speaks for all, and only a number is rewritten: a text or list stays as it is.
    """
    if isinstance(prediction, list):
        return as_type_of(prediction[0], target) if prediction and isinstance(target, int | float) else target
    if prediction is None or isinstance(target, type(prediction)):
        return target
    return type(prediction)(target)


def one_value(metric: ResolvedMetric, references: list[Any], several: bool, prediction: Any) -> Any:
    """The metric of one prediction."""
    if not several:
        return call(metric, references, prediction)
    if not references:
        raise ScoringError("the doc has an empty list of right answers", hint="Check doc_to_target.")
    if metric.foreign:
        values = [only(metric, call(metric, [reference], prediction)) for reference in references]
        return 1.0 if any(values) else 0.0
    if metric.name == "exact_match":
        shares = [call(metric, [reference], prediction)["exact_match"] for reference in references]
        return 1.0 if max(shares) > 0 else 0.0
    if metric.metric is not None and metric.metric.aggregation in PAIRED:
        return call(metric, [references], prediction)
    return call(metric, references, prediction)


def only(metric: ResolvedMetric, value: Any) -> Any:
    return value[metric.name] if isinstance(value, dict) else value


def call(metric: ResolvedMetric, references: list[Any], prediction: Any) -> Any:
    if metric.takes_pair:
        return metric.fn([references[0], prediction])
    return metric.fn(references=references, predictions=[prediction], **metric.kwargs)


def reduce_draws(metric: ResolvedMetric, values: list[Any], name: str | None = None) -> Any:
    """One value per draw to one value per doc; key by key where the metric gives a dict.

    A reducer that gives a dict gives several scores, each named after itself and the metric: `pass@1(exact_match)`.
    """
    if values and isinstance(values[0], dict):
        scores: dict[str, Any] = {}
        for key in values[0]:
            value = reduce_draws(metric, [each[key] for each in values], key)
            scores |= value if isinstance(value, dict) else {key: value}
        return scores
    value = sum(values) / len(values) if metric.reducer is None else metric.reducer(values)
    if isinstance(value, dict):
        return {f"{key}({name or metric.name})": counted(metric, part, values) for key, part in value.items()}
    return counted(metric, value, values)


def counted(metric: ResolvedMetric, value: Any, draws: list[Any]) -> Any:
    """The value with what its draws say: how many were right, where each is right or wrong (a share of matching words counts
    nothing), and how far their mean would vary."""
    if not all(isinstance(each, int | float) for each in draws):
        return value
    binary = None if metric.metric is None else metric.metric.binary
    right = None if binary is False or not all(map(is_right_or_wrong, draws)) else count_right(draws)
    is_mean = len(draws) > 1 and isinstance(value, int | float) and math.isclose(value, sum(draws) / len(draws))
    return Reduced(value, Draws(len(draws), right, variance_of_mean(draws) if is_mean else None))


def variance_of_mean(draws: Sequence[float]) -> float:
    """
    >>> variance_of_mean([0.0, 1.0])
    0.25
    """
    n, mean = len(draws), sum(draws) / len(draws)
    return sum((each - mean) ** 2 for each in draws) / (n * (n - 1))


class CustomScorer(Scorer):
    """Calls `process_results(doc, [filtered response of each request])`, which returns `{metric: value}`.

    A doc may give some metrics only. Metrics that the task does not declare are averaged.
    """

    def __init__(
        self,
        process_results: Function | None = None,
        *,
        process_results_fn: Function | None = None,
        multiple_target: bool | None = None,
    ) -> None:
        """The function may be given under either name."""
        super().__init__(multiple_target=multiple_target)
        given = process_results if process_results is not None else process_results_fn
        if given is None:
            raise WrongKind("a CustomScorer needs the function process_results(doc, responses)")
        self.process_results: Function = given

    @property
    def process_results_fn(self) -> Function:
        return self.process_results

    def score_filter(self, context: ScoringContext, result: ScoringResult) -> None:
        function: Callable[..., Any] = self.process_results
        if isinstance(self.process_results, FunctionRef):
            function = self.process_results.load()
        for doc_id, instances in context.instances.items():
            where = ("process_results", context.filter_name, instances[0].task_name or context.task_config.task, doc_id)
            responses = [as_task_code_takes(instance, context.filter_name) for instance in instances]
            try:
                scores = guarded(where, self._checked, function, instances[0].doc, responses)
            except ScoringError as error:
                self.fail(context, result, doc_id, "process_results", error)
                continue
            self.worked.add(("process_results", context.filter_name))
            if scores is None:
                result.flag(doc_id, "unscored")
            for name, value in (scores or {}).items():
                key = MetricKey(name, context.filter_name)
                if not result.is_declared(key):
                    result.declare(key, *declared(context.task_config, key))
                add_or_pass_over(result, key, doc_id, value)
        self.require_one(context, result, "process_results")

    @staticmethod
    def _checked(function: Callable[..., Any], doc: Any, responses: list[Any]) -> dict[str, Any] | None:
        scores = function(doc, responses)
        if scores is not None and not isinstance(scores, dict):
            raise ScoringError(
                f"process_results returned {type(scores).__name__}",
                hint="It must return {metric: value}, or None to skip the doc.",
            )
        return scores


class TurnsScorer(GenerateScorer):
    """Each metric once an answer (`exact_match_turn_1`, …), their mean under its own name, and `exact_match_all`: the
    least of them, which is 1 where every answer is right.

    A target that is a list has one entry an answer; any other is the target of all of them.
    """

    wants_every_turn = True

    def score_doc(self, instances: Sequence[Instance], metric: ResolvedMetric, filter_name: str) -> Any:
        values: list[float] = []
        for number, instance in enumerate(instances):
            turn = replace(instance, target=target_of(instance, number))
            values.append(float(only(metric, super().score_doc([turn], metric, filter_name))))
        by_turn = {f"{metric.name}_turn_{number}": value for number, value in enumerate(values, 1)}
        return {metric.name: sum(values) / len(values), **by_turn, f"{metric.name}_all": min(values)}


def target_of(instance: Instance, number: int) -> Any:
    if not isinstance(instance.target, list | tuple):
        return instance.target
    if number >= len(instance.target):
        raise ScoringError(
            f"task {instance.task_name!r}, doc {instance.doc_id}: answer {number + 1} has no target among the {len(instance.target)} that doc_to_target gives",
            hint="Provide one for each turn.",
        )
    return instance.target[number]


class ExtractingScorer(GenerateScorer):
    """Reads an answer by its filter, and compares it by `exact_match` without regard to case and punctuation.

    Both are defaults: a task's own `filter_list` and `metric_list` go before them. Options are those of the filter.
    """

    FILTER: ClassVar[str] = "noop"
    default_metrics: ClassVar[Sequence[Any]] = (
        {"metric": "exact_match", "ignore_case": True, "ignore_punctuation": True},
    )

    def __init__(self, *, multiple_target: bool | None = None, **options: Any) -> None:
        super().__init__(multiple_target=multiple_target)
        self.options = options

    def default_filter(self) -> list[Any]:
        return [{"function": self.FILTER, "kwargs": self.options}]


class FirstTokenScorer(ExtractingScorer):
    """The whole answer, stripped at both ends: `  paris. ` is `Paris`, and `Paris is it` is not. The name is
    lm-evaluation-harness's."""

    FILTER = "remove_whitespace"


class RegexScorer(ExtractingScorer):
    """What a pattern finds first; by default the number after `#### `."""

    FILTER = "regex"


class ChoiceMatchScorer(ExtractingScorer):
    """The answer as it is: leading spaces count."""


class ChoiceScorer(ExtractingScorer):
    """The choice that an answer states, wherever it says so: `The best answer is C, because …`."""

    FILTER = "choice"


def hooked(
    scorer: Scorer,
    create_result: Callable[[Sequence[Instance], str], Any],
    compute_metric: Callable[[Any, ResolvedMetric], Any],
) -> Scorer:
    """A scorer like this one, which leaves two steps to a task's own `_create_result` and `_compute_metric`.

    Of a subclass made for it, because scorers look at their class to see whether docs may be scored many at a time.
    A list of numbers counts as values of draws, and goes through the metric's reducer.
    """
    kind: Any = type(scorer)

    class Hooked(kind):  # type: ignore[misc]
        unhooked = scorer

        def _prepare_data(self, instances: Sequence[Instance], filter_name: str) -> Any:
            return create_result(instances, filter_name)

        def score_doc(self, instances: Sequence[Instance], metric: ResolvedMetric, filter_name: str) -> Any:
            value = compute_metric(create_result(instances, filter_name), metric)
            return reduce_draws(metric, value) if is_draws(value) else value

    made = copy.copy(scorer)
    made.__class__ = Hooked
    return made


def is_draws(score: Any) -> bool:
    """Whether a score is a list of the scores of repeated draws, and not a pair of texts."""
    return isinstance(score, list) and bool(score) and all(isinstance(each, int | float) for each in score)
