"""A trajectory under way: what was said and called so far, what it took, and when it is over."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from assay.agents.session import Session
from assay.agents.workspace import Workspace
from assay.config import AgentConfig
from assay.instance import Message, Response
from assay.results import TOOK, EndState, Trajectory

LOOP = 3
"""After so many equal calls in a row with equal results a trajectory is ended: the model goes round in circles."""
END: Mapping[str, Any] = {"name": "", "end": True}
"""The last thing that is requested of the tools: what they leave behind."""


@dataclass(frozen=True)
class UserTurn:
    """What a scripted user says, and the names of tools that are offered only from then on."""

    say: str
    tools: tuple[str, ...] = ()


@dataclass(frozen=True)
class AgentPlan:
    """How all trajectories of a doc begin."""

    config: AgentConfig
    doc: Mapping[str, Any]
    opening: tuple[Message, ...]
    """The messages before the first answer."""
    settings: Mapping[str, Any]
    """Of every request."""
    offers: Sequence[Mapping[str, Any]]
    workspace: Workspace
    identity: bytes
    """The doc, its request and the code of its tools."""
    turns: Sequence[UserTurn] = ()
    """What a scripted user says after the question."""
    prices: tuple[float, float] | None = None
    options: Any = None
    """How the run words its requests."""


@dataclass(frozen=True)
class BranchPoint:
    """A trajectory of a finished run, and where this run leaves it."""

    run: str
    source: Trajectory
    draw: int
    """The number of the draw in this run: no other trajectory of the doc has it, and none of the finished run had."""
    step: int | None = None
    """The first step that is made anew. None: nothing is, the trajectory stays as it was."""
    results: Mapping[tuple[int, int], str] = field(default_factory=dict)
    """Results that replace those of tools, by step and place of the call in it."""
    of_each: bool = False
    """Whether the trajectory is left at each of its steps, this one among them."""

    def to_dict(self) -> dict[str, int]:
        found = {"step": self.step or 0, "draw": self.source.draw}
        return found | ({"each": True} if self.of_each else {})


class Unplayed(NamedTuple):
    """A call whose result is known, and which the tools of this trajectory have not seen."""

    call: Mapping[str, Any]
    result: Response
    of: BranchPoint | None = None
    """Set where a branch repeats a call of a finished run: the tool must give the same result again."""
    is_replaced: bool = False
    """Whether the result was replaced by the user (`--replace`)."""


@dataclass
class TrajectoryState:
    """Grows step by step. Everything that decides what comes next is in it, so that a killed run can go the same way again."""

    plan: AgentPlan
    draw: int
    attempt: int = 0
    point: BranchPoint | None = None
    """Where it leaves a trajectory of a finished run, if it does."""
    messages: list[Message] = field(default_factory=list)
    """All that was said after the opening."""
    calls: list[dict[str, Any]] = field(default_factory=list)
    pending: list[dict[str, Any]] = field(default_factory=list)
    """Calls of the present step, in order."""
    steps: int = 0
    turn: int = 0
    """How many turns a scripted user has said."""
    turn_steps: int = 0
    """Steps since the user last said something."""
    took: list[dict[str, float]] = field(default_factory=list)
    """Tokens and seconds of each step's answer, as far as they are known."""
    prompt_tokens: int = 0
    answer_tokens: int = 0
    model_seconds: float = 0.0
    tool_seconds: float = 0.0
    unrecorded: float = 0.0
    """Seconds that the model took since tool results were last stored."""
    ended: str = ""
    reason: str = ""
    answer: str = ""
    end_state: EndState = field(default_factory=EndState)
    marks: set[str] = field(default_factory=set)
    repeated: int = 0
    last_step: str = ""
    session: Session | None = None
    unplayed: list[Unplayed] = field(default_factory=list)
    diverged: bool = False
    chain: bytes = b""
    """A hash of all messages so far, or of as many as `hashed` says."""
    hashed: int = 0
    seen: int = 0
    """Instances of the trajectory that were looked at."""
    beginning: bytes = b""
    """Of a branch: a hash of the messages that are the finished run's."""
    attempt_known: bool = False
    """Whether it was looked up how often the trajectory was begun anew."""

    @property
    def offers(self) -> list[Mapping[str, Any]]:
        """The tools that are offered now: without those that come with a later turn of the user."""
        later = {name for turn in self.plan.turns[self.turn :] for name in turn.tools}
        return [offer for offer in self.plan.offers if offer["function"]["name"] not in later]

    @property
    def conversation(self) -> tuple[Message, ...]:
        return (*self.plan.opening, *self.messages)

    def open(self) -> Session:
        if self.session is None:
            self.session = Session(self.plan.config, self.plan.doc, self.plan.workspace)
        return self.session

    def close(self) -> None:
        session, self.session = self.session, None
        if session is not None:
            session.close()

    def begun_anew(self) -> TrajectoryState:
        """The same trajectory from its beginning."""
        self.close()
        return TrajectoryState(self.plan, self.draw, self.attempt + 1, self.point, seen=self.seen)

    def chained(self) -> bytes:
        for message in self.messages[self.hashed :]:
            said = json.dumps(message.to_dict(), sort_keys=True, ensure_ascii=False)
            self.chain = hashlib.sha256(self.chain + said.encode("utf-8", "surrogatepass")).digest()
        self.hashed = len(self.messages)
        return self.chain

    def key(self, model: str, place: int | str) -> bytes:
        """Where the result of a call is stored: under the trajectory so far, and the place of the call in its step."""
        whole = json.dumps([model, self.draw, self.attempt, place, *self._branch])
        return hashlib.sha256(b"tool\0" + self.plan.identity + self.chained() + whole.encode()).digest()

    def beginning_key(self, model: str) -> bytes:
        """Where it is stored how often the trajectory was begun anew."""
        whole = "\0".join(map(str, (model, self.draw, *self._branch)))
        return hashlib.sha256(b"begun\0" + self.plan.identity + self.beginning + whole.encode()).digest()

    @property
    def _branch(self) -> list[Any]:
        """What keeps the results of a branch apart from those of the run that it leaves, and of other branches of it."""
        return [] if self.point is None else ["branch", self.point.step]

    # -- what is taken in ----------------------------------------------------------------------------------------------

    def take_answer(self, response: Response, seconds: float) -> None:
        self.steps += 1
        self.turn_steps += 1
        self.unrecorded += seconds
        prompt, answered = response.tokens or (0, max(1, len(str(response.answer)) // 4))
        self.prompt_tokens += prompt
        self.answer_tokens += answered
        self.took.append({} if response.tokens is None else {"tokens": answered, "prompt_tokens": prompt})

    def take_result(self, call: Mapping[str, Any], response: Response) -> None:
        more = response.more
        self.tool_seconds += more.get("seconds", 0.0)
        self.take_seconds(response)
        entry = {"step": self.steps, "name": call["name"], "arguments": call["arguments"], "result": response.answer}
        entry |= {"seconds": more.get("seconds", 0.0)} | ({"error": True} if more.get("error") else {})
        self.calls.append(entry)

    def take_user(self, said: str) -> None:
        self.messages.append(Message("user", said))
        self.turn_steps = 0

    def take_seconds(self, response: Response) -> None:
        """How long the model took for its answer is stored with the result of the first call that it led to."""
        if seconds := response.more.get("model_seconds"):
            self.model_seconds += seconds
            self.took[-1]["seconds"] = seconds

    def end(self, how: str, reason: str = "") -> None:
        if not self.ended:
            self.ended, self.reason = how, reason

    # -- when it is over -----------------------------------------------------------------------------------------------

    @property
    def cost(self) -> float | None:
        prices = self.plan.prices
        return None if prices is None else (self.prompt_tokens * prices[0] + self.answer_tokens * prices[1]) / 1e6

    def check_limits(self) -> None:
        """Called when the results of a step are stored, so that a resumed run ends at the same place."""
        limits, spent = self.plan.config.limits, self.cost
        if self.steps >= limits.steps:
            self.end("limited", "steps")
        if limits.turn_steps is not None and self.turn_steps >= limits.turn_steps:
            self.end("limited", "turn_steps")
        if limits.tokens is not None and self.prompt_tokens + self.answer_tokens >= limits.tokens:
            self.end("limited", "tokens")
        if limits.seconds is not None and self.model_seconds + self.tool_seconds >= limits.seconds:
            self.end("limited", "seconds")
        if limits.cost is not None and spent is not None and spent >= limits.cost:
            self.end("limited", "cost")

    def check_loop(self, calls: Sequence[Mapping[str, Any]], results: Sequence[str]) -> None:
        step = json.dumps([[call["name"], call["arguments"]] for call in calls] + list(results), sort_keys=True)
        self.repeated = self.repeated + 1 if step == self.last_step else 1
        self.last_step = step
        if self.repeated >= LOOP:
            self.end("looping", f"the same call with the same result {LOOP} times")

    @property
    def stays(self) -> bool:
        """Whether it is a finished run's trajectory as it was."""
        return self.point is not None and self.point.step is None

    def finished(self, failure: str | None = None) -> Trajectory:
        if self.point is not None and self.stays:
            return self.point.source if failure is None else replace(self.point.source, ended="failed", reason=failure)
        marks = self.marks | ({self.ended} if self.ended in ("limited", "looping") else set())
        return Trajectory(
            answer=self.answer,
            ended="failed" if failure is not None else self.ended or "failed",
            reason=failure or self.reason,
            conversation=(*self.plan.opening, *self._told()),
            calls=tuple(self.calls),
            steps=self.steps,
            tokens=(self.prompt_tokens, self.answer_tokens),
            seconds=(self.model_seconds, self.tool_seconds),
            cost=self.cost,
            end_state=self.end_state,
            draw=self.draw,
            begun_anew=self.attempt,
            branch={} if self.point is None else self.point.to_dict(),
            marks=tuple(sorted(marks | ({"begun_anew"} if self.attempt else set()))),
        )

    def _told(self) -> Iterator[Message]:
        """What was said after the opening, each answer with what it took."""
        took = iter(self.took)
        for message in self.messages:
            spent = next(took, {}) if message.role == "assistant" else {}
            yield replace(message, more={**message.more, TOOK: spent}) if spent else message
