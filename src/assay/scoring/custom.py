"""Scoring by the task's own `process_results(doc, results)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from assay.config import Function, FunctionRef
from assay.errors import ScoringError
from assay.scoring.base import Scorer, ScoringContext, ScoringResult, declared, guarded
from assay.scoring.results import filtered


class CustomScorer(Scorer):
    """Calls `process_results(doc, [filtered response of each request])`, which gives `{metric: value}`.

    A doc may give some metrics only. Metrics that the task does not declare are averaged.
    """

    def __init__(self, process_results: Function, *, multiple_target: bool | None = None) -> None:
        super().__init__(multiple_target=multiple_target)
        self.process_results = process_results

    def score_filter(self, context: ScoringContext, result: ScoringResult) -> None:
        function: Callable[..., Any] = self.process_results
        if isinstance(self.process_results, FunctionRef):
            function = self.process_results.load()
        for doc_id, instances in context.instances.items():
            where = ("process_results", context.filter_name, instances[0].task_name or context.task_config.task, doc_id)
            responses = [filtered(instance, context.filter_name) for instance in instances]
            scores = guarded(where, self._checked, function, instances[0].doc, responses)
            for name, value in scores.items():
                key = (name, context.filter_name)
                if key not in result.aggregations:
                    result.declare(key, *declared(context.task_config, *key))
                result.add(key, doc_id, value)

    @staticmethod
    def _checked(function: Callable[..., Any], doc: Any, responses: list[Any]) -> dict[str, Any]:
        scores = function(doc, responses)
        if not isinstance(scores, dict):
            raise ScoringError(f"process_results gave {type(scores).__name__}", hint="It must give {metric: value}.")
        return scores
