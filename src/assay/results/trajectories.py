"""One trajectory of an agent, as metrics see it and as samples have it: what was said and called, what it left behind, what it took."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from assay.instance import Instance, Message, Response

TRAJECTORY = "trajectory"
"""Where a response has it, among what came along."""
TOOK = "took"
"""In a message: its tokens and seconds, as far as they are known."""
FILE_BYTES, ALL_BYTES = 256 << 10, 4 << 20
"""What is stored of one file of an end state, and of all of them together; of the rest the hash."""


@dataclass(frozen=True)
class EndState:
    """What a trajectory left behind, as plain data that nobody can change any more: files of its sandbox, states of its tools."""

    files: Mapping[str, bytes] = field(default_factory=dict)
    omitted: Mapping[str, str] = field(default_factory=dict)
    """Files that are too large to be stored: path → SHA-256."""
    tools: Mapping[str, Any] = field(default_factory=dict)
    """What tools with a state of their own say of it, by the name of their class."""

    def text(self, path: str) -> str | None:
        """The text of a file; None where there is none, or no text."""
        try:
            return self.files[path].decode() if path in self.files else None
        except UnicodeDecodeError:
            return None

    @classmethod
    def of(
        cls, files: Mapping[str, bytes], tools: Mapping[str, Any], omitted: Mapping[str, str] | None = None
    ) -> EndState:
        kept: dict[str, bytes] = {}
        omitted = dict(omitted or {})
        room = ALL_BYTES
        for path, content in sorted(files.items()):
            if len(content) <= min(FILE_BYTES, room):
                kept[path] = content
                room -= len(content)
            else:
                omitted[path] = hashlib.sha256(content).hexdigest()
        return cls(kept, omitted, dict(tools))

    def to_dict(self) -> dict[str, Any]:
        """Text as text; other bytes as base64."""
        files = {path: _plain(content) for path, content in self.files.items()}
        parts = {"files": files, "omitted": dict(self.omitted), "tools": dict(self.tools)}
        return {name: part for name, part in parts.items() if part}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> EndState:
        """The inverse.

        >>> EndState.from_dict(EndState.of({"a": b"text", "b": bytes([255])}, {}).to_dict()).files
        {'a': b'text', 'b': b'\\xff'}
        """
        files = {
            path: each.encode() if isinstance(each, str) else base64.b64decode(each["base64"])
            for path, each in (data.get("files") or {}).items()
        }
        return cls(files, data.get("omitted") or {}, data.get("tools") or {})


def _plain(content: bytes) -> str | dict[str, str]:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}


@dataclass(frozen=True)
class Trajectory:
    """All steps of one draw of a doc."""

    answer: str = ""
    ended: str = "submitted"
    """`submitted`, `answered`, `stopped` (by the user), `limited` or `looping`; with a `failure`, `failed`."""
    reason: str = ""
    """Which limit, or what failed."""
    conversation: tuple[Message, ...] = ()
    calls: tuple[Mapping[str, Any], ...] = ()
    """Each with step, name, arguments, result and seconds; `error` where the call was refused or the tool declined."""
    steps: int = 0
    tokens: tuple[int, int] = (0, 0)
    """Of all prompts, and of all answers."""
    seconds: tuple[float, float] = (0.0, 0.0)
    """Of answers, and of tools, as they were measured when they were first had."""
    cost: float | None = None
    end_state: EndState = EndState()
    draw: int = 0
    begun_anew: int = 0
    """How often it was begun again because a tool gave another result when it was called again."""
    branch: Mapping[str, int] = field(default_factory=dict)
    """Of a branch: the first `step` that was made anew, the `draw` of the run that it leaves there, and, where a run branches at
    `each` step, that it does."""
    marks: tuple[str, ...] = ()
    """What health counts of it."""
    doc: Mapping[str, Any] = field(default_factory=dict)
    target: Any = None

    @property
    def has_failed(self) -> bool:
        return self.ended == "failed"

    def to_response(self) -> Response:
        more = {TRAJECTORY: self.to_dict()}
        stop = "length" if self.ended == "limited" and self.reason == "answer" else "stop"
        return Response(self.answer, stop, tokens=self.tokens if any(self.tokens) else None, more=more)

    def to_dict(self) -> dict[str, Any]:
        parts = {
            "ended": self.ended,
            "reason": self.reason,
            "conversation": [message.to_dict() for message in self.conversation],
            "calls": [dict(call) for call in self.calls],
            "steps": self.steps,
            "tokens": list(self.tokens),
            "seconds": [round(each, 3) for each in self.seconds],
            "cost": self.cost,
            "end_state": self.end_state.to_dict(),
            "draw": self.draw,
            "begun_anew": self.begun_anew,
            "branch": dict(self.branch),
            "marks": list(self.marks),
        }
        return {name: part for name, part in parts.items() if part not in ("", None, 0, [], {})}

    @classmethod
    def from_response(cls, response: Response, doc: Mapping[str, Any], target: Any) -> Trajectory:
        data: Mapping[str, Any] = response.more.get(TRAJECTORY) or {}
        return cls(
            answer=response.answer if isinstance(response.answer, str) else "",
            doc=doc,
            target=target,
            **_fields(data),
        )

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Trajectory:
        return cls(**_fields(data))


def _fields(data: Mapping[str, Any]) -> dict[str, Any]:
    prompt, answers = data.get("tokens") or (0, 0)
    said, called = data.get("seconds") or (0.0, 0.0)
    return {
        "ended": data.get("ended", "submitted"),
        "reason": data.get("reason", ""),
        "conversation": tuple(Message.from_dict(each) for each in data.get("conversation") or ()),
        "calls": tuple(data.get("calls") or ()),
        "steps": data.get("steps", 0),
        "tokens": (prompt, answers),
        "seconds": (said, called),
        "cost": data.get("cost"),
        "end_state": EndState.from_dict(data.get("end_state") or {}),
        "draw": data.get("draw", 0),
        "begun_anew": data.get("begun_anew", 0),
        "branch": data.get("branch") or {},
        "marks": tuple(data.get("marks") or ()),
    }


def fold_trajectories(instance: Instance, trajectories: Sequence[Trajectory]) -> None:
    """Answer a doc's request by its trajectories. One that failed is no draw: it is stored beside the others; with none left
    the doc has failed."""
    sound = [each for each in trajectories if not each.has_failed]
    failed = [each for each in trajectories if each.has_failed]
    if not sound:
        instance.failure = failed[0].reason
        instance.responses = [each.to_response()._replace(answer=None) for each in failed]
        instance.resps = [None] * len(failed)
        return
    responses = [each.to_response() for each in sound]
    if failed:
        more = {**responses[0].more, "failed_draws": [each.to_dict() for each in failed]}
        responses[0] = responses[0]._replace(more=more)
    instance.resps = [response.answer for response in responses]
    instance.responses = [*responses]


def trajectories_of(instance: Instance) -> list[Trajectory]:
    """The draws of a doc that count."""
    return [
        Trajectory.from_response(each, instance.doc, instance.target) for each in instance.responses if each is not None
    ]


def trajectories_stored(responses: Sequence[Response]) -> list[Trajectory]:
    """All draws of a doc as its responses have them, in their order; those that failed too."""
    found = [Trajectory.from_response(each, {}, None) for each in responses if TRAJECTORY in each.more]
    failed = [each for response in responses for each in response.more.get("failed_draws") or ()]
    return sorted([*found, *map(Trajectory.from_dict, failed)], key=lambda each: each.draw)


def branching_steps(instance: Instance) -> list[int]:
    """Of each draw that counts the step where it branches, if the doc's trajectories branch at each of their steps."""
    branches = [each.branch for each in trajectories_of(instance)]
    return [each["step"] for each in branches] if branches and all(each.get("each") for each in branches) else []


def from_step(metric: str, step: int) -> str:
    """The name of a metric of those trajectories alone that branch at a step."""
    return f"{metric}(from step {step})"


def metric_and_step(name: str) -> tuple[str, int | None]:
    """The inverse; names of other metrics have no step.

    >>> metric_and_step(from_step("acc", 3)), metric_and_step("pass@3(acc)")
    (('acc', 3), ('pass@3(acc)', None))
    """
    found = re.fullmatch(r"(.*)\(from step (\d+)\)", name, re.DOTALL)
    return (name, None) if found is None else (found[1], int(found[2]))


def is_folded(instance: Instance) -> bool:
    """Whether its answers are whole trajectories."""
    return any(each is not None and TRAJECTORY in each.more for each in instance.responses)


def trajectory_in(extras: Mapping[str, Any]) -> Mapping[str, Any]:
    """What an agent did on the way to an answer, where a run of ours stored it with the answer."""
    more = extras.get("more")
    found = more.get(TRAJECTORY) if isinstance(more, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def messages_in(extras: Mapping[str, Any]) -> tuple[Message, ...]:
    """All that was said on the way to an answer: of our own trajectory, or as another harness's log has it."""
    told = extras.get("conversation") or trajectory_in(extras).get("conversation") or ()
    turns = told if isinstance(told, list | tuple) else ()
    return tuple(Message.from_dict(turn) for turn in turns if isinstance(turn, Mapping) and "role" in turn)
