"""A finished run of any harness, opened: what was requested and answered, and a value for each doc, column by column."""

from assay.finished.alignment import Alignment, align
from assay.finished.by_field import FieldScore, own_fields, scores_by_field
from assay.finished.estimating import with_our_estimates
from assay.finished.formats import (
    RUN_FORMATS,
    RunFormat,
    export_run,
    open_run,
    open_runs,
    propose_run,
    read_scores,
    readable_formats,
)
from assay.finished.jsonl import link_as_lm_eval, sample_objects, write_sample_files
from assay.finished.own import read_assay, sample_rows, stored_docs, stored_questions
from assay.finished.perturbed import named_like, perturbations_in
from assay.finished.results_files import open_results
from assay.finished.run import (
    PARTS,
    AnsweredDoc,
    Columns,
    DocColumn,
    Keys,
    PerSolved,
    Run,
    SentRequest,
    is_higher_better,
    run_of_docs,
    shared_keys,
)
from assay.finished.wording import same_questions, template_around

__all__ = [
    "PARTS",
    "RUN_FORMATS",
    "Alignment",
    "AnsweredDoc",
    "Columns",
    "DocColumn",
    "FieldScore",
    "Keys",
    "PerSolved",
    "Run",
    "RunFormat",
    "SentRequest",
    "align",
    "export_run",
    "is_higher_better",
    "link_as_lm_eval",
    "named_like",
    "open_results",
    "open_run",
    "open_runs",
    "own_fields",
    "perturbations_in",
    "propose_run",
    "read_assay",
    "read_scores",
    "readable_formats",
    "run_of_docs",
    "same_questions",
    "sample_objects",
    "sample_rows",
    "scores_by_field",
    "shared_keys",
    "stored_docs",
    "stored_questions",
    "template_around",
    "with_our_estimates",
    "write_sample_files",
]
