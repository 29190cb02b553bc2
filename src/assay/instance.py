"""An instance is one request to a model, a message one turn of a chat in it; a response is what came back.

They stand beside the folders because every step passes them on: tasks make instances, models answer them, the store
keeps the responses, filters and scorers read them. The attribute names of `Instance` are those that LM classes and task
utilities of lm-evaluation-harness expect.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, TypeGuard

Doc: TypeAlias = dict[str, Any]
TokenCounts: TypeAlias = tuple[int, int]
"""Tokens of the prompt, and of the answer: those that were generated, or those of the scored continuation."""


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a chat."""

    role: str
    content: str | tuple[Any, ...]
    """Text, or parts (text, images) in the form of the OpenAI protocol."""
    tool_calls: tuple[Mapping[str, Any], ...] = ()
    """Calls that an assistant's turn asks for."""
    tool_call_id: str | None = None
    """Which call a turn of the role `tool` answers."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """Other fields that a template or server knows, such as `name`."""

    def to_dict(self) -> dict[str, Any]:
        """The form that chat templates and servers take.

        >>> Message("user", "Hello").to_dict()
        {'role': 'user', 'content': 'Hello'}
        """
        content = self.content if isinstance(self.content, str) else list(self.content)
        message: dict[str, Any] = {"role": self.role, "content": content, **self.more}
        if self.tool_calls:
            message["tool_calls"] = list(self.tool_calls)
        if self.tool_call_id is not None:
            message["tool_call_id"] = self.tool_call_id
        return message

    @classmethod
    def from_dict(cls, message: Mapping[str, Any]) -> Message:
        """The inverse. A turn that only calls tools may have no content at all."""
        more = dict(message)
        content = more.pop("content", None)
        return cls(
            role=more.pop("role"),
            content=tuple(content) if isinstance(content, list | tuple) else content or "",
            tool_calls=tuple(more.pop("tool_calls", None) or ()),
            tool_call_id=more.pop("tool_call_id", None),
            more=more,
        )

    def __hash__(self) -> int:
        return hash((self.role, repr(self.content)))  # parts are dicts, which have no hash


Context: TypeAlias = str | tuple[Message, ...]
"""The first argument of a request: text, or the turns of a chat for models that take messages."""


def is_chat(context: Any) -> TypeGuard[tuple[Message, ...]]:
    return type(context) is tuple and bool(context) and type(context[0]) is Message


def context_text(context: Any) -> str:
    """A context as one text: what is logged, shown, sorted by and seeded from. For a chat, the JSON of its messages.

    >>> context_text((Message("user", "Hello"),))
    '[{"role": "user", "content": "Hello"}]'
    """
    if is_chat(context):
        return json.dumps([message.to_dict() for message in context], ensure_ascii=False, default=str)
    return str(context)


class Response(NamedTuple):
    """What came back for one request. If `failure` is set, there is no answer.

    A named tuple because a run makes eighty thousand of them.
    """

    answer: Any
    """Text, `(loglikelihood, is_greedy)`, or a loglikelihood, by request type."""
    stop_reason: str | None = None
    """`stop` (a stop string), `eos`, `length` (truncated), or None where the backend cannot know."""
    failure: str | None = None
    tokens: TokenCounts | None = None
    """Where the backend counts them."""
    reasoning: str | None = None
    """What the model thought before it answered, where the server gives it apart from the answer."""
    tool_calls: tuple[Mapping[str, Any], ...] = ()
    """Calls that the model asked for, as the server writes them."""
    model: str | None = None
    """The server's own name for what answered, which may be more exact than the name that was asked for."""
    refusal: str | None = None
    """The model's own words for declining, where the server gives them apart from the answer."""
    reasoning_tokens: int | None = None
    """Of the answer's tokens, those that went into reasoning, where the backend or server counts them."""
    more: Mapping[str, Any] = MappingProxyType({})
    """What else came with the answer and has no name above, as the server writes it: kept and shown, never scored."""

    @property
    def is_bare(self) -> bool:
        """Whether nothing came with the answer."""
        return self[1:] == _NOTHING_WITH_IT

    def extras(self) -> dict[str, Any] | None:
        """The fields that most answers lack, as files keep them; None where this answer lacks all of them."""
        if self[4:] == _NO_EXTRAS:
            return None
        named: dict[str, Any] = {"reasoning": self.reasoning, "tool_calls": list(self.tool_calls), "model": self.model}
        named |= {"refusal": self.refusal, "reasoning_tokens": self.reasoning_tokens, "more": dict(self.more)}
        return {name: value for name, value in named.items() if value}

    def with_extras(self, extras: Mapping[str, Any] | None) -> Response:
        """The inverse.

        >>> Response("4").with_extras(Response("4", reasoning="2 and 2").extras()).reasoning
        '2 and 2'
        """
        if not extras:
            return self
        return self._replace(
            reasoning=extras.get("reasoning"),
            tool_calls=tuple(extras.get("tool_calls") or ()),
            model=extras.get("model"),
            refusal=extras.get("refusal"),
            reasoning_tokens=extras.get("reasoning_tokens"),
            more=extras.get("more") or _NOTHING,
        )


_NOTHING: Mapping[str, Any] = MappingProxyType({})
_NO_EXTRAS = Response(None)[4:]
_NOTHING_WITH_IT = Response(None)[1:]


@dataclass(slots=True)
class Instance:
    """One request.

    `arguments` is `(context, continuation)` for loglikelihood, `(text,)` for rolling, `(context, generation_kwargs)`
    for generation; a context is text or, for models that take messages, a tuple of `Message`. `idx` counts the requests
    of one doc. `resps` holds one raw answer per repeat, and `responses` beside it all that came with that answer;
    `filtered_resps` maps the name of a filter ensemble to what it made of `resps`.
    """

    request_type: str
    doc: Doc
    arguments: tuple[Any, ...]
    idx: int
    doc_id: int = 0
    task_name: str = ""
    repeats: int = 1
    target: Any = None
    resps: list[Any] = field(default_factory=list)
    filtered_resps: dict[str, Any] = field(default_factory=dict)
    failure: str | None = None
    """Why the request was never answered. A failed request is not a wrong answer: it is left out and counted."""
    responses: list[Response | None] = field(default_factory=list)
    """One per entry of `resps`; shorter, or with None, where only the raw answer is known."""
    choices: tuple[str, ...] | None = None
    """The doc's choices as the task words them, without delimiter; shared by all instances of the doc. Lengths for
    normalised accuracy are those of these texts. Where the context varies and not the continuation (winogrande), the
    choices are the contexts and `target` is the index of the right one."""
    unparsed: dict[str, list[bool]] = field(default_factory=dict)
    """Filter name to one flag per filtered response: True where the filter could extract nothing."""
    role: str = "model"
    """Which model of the run is asked: `model` is the one under test."""
    questions: list[Instance] = field(default_factory=list)
    """What scoring asked other models, such as a judge, about the answers to this request."""
    draw: int = 0
    """Which draw of its doc it belongs to, where each draw is a conversation of its own and `repeats` is 1."""
    note: dict[str, Any] = field(default_factory=dict)
    """For whoever made the request: stored with it, never sent to a model."""

    @property
    def args(self) -> tuple[Any, ...]:
        return self.arguments

    @property
    def token_count(self) -> int | None:
        """Tokens of the continuation, where the backend says; lengths for accuracy normalised by tokens."""
        first = self.responses[0] if self.responses else None
        return first.tokens[1] if first is not None and first.tokens else None

    @property
    def metadata(self) -> tuple[str, int, int]:
        return (self.task_name, self.doc_id, self.repeats)


GenInstance: TypeAlias = Instance
MCInstance: TypeAlias = Instance
"""Names under which requests for texts and for choices are also known; both are plain instances."""
