"""Aggregators as classes over plain result dictionaries: `aggregate(group, task_results) -> {metric: value}`.

They serve code that holds dictionaries, and they are a way to write an aggregator that must see the group. The built-in
ones are names for `Group.compute_metrics`, which computes as a run does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

from assay.config import AggMetricConfig, FunctionRef, GroupConfig
from assay.groups.aggregators import AGGREGATORS, k_of
from assay.groups.functions import takes_group
from assay.groups.group import Group

TaskResults: TypeAlias = Mapping[str, Mapping[str, Any]]


class Aggregator(ABC):
    """Computes a group's numbers from the dictionaries of its tasks."""

    def __init__(self, config: GroupConfig) -> None:
        self.config = config
        self.agg_metric_configs: Sequence[AggMetricConfig] = config.aggregate_metric_list or []

    @abstractmethod
    def aggregate(self, group: Group[Any], task_results: TaskResults) -> dict[str, Any]:
        """`{task: {"acc,none": 0.5, "sample_len": 10}}` → `{"acc,none": 0.5}`."""


class NoOpAggregator(Aggregator):
    """For a group that has no number of its own."""

    def aggregate(self, group: Group[Any], task_results: TaskResults) -> dict[str, Any]:
        return {}


class ConfiguredAggregator(Aggregator):
    """Every entry by the aggregator it names."""

    aggregation: ClassVar[str | None] = None
    """Overrides the entries' own: `MeanAggregator` takes means whatever the entries say."""

    def aggregate(self, group: Group[Any], task_results: TaskResults) -> dict[str, Any]:
        return group.compute_metrics(
            task_results, entries=[self.configured(entry) for entry in self.agg_metric_configs]
        )

    def configured(self, entry: AggMetricConfig) -> AggMetricConfig:
        if self.aggregation is None or entry.aggregation == self.aggregation:
            return entry
        return entry.model_copy(update={"aggregation": self.aggregation})


class MeanAggregator(ConfiguredAggregator):
    aggregation = "mean"


class HarmonicMeanAggregator(ConfiguredAggregator):
    aggregation = "harmonic_mean"


class GeometricMeanAggregator(ConfiguredAggregator):
    aggregation = "geometric_mean"


class PassAtKAggregator(ConfiguredAggregator):
    """A given `k` applies to all entries; without it each entry has its own, and `k` is that of the first."""

    aggregation = "pass@k"

    def __init__(self, config: GroupConfig, k: int | None = None) -> None:
        super().__init__(config)
        self._for_all = k
        entries = self.agg_metric_configs
        self.k = k if k is not None else k_of(entries[0]) if entries else 1

    def configured(self, entry: AggMetricConfig) -> AggMetricConfig:
        kwargs = entry.kwargs if self._for_all is None else {**entry.kwargs, "k": self._for_all}
        return super().configured(entry).model_copy(update={"kwargs": kwargs})


class CustomAggregator(Aggregator):
    """Delegates to a function of the group and its tasks' dictionaries.

    def worst(group, task_results):
        return {"acc,none": min(results["acc,none"] for results in task_results.values())}
    """

    def __init__(self, config: GroupConfig, agg_fn: Callable[[Group[Any], TaskResults], dict[str, Any]]) -> None:
        super().__init__(config)
        self.agg_fn = agg_fn

    def aggregate(self, group: Group[Any], task_results: TaskResults) -> dict[str, Any]:
        return self.agg_fn(group, task_results)


class AggregatorFactory:
    """The aggregator of a config."""

    _BY_NAME: Mapping[str | None, type[ConfiguredAggregator]] = {
        each.aggregation: each
        for each in (MeanAggregator, HarmonicMeanAggregator, GeometricMeanAggregator, PassAtKAggregator)
    }

    @classmethod
    def create_aggregator(cls, config: GroupConfig) -> Aggregator:
        """The class for the aggregation that all entries share; where they differ, each keeps its own."""
        entries = config.aggregate_metric_list or []
        if not entries:
            return NoOpAggregator(config)
        shared: Any = entries[0].aggregation
        if any(entry.aggregation != shared for entry in entries):
            return ConfiguredAggregator(config)
        if isinstance(shared, str):
            AGGREGATORS[shared]  # an unknown name raises, with those that are known
            return cls._BY_NAME.get(shared, ConfiguredAggregator)(config)
        function = shared.load() if isinstance(shared, FunctionRef) else shared
        by_entry = ConfiguredAggregator(config)
        if isinstance(function, type):
            return by_entry
        return CustomAggregator(config, function if takes_group(function) else by_entry.aggregate)
