"""The scoring side of a task: each method hands the work to `assay.scoring`, with the task's config."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from assay.config import TaskConfig
from assay.data import doc_hash
from assay.errors import ConfigError
from assay.instance import Doc, Instance

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
    _docs: Mapping[int, Doc]

    @cached_property
    def scorer(self) -> Scorer:
        """By the config's `process_results`, else the task type's own."""
        from assay.scoring import CustomScorer

        if self.config.process_results is not None:
            return CustomScorer(self.config.process_results, multiple_target=self.multiple_target)
        return self._get_default_scorer()

    def _get_default_scorer(self) -> Scorer:
        """The scorer of this type of task; a new type may give another."""
        from assay.scoring import scorer_for

        return scorer_for(self.config, multiple_target=self.multiple_target)

    @cached_property
    def multiple_target(self) -> bool:
        raise NotImplementedError

    def apply_filters(self, instances: Sequence[Instance] | None = None) -> None:
        """Run every filter of the task over the instances that were answered."""
        from assay.scoring import apply_filters

        apply_filters(self.instances if instances is None else instances, self.config)

    def score_docs(self, instances_by_doc: Mapping[int, Sequence[Instance]]) -> ScoringResult:
        """What the task's scorer gives for these docs, whole even where it is one of the task's own."""
        return self.scorer.score(instances_by_doc, self.config).completed(instances_by_doc, self.config)

    @staticmethod
    def sort_instances(instances: Iterable[Instance]) -> dict[int, list[Instance]]:
        """Instances by doc, in whatever order they come: docs by `doc_id`, the requests of each by `idx`."""
        by_doc: dict[int, list[Instance]] = {}
        for instance in sorted(instances, key=lambda each: (each.doc_id, each.idx)):
            by_doc.setdefault(instance.doc_id, []).append(instance)
        return by_doc

    def process_instances(self, instances: Iterable[Instance] | None = None) -> dict[ScoreKey, list[Any]]:
        """Scores per (metric, filter), one per doc, in the order of the docs."""
        by_doc = self.sort_instances(self.instances if instances is None else instances)
        self._result = self.score_docs(by_doc)
        self._docs = {doc_id: mine[0].doc for doc_id, mine in by_doc.items()}
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
        hashes = {doc_id: doc_hash(doc) for doc_id, doc in self._docs.items()}
        column = self.config.cluster
        numbers: dict[str, float | None] = {}
        for key, values in (result.sample_scores if scores is None else scores).items():
            metric, filter_name = key
            ids = result.doc_ids[key]
            keys = doc_keys([hashes[doc_id] for doc_id in ids])
            clusters = None if column is None else [str(self._docs[doc_id].get(column, "")) for doc_id in ids]
            # Draws are reduced when they are scored. A list that is left is what the aggregation takes: a pair of texts.
            score = estimate(values, result.aggregations[key], keys, clusters, bootstrap_iters)
            numbers[f"{metric},{filter_name}"] = score.estimate.value
            numbers[f"{metric}_stderr,{filter_name}"] = score.estimate.stderr
        return numbers

    def reduce(self, items: Sequence[Any], metric: str) -> list[Any]:
        """One value per doc: lists of values of repeated draws go through the metric's reducer, or the first counts."""
        from assay.metrics import get_reducer

        named = next((each.reducer for each in self.config.metric_list or [] if each.name == metric), None)
        reducer = get_reducer(named or self.config.reducer or "first")
        return [reducer(item) if isinstance(item, list) else item for item in items]
