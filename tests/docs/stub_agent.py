"""A chat server whose model calls the first tool it is offered and submits what that gave."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def reply(body: dict[str, Any]) -> dict[str, Any]:
    tools = [each["function"]["name"] for each in body.get("tools") or []]
    last = body["messages"][-1]
    if not tools:
        return {"role": "assistant", "content": "yes"}
    if last["role"] == "tool" and "submit" in tools:
        return calling("submit", {"answer": last["content"]})
    words = re.findall(r"\w+", str(last["content"]))
    return calling(tools[0], {"title": words[-1] if words else ""})


def calling(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    call = {"id": "c1", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        message = reply(body)
        reason = "tool_calls" if "tool_calls" in message else "stop"
        usage = {"prompt_tokens": 10, "completion_tokens": 5}
        self._send({"model": "stub", "choices": [{"message": message, "finish_reason": reason}], "usage": usage})

    def do_GET(self) -> None:
        self._send({"data": [{"id": "stub"}]})

    def _send(self, answer: dict[str, Any]) -> None:
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Tests print what fails, not what was asked."""


@contextmanager
def tool_server() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
