"""Docs to instances: tasks and their types, templates, few-shot, chat, stylers, Python tasks, and finding them all."""

from assay.tasks.answer_styles import CoTStyle, GenerateStyle, LettersStyle
from assay.tasks.base import Task
from assay.tasks.check import check_docs, check_task, code_of_task, functions_in
from assay.tasks.conversation import ConversationTask
from assay.tasks.expand import GroupSpec
from assay.tasks.fewshot import SAMPLERS, Sampler
from assay.tasks.manager import Loaded, Resolved, TaskManager
from assay.tasks.previewing import as_json, preview, visible
from assay.tasks.prompt import ChatTemplate, Shot
from assay.tasks.python_tasks import load_python_tasks
from assay.tasks.requests import DocRequests, RequestOptions
from assay.tasks.styled import apply_variant
from assay.tasks.styles import (
    STYLERS,
    BPBStyle,
    ClozeStyle,
    MCCompletionStyle,
    MCStyle,
    TaskStyler,
    answer_key_to_index,
    format_mc_prompt,
    get_n_letters,
    shuffle_correct_with_distractors,
)
from assay.tasks.types import GenerateTask, LettersTask, LoglikelihoodTask, MultipleChoiceTask, RollingTask
from assay.templates import Template, compile_template

__all__ = [
    "SAMPLERS",
    "STYLERS",
    "BPBStyle",
    "ChatTemplate",
    "ClozeStyle",
    "CoTStyle",
    "ConversationTask",
    "DocRequests",
    "GenerateStyle",
    "GenerateTask",
    "GroupSpec",
    "LettersStyle",
    "LettersTask",
    "Loaded",
    "LoglikelihoodTask",
    "MCCompletionStyle",
    "MCStyle",
    "MultipleChoiceTask",
    "RequestOptions",
    "Resolved",
    "RollingTask",
    "Sampler",
    "Shot",
    "Task",
    "TaskManager",
    "TaskStyler",
    "Template",
    "answer_key_to_index",
    "apply_variant",
    "as_json",
    "check_docs",
    "check_task",
    "code_of_task",
    "compile_template",
    "format_mc_prompt",
    "functions_in",
    "get_n_letters",
    "load_python_tasks",
    "preview",
    "shuffle_correct_with_distractors",
    "visible",
]
