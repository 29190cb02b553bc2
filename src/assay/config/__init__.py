"""YAML to typed config. Every later step reads these objects and never the YAML."""

from assay.config.build import ConfigWarning, build_group_config, build_task_config, split_group
from assay.config.datafiles import FILE_FORMATS
from assay.config.functions import Function, FunctionRef
from assay.config.group import AggMetricConfig, GroupConfig, GroupFilter
from assay.config.loader import LoadedFile, Origin, load_file_only, load_yaml, locate, resolve_includes
from assay.config.modules import add_task_root
from assay.config.parse import is_well_formed
from assay.config.run import RunConfig, Seeds
from assay.config.schema import file_schema
from assay.config.secrets import without_secrets
from assay.config.task import FewshotConfig, FilterConfig, FilterStep, MetricConfig, TaskConfig

__all__ = [
    "FILE_FORMATS",
    "AggMetricConfig",
    "ConfigWarning",
    "FewshotConfig",
    "FilterConfig",
    "FilterStep",
    "Function",
    "FunctionRef",
    "GroupConfig",
    "GroupFilter",
    "LoadedFile",
    "MetricConfig",
    "Origin",
    "RunConfig",
    "Seeds",
    "TaskConfig",
    "add_task_root",
    "build_group_config",
    "build_task_config",
    "file_schema",
    "is_well_formed",
    "load_file_only",
    "load_yaml",
    "locate",
    "resolve_includes",
    "split_group",
    "without_secrets",
]
