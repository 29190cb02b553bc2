"""Aggregators as classes over plain result dictionaries: `aggregate(group, task_results) -> {metric: value}`.

They serve code that holds dictionaries, and they are the way to write an aggregator that must see the group. All built-in
ones compute the same numbers as a run does; which class `AggregatorFactory` picks matters only to those who look.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from assay.config import AggMetricConfig, FunctionRef, GroupConfig
from assay.errors import ScoringError
from assay.groups.formulas import Combine, Floats, Formula, Mask
from assay.groups.members import Member
from assay.groups.user import Samples, looped

if TYPE_CHECKING:
    from assay.groups.group import Group

TaskResults: TypeAlias = Mapping[str, Mapping[str, Any]]


class Aggregator(ABC):
    """Computes a group's numbers from the dictionaries of its tasks."""

    def __init__(self, config: GroupConfig) -> None:
        self.config = config
        self.agg_metric_configs: Sequence[AggMetricConfig] = config.aggregate_metric_list or []

    @abstractmethod
    def aggregate(self, group: Group, task_results: TaskResults) -> dict[str, Any]:
        """`{task: {"acc,none": 0.5, "sample_len": 10}}` → `{"acc,none": 0.5}`."""


class NoOpAggregator(Aggregator):
    """A group that only collects."""

    def aggregate(self, group: Group, task_results: TaskResults) -> dict[str, Any]:
        return {}


class ConfiguredAggregator(Aggregator):
    """Every entry by the aggregator it names."""

    aggregation: str | None = None
    """Overrides the entries' own: `MeanAggregator` takes means whatever the entries say."""

    def aggregate(self, group: Group, task_results: TaskResults) -> dict[str, Any]:
        from assay.groups.plain import aggregate_plain, only_values

        return only_values(aggregate_plain(group, task_results, entries=self._entries()))

    def _entries(self) -> list[AggMetricConfig]:
        if self.aggregation is None:
            return list(self.agg_metric_configs)
        return [self._with(entry) for entry in self.agg_metric_configs]

    def _with(self, entry: AggMetricConfig) -> AggMetricConfig:
        return (
            entry
            if entry.aggregation == self.aggregation
            else entry.model_copy(update={"aggregation": self.aggregation})
        )


class MeanAggregator(ConfiguredAggregator):
    aggregation = "mean"


class HarmonicMeanAggregator(ConfiguredAggregator):
    aggregation = "harmonic_mean"


class GeometricMeanAggregator(ConfiguredAggregator):
    aggregation = "geometric_mean"


class PassAtKAggregator(ConfiguredAggregator):
    aggregation = "pass@k"

    def __init__(self, config: GroupConfig, k: int | None = None) -> None:
        super().__init__(config)
        self.k = k

    def _with(self, entry: AggMetricConfig) -> AggMetricConfig:
        kwargs = entry.kwargs if self.k is None else {**entry.kwargs, "k": self.k}
        return entry.model_copy(update={"aggregation": self.aggregation, "kwargs": kwargs})


class CustomAggregator(Aggregator):
    """Delegates to a function of the group and its tasks' dictionaries.

    def worst(group, task_results):
        return {"acc,none": min(found["acc,none"] for found in task_results.values())}
    """

    def __init__(self, config: GroupConfig, agg_fn: Callable[[Group, TaskResults], dict[str, Any]]) -> None:
        super().__init__(config)
        self.agg_fn = agg_fn

    def aggregate(self, group: Group, task_results: TaskResults) -> dict[str, Any]:
        return self.agg_fn(group, task_results)


class AggregatorFactory:
    """The aggregator of a config."""

    _BY_NAME: Mapping[str, type[ConfiguredAggregator]] = {
        "mean": MeanAggregator,
        "harmonic_mean": HarmonicMeanAggregator,
        "geometric_mean": GeometricMeanAggregator,
    }

    @classmethod
    def create_aggregator(cls, config: GroupConfig) -> Aggregator:
        """One class if all entries name the same aggregation; entries that differ each keep their own."""
        entries = config.aggregate_metric_list or []
        if not entries:
            return NoOpAggregator(config)
        first: Any = entries[0].aggregation
        alike = all(entry.aggregation == first for entry in entries[1:])
        if isinstance(first, FunctionRef):
            first = first.load()
        if alike and takes_group(first):
            return CustomAggregator(config, first)
        if not alike or not isinstance(first, str):
            if len(entries) == 1 and callable(first) and not isinstance(first, type):
                return CustomAggregator(config, ConfiguredAggregator(config).aggregate)
            return ConfiguredAggregator(config)
        if first == "pass@k":
            return PassAtKAggregator(config)
        from assay.groups.aggregators import AGGREGATORS

        if first not in AGGREGATORS:
            AGGREGATORS[first]  # raises, with the names that are known
        return cls._BY_NAME.get(first, ConfiguredAggregator)(config)


def takes_group(function: Any) -> bool:
    """Whether a function is one of the group and its tasks' dictionaries: its first parameter is called `group`."""
    if isinstance(function, type) or not callable(function):
        return False
    try:
        return next(iter(inspect.signature(function).parameters), None) == "group"
    except (TypeError, ValueError):  # some built-ins have no signature
        return False


def formula_of_group_function(function: Callable[..., Any], entry: AggMetricConfig, group: Group) -> Formula:
    config = GroupConfig(group=group.name, aggregate_metric_list=[entry])
    given = partial(function, **entry.kwargs)
    return _lifted(CustomAggregator(config, given), getattr(function, "__name__", "function"), entry, group)


def formula_of_class(aggregator: type[Aggregator], entry: AggMetricConfig, group: Group) -> Formula:
    config = GroupConfig(group=group.name, aggregate_metric_list=[entry])
    return _lifted(aggregator(config, **entry.kwargs), aggregator.__name__, entry, group)


def _lifted(aggregator: Aggregator, name: str, entry: AggMetricConfig, group: Group) -> Formula:
    """Lift an aggregator as it is: it is asked once for the values and once for every replicate."""

    def bind(members: Sequence[Member]) -> Combine:
        sizes = {member.name: member.size for member in members}

        def call(values: Mapping[str, float], weights: Mapping[str, float], samples: Samples | None) -> Any:
            results = {child: _as_results(entry, value, sizes[child]) for child, value in values.items()}
            found = aggregator.aggregate(group, results)
            if not isinstance(found, Mapping):
                raise ScoringError(
                    f"the aggregator {name!r} returned {found!r:.80}", hint="It returns {metric: value}."
                )
            named = [value for key, value in found.items() if key.partition(",")[0] == entry.metric]
            if found and not named:
                raise ScoringError(
                    f"the aggregator {name!r} gives {', '.join(map(str, found))} and not {entry.metric}",
                    hint="It returns {metric: value} with the metric of its entry among them.",
                )
            return named[0] if named else None

        return looped(call, members, name)

    return Formula(name, _unbound, bind=bind)


def _as_results(entry: AggMetricConfig, value: float, size: int) -> dict[str, Any]:
    return {
        **{f"{entry.metric},{name}": value for name in entry.filter_list or ()},
        "sample_len": size,
        "samples": size,
    }


def _unbound(values: Floats, weights: Floats, mask: Mask | None = None) -> Floats:
    raise AssertionError("a class is bound to its children before it is called")
