"""Task scores to group scores: trees of groups, aggregators, and error bars up to the root."""

from assay.config import AggMetricConfig
from assay.groups.aggregators import AGGREGATORS
from assay.groups.classic import (
    Aggregator,
    AggregatorFactory,
    CustomAggregator,
    GeometricMeanAggregator,
    HarmonicMeanAggregator,
    MeanAggregator,
    NoOpAggregator,
    PassAtKAggregator,
)
from assay.groups.compute import GroupScore, Share
from assay.groups.conditions import holds
from assay.groups.formulas import Formula
from assay.groups.group import Group, StandardGroup
from assay.groups.keys import MetricKey
from assay.groups.manager import GroupManager
from assay.groups.passk import pass_at_k
from assay.groups.report import details, group_subtasks, higher_is_better, n_shot, tree_rows
from assay.groups.tags import TagGroup

__all__ = [
    "AGGREGATORS",
    "AggMetricConfig",
    "Aggregator",
    "AggregatorFactory",
    "CustomAggregator",
    "Formula",
    "GeometricMeanAggregator",
    "Group",
    "GroupManager",
    "GroupScore",
    "HarmonicMeanAggregator",
    "MeanAggregator",
    "MetricKey",
    "NoOpAggregator",
    "PassAtKAggregator",
    "Share",
    "StandardGroup",
    "TagGroup",
    "details",
    "group_subtasks",
    "higher_is_better",
    "holds",
    "n_shot",
    "pass_at_k",
    "tree_rows",
]
