"""All of it, in order: plan, answer, score, summarize; streaming, resumable, on one machine or many."""

from assay.run.checks import check_group, require_sound
from assay.run.execution import execute, reask, rescore
from assay.run.floors import TaskFloors, floors_without_model
from assay.run.forecasting import Forecast, forecast
from assay.run.matrix import Cell, MatrixModel, missing_by_model, models_named, plan_cells, read_models, run_model
from assay.run.needs import abilities_of
from assay.run.plan import Plan, PlannedTask, make_plan, manager_for
from assay.run.prepare import EXECUTORS, Executor, executor_of, model_for
from assay.run.progress import Counts, Interrupted, Progress, Quiet
from assay.run.settle import draw_units, units_of
from assay.run.stored import AskedAgain

__all__ = [
    "EXECUTORS",
    "AskedAgain",
    "Cell",
    "Counts",
    "Executor",
    "Forecast",
    "Interrupted",
    "MatrixModel",
    "Plan",
    "PlannedTask",
    "Progress",
    "Quiet",
    "TaskFloors",
    "abilities_of",
    "check_group",
    "draw_units",
    "execute",
    "executor_of",
    "floors_without_model",
    "forecast",
    "make_plan",
    "manager_for",
    "missing_by_model",
    "model_for",
    "models_named",
    "plan_cells",
    "read_models",
    "reask",
    "require_sound",
    "rescore",
    "run_model",
    "units_of",
]
