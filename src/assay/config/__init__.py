"""YAML to typed config. Every later step reads these objects and never the YAML."""

from assay.config.build import (
    FILE_FORMATS,
    build_group_config,
    build_task_config,
    file_schema,
    locate_data_files,
    split_group,
)
from assay.config.ci import Budget, CIConfig, CIRule, load_ci
from assay.config.functions import Function, FunctionRef, import_failure, may_run, reading_only, untrusted
from assay.config.group import AggMetricConfig, GroupConfig, GroupFilter
from assay.config.loader import (
    LmEvalVersion,
    LoadedFile,
    Origin,
    add_lm_eval_root,
    lm_eval_version_of,
    load_file_only,
    load_yaml,
    locate,
    resolve_includes,
)
from assay.config.options import (
    CommandFlag,
    Names,
    Options,
    Texts,
    WholeNumbers,
    as_one_name,
    flag_of,
    names_in,
    option,
    texts_in,
)
from assay.config.parse import is_well_formed, parse_text
from assay.config.python_files import ClassOutline, add_task_root, outline
from assay.config.run import RoleConfig, RunConfig, RunKwargs, SandboxKind, Seeds, parse_roles
from assay.config.settings import merge_settings, parse_settings
from assay.config.task import FewshotConfig, FilterConfig, FilterStep, MetricConfig, ScorerConfig, TaskConfig
from assay.errors import ConfigWarning

__all__ = [
    "FILE_FORMATS",
    "AggMetricConfig",
    "Budget",
    "CIConfig",
    "CIRule",
    "ClassOutline",
    "CommandFlag",
    "ConfigWarning",
    "FewshotConfig",
    "FilterConfig",
    "FilterStep",
    "Function",
    "FunctionRef",
    "GroupConfig",
    "GroupFilter",
    "LmEvalVersion",
    "LoadedFile",
    "MetricConfig",
    "Names",
    "Options",
    "Origin",
    "RoleConfig",
    "RunConfig",
    "RunKwargs",
    "SandboxKind",
    "ScorerConfig",
    "Seeds",
    "TaskConfig",
    "Texts",
    "WholeNumbers",
    "add_lm_eval_root",
    "add_task_root",
    "as_one_name",
    "build_group_config",
    "build_task_config",
    "file_schema",
    "flag_of",
    "import_failure",
    "is_well_formed",
    "lm_eval_version_of",
    "load_ci",
    "load_file_only",
    "load_yaml",
    "locate",
    "locate_data_files",
    "may_run",
    "merge_settings",
    "names_in",
    "option",
    "outline",
    "parse_roles",
    "parse_settings",
    "parse_text",
    "reading_only",
    "resolve_includes",
    "split_group",
    "texts_in",
    "untrusted",
]
