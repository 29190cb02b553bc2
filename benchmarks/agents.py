"""How fast agents go: trajectories of ten steps side by side, against a stub of a chat server.

    python benchmarks/agents.py [--trajectories 64] [--steps 10] [--model 0.2] [--tool 0.1]

The stub answers after 200 ms with one call of a tool that sleeps for 100 ms. The ideal is one trajectory's own time: all of them
have no reason to take longer together. Processor time is that of the process that evaluates, tools and stub not counted. Then
the same with a tool that takes twenty times as long in every eighth trajectory, which may hold up nobody else.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from _results import markdown_table, write_section

TASK = """
task: steps
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder}/docs.jsonl}}}}
test_split: test
output_type: agent
doc_to_text: "Trajectory {{{{n}}}} of {steps} steps."
agent:
  tools: [!function tools.wait]
  limits: {{steps: {steps}}}
metric_list: [steps]
"""
TOOLS = """
import time

def wait(doc, k: int) -> str:
    "Wait a moment."
    time.sleep({slow} if doc["n"] % 8 == 0 else {tool})
    return f"waited {{k}}"
"""


async def serve(delay: float) -> None:
    """Answers every chat with the next call: its number is the number of results so far."""
    from aiohttp import web

    async def answer(request: web.Request) -> web.Response:
        body = await request.json()
        await asyncio.sleep(delay)
        done = sum(message["role"] == "tool" for message in body["messages"])
        call = {"id": f"c{done}", "type": "function"}
        call["function"] = {"name": "wait", "arguments": json.dumps({"k": done})}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        usage = {"prompt_tokens": 100, "completion_tokens": 10}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
        return web.json_response({"model": "stub", "choices": [choice], "usage": usage})

    async def models(request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "stub"}]})

    app = web.Application(client_max_size=2**28)
    app.add_routes([web.post("/v1/chat/completions", answer), web.get("/v1/models", models)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(site._server.sockets[0].getsockname()[1], flush=True)  # type: ignore[union-attr]
    await asyncio.to_thread(sys.stdin.read)


@contextmanager
def stub(delay: float) -> Iterator[str]:
    command = [sys.executable, __file__, "--serve", str(delay)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}/v1"
    finally:
        process.stdin.close()
        process.wait()


def measure(url: str, trajectories: int, steps: int, tool: float, slow: float) -> dict[str, float]:
    """Wall time of a run from when docs are sent, and processor time of a step; a first run with two trajectories warms up."""
    import assay

    spent = {}
    for count in (2, 4, trajectories):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "docs.jsonl").write_text("".join(json.dumps({"n": i}) + "\n" for i in range(count)))
            (folder / "tools.py").write_text(TOOLS.format(slow=slow, tool=tool))
            (folder / "steps.yaml").write_text(TASK.format(folder=folder, steps=steps))
            started = time.process_time()
            result = assay.evaluate(
                tasks=[str(folder / "steps.yaml")],
                model="local-chat-completions",
                model_args={"base_url": url, "model": "stub", "num_concurrent": max(64, trajectories)},
                apply_chat_template=True,
                store=str(folder / "store.sqlite"),
                run_dir=str(folder / "run"),
            )
            spent[count] = time.process_time() - started
            seconds: dict[str, Any] = json.loads((folder / "run" / "run.json").read_text())["seconds"]
            assert result.tasks["steps"].health.failed == 0
    # What a run costs whatever its size is not the cost of a step.
    return {
        "wall": seconds["ask_and_score"],
        "processor": (spent[trajectories] - spent[4]) / (trajectories - 4) / steps,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trajectories", type=int, default=64)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--model", type=float, default=0.2)
    parser.add_argument("--tool", type=float, default=0.1)
    parser.add_argument("--write", action="store_true", help="into RESULTS.md")
    parser.add_argument("--serve", type=float)
    given = parser.parse_args()
    if given.serve is not None:
        asyncio.run(serve(given.serve))
        return
    os.environ.setdefault("ASSAY_HOME", tempfile.mkdtemp())
    rows = []
    with stub(given.model) as url:
        for label, slow in (("all tools alike", given.tool), ("one in eight slow", 20 * given.tool)):
            ideal = given.steps * (given.model + max(slow, given.tool))
            found = measure(url, given.trajectories, given.steps, given.tool, slow)
            each = 1000 * found["processor"]
            rows.append([label, f"{ideal:.2f}", f"{found['wall']:.2f}", f"{found['wall'] / ideal:.2f}", f"{each:.2f}"])
            print(rows[-1], flush=True)
    header = ["tools", "ideal, s", "wall, s", "of the ideal", "processor, ms a step"]
    what = f"{given.trajectories} trajectories of {given.steps} steps, model {given.model:g} s, tool {given.tool:g} s"
    text = f"{what}.\n\n{markdown_table(header, rows)}"
    print(text)
    if given.write:
        write_section("Agents", text)


if __name__ == "__main__":
    main()
