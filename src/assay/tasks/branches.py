"""The first steps of a branch: those of a finished run's trajectory, taken in as if they had just been answered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from assay.agents import END, BranchPoint, TrajectoryState, Unplayed
from assay.instance import Instance, Message, Response
from assay.results import TOOK
from assay.tasks.prompt import DocRequests

Next = Callable[[DocRequests], list[Instance]]
"""What the answers so far give rise to."""


class OtherBeginning(Exception):
    """A finished run's trajectory cannot have begun like this one."""


def replayed(requests: DocRequests, asked: Instance, next_of: Next) -> list[Instance]:
    """What is requested once the steps before the branch are taken in. A trajectory that does not fit has failed, and stays."""
    state: TrajectoryState = requests.state
    assert state.point is not None
    seen, steps = state.seen, DocRequests(requests.doc_id, requests.doc, requests.target, [], state=state)
    waiting: list[Instance] = []
    try:
        waiting = _taken_in(steps, [asked], state.point, next_of)
    except OtherBeginning as error:
        failed = replace(state.point.source, ended="failed", reason=str(error))
        state.point = replace(state.point, step=None, source=failed)
    state.seen, state.beginning = seen, state.chained()
    return waiting


def _taken_in(steps: DocRequests, waiting: list[Instance], point: BranchPoint, next_of: Next) -> list[Instance]:
    state: TrajectoryState = steps.state
    said = iter(_after(state.plan.opening, point))
    spent: Mapping[str, Any] = {}
    while waiting[0].arguments[0] != END:
        if waiting[0].role == "model" and state.steps + 1 == point.step:
            break
        if waiting[0].role == "model":
            message = _next_by("assistant", said, point)
            spent = message.more.get(TOOK) or {}
            _give(waiting[0], _answer(message, spent))
        elif waiting[0].role == "tool":
            _give_results(state, waiting, point, spent.get("seconds", 0.0))
        else:
            _give(waiting[0], Response(_next_by("user", said, point).content))
        steps.instances, state.seen = waiting, 0
        waiting = next_of(steps)
    _require_same(state, point)
    return waiting


def _require_same(state: TrajectoryState, point: BranchPoint) -> None:
    """Tools that are offered as text in one of the runs, and not in the other, make other messages of the same steps."""
    theirs = [message for message in point.source.conversation if message.role == "assistant"]
    before = len(theirs) - point.source.steps  # answers in the examples
    told = [(message.content, message.tool_calls) for message in state.messages if message.role == "assistant"]
    kept = [(message.content, message.tool_calls) for message in theirs[before:]][: len(told)]
    calls = [call for call in point.source.calls if call["step"] <= state.steps]
    if told != kept or _named(state.calls) != _named(calls):
        raise OtherBeginning(f"its steps read otherwise than in {point.run}: tools are offered in another way")


def _after(opening: Sequence[Message], point: BranchPoint) -> Sequence[Message]:
    """What was said after the opening. The system text may be another one, or only one of the runs may have one."""
    mine = [message for message in opening if message.role != "system"]
    theirs = [message for message in point.source.conversation if message.role != "system"]
    if theirs[: len(mine)] != mine:
        raise OtherBeginning(f"its question, or its examples, are not those of {point.run}")
    return theirs[len(mine) :]


def _next_by(role: str, said: Iterator[Message], point: BranchPoint) -> Message:
    """The next thing that this one said; results of tools, and what the task itself says, are made again."""
    for message in said:
        if message.role == role:
            return message
    raise OtherBeginning(f"{point.run} stored fewer steps than it took")


def _answer(message: Message, spent: Mapping[str, Any]) -> Response:
    tokens = (spent["prompt_tokens"], spent["tokens"]) if "prompt_tokens" in spent else None
    return Response(message.content, tokens=tokens, tool_calls=message.tool_calls)


def _give(instance: Instance, response: Response) -> None:
    instance.resps, instance.responses = [response.answer], [response]


def _give_results(state: TrajectoryState, calls: Sequence[Instance], point: BranchPoint, seconds: float) -> None:
    """The results of a step, and how long its answer took; its calls must be those that were made then, read by the same protocol."""
    stored = [call for call in point.source.calls if call["step"] == state.steps]
    made: list[Mapping[str, Any]] = [each.arguments[0] for each in calls]
    if _named(made) != _named(stored):
        raise OtherBeginning(
            f"step {state.steps} reads otherwise than in {point.run}: tools are offered in another way"
        )
    for place, (instance, call) in enumerate(zip(calls, stored)):
        other = point.results.get((state.steps, place))
        more = {"seconds": call.get("seconds", 0.0)} | ({"error": True} if call.get("error") else {})
        timed = more if place else {**more, "model_seconds": seconds}
        _give(instance, Response(call["result"] if other is None else other, more=timed))
        is_known = Response(call["result"], more=more)
        state.unplayed.append(Unplayed(instance.arguments[0], is_known, point, is_replaced=other is not None))


def _named(calls: Iterable[Mapping[str, Any]]) -> list[tuple[Any, Any]]:
    return [(call["name"], call["arguments"]) for call in calls]
