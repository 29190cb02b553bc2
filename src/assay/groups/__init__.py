"""Task scores to group scores: trees of groups, aggregators, and error bars up to the root.

From the bottom up: `members` (who enters), `aggregators` (many numbers to one, pass@k among them), `functions` (code of users),
`score` (all numbers of one group and their error bars), `group` (the tree), `manager` (the groups of a run);
`aggregator_classes` are classes over plain dictionaries, `conditions` decide about members.
"""

from assay.config import AggMetricConfig
from assay.groups.aggregator_classes import (
    Aggregator,
    AggregatorFactory,
    CustomAggregator,
    GeometricMeanAggregator,
    HarmonicMeanAggregator,
    MeanAggregator,
    NoOpAggregator,
    PassAtKAggregator,
)
from assay.groups.aggregators import AGGREGATORS, PASS_AT, ArrayAggregator, pass_at_k
from assay.groups.conditions import holds, names_in, read_size
from assay.groups.gold import gold_of_group, task_shares
from assay.groups.group import Group, StandardGroup, TagGroup
from assay.groups.manager import GroupManager

__all__ = [
    "AGGREGATORS",
    "PASS_AT",
    "AggMetricConfig",
    "Aggregator",
    "AggregatorFactory",
    "ArrayAggregator",
    "CustomAggregator",
    "GeometricMeanAggregator",
    "Group",
    "GroupManager",
    "HarmonicMeanAggregator",
    "MeanAggregator",
    "NoOpAggregator",
    "PassAtKAggregator",
    "StandardGroup",
    "TagGroup",
    "gold_of_group",
    "holds",
    "names_in",
    "pass_at_k",
    "read_size",
    "task_shares",
]
