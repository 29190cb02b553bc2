"""The task types: what each one requests about a doc; and those that a file brings along."""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from assay.config import FunctionRef, TaskConfig
from assay.errors import AssayError, ConfigError, DataError
from assay.instance import Doc, Instance
from assay.request_types import LABEL_LOGPROBS, REQUEST_TYPES
from assay.scoring import gold_indices
from assay.tasks.base import Task
from assay.tasks.requests import RequestOptions


class GenerateTask(Task):
    """The model continues the prompt."""

    OUTPUT_TYPE: ClassVar[str] = "generate_until"

    def construct_requests(
        self, doc: Doc, ctx: str | list[str], *, target: Any = None, options: RequestOptions | None = None, **_: Any
    ) -> list[Instance]:
        settings = {**(self.config.generation_kwargs or {}), **(options.gen_kwargs if options else {})}
        # Backends take settings apart; none may change those of another request.
        own = {key: list(value) if isinstance(value, list) else value for key, value in settings.items()}
        if self.config.tools:
            own["tools"] = [_tool(tool) for tool in self.config.tools]
            if isinstance(target, list | dict):
                target = json.dumps(target, ensure_ascii=False)  # calls, not several right answers
        choices = tuple(self.doc_to_choice(doc)) if self.has_choices else None
        return [Instance("generate_until", doc, self._with_media(doc, (ctx, own)), 0, target=target, choices=choices)]


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    """As servers take it.

    >>> _tool({"name": "now"})["type"]
    'function'
    """
    return tool if "function" in tool else {"type": "function", "function": tool}


class LoglikelihoodTask(Task):
    """The probability of one target. No delimiter is put before it; the target must include its own."""

    OUTPUT_TYPE: ClassVar[str] = "loglikelihood"

    def construct_requests(
        self, doc: Doc, ctx: str | list[str], *, target: Any = None, options: RequestOptions | None = None, **_: Any
    ) -> list[Instance]:
        if not isinstance(target, str) or not target:
            raise DataError(f"the target is {target!r}, expected text to score", hint="Check doc_to_target.")
        return [Instance("loglikelihood", doc, self._with_media(doc, (ctx, target)), 0, target=target)]


class RollingTask(Task):
    """The probability of a whole text."""

    OUTPUT_TYPE: ClassVar[str] = "loglikelihood_rolling"
    NEEDS_CONTEXT = False

    def construct_requests(
        self, doc: Doc, ctx: str | list[str], *, target: Any = None, options: RequestOptions | None = None, **_: Any
    ) -> list[Instance]:
        if not isinstance(target, str):
            raise DataError(f"the text is {target!r}, expected text to score", hint="Check doc_to_target.")
        return [Instance("loglikelihood_rolling", doc, self._with_media(doc, (target,)), 0, target=target)]


class MultipleChoiceTask(Task):
    """The probability of each choice; the most probable one is the answer."""

    OUTPUT_TYPE: ClassVar[str] = "multiple_choice"

    def construct_requests(
        self, doc: Doc, ctx: str | list[str], *, target: Any = None, options: RequestOptions | None = None, **_: Any
    ) -> list[Instance]:
        choices = self._checked_choices(doc)
        delimiter = self._delimiter(options)
        join = self._join_spaces if self.config.joins_spaces else self._join
        if self.multiple_input:
            arguments: list[tuple[Any, ...]] = [(context, join(context, delimiter, str(target))) for context in ctx]
            gold = self.doc_to_text(doc)
        else:
            arguments = [(ctx, join(ctx, delimiter, choice)) for choice in choices]
            gold = target
        if not delimiter and self.multiple_input and not target:
            raise DataError("the continuation is empty", hint="Check doc_to_target and target_delimiter.")
        if self.wants_mutual_information:
            arguments += [("", f"{delimiter}{choice}") for choice in choices]
        if self.config.joins_spaces and not self.multiple_input:
            # Lengths are then those of what is sent, so what is sent are the choices.
            gold, choices = gold_indices(gold, choices), tuple(pair[1] for pair in arguments[: len(choices)])
        return [
            Instance("loglikelihood", doc, self._with_media(doc, pair), i, target=gold, choices=choices)
            for i, pair in enumerate(arguments)
        ]

    @staticmethod
    def _join(context: Any, delimiter: str, choice: str) -> str:
        return f"{delimiter}{choice}"

    @staticmethod
    def _join_spaces(context: Any, delimiter: str, choice: str) -> str:
        """No delimiter where a space stands already, on either side; nor where nothing comes before."""
        is_text = isinstance(context, str)
        spaced = choice[:1].isspace() or (is_text and (not context or context[-1].isspace()))
        return choice if spaced else f"{delimiter}{choice}"

    def _checked_choices(self, doc: Doc) -> tuple[str, ...]:
        choices = self.doc_to_choice(doc)
        if not isinstance(choices, list | tuple):
            raise DataError(
                f"doc_to_choice gives {type(choices).__name__} {str(choices)[:80]!r}, expected a list of strings"
            )
        if not choices:
            raise DataError("doc_to_choice gives an empty list", hint="A choice task needs at least one choice.")
        if "" in choices or None in choices:
            number = next(i for i, choice in enumerate(choices) if choice is None or choice == "")
            raise DataError(
                f"choice {number} of {len(choices)} is empty",
                hint="Check doc_to_choice, or remove such docs in process_docs.",
            )
        return tuple([choice if type(choice) is str else str(choice) for choice in choices])

    def _delimiter(self, options: RequestOptions | None) -> str:
        """A chat template ends where the answer begins, so no delimiter follows it, unless a prefix opened the answer."""
        if options is None or not options.apply_chat_template:
            return self.config.target_delimiter
        prefix = self.config.gen_prefix
        is_open = callable(prefix) or (prefix and not prefix[-1].isspace())
        return self.config.target_delimiter if is_open else ""

    @cached_property
    def wants_mutual_information(self) -> bool:
        return any(metric.name == "acc_mutual_info" for metric in self.config.metric_list or [])


class LabelLogprobsTask(Task):
    """The probability of each label as the first token of the answer, all in one request."""

    OUTPUT_TYPE: ClassVar[str] = LABEL_LOGPROBS

    def construct_requests(
        self, doc: Doc, ctx: str | list[str], *, target: Any = None, options: RequestOptions | None = None, **_: Any
    ) -> list[Instance]:
        labels = tuple(self.doc_to_choice(doc))
        return [Instance(LABEL_LOGPROBS, doc, self._with_media(doc, (ctx, labels)), 0, target=target, choices=labels)]


class RequestTask(Task):
    """One request for each doc, as its request type builds it from the doc and the prompt."""

    def construct_requests(
        self, doc: Doc, ctx: str | list[str], *, target: Any = None, options: RequestOptions | None = None, **_: Any
    ) -> list[Instance]:
        row = REQUEST_TYPES[self.config.output_type]
        assert row.build is not None
        choices = tuple(self.doc_to_choice(doc)) if self.has_choices else None
        return [Instance(row.name, doc, self._with_media(doc, row.build(doc, ctx)), 0, target=target, choices=choices)]


def build_class_task(config: TaskConfig, *, data_dir: str | Path | None, name: str | None) -> Task:
    """An object of the class that the config names (`class: !function task.Riddles`), set up like any other task."""
    cls = config.class_.load() if isinstance(config.class_, FunctionRef) else config.class_
    if not isinstance(cls, type) or not issubclass(cls, Task):
        raise ConfigError(
            f"task {config.task}: {config.class_} is {getattr(cls, '__name__', cls)!r}, expected a task class",
            hint="Derive the class from one of assay.tasks: GenerateTask, MultipleChoiceTask, …",
        )
    try:
        return cls.from_task_file(config, data_dir=data_dir, name=name)
    except AssayError:
        raise
    except Exception as error:  # code of a task file may raise anything
        raise ConfigError(f"task {config.task}: {config.class_} cannot be created: {error}") from error
