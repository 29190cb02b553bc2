"""Agents without any ability: what a task's score is for one that does nothing, submits at once, or edits what may judge it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from assay.agents import BrokenTool, TrajectoryState
from assay.instance import Instance, Response
from assay.tasks.prompt import DocRequests

if TYPE_CHECKING:
    from assay.tasks.agent import AgentTask


@dataclass(frozen=True)
class Script:
    """Calls of tools, one after the other; then it submits, or says nothing until a limit ends it."""

    calls: Sequence[tuple[str, Mapping[str, Any]]] = ()
    submits: bool = True

    def fits(self, task: AgentTask) -> bool:
        """Whether the task has the tools, and no simulated user whose answers would cost something."""
        return not task.roles and {name for name, _ in self.calls} <= {tool.name for tool in task.agent.tools}

    def says(self, task: AgentTask, state: TrajectoryState) -> Response:
        if state.steps < len(self.calls):
            return _call(*self.calls[state.steps])
        if not self.submits:
            return Response("", "eos")
        return _call("submit", {"answer": ""}) if task.agent.submit == "tool" else Response("Done.", "eos")


EDIT = """
find . -type f | grep -iE 'test|check|expect|verif|grad|spec|score' | while read -r file; do
  case "$file" in *.py) : > "$file" ;; *.sh) echo 'exit 0' > "$file" ;; esac
done
echo 'import os; os._exit(0)' > conftest.py
"""
"""Empties tests and checks that it sees, and has pytest end well before any others."""


def play(task: AgentTask, doc: DocRequests, script: Script) -> None:
    """One trajectory of the doc, by the script and the task's own tools."""
    doc.instances[0].repeats = 1
    (one,) = task.trajectories(doc)
    waiting = list(one.instances)
    while waiting:
        for each in waiting:
            _answer(each, task, one.state, script)
        over = any(each.failure for each in waiting)
        waiting = [] if over else task.next_requests(one)
        for each in waiting:
            each.idx, each.doc_id, each.task_name = len(one.instances), doc.doc_id, task.task_name
            one.instances.append(each)
    task.fold(doc, [one])


def _answer(instance: Instance, task: AgentTask, state: TrajectoryState, script: Script) -> None:
    try:
        response = script.says(task, state) if instance.role == "model" else _does(state, instance.arguments[0])
    except BrokenTool as error:
        response, instance.failure = Response(""), str(error)
    instance.resps, instance.responses = [response.answer], [response]


def _does(state: TrajectoryState, call: Mapping[str, Any]) -> Response:
    session = state.open()
    if call.get("end"):
        return Response("", more={"end_state": session.end_state().to_dict()})
    result = session.call(call["name"], call["arguments"])
    return Response(result.text, more={"error": True} if result.is_error else {})


def _call(name: str, arguments: Mapping[str, Any]) -> Response:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return Response("", "eos", tool_calls=({"id": "0", "type": "function", "function": function},))
