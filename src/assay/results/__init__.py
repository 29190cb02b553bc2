"""What a run found: one type each, with one reader and one writer of its JSON, and the directory that holds it all."""

from assay.results.columns import MetricColumn, count_disagreements
from assay.results.directory import (
    LAYOUT,
    RunDirectory,
    assay_version,
    differences,
    plain,
    recorded,
    sanitize,
    shown_settings,
    write_whole,
)
from assay.results.growing import DocIds, Numbers
from assay.results.health import Chance, Flag, Health
from assay.results.keys import MetricKey, matching, read_key, read_numbers, the_one, write_key
from assay.results.lm_eval_schema import config_entry, group_entry
from assay.results.nodes import GroupResult, TaskResult
from assay.results.rows import TableRow, format_number, rows_of, to_pandas
from assay.results.run_result import RunResult
from assay.results.samples import (
    FIXED_COLUMNS,
    SampleRow,
    SampleWriter,
    kept_arguments,
    pack_arguments,
    pack_questions,
    pack_responses,
    read_columns,
    read_samples,
    to_json,
    unpack_arguments,
    unpack_responses,
)
from assay.results.scores import GroupScore, JudgeCheck, Score, Share, self_preference

__all__ = [
    "FIXED_COLUMNS",
    "LAYOUT",
    "Chance",
    "DocIds",
    "Flag",
    "GroupResult",
    "GroupScore",
    "Health",
    "JudgeCheck",
    "MetricColumn",
    "MetricKey",
    "Numbers",
    "RunDirectory",
    "RunResult",
    "SampleRow",
    "SampleWriter",
    "Score",
    "Share",
    "TableRow",
    "TaskResult",
    "assay_version",
    "config_entry",
    "count_disagreements",
    "differences",
    "format_number",
    "group_entry",
    "kept_arguments",
    "matching",
    "pack_arguments",
    "pack_questions",
    "pack_responses",
    "plain",
    "read_columns",
    "read_key",
    "read_numbers",
    "read_samples",
    "recorded",
    "rows_of",
    "sanitize",
    "self_preference",
    "shown_settings",
    "the_one",
    "to_json",
    "to_pandas",
    "unpack_arguments",
    "unpack_responses",
    "write_key",
    "write_whole",
]
