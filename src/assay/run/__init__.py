"""All of it, in order: plan, ask, score, aggregate; streaming, resumable, on one machine or many."""

from assay.results.directory import LAYOUT, RunDirectory, plain, sanitize, write_whole
from assay.results.samples import SampleRow, SampleWriter, pack_arguments, read_samples, to_json, unpack_arguments
from assay.run.execute import execute, model_for
from assay.run.forecast import Forecast, forecast
from assay.run.hashes import request_hash
from assay.run.interrupt import Interrupted
from assay.run.outcome import Health, Outcome, TaskOutcome
from assay.run.plan import Plan, PlannedTask, make_plan
from assay.run.progress import Counts, Progress, Quiet
from assay.run.rescore import rescore

__all__ = [
    "LAYOUT",
    "Counts",
    "Forecast",
    "Health",
    "Interrupted",
    "Outcome",
    "Plan",
    "PlannedTask",
    "Progress",
    "Quiet",
    "RunDirectory",
    "SampleRow",
    "SampleWriter",
    "TaskOutcome",
    "execute",
    "forecast",
    "make_plan",
    "model_for",
    "pack_arguments",
    "plain",
    "read_samples",
    "request_hash",
    "rescore",
    "sanitize",
    "to_json",
    "unpack_arguments",
    "write_whole",
]
