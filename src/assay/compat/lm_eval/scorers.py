"""Scorers written for lm-evaluation-harness 0.5, run as they are.

Such a class derives from `GenScorer`, `LLScorer` or `Scorer`, which task files find here, and gives as much as it likes:
a filter and metrics as class variables, `score(reference, predictions)` for one doc, `score_doc`, or `score_instances`
for all docs at once. A run sees each of them through one scorer of ours (`AdaptedScorer`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import numpy as np

from assay.config import TaskConfig
from assay.errors import ScoringError
from assay.instance import Instance
from assay.metrics import METRICS, count_bytes, count_words, get_reducer
from assay.results import MetricKey
from assay.scoring import (
    SCORERS,
    MCResult,
    ResolvedMetric,
    ScoringContext,
    ScoringResult,
    declared,
    filters_of,
    metric_configs,
    one_value,
)
from assay.scoring import Scorer as OurScorer

C = TypeVar("C", bound="type[Scorer]")


@dataclass(frozen=True)
class ScoredDoc:
    """One value per draw for each metric of a doc."""

    doc_id: int
    reference: Any
    scores: dict[str, list[float]]


@dataclass(frozen=True)
class LLResults:
    """The loglikelihoods of one doc. `choices` are the continuations as they were sent."""

    results: list[Any]
    targets: Any
    lls: Any
    is_greedy: Sequence[bool]
    ctx: str = ""
    choices: Sequence[str] = ()
    lls_mutual_info: Any = ()
    metadata: dict[str, Any] = field(default_factory=dict)

    def char_len(self) -> Any:
        return np.array([float(len(choice)) for choice in self.choices])

    def byte_len(self, count: Callable[[str], float] = count_bytes) -> Any:
        return np.array([float(count(choice)) for choice in self.choices])

    def word_len(self, count: Callable[[str], float] = count_words) -> Any:
        return np.array([float(count(choice)) for choice in self.choices])

    @classmethod
    def from_instances(cls, instances: Sequence[Instance], filter_name: str = "none") -> LLResults:
        doc = MCResult.from_instances(instances, filter_name, acc_mutual_info=True)
        sent = [str(instance.args[1]) for instance in instances[: len(doc.lls)]]
        mutual = np.asarray(doc.lls_mutual_info)
        return cls(
            list(doc.lls), doc.target, np.asarray(doc.lls), doc.is_greedy, str(instances[0].args[0]), sent, mutual
        )


@dataclass(kw_only=True)
class Scorer:
    """The base class that task files know by this name; fields of a subclass are the settings of `scorer:`."""

    default_filter_cfg: ClassVar[Sequence[Any] | None] = None
    default_metric_cfg: ClassVar[Sequence[Any] | None] = None
    name: str = "none"
    filter: Any = None
    metrics: list[ResolvedMetric] | None = None
    context: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def as_scorer(cls) -> type[OurScorer]:
        """What a run uses in its place."""
        ways = ("score", "score_doc", "score_instances")
        base = GenScorer if issubclass(cls, GenScorer) else LLScorer if issubclass(cls, LLScorer) else Scorer
        scores_itself = any(getattr(cls, way, None) is not getattr(base, way, None) for way in ways)
        default_metrics = tuple(cls.default_metric_cfg or ())
        return type(
            cls.__name__,
            (AdaptedScorer,),
            {
                "theirs": cls,
                "default_metrics": default_metrics,
                "has_own_metrics": scores_itself and not default_metrics,
            },
        )

    def score_instances(self, instances: Mapping[int, list[Instance]]) -> dict[int, ScoredDoc]:
        return {doc_id: self.score_doc(doc_id, list(mine)) for doc_id, mine in instances.items()}

    def score_doc(self, doc_id: int, doc_instances: list[Instance]) -> ScoredDoc:
        raise ScoringError(
            f"the scorer {type(self).__name__} has neither score_doc nor score_instances",
            hint="Derive it from GenScorer and define score, or override one of them.",
        )


@dataclass(kw_only=True)
class GenScorer(Scorer):
    def score_doc(self, doc_id: int, doc_instances: list[Instance]) -> ScoredDoc:
        reference, predictions, options = self._extract_inputs(doc_instances)
        return ScoredDoc(doc_id, reference, self.score(reference, predictions, metric_kwargs=options))

    def score(
        self, reference: Any, predictions: list[str], metric_kwargs: dict[str, Any] | None = None
    ) -> dict[str, list[float]]:
        """The metrics of the task, one value per draw."""
        several = isinstance(reference, list)
        scores: dict[str, list[float]] = {}
        for metric in self.metrics or []:
            for prediction in predictions:
                value = one_value(metric, reference if several else [reference], several, prediction)
                for name, part in value.items() if isinstance(value, dict) else [(metric.name, value)]:
                    scores.setdefault(name, []).append(part)
        return scores

    def _extract_inputs(self, doc_instances: list[Instance]) -> tuple[Any, list[Any], dict[str, Any]]:
        first = doc_instances[0]
        given = first.filtered_resps[self.name]
        return first.target, given if isinstance(given, list) else [given], dict(first.note.get("metric_kwargs", {}))


@dataclass(kw_only=True)
class LLScorer(Scorer):
    def score_doc(self, doc_id: int, doc_instances: list[Instance]) -> ScoredDoc:
        doc = MCResult.from_instances(doc_instances, self.name, acc_mutual_info=True)
        scores = {metric.name: [metric.fn(doc, **metric.kwargs)] for metric in self.metrics or []}
        return ScoredDoc(doc_id, doc.target, scores)


class AdaptedScorer(OurScorer):
    """Runs `theirs` on the docs of each filter. A value that its metric's reducer does not reduce is the first draw's,
    but that several draws of `exact_match` give pass@k, as there."""

    theirs: ClassVar[type[Scorer]] = Scorer

    def __init__(self, *, multiple_target: bool | None = None, **settings: Any) -> None:
        super().__init__(multiple_target=multiple_target)
        self.settings = settings
        self.theirs(**settings)  # a setting that it does not take is an error at once

    def default_filter(self) -> list[Any]:
        return list(self.theirs.default_filter_cfg or ([] if issubclass(self.theirs, LLScorer) else ["noop"]))

    def prepare(self, task_config: TaskConfig, labels: Sequence[str] = ()) -> None:
        """Names in `metric_list` that are none of ours are scores of its own."""
        listed = [each for own in filters_of(task_config) for each in metric_configs(task_config, own)]
        self.own_metrics = [each.name for each in listed if isinstance(each.metric, str) and each.metric not in METRICS]

    def score_filter(self, context: ScoringContext, result: ScoringResult) -> None:
        self.prepare(context.task_config)
        metrics = self.metrics_of(context)
        told = {"multiple_targets": True} if self.multiple_target else {}
        theirs = self.theirs(name=context.filter_name, metrics=metrics, context=told, **self.settings)
        by_name = {metric.name: metric for metric in metrics}
        scored = theirs.score_instances({doc_id: list(mine) for doc_id, mine in context.instances.items()})
        for doc_id, doc in scored.items():
            for name, values in doc.scores.items():
                for own, value in self._reduced(name, values, by_name.get(name)).items():
                    key = MetricKey(own, context.filter_name)
                    result.declare(key, *declared(context.task_config, MetricKey(name, context.filter_name)))
                    result.add(key, doc_id, value)

    @staticmethod
    def _reduced(name: str, values: Any, metric: ResolvedMetric | None) -> dict[str, Any]:
        draws = list(values) if isinstance(values, list | tuple) else [values]
        named = metric.reducer if metric is not None else None
        reduce = named or get_reducer("pass@k" if name == "exact_match" else "first")
        value = reduce(draws) if len(draws) > 1 else draws[0]
        return {f"{key}({name})": part for key, part in value.items()} if isinstance(value, dict) else {name: value}


def register_scorer(*names: str) -> Callable[[C], C]:
    """A second file may register the same class under the same name: the last one read stands."""

    def decorate(cls: C) -> C:
        for name in names:
            SCORERS.add(name, cls, replace=True)
        return cls

    return decorate
