"""The task types: what each one requests about a doc, in one turn or several; and those that a file brings along."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from assay.config import FunctionRef, TaskConfig
from assay.errors import AssayError, ConfigError, DataError
from assay.instance import Doc, Instance, is_chat
from assay.instance import Message as ChatMessage
from assay.request_types import LABEL_LOGPROBS, REQUEST_TYPES
from assay.results import Trajectory, fold_trajectories, is_folded
from assay.scoring import gold_indices
from assay.tasks.base import Task
from assay.tasks.fields import Field, text_field
from assay.tasks.prompt import (
    DocRequests,
    Message,
    RequestOptions,
    Shot,
    chat_messages,
    chat_prompt,
    join_spaced,
    plain_prompt,
)


class GenerateTask(Task):
    """The model continues the prompt."""

    OUTPUT_TYPE: ClassVar[str] = "generate_until"

    def construct_requests(
        self, doc: Doc, ctx: str | list[str], *, target: Any = None, options: RequestOptions | None = None, **_: Any
    ) -> list[Instance]:
        settings = generation_settings(self.config, options)
        # Backends take settings apart; none may change those of another request.
        own = {key: list(value) if isinstance(value, list) else value for key, value in settings.items()}
        if self.config.tools:
            own["tools"] = [_tool(tool) for tool in self.config.tools]
            if isinstance(target, list | dict):
                target = json.dumps(target, ensure_ascii=False)  # calls, not several right answers
        choices = tuple(self.doc_to_choice(doc)) if self.has_choices else None
        return [Instance("generate_until", doc, self._with_media(doc, (ctx, own)), 0, target=target, choices=choices)]


def generation_settings(config: TaskConfig, options: RequestOptions | None) -> dict[str, Any]:
    """What the task says, then the run. In a chat without the stop strings of the task's form: a model that explains itself
    before it answers writes blank lines too."""
    settings = dict(config.generation_kwargs or {})
    if config.form_stops and options is not None and options.apply_chat_template:
        settings["until"] = []
    return {**settings, **(options.gen_kwargs if options else {})}


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


@dataclass(frozen=True)
class ConversationState:
    """How a doc's first request was made, and what the user said before each answer."""

    options: RequestOptions
    shots: Sequence[Shot]
    sent: list[list[Message]]


class ConversationTask(GenerateTask):
    """Asks a doc in several turns and scores the last answer. Subclasses can define `next_turn`.

    What the user says next may depend on what the model answered. A file gives the user's turns after the first
    (`doc_to_text`) as a list of fields:

        doc_to_text: "{{question}}"
        turns:
          - "Are you sure? You said: {{answers[-1]}}"
          - second_question

    Each is a column, a template or a function, like `doc_to_text`, and sees the doc and beside it `answers` and `history`.
    In a plain prompt, where `|` is `target_delimiter` and `‖` is `fewshot_delimiter`, the second request is

        shots question|answer‖turn
    """

    converses: ClassVar[bool] = True

    def __init__(self, config: TaskConfig, *, data_dir: str | Path | None = None, name: str | None = None) -> None:
        if config.output_type != "generate_until":
            raise ConfigError(
                f"task {config.task}: turns need generated answers, but output_type is {config.output_type}",
                hint="Use output_type: generate_until, or remove turns.",
            )
        super().__init__(config, data_dir=data_dir, name=name)

    def next_turn(self, doc: Doc, history: list[Message]) -> list[Message] | None:
        """What is said after the last answer; None ends the conversation.

        `history` begins with the first question about the doc: system text and shots are no part of it. From a file, a
        turn that is empty ends the conversation too.
        """
        answers = [message["content"] for message in history if message["role"] == "assistant"]
        if len(answers) > len(self._turns):
            return None
        text = self._turns[len(answers) - 1]({**doc, "answers": answers, "history": history})
        if text is None or not str(text).strip():
            return None
        return [{"role": "user", "content": str(text)}]

    @cached_property
    def _turns(self) -> list[Field]:
        columns = [*self.features, "answers", "history"]
        return [text_field(turn, columns, has_choices=False) for turn in self.config.turns or []]

    def check_options(self, options: RequestOptions) -> None:
        repeats = options.repeats or self.config.repeats
        if repeats > 1 and self.scorer.wants_every_turn:
            raise ConfigError(
                f"task {self.task_name}: its scorer looks at every turn, but of {repeats} draws only last answers are scored",
                hint="Leave repeats at 1, or score the last answer.",
            )

    def _requests_of(self, doc_id: int, doc: Doc, shots: Sequence[Shot], options: RequestOptions) -> DocRequests:
        requests = super()._requests_of(doc_id, doc, shots, options)
        question = self._question(doc)
        requests.state = ConversationState(options, shots, [[{"role": "user", "content": question}]])
        for instance in requests.instances:
            instance.note["said"] = question
        return requests

    def trajectories(self, requests: DocRequests) -> list[DocRequests]:
        if requests.instances[0].repeats == 1:
            return [requests]
        begun: ConversationState = requests.state
        draws = []
        for draw in range(requests.instances[0].repeats):
            instances = [replace(each, repeats=1, draw=draw, note=dict(each.note)) for each in requests.instances]
            one = DocRequests(requests.doc_id, requests.doc, requests.target, instances)
            one.state = ConversationState(begun.options, begun.shots, [*begun.sent])
            draws.append(one)
        return draws

    def fold(self, requests: DocRequests, trajectories: Sequence[DocRequests]) -> None:
        fold_trajectories(
            requests.instances[0], [self._trajectory(each, draw) for draw, each in enumerate(trajectories)]
        )

    def _trajectory(self, requests: DocRequests, draw: int) -> Trajectory:
        instances = requests.instances
        failure = next((each.failure for each in instances if each.failure), None)
        if failure is not None or not instances[-1].resps:
            return Trajectory(ended="failed", reason=failure or "it was not finished", draw=draw)
        counted = [each.responses[0].tokens for each in instances if each.responses and each.responses[0]]
        tokens = [each for each in counted if each is not None]
        return Trajectory(
            answer=instances[-1].resps[0],
            ended="answered",
            conversation=tuple(ChatMessage.from_dict(message) for message in self._history(requests)),
            steps=len(instances),
            tokens=(sum(prompt for prompt, _ in tokens), sum(answer for _, answer in tokens)),
            draw=draw,
        )

    def next_requests(self, requests: DocRequests) -> list[Instance]:
        if is_folded(requests.instances[0]):  # as an earlier run stored it
            return []
        state: ConversationState = requests.state
        last = requests.instances[-1]
        if last.failure is not None:
            return []
        try:
            history = self._history(requests)
            turn = self.next_turn(requests.doc, history)
            if turn is None:
                return []
            del state.sent[len(requests.instances) :]
            state.sent.append(turn)
            context = self._next_context(requests, history, turn)
            made = self.construct_requests(requests.doc, context, target=requests.target, options=state.options)
        except Exception as error:  # code of a task file may raise anything
            raise self._with_doc(error, requests.doc_id, requests.doc) from error
        for idx, instance in enumerate(made, len(requests.instances)):
            instance.idx, instance.doc_id, instance.task_name = idx, requests.doc_id, self.task_name
            instance.draw = last.draw
            instance.note["said"] = "\n\n".join(message["content"] for message in turn)
        return made

    def _history(self, requests: DocRequests) -> list[Message]:
        prefix = self._prefix(requests.doc) or ""
        history: list[Message] = []
        for sent, instance in zip(requests.state.sent, requests.instances):
            history += [*sent, {"role": "assistant", "content": prefix + instance.resps[0]}]
        return history

    def _next_context(self, requests: DocRequests, history: list[Message], turn: list[Message]) -> Any:
        """The prompt of the next request. A `gen_prefix` opens every answer."""
        doc, state, config = requests.doc, requests.state, self.config
        options, prefix = state.options, self._prefix(doc)
        if options.apply_chat_template and options.chat_template:
            first, *later = history
            opening = chat_messages(
                self._system(doc, options), state.shots, first["content"], multiturn=options.fewshot_as_multiturn
            )
            return chat_prompt(options.chat_template, [*opening, *later, *turn], prefix)
        last = requests.instances[-1]
        context, answer = last.arguments[0], last.resps[0]
        if is_chat(context):  # stored messages that are scored again, without the model whose template made them
            said_before = [*context, ChatMessage("assistant", (prefix or "") + answer)]
            return (*said_before, *(ChatMessage.from_dict(message) for message in turn))
        # The answer was written right after the prompt, so a space that it begins with stands for the delimiter.
        said = context + answer if prefix else join_spaced(context, answer, config.target_delimiter)
        question = config.fewshot_delimiter.join(message["content"] for message in turn)
        return plain_prompt(said + config.fewshot_delimiter, question, prefix, config.target_delimiter)

    def scored_instances(self, instances: Sequence[Instance]) -> Sequence[Instance]:
        """The last answer's alone, unless the scorer looks at the whole conversation."""
        return instances if self.scorer.wants_every_turn else instances[-1:]
