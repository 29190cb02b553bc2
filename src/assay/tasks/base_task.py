"""`BaseTask`: what a Python task may say of itself, each hook with the wording of its styler as the default."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from assay.config import FewshotConfig, FilterConfig, FilterStep, TaskConfig
from assay.errors import ConfigError, DataError, did_you_mean
from assay.instance import Doc
from assay.tasks.positions import ShuffledQuestions
from assay.tasks.questions import HookQuestions, Question
from assay.tasks.styles import ResponseType, TaskStyler, metric_name

SubjectT = TypeVar("SubjectT")
WORDING = (
    "_get_instruction_text",
    "_get_ground_truth",
    "_get_possible_completions",
    "_get_cue_text",
    "_get_fewshot_target_text",
)


class OfStyler:
    """A setting of a task class that its styler has unless the class gives its own; None without a styler."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, task: Any, cls: type[Any]) -> Any:
        styler = getattr(task if task is not None else cls, "TASK_STYLER", None)
        return None if styler is None else getattr(styler, self.name)


class BaseTask(Generic[SubjectT]):
    """A task as a class; `BaseTask[str]` gives the type of its subjects.

    With a `TASK_STYLER`, three methods say what a doc holds: `_get_raw_question`, `_get_choices`, `_get_correct_index`.
    Any of the others may be overridden beside it. Without a styler, `_get_instruction_text` and `_get_ground_truth` word
    the doc, and `_get_possible_completions` gives what is scored; where it gives nothing, the model writes freely.
    """

    NAME: ClassVar[str]
    DATASET_PATH: ClassVar[str]
    SAMPLE_SPLIT: ClassVar[str]
    FEWSHOT_SPLIT: ClassVar[str | None] = None
    SUBJECTS: ClassVar[Sequence[Any]] = ()
    """A task for each, and a group over them; each is the name of a subset of the dataset."""
    RESPONSE_TYPE: ClassVar[Any] = OfStyler("response_type")
    """A `ResponseType`; the styler's if not given. Without styler `LOGLIKELIHOODS` where there are possible completions."""
    METRICS: ClassVar[Any] = OfStyler("metrics")
    """Names or classes of metrics; the styler's own if not given."""
    LANGUAGE: ClassVar[Any] = None
    HF_REVISION: ClassVar[str | None] = None
    DATASET_KWARGS: ClassVar[Mapping[str, Any] | None] = None
    """As `dataset_kwargs` of a task file: `{"data_files": {"test": "docs.jsonl"}}` names files beside the class's own."""
    DESCRIPTION: ClassVar[str] = ""
    NUM_FEWSHOT: ClassVar[int | None] = None
    TASK_STYLER: ClassVar[TaskStyler | None] = None
    PERTURBATION: ClassVar[str | Sequence[str] | None] = None
    PERTURBATION_UNMODIFIABLE_WORDS: ClassVar[Sequence[str] | None] = None
    """Words that a perturbation leaves as they are."""
    SHUFFLE_CHOICES: ClassVar[bool | None] = None
    """Whether listed choices stand in an order by a hash of the doc; if not given, where the right one is one-sided."""

    def _get_raw_question(self, item: Doc) -> str:
        raise NotImplementedError(f"{type(self).__name__} does not say what the question of a doc is")

    def _get_choices(self, item: Doc) -> list[str]:
        raise NotImplementedError(f"{type(self).__name__} does not say what the choices of a doc are")

    def _get_correct_index(self, item: Doc) -> int:
        raise NotImplementedError(f"{type(self).__name__} does not say which choice of a doc is right")

    def _get_instruction_text(self, item: Doc) -> str:
        return self._styler.get_instruction_text(self._get_raw_question(item), self._get_choices(item))

    def _get_ground_truth(self, item: Doc) -> str | list[str] | None:
        return self._styler.get_ground_truth(self._get_choices(item), self._get_correct_index(item))

    def _get_possible_completions(self, item: Doc) -> list[str] | None:
        if self.TASK_STYLER is None:
            return None
        return self._styler.get_possible_completions(self._get_choices(item), self._get_correct_index(item))

    def _get_cue_text(self, item: Doc) -> str:
        return "" if self.TASK_STYLER is None else self._styler.get_cue_text()

    def _get_fewshot_target_text(self, item: Doc) -> str:
        if self.TASK_STYLER is not None:
            choices, index = self._get_choices(item), self._get_correct_index(item)
            return str(_with_own_words(self, item).get_fewshot_target_text(choices, index))
        truth = self._get_ground_truth(item)
        answer = (truth[0] if truth else "") if isinstance(truth, list) else truth
        return f"{_called(self._get_cue_text, item)}{answer or ''}"

    def get_metadata(self) -> dict[str, Any]:
        """What the class says of itself, and its styler of the wording."""
        said: dict[str, Any] = {
            "dataset_path": self.DATASET_PATH,
            "sample_split": self.SAMPLE_SPLIT,
            "fewshot_split": self.FEWSHOT_SPLIT,
            "response_type": None if self.RESPONSE_TYPE is None else str(self.RESPONSE_TYPE),
            "metrics": [str(metric_name(metric)) for metric in self.METRICS or ()],
            "subjects": [str(subject) for subject in self.SUBJECTS],
        }
        return said | (self.TASK_STYLER.get_extra_metadata() if self.TASK_STYLER is not None else {})

    @property
    def _styler(self) -> TaskStyler:
        if self.TASK_STYLER is None:
            raise ConfigError(
                f"the task class {type(self).__qualname__} has no TASK_STYLER to word its docs",
                hint="Set one, or define _get_instruction_text and _get_ground_truth.",
            )
        return self.TASK_STYLER


SETTINGS = frozenset(name for name in (*vars(BaseTask), *BaseTask.__annotations__) if name.isupper())
"""The class attributes that mean something."""
HOOKS = frozenset(name for name in vars(BaseTask) if name.startswith("_get_"))
_SETTING = re.compile(r"[A-Z][A-Z0-9_]*")


def unknown_attribute(names: Iterable[str]) -> tuple[str, str] | None:
    """The first name that a task class binds and that nobody would read, and what to do about it.

    >>> unknown_attribute(["NAME", "_LETTERS", "FEWSHOT_SPLT"])
    ('FEWSHOT_SPLT', 'Did you mean FEWSHOT_SPLIT or NUM_FEWSHOT?')
    """
    names = list(names)
    for name in names:
        if _SETTING.fullmatch(name) and name not in SETTINGS:
            near = did_you_mean(name, SETTINGS)
            return name, near or f"Known: {', '.join(sorted(SETTINGS))}. Start your own constants with _."
        if name.startswith("_get_") and name not in HOOKS and (near := did_you_mean(name, HOOKS - {*names})):
            return name, near
    return None


def _called(hook: Callable[..., Any], item: Doc) -> Any:
    """Call a hook with the doc; `_get_cue_text` may be written without."""
    return hook(item) if inspect.signature(hook).parameters else hook()


def _with_own_words(task: BaseTask[Any], item: Doc) -> TaskStyler:
    """The styler with what the class says itself about a doc: the styler joins both to the answer of a shot."""
    styler: Any = task._styler
    own: dict[str, Any] = {}
    if type(task)._get_cue_text is not BaseTask._get_cue_text:
        own["get_cue_text"] = lambda self: _called(task._get_cue_text, item)
    if type(task)._get_ground_truth is not BaseTask._get_ground_truth:
        truth = task._get_ground_truth(item)
        answer = (truth[0] if truth else "") if isinstance(truth, list) else truth or ""
        own["get_ground_truth"] = lambda self, choices, correct_index: answer
    if not own:
        return task._styler
    made = copy(styler)
    object.__setattr__(made, "__class__", type(type(styler).__name__, (type(styler),), own))
    return made  # type: ignore[no-any-return]


def is_worded_by_itself(cls: type[Any]) -> bool:
    """Whether a class words docs in a way of its own, with or without a styler."""
    return any(getattr(cls, name, None) not in (None, getattr(BaseTask, name)) for name in WORDING)


@dataclass(frozen=True, eq=False)
class Hook:
    """A field of a task: what one of its hooks makes of a doc."""

    task: Any
    name: str
    questions: ShuffledQuestions | None = None
    """What settles the order of choices that the styler lists."""

    def __call__(self, doc: Doc) -> Any:
        return _called(getattr(self.task, self.name), doc)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hook) and (type(self.task), self.name) == (type(other.task), other.name)

    def __hash__(self) -> int:
        return hash((type(self.task), self.name))


class HookTruth(Hook):
    """The right answer. Asked of every doc before the first request, it answers for the other hooks as well."""

    def __call__(self, doc: Doc) -> Any:
        if self.questions is not None and self.questions.is_on:
            require_following(self.task, self.questions, doc)
        return super().__call__(doc)


class HookTarget(HookTruth):
    """The place of the right completion among those that are scored."""

    def __call__(self, doc: Doc) -> int:
        truth, completions = super().__call__(doc), _called(self.task._get_possible_completions, doc)
        wanted = truth[0] if isinstance(truth, list) else truth
        if wanted not in completions:
            raise DataError(
                f"the ground truth {wanted!r} is not one of the possible completions {completions!r}",
                hint="They are compared as they are sent, spaces included.",
            )
        return int(completions.index(wanted))


def shuffled_hooks(cls: type[BaseTask[Any]], said: bool | None) -> tuple[BaseTask[Any], ShuffledQuestions | None]:
    """A task whose hooks see its choices in the order that the docs call for, and what settles that order.

    Hooks that read choices by `self._get_choices` and `self._get_correct_index` follow by themselves.
    """
    task = cls()
    if cls.TASK_STYLER is None or not cls.TASK_STYLER.lists_choices or said is False:
        return task, None
    questions = ShuffledQuestions(HookQuestions(cls()), said)
    vars(task)["_get_choices"] = lambda item: list(questions(item).choices)
    vars(task)["_get_correct_index"] = lambda item: questions(item).correct_index
    return task, questions


def require_following(task: BaseTask[Any], questions: ShuffledQuestions, doc: Doc) -> None:
    """Refuse hooks of the class's own that are not another's where the order of the choices is: a text that lists choices as
    the doc has them would be scored by letters that stand for others."""
    asked: Any = questions.questions
    plain, styler = asked.task, task._styler
    before, after = questions.questions(doc), questions(doc)

    def styled(name: str, question: Question) -> Any:
        if name == "_get_instruction_text":
            return styler.get_instruction_text(question.text, question.choices)
        return styler.get_ground_truth(question.choices, question.correct_index)

    for name in ("_get_instruction_text", "_get_ground_truth", "_get_fewshot_target_text"):
        if getattr(type(task), name) is getattr(BaseTask, name):
            continue
        changes = _called(getattr(plain, name), doc) != _called(getattr(task, name), doc)
        if changes != (styled(name, before) != styled(name, after)):
            kind, side = type(task).__qualname__, questions.found
            why = "SHUFFLE_CHOICES is set" if side is None else f"the right choice is {side}"
            raise DataError(
                f"the choices must be shuffled ({why}), but {name} of {kind} does not follow their order",
                hint=f"Let {name} read them by self._get_choices(item) and self._get_correct_index(item), or set "
                "SHUFFLE_CHOICES = False to measure with the places as they are.",
            )


def hooked_config(config: TaskConfig, cls: type[Any]) -> TaskConfig:
    """The config with its fields worded by the hooks of the class."""
    if not issubclass(cls, BaseTask):
        cls = type(cls.__name__, (cls, BaseTask), {"__module__": cls.__module__, "__qualname__": cls.__qualname__})
    is_free = _writes_freely(cls)
    task, questions = shuffled_hooks(cls, config.shuffle_choices)
    own = getattr(cls, "TASK_STYLER", None)
    defaults = own.metrics if own is not None else ("exact_match",) if is_free else ("acc", "acc_norm")
    shots = config.fewshot_config
    text = Hook(task, "_get_instruction_text", questions)
    answer = Hook(task, "_get_fewshot_target_text")
    worded: dict[str, Any] = {
        "output_type": "generate_until" if is_free else "multiple_choice",
        "doc_to_text": text,
        "doc_to_target": (HookTruth if is_free else HookTarget)(task, "_get_ground_truth", questions),
        "doc_to_choice": None if is_free else Hook(task, "_get_possible_completions"),
        "gen_prefix": Hook(task, "_get_cue_text"),
        "target_delimiter": "",
        "metric_list": config.metric_list or [metric_name(metric) for metric in defaults],
        "fewshot_config": FewshotConfig(
            **{name: getattr(shots, name) for name in shots.model_fields_set},
            doc_to_text=text,
            doc_to_target=answer,
            gen_prefix="",
            target_delimiter="",
        ),
        "metadata": {**config.metadata, **(own.get_extra_metadata() if own is not None else {})},
        "is_own": True,
    }
    if is_free:
        worded |= {"generation_kwargs": {"until": ["\n"], "do_sample": False}, "form_stops": True}
        steps = [FilterStep(function="remove_whitespace"), FilterStep(function="take_first")]
        worded["filter_list"] = [FilterConfig(name="none", filter=steps)]
    return config.override(**worded)


def _writes_freely(cls: type[BaseTask[Any]]) -> bool:
    said = cls.RESPONSE_TYPE or (cls.TASK_STYLER.response_type if cls.TASK_STYLER is not None else None)
    if said is not None:
        return str(said) == ResponseType.COMPLETION
    return cls._get_possible_completions is BaseTask._get_possible_completions
