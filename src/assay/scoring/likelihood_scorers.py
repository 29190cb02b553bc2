"""The scorers of loglikelihoods: of choices, doc by doc or many docs at once where every metric can, or by the first token of an
answer; of one target; and of whole texts.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from assay.config import TaskConfig
from assay.errors import ScoringError
from assay.instance import Instance
from assay.metrics import ChoiceBatch
from assay.results import MetricKey
from assay.scoring.base import Scorer, ScoringContext, guarded
from assay.scoring.outcome import ScoringResult
from assay.scoring.resolve import ResolvedMetric, resolve_metrics
from assay.scoring.results import MCResult, choices_of, gold_indices, has_gold, likelihood, scores_continuations

SMALL = 16
"""Docs below which arrays cost more than they save."""


class MultipleChoiceScorer(Scorer):
    """Loglikelihoods of choices against the index of the right one."""

    def score_doc(self, instances: Sequence[Instance], metric: ResolvedMetric, filter_name: str) -> Any:
        return self.score_result(self._prepare_data(instances, filter_name), metric)

    def score_result(self, data: MCResult, metric: ResolvedMetric) -> Any:
        return metric.fn(data, **metric.kwargs)

    def lacks_gold(self, instances: Sequence[Instance], task_config: TaskConfig) -> bool:
        return scores_continuations(instances) and not has_gold(instances[0].target, choices_of(instances))

    def _prepare_data(self, instances: Sequence[Instance], filter_name: str) -> MCResult:
        return MCResult.from_instances(instances, filter_name, acc_mutual_info=True)

    @property
    def _is_plain(self) -> bool:
        """Whether no subclass scores docs in a way of its own, so that many may be scored at once."""
        hooks = ("score_doc", "score_result", "_prepare_data", "_compute_metrics")
        return all(getattr(type(self), hook) is getattr(MultipleChoiceScorer, hook) for hook in hooks)

    def score_filter(self, context: ScoringContext, result: ScoringResult) -> None:
        metrics = resolve_metrics(context.task_config, context.filter)
        at_once = [metric for metric in metrics if metric.metric and metric.metric.batch and not metric.kwargs]
        is_small = len(context.instances) < SMALL or not self._is_plain
        docs = {} if is_small else by_width(context.instances, context.filter_name)
        if not docs or len(at_once) < len(metrics):
            note_choices(context, result)
            super().score_filter(context, result)
            return
        for metric in metrics:
            result.declare(MetricKey(metric.name, context.filter_name), metric.aggregation, metric.higher_is_better)
        self._score_batches(list(context.instances), docs, at_once, context.filter_name, result)

    def _score_batches(
        self,
        doc_ids: list[int],
        docs: Mapping[int, SameWidth],
        metrics: Sequence[ResolvedMetric],
        filter_name: str,
        result: ScoringResult,
    ) -> None:
        """Docs with equally many choices are one batch; their values go back to where each doc stands."""
        values = {metric.name: np.empty(len(doc_ids)) for metric in metrics}
        for batch in docs.values():
            arrays = batch.arrays()
            for metric in metrics:
                assert metric.metric is not None
                assert metric.metric.batch is not None
                values[metric.name][batch.rows] = metric.metric.batch(arrays)
            rows = np.asarray(batch.rows)
            for row in rows[ties(arrays.lls)]:
                result.flag(doc_ids[row], "tied")
        for name, column in values.items():
            result.add_all(MetricKey(name, filter_name), doc_ids, array("d", column.tobytes()))


MultiChoiceScorer = MultipleChoiceScorer


class SameWidth:
    """Docs with equally many choices, gathered into flat lists."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.rows: list[int] = []
        self.lls: list[float] = []
        self.lengths: list[int] = []
        self.bytes: list[int] = []
        self.targets: list[Any] = []

    def arrays(self) -> ChoiceBatch:
        shape = (len(self.rows), self.width)
        return ChoiceBatch(
            np.array(self.lls, dtype=np.float64).reshape(shape),
            gold_table(self.targets, self.width),
            np.array(self.lengths, dtype=np.float64).reshape(shape),
            np.array(self.bytes, dtype=np.float64).reshape(shape),
        )


def by_width(instances_by_doc: Mapping[int, Sequence[Instance]], filter_name: str) -> dict[int, SameWidth]:
    """Batches by number of choices; empty if a doc has requests beyond its choices (mutual information)."""
    batches: dict[int, SameWidth] = {}
    for row, instances in enumerate(instances_by_doc.values()):
        first = instances[0]
        choices = first.choices
        if choices is None or len(choices) != len(instances):
            return {}
        width = len(choices)
        batch = batches.get(width)
        if batch is None:
            batch = batches[width] = SameWidth(width)
        batch.rows.append(row)
        left = [instance.filtered_resps[filter_name] for instance in instances]
        if not all(type(each) is tuple for each in left):
            left = [likelihood(instance, filter_name) for instance in instances]
        batch.lls += [ll for ll, _ in left]
        lengths = [*map(len, choices)]
        batch.lengths += lengths
        if all(map(str.isascii, choices)):
            batch.bytes += lengths
        else:
            batch.bytes += [len(choice.encode("utf-8", "surrogatepass")) for choice in choices]
        target = first.target
        if type(target) is not int:
            place = f"task {first.task_name!r}, doc {first.doc_id}, filter {filter_name!r}"
            try:
                target = gold_indices(target, choices)
            except ScoringError as error:
                raise ScoringError(f"{place}: {error.message}", hint=error.hint) from error
        batch.targets.append(target)
    return batches


def gold_table(targets: Sequence[Any], width: int) -> NDArray[np.bool_]:
    """Which choices are right; an index that does not exist makes none right."""
    table = np.zeros((len(targets), width), dtype=np.bool_)
    if all(type(target) is int for target in targets):
        index = np.array(targets, dtype=np.int64)
        real = (index >= 0) & (index < width)
        table[np.flatnonzero(real), index[real]] = True
        return table
    for row, target in enumerate(targets):
        for index in target if isinstance(target, list) else [target]:
            if 0 <= index < width:
                table[row, index] = True
    return table


def ties(lls: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Docs whose best choice is not alone: their answer is an accident of order."""
    flags: NDArray[np.bool_] = (lls == lls.max(axis=1, keepdims=True)).sum(axis=1) > 1
    return flags


def note_choices(context: ScoringContext, result: ScoringResult) -> None:
    for doc_id, instances in context.instances.items():
        if not scores_continuations(instances):
            continue
        where = ("choices", context.filter_name, instances[0].task_name or context.task_config.task, doc_id)
        doc = guarded(where, MCResult.from_instances, instances, context.filter_name)
        if len(doc.lls) > 1 and sum(ll == max(doc.lls) for ll in doc.lls) > 1:
            result.flag(doc_id, "tied")


FORMS = 4
"""Tokens that can stand for one label: with and without a space before it, large and small."""


class LabelLogprobsScorer(Scorer):
    """Labels against the index of the right one. A doc whose answer might be another if the server had listed more
    tokens is flagged `not_in_top`."""

    def score_doc(self, instances: Sequence[Instance], metric: ResolvedMetric, filter_name: str) -> Any:
        return metric.fn(label_result(instances, filter_name), **metric.kwargs)

    def lacks_gold(self, instances: Sequence[Instance], task_config: TaskConfig) -> bool:
        return not has_gold(instances[0].target, choices_of(instances))

    def score_filter(self, context: ScoringContext, result: ScoringResult) -> None:
        for doc_id, instances in context.instances.items():
            doc = label_result(instances, context.filter_name)
            if could_be_another(likelihood(instances[0], context.filter_name)):
                result.flag(doc_id, "not_in_top")
            if len(doc.lls) > 1 and sum(ll == max(doc.lls) for ll in doc.lls) > 1:
                result.flag(doc_id, "tied")
        super().score_filter(context, result)


def label_result(instances: Sequence[Instance], filter_name: str | None = None) -> MCResult:
    pairs = likelihood(instances[0], filter_name)
    choices = choices_of(instances)
    lls = [ll for ll, _ in pairs]
    best = max(lls, default=-math.inf)
    return MCResult(
        lls,
        [ll == best for ll in lls],
        gold_indices(instances[0].target, choices),
        instances,
        choices,
        filter_name=filter_name or "none",
    )


def could_be_another(pairs: Sequence[tuple[float, bool]]) -> bool:
    """Whether a label that was not listed may be likelier than all that were.

    Each of its forms is at most as likely as the bound that it was given; together they may be four times that.

    >>> could_be_another([(-0.1, True), (-9.0, False)]), could_be_another([(-8.5, True), (-9.0, False)])
    (False, True)
    """
    listed = max((ll for ll, is_listed in pairs if is_listed), default=-math.inf)
    unlisted = [ll for ll, is_listed in pairs if not is_listed]
    return bool(unlisted) and max(unlisted) + math.log(FORMS) >= listed


class TargetLoglikelihood(tuple[float, bool]):
    """`(loglikelihood, is_greedy)`, and the text that it is of."""

    text: str

    def __new__(cls, ll: float, is_greedy: bool, text: str) -> Self:
        made = super().__new__(cls, (ll, is_greedy))
        made.text = text
        return made


class LoglikelihoodScorer(Scorer):
    """The loglikelihood of one target, and whether greedy decoding would have written it."""

    def score_doc(self, instances: Sequence[Instance], metric: ResolvedMetric, filter_name: str) -> Any:
        ll, is_greedy = likelihood(instances[0], filter_name)
        return metric.fn(TargetLoglikelihood(ll, is_greedy, str(instances[0].args[1])), **metric.kwargs)


class RollingScorer(Scorer):
    """The loglikelihood of a whole text, by its words and bytes."""

    def score_doc(self, instances: Sequence[Instance], metric: ResolvedMetric, filter_name: str) -> Any:
        return metric.fn((likelihood(instances[0], filter_name), instances[0].args[0]), **metric.kwargs)
