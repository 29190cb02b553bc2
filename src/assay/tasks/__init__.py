"""Docs to instances: tasks and their types, templates, few-shot, chat, stylers, Python tasks, and finding them all."""

from assay.tasks.answer_styles import CoTStyle, GenerateStyle, LettersStyle
from assay.tasks.base import Task, as_json, preview, visible, worded
from assay.tasks.base_task import BaseTask
from assay.tasks.check import check_docs, check_task, code_of_task, functions_in, may_be_registered
from assay.tasks.expansion import GroupSpec
from assay.tasks.fewshot import SAMPLERS, Sampler
from assay.tasks.floors import (
    BLIND,
    FLOORS,
    Floor,
    answered_by,
    blind_task,
    check_floors,
    floors_of,
    is_decided_by_choice,
    kind_of,
)
from assay.tasks.index import Entry
from assay.tasks.languages import Language, add_language
from assay.tasks.manager import Loaded, Resolved, TaskManager, lm_eval_roots
from assay.tasks.overlay import Correction, Overlay, bare_name, read_overlay
from assay.tasks.perturbation import PERTURBATIONS, is_perturbation, perturbed_text
from assay.tasks.prompt import ChatTemplate, DocRequests, RequestOptions, Shot
from assay.tasks.python_tasks import tasks_of
from assay.tasks.questions import NO_GOLD, derive_question, gold_index
from assay.tasks.styled import apply_variant, says_how_to_generate, shuffle_of
from assay.tasks.styles import (
    STYLERS,
    AccuracyCompletion,
    AccuracyLoglikelihood,
    AccuracyNormLoglikelihood,
    BaseMetric,
    BitsPerByteLoglikelihood,
    BPBStyle,
    ClozeStyle,
    MCCompletionStyle,
    MCStyle,
    ResponseType,
    TaskStyle,
    TaskStyler,
    format_mc_prompt,
    metric_name,
    shuffle_correct_with_distractors,
)
from assay.tasks.types import (
    ConversationTask,
    GenerateTask,
    LabelLogprobsTask,
    LoglikelihoodTask,
    MultipleChoiceTask,
    RollingTask,
    generation_settings,
)
from assay.templates import Template, answer_key_to_index, compile_template, get_n_letters

__all__ = [
    "BLIND",
    "FLOORS",
    "NO_GOLD",
    "PERTURBATIONS",
    "SAMPLERS",
    "STYLERS",
    "AccuracyCompletion",
    "AccuracyLoglikelihood",
    "AccuracyNormLoglikelihood",
    "BPBStyle",
    "BaseMetric",
    "BaseTask",
    "BitsPerByteLoglikelihood",
    "ChatTemplate",
    "ClozeStyle",
    "CoTStyle",
    "ConversationTask",
    "Correction",
    "DocRequests",
    "Entry",
    "Floor",
    "GenerateStyle",
    "GenerateTask",
    "GroupSpec",
    "LabelLogprobsTask",
    "Language",
    "LettersStyle",
    "Loaded",
    "LoglikelihoodTask",
    "MCCompletionStyle",
    "MCStyle",
    "MultipleChoiceTask",
    "Overlay",
    "RequestOptions",
    "Resolved",
    "ResponseType",
    "RollingTask",
    "Sampler",
    "Shot",
    "Task",
    "TaskManager",
    "TaskStyle",
    "TaskStyler",
    "Template",
    "add_language",
    "answer_key_to_index",
    "answered_by",
    "apply_variant",
    "as_json",
    "bare_name",
    "blind_task",
    "check_docs",
    "check_floors",
    "check_task",
    "code_of_task",
    "compile_template",
    "derive_question",
    "floors_of",
    "format_mc_prompt",
    "functions_in",
    "generation_settings",
    "get_n_letters",
    "gold_index",
    "is_decided_by_choice",
    "is_perturbation",
    "kind_of",
    "lm_eval_roots",
    "may_be_registered",
    "metric_name",
    "perturbed_text",
    "preview",
    "read_overlay",
    "says_how_to_generate",
    "shuffle_correct_with_distractors",
    "shuffle_of",
    "tasks_of",
    "visible",
    "worded",
]
