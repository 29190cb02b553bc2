"""A server that speaks the Model Context Protocol by hand, and lies in the way that its argument names."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

LIE, STARTS = "".join(sys.argv[1:2]), Path(sys.argv[-1])
ADD: dict[str, Any] = {"name": "add", "description": "Add.", "inputSchema": {"type": "object", "properties": {}}}
TOOLS: dict[str, list[dict[str, Any]]] = {
    "no schema": [{**ADD, "inputSchema": {"type": "object", "properties": {"n": {"description": "x" * 2_000_000}}}}],
    "odd name": [{**ADD, "name": "add; rm -rf / \x1b[2J"}],
    "no object": [{**ADD, "inputSchema": "anything"}],
    "twice": [ADD, {**ADD, "description": "Add otherwise."}],
    "a thousand": [{**ADD, "name": f"add{n}"} for n in range(5000)],
}


def listed() -> dict[str, Any]:
    if LIE == "endless pages":
        return {"tools": [ADD], "nextCursor": os.urandom(4).hex()}
    if LIE == "other tools later" and STARTS.read_text().count("\n") > 1:
        return {"tools": [{**ADD, "name": "subtract"}]}
    return {"tools": TOOLS.get(LIE, [ADD])}


def answer(request: dict[str, Any]) -> Any:
    match request["method"]:
        case "initialize":
            version = request["params"]["protocolVersion"]
            return {
                "protocolVersion": version,
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "liar", "version": "1"},
            }
        case "tools/list":
            return listed()
        case "tools/call" if LIE == "no content":
            return {"content": "everything"}
        case "tools/call" if LIE == "endless answer":
            return {"content": [{"type": "text", "text": "a" * 20_000_000}]}
        case _:
            return {"content": [{"type": "text", "text": "3"}]}


def serve() -> None:
    with STARTS.open("a") as starts:
        starts.write("started\n")
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        number = 999 if LIE == "other id" and request["method"] == "tools/call" else request["id"]
        text = json.dumps({"jsonrpc": "2.0", "id": number, "result": answer(request)})
        sys.stdout.write(
            "what is this?\n" * 3 if LIE == "no JSON" and request["method"] == "tools/call" else text + "\n"
        )
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
