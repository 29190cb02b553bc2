"""Conversations: what the user says next may depend on what the model answered.

A file gives the user's turns after the first (`doc_to_text`) as a list of fields:

    doc_to_text: "{{question}}"
    turns:
      - "Are you sure? You said: {{answers[-1]}}"
      - second_question

Each is a column, a template or a function, like `doc_to_text`, and sees the doc and beside it `answers` and `history`. In
a plain prompt, where `|` is `target_delimiter` and `‖` is `fewshot_delimiter`, the second request is

    shots question|answer‖turn
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from assay.config import TaskConfig
from assay.errors import ConfigError
from assay.instance import Doc, Instance, is_chat
from assay.instance import Message as ChatMessage
from assay.tasks.fields import Field, text_field
from assay.tasks.prompt import Message, Shot, chat_messages, chat_prompt, join_spaced, plain_prompt
from assay.tasks.requests import DocRequests, RequestOptions
from assay.tasks.types import GenerateTask


@dataclass(frozen=True)
class ConversationState:
    """How a doc's first request was made, and what the user said before each answer."""

    options: RequestOptions
    shots: Sequence[Shot]
    sent: list[list[Message]]


class ConversationTask(GenerateTask):
    """Asks a doc in several turns and scores the last answer. Subclasses can define `next_turn`."""

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
        if repeats > 1:
            raise ConfigError(
                f"task {self.task_name}: a conversation cannot be drawn {repeats} times in one run",
                hint="Leave repeats at 1, and run it again with another seed for more draws.",
            )

    def _requests_of(self, doc_id: int, doc: Doc, shots: Sequence[Shot], options: RequestOptions) -> DocRequests:
        requests = super()._requests_of(doc_id, doc, shots, options)
        question = self._question(doc)
        requests.state = ConversationState(options, shots, [[{"role": "user", "content": question}]])
        for instance in requests.instances:
            instance.note["said"] = question
        return requests

    def next_requests(self, requests: DocRequests) -> list[Instance]:
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
