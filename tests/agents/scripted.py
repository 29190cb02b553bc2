"""Models that follow a script: what they answer is a function of the messages so far, so that every score is known."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import assay
from assay.instance import Instance, Message, Response
from assay.models import LM, Capabilities

Policy = Callable[[Sequence[Message], int], Any]
"""(messages, draw) → text, or calls: a tuple `(name, arguments)` or a list of such."""


class Scripted(LM):
    """Calls tools as a chat server would."""

    chat = "messages"

    def __init__(self, policy: Policy, name: str = "scripted", *, native: bool = True) -> None:
        self.policy, self.name, self.native = policy, name, native
        self.asked = 0

    def info(self) -> Any:
        from dataclasses import replace

        return replace(super().info(), capabilities=Capabilities(tools=self.native, likelihoods=False))

    def fingerprint(self) -> str:
        return f"scripted:{self.name}"

    def loglikelihood(self, requests: Any) -> Any:
        raise NotImplementedError

    def loglikelihood_rolling(self, requests: Any) -> Any:
        raise NotImplementedError

    def generate_until(self, requests: Sequence[Instance]) -> list[Response]:
        return [self._answer(each, each.draw) for each in requests]

    def _answer(self, request: Instance, draw: int) -> Response:
        self.asked += 1
        said = self.policy(request.args[0], draw)
        tokens = (len(str(request.args[0])) // 4, 7)
        if isinstance(said, str):
            return Response(said, "eos", tokens=tokens)
        calls = said if isinstance(said, list) else [said]
        if not self.native:
            text = "\n".join(f"```json\n{json.dumps({'name': n, 'arguments': a})}\n```" for n, a in calls)
            return Response(text, "eos", tokens=tokens)
        made = [
            {
                "id": f"c{i}",
                "type": "function",
                "function": {"name": n, "arguments": a if isinstance(a, str) else json.dumps(a)},
            }
            for i, (n, a) in enumerate(calls)
        ]
        return Response("", "eos", tokens=tokens, tool_calls=tuple(made))


def write_task(folder: Path, text: str, docs: Sequence[dict[str, Any]], **files: str) -> str:
    """A task file beside its data and its code; the path to name it by."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "docs.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in docs))
    for name, code in files.items():
        (folder / f"{name}.py").write_text(code)
    task = folder / "agent_task.yaml"
    task.write_text(text)
    return str(task)


def run(task: str, model: Any, folder: Path, **options: Any) -> Any:
    given = {
        "apply_chat_template": True,
        "store": str(folder / "store.sqlite"),
        "run_dir": str(folder / "run"),
        **options,
    }
    return assay.evaluate(tasks=[task], model=model, **given)


def last_result(messages: Sequence[Message]) -> str:
    return str(messages[-1].content)


def results(messages: Sequence[Message]) -> int:
    """How many tool results there are so far."""
    return sum(message.role == "tool" for message in messages)
