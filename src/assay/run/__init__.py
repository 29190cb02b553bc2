"""All of it, in order: plan, ask, score, aggregate; streaming, resumable, on one machine or many."""

from assay.run.directory import FORMAT, RunDirectory, plain, sanitize, write_whole
from assay.run.execute import execute
from assay.run.interrupt import Interrupted
from assay.run.outcome import Health, Outcome, TaskOutcome
from assay.run.plan import Plan, PlannedTask, make_plan
from assay.run.progress import Counts, Progress, Quiet
from assay.run.rescore import rescore
from assay.run.samples import SampleRow, SampleWriter, read_samples, unpack_arguments

__all__ = [
    "FORMAT",
    "Counts",
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
    "make_plan",
    "plain",
    "read_samples",
    "rescore",
    "sanitize",
    "unpack_arguments",
    "write_whole",
]
