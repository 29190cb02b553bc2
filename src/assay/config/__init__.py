"""YAML to typed config. Every later step reads these objects and never the YAML."""

from assay.config.functions import Function, FunctionRef
from assay.config.group import AggMetricConfig, GroupConfig, GroupFilter
from assay.config.run import RunConfig, Seeds
from assay.config.task import FewshotConfig, FilterConfig, FilterStep, MetricConfig, TaskConfig

__all__ = [
    "AggMetricConfig",
    "FewshotConfig",
    "FilterConfig",
    "FilterStep",
    "Function",
    "FunctionRef",
    "GroupConfig",
    "GroupFilter",
    "MetricConfig",
    "RunConfig",
    "Seeds",
    "TaskConfig",
]
