"""Docs to instances: tasks and their types, templates, few-shot, chat, stylers, Python tasks, and finding them all."""

from assay.tasks.base import Task
from assay.tasks.fewshot import SAMPLERS
from assay.tasks.manager import GroupSpec, Loaded, TaskManager
from assay.tasks.prompt import ChatTemplate, Shot
from assay.tasks.requests import DocRequests, RequestOptions
from assay.tasks.templates import Template, compile_template
from assay.tasks.types import GenerateTask, LoglikelihoodTask, MultipleChoiceTask, RollingTask

__all__ = [
    "SAMPLERS",
    "ChatTemplate",
    "DocRequests",
    "GenerateTask",
    "GroupSpec",
    "Loaded",
    "LoglikelihoodTask",
    "MultipleChoiceTask",
    "RequestOptions",
    "RollingTask",
    "Shot",
    "Task",
    "TaskManager",
    "Template",
    "compile_template",
]
