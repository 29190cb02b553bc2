"""What a run found: one type each, with one reader and one writer of its JSON, and the directory that holds it all."""

from assay.results.columns import MetricColumn, count_disagreements
from assay.results.directory import RunDirectory, differences, plain, recorded, sanitize, write_whole
from assay.results.health import Chance, Flag, Health
from assay.results.keys import MetricKey, matching, read_key, read_numbers, the_one, write_key
from assay.results.nodes import GroupResult, TaskResult
from assay.results.run_result import RunResult
from assay.results.samples import (
    SampleRow,
    SampleWriter,
    pack_arguments,
    read_columns,
    read_samples,
    to_json,
    unpack_arguments,
)
from assay.results.scores import GroupScore, Score, Share
from assay.results.version import assay_version

__all__ = [
    "Chance",
    "Flag",
    "GroupResult",
    "GroupScore",
    "Health",
    "MetricColumn",
    "MetricKey",
    "RunDirectory",
    "RunResult",
    "SampleRow",
    "SampleWriter",
    "Score",
    "Share",
    "TaskResult",
    "assay_version",
    "count_disagreements",
    "differences",
    "matching",
    "pack_arguments",
    "plain",
    "read_columns",
    "read_key",
    "read_numbers",
    "read_samples",
    "recorded",
    "sanitize",
    "the_one",
    "to_json",
    "unpack_arguments",
    "write_key",
    "write_whole",
]
