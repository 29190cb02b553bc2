"""Who answers calls of tools: the store first, then the tools of the trajectory, which are brought to where it is.

A result is stored under the trajectory so far. When a killed run goes on, calls whose results are stored are not made until
something new is requested of the tools: then they are made again, in order, in a fresh sandbox, and must give the same.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from assay.agents import BrokenTool, Session, TrajectoryState, Unplayed
from assay.instance import Instance, Response
from assay.run.doc_work import DocWork
from assay.secret_texts import mask
from assay.store import AnswerOrigin, ResponseStore


class Diverged(Exception):
    """A call that was made again gave another result: the trajectory has to begin anew."""


class ToolAnswerer:
    """Answers rounds of tool calls. Each trajectory's round comes on a thread of its own."""

    def __init__(self, store: ResponseStore, model: str, *, run: str = "", replay_outside: bool = False) -> None:
        self.store, self.model, self.replay_outside = store, model, replay_outside
        self._origin: AnswerOrigin | None = None
        self._run = run
        self.made = self.reused = self.repeated = 0
        """Calls that were made, whose results were stored, and that were made again."""

    @property
    def origin(self) -> AnswerOrigin:
        if self._origin is None:
            self._origin = self.store.begin(run=self._run, model="tools", fingerprint="tools")
        return self._origin

    def answer(self, work: DocWork) -> None:
        """Every call of the round, in order. Nothing is raised: a tool that breaks has failed its trajectory."""
        state: TrajectoryState = work.requests.state
        for place, instance in enumerate(work.round):
            try:
                response = self._answer(state, instance, place)
            except Diverged:
                state.diverged = True
                self._put(self._attempt_key(state), Response(str(state.attempt + 1)))
            except BrokenTool as error:
                instance.failure = str(mask(str(error)))
            else:
                instance.resps, instance.responses = [response.answer], [response]
                continue
            for left in work.round[place:]:
                left.resps, left.responses = [""], [Response("")]
            return

    def summary(self) -> str:
        if not self.made and not self.reused:
            return ""
        again = f" ({self.repeated:,} made again)" if self.repeated else ""
        return f"tools: {self.made:,} calls made, {self.reused:,} from the store{again}"

    def _answer(self, state: TrajectoryState, instance: Instance, place: int) -> Response:
        call: Mapping[str, Any] = instance.arguments[0]
        is_end = bool(call.get("end"))
        if state.stays:
            return _left_behind(state)
        if not state.attempt_known:
            self._find_attempt(state)
        key = state.key(self.model, "end" if is_end else place)
        if (stored := self._get(key)) is not None:
            if not is_end:
                state.unplayed.append(Unplayed(call, stored))
                self.reused += 1
            state.unrecorded = 0.0
            return stored
        response = self._end(state) if is_end else self._call(state, call, place)
        waited, state.unrecorded = state.unrecorded, 0.0
        response = response._replace(more={**response.more, "model_seconds": round(waited, 4)})
        self._put(key, response)
        return response

    def _call(self, state: TrajectoryState, call: Mapping[str, Any], place: int) -> Response:
        if call.get("refused"):
            return Response(str(call["refused"]), more={"seconds": 0.0, "error": True})
        if any(tool.acts_outside for tool in state.plan.config.tools):
            self._note_beginning(state, call, place)
        session = self._caught_up(state)
        self.made += 1
        return self._made(session, call)

    def _note_beginning(self, state: TrajectoryState, call: Mapping[str, Any], place: int) -> None:
        """If the run ends while the call is made, nobody will know how far it got."""
        begun = state.key(self.model, f"{place} begun")
        if not self.replay_outside and self._get(begun) is not None:
            raise BrokenTool(f"the run ended while the tool {call['name']} was called, which {_OUTSIDE}")
        self._put(begun, Response("begun"))
        self.store.flush()

    def _made(self, session: Session, call: Mapping[str, Any]) -> Response:
        started = time.perf_counter()
        result = session.call(call["name"], call["arguments"])
        more = {"seconds": round(time.perf_counter() - started, 4)} | ({"error": True} if result.is_error else {})
        return Response(result.text, more=more)

    def _end(self, state: TrajectoryState) -> Response:
        return Response("", more={"end_state": self._caught_up(state).end_state().to_dict()})

    def _caught_up(self, state: TrajectoryState) -> Session:
        """The tools as the trajectory left them."""
        session = state.open()
        while state.unplayed:
            call, stored, branch, is_replaced = state.unplayed.pop(0)
            if call.get("refused"):
                continue
            tool = session.tools.get(call["name"])
            if tool is not None and tool.acts_outside and not self.replay_outside:
                when = "the run was interrupted" if branch is None else "it branches"
                raise BrokenTool(f"{when} after the tool {call['name']} was called, which {_OUTSIDE}")
            self.repeated += 1
            again = mask(self._made(session, call))
            if is_replaced or (again.answer, again.more.get("error")) == (stored.answer, stored.more.get("error")):
                continue
            if branch is not None:  # beginning anew would not help: its beginning is another run's
                raise BrokenTool(f"the tool {call['name']} gives another result than in {branch.run}: it cannot branch")
            raise Diverged
        return session

    def _find_attempt(self, state: TrajectoryState) -> None:
        """A trajectory that was begun anew goes on with its latest beginning."""
        state.attempt_known = True
        found = self._get(self._attempt_key(state))
        if found is not None and str(found.answer).isdigit():
            state.attempt = max(state.attempt, int(found.answer))

    def _attempt_key(self, state: TrajectoryState) -> bytes:
        return state.beginning_key(self.model)

    def _get(self, key: bytes) -> Response | None:
        return self.store.get_many([key], self.origin).get(key)

    def _put(self, key: bytes, response: Response) -> None:
        self.store.put(key, response, self.origin)


def _left_behind(state: TrajectoryState) -> Response:
    """Of a trajectory that stays as a finished run has it, no tool is needed."""
    assert state.point is not None
    if state.point.source.has_failed:
        raise BrokenTool(state.point.source.reason)
    return Response("", more={"end_state": state.point.source.end_state.to_dict()})


_OUTSIDE = "has effects outside its trajectory; --replay_outside calls it again"
