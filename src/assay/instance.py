"""An instance is one request to a model, and later its answer.

It stands beside the folders because every step passes it on: tasks make it, models answer it, filters and scorers read
it. Attribute names are those that LM classes and task utilities of lm-evaluation-harness expect.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

RequestType: TypeAlias = Literal["loglikelihood", "loglikelihood_rolling", "generate_until"]
OutputType: TypeAlias = Literal["loglikelihood", "loglikelihood_rolling", "generate_until", "multiple_choice"]
Doc: TypeAlias = dict[str, Any]
Response: TypeAlias = Any
"""Text, `(loglikelihood, is_greedy)`, or a loglikelihood, by request type."""
TokenCounts: TypeAlias = tuple[int, int]
"""Tokens of the prompt, and of the response: those that were generated, or those of the scored continuation."""


@dataclass(slots=True)
class Instance:
    """One request.

    `arguments` is `(context, continuation)` for loglikelihood, `(text,)` for rolling, `(context, generation_kwargs)`
    for generation. `idx` counts the requests of one doc. `resps` holds one response per repeat; `filtered_resps` maps
    the name of a filter ensemble to what it made of them.
    """

    request_type: RequestType
    doc: Doc
    arguments: tuple[Any, ...]
    idx: int
    doc_id: int = 0
    task_name: str = ""
    repeats: int = 1
    target: Any = None
    resps: list[Response] = field(default_factory=list)
    filtered_resps: dict[str, Any] = field(default_factory=dict)
    failure: str | None = None
    """Why the request was never answered. A failed request is not a wrong answer: it is left out and counted."""
    stop_reasons: list[str] = field(default_factory=list)
    """One per response where the backend knows: `stop`, `eos` or `length` (truncated)."""
    choices: tuple[str, ...] | None = None
    """The doc's choices as the task words them, without delimiter; shared by all instances of the doc. Lengths for
    normalised accuracy are those of these texts. Where the context varies and not the continuation (winogrande), the
    choices are the contexts and `target` is the index of the right one."""
    tokens: list[TokenCounts | None] = field(default_factory=list)
    """One per response where the backend counts."""
    unparsed: dict[str, list[bool]] = field(default_factory=dict)
    """Filter name to one flag per filtered response: True where the filter could extract nothing."""

    @property
    def args(self) -> tuple[Any, ...]:
        return self.arguments

    @property
    def token_count(self) -> int | None:
        """Tokens of the continuation, where the backend says; lengths for accuracy normalised by tokens."""
        return self.tokens[0][1] if self.tokens and self.tokens[0] else None

    @property
    def metadata(self) -> tuple[str, int, int]:
        return (self.task_name, self.doc_id, self.repeats)
