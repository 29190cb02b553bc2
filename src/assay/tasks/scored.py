"""The scoring side of a task: each method hands the work to `assay.scoring`, with the task's config."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from assay.config import TaskConfig
from assay.data import doc_hash
from assay.errors import ConfigError
from assay.instance import Instance

if TYPE_CHECKING:
    from assay.scoring import Scorer, ScoringResult

ScoreKey = tuple[str, str]
"""(metric, filter)."""


class Scored:
    """What a task can do with answered instances."""

    config: TaskConfig
    task_name: str
    instances: list[Instance]
    _result: ScoringResult | None = None

    @cached_property
    def scorer(self) -> Scorer:
        """By the config's `process_results`, else by output type."""
        from assay.scoring import scorer_for

        return scorer_for(self.config, multiple_target=self.multiple_target)

    @cached_property
    def multiple_target(self) -> bool:
        raise NotImplementedError

    def apply_filters(self, instances: Sequence[Instance] | None = None) -> None:
        """Run every filter of the task over the instances that were answered."""
        from assay.scoring import apply_filters

        apply_filters(self.instances if instances is None else instances, self.config)

    def process_instances(self, instances: Sequence[Instance] | None = None) -> dict[ScoreKey, list[Any]]:
        """Scores per (metric, filter), one per doc, in the order of the docs."""
        by_doc: dict[int, list[Instance]] = {}
        for instance in self.instances if instances is None else instances:
            by_doc.setdefault(instance.doc_id, []).append(instance)
        self._result = self.scorer.score(by_doc, self.config)
        self._hashes = {doc_id: doc_hash(mine[0].doc) for doc_id, mine in by_doc.items()}
        return self._result.sample_scores

    def compute_aggregations(
        self, scores: Mapping[ScoreKey, Sequence[Any]] | None = None, bootstrap_iters: int = 1000
    ) -> dict[str, float | None]:
        """`{"acc,none": value, "acc_stderr,none": standard error}` for the scores of `process_instances`."""
        from assay.scoring import estimate
        from assay.stats import doc_keys

        result = self._result
        if result is None:
            raise ConfigError(f"task {self.task_name}: nothing was scored yet", hint="Call process_instances first.")
        numbers: dict[str, float | None] = {}
        for key, values in (result.sample_scores if scores is None else scores).items():
            metric, filter_name = key
            keys = doc_keys([self._hashes[doc_id] for doc_id in result.doc_ids[key]])
            # Draws are reduced when they are scored. A list that is left is what the aggregation takes: a pair of texts.
            score = estimate(values, result.aggregations[metric], keys, None, bootstrap_iters)
            numbers[f"{metric},{filter_name}"] = score.estimate.value
            numbers[f"{metric}_stderr,{filter_name}"] = score.estimate.stderr
        return numbers

    def reduce(self, items: Sequence[Any], metric: str) -> list[Any]:
        """One value per doc: lists of values of repeated draws go through the metric's reducer, or the first counts."""
        from assay.metrics import get_reducer

        named = next((each.reducer for each in self.config.metric_list or [] if each.name == metric), None)
        reducer = get_reducer(named or self.config.reducer or "first")
        return [reducer(item) if isinstance(item, list) else item for item in items]
