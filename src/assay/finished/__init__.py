"""A finished run of any harness, opened: what was requested and answered, and a value for each doc, column by column."""

from assay.finished.exporting import EXPORTS, RUN_IMPORTERS, export_run, sample_files
from assay.finished.jsonl import file_name, sample_objects, write_jsonl, write_sample_files
from assay.finished.own import as_request, read_assay
from assay.finished.run import (
    RUN_READERS,
    AskedDoc,
    AskedRequest,
    ColumnBuilder,
    Columns,
    DocColumn,
    Keys,
    Run,
    RunReader,
    is_higher_better,
    named_like,
    open_results,
    open_run,
    perturbations_in,
    run_of_columns,
    shared_keys,
)
from assay.finished.score_tables import open_runs

__all__ = [
    "EXPORTS",
    "RUN_IMPORTERS",
    "RUN_READERS",
    "AskedDoc",
    "AskedRequest",
    "ColumnBuilder",
    "Columns",
    "DocColumn",
    "Keys",
    "Run",
    "RunReader",
    "as_request",
    "export_run",
    "file_name",
    "is_higher_better",
    "named_like",
    "open_results",
    "open_run",
    "open_runs",
    "perturbations_in",
    "read_assay",
    "run_of_columns",
    "sample_files",
    "sample_objects",
    "shared_keys",
    "write_jsonl",
    "write_sample_files",
]
