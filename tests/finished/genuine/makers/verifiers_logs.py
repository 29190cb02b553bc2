"""Runs that verifiers itself writes: `python verifiers_logs.py FOLDER`, in an environment that has `verifiers`.

The model is a server of this script on loopback, the harness a loop in this process; rollouts, scoring, interception and
every file are of verifiers.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import verifiers.v1 as vf
from verifiers.v1.cli.eval.runner import run_eval
from verifiers.v1.configs.cli.eval import EvalConfig
from verifiers.v1.configs.harness import HarnessConfig
from verifiers.v1.harness import Harness
from verifiers.v1.runtimes import ProgramResult

__all__ = ["Loop", "Sums"]
HERE = Path(__file__).stem
GOOD, BAD = [1, 1, 1, 0] * 6, [0, 1, 0, 0] * 6


class SumData(vf.TaskData):
    number: int
    answer: str


class SumTask(vf.Task[SumData]):
    @vf.reward
    async def right(self, trace) -> float:
        return float(trace.last_reply.split()[-1] == self.data.answer)

    @vf.metric
    async def length(self, trace) -> float:
        return float(len(trace.last_reply))


class SumsConfig(vf.TasksetConfig):
    count: int = 24


class Sums(vf.Taskset[SumTask, SumsConfig]):
    def load(self):
        for n in range(1, self.config.count + 1):
            prompt = f"What is {n} + {n}?"
            yield SumTask(SumData(name=f"sum-{n:02d}", prompt=prompt, number=n, answer=str(2 * n)), self.config.task)


class Loop(Harness[HarnessConfig]):
    """Requests an answer, does what the calls in it say, and requests again until there are none."""

    NEEDS_CONTAINER = EXECUTES_CODE = False

    async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data):
        messages = [{"role": "user", "content": data.prompt}]
        tool = {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}
        async with httpx.AsyncClient(timeout=60) as client:
            while True:
                sent = {"model": ctx.model, "messages": messages, "tools": [tool]}
                headers = {"Authorization": f"Bearer {secret}"}
                reply = await client.post(f"{endpoint}/chat/completions", json=sent, headers=headers)
                if reply.status_code != 200:
                    return ProgramResult(exit_code=1, stdout="", stderr=reply.text)
                said = reply.json()["choices"][0]["message"]
                messages.append(said)
                for call in said.get("tool_calls") or ():
                    numbers = json.loads(call["function"]["arguments"])["numbers"]
                    messages.append({"role": "tool", "tool_call_id": call["id"], "content": str(sum(numbers))})
                if not said.get("tool_calls"):
                    return ProgramResult(exit_code=0, stdout="", stderr="")


def serve(skill, breaks=()):
    """A chat server that first calls the tool, then says the sum, or one more; for some numbers it refuses."""
    tries = {}

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_POST(self):
            messages = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["messages"]
            number = int(messages[0]["content"].split()[2])
            if number in breaks:
                return self.answer({"error": {"message": "no such model here"}}, 400)
            said = {"role": "assistant", "content": "Let me add."}
            if len(messages) == 1:
                tries[number] = tries.get(number, 0) + 1
                function = {"name": "add", "arguments": json.dumps({"numbers": [number, number]})}
                said["tool_calls"] = [{"id": "c1", "type": "function", "function": function}]
            else:
                said["content"] = f"It is {2 * number + (0 if skill(number, tries[number]) else 1)}"
            usage = {
                "prompt_tokens": 20 * len(messages),
                "completion_tokens": 8,
                "total_tokens": 20 * len(messages) + 8,
            }
            why = "tool_calls" if "tool_calls" in said else "stop"
            choice = {"index": 0, "message": said, "finish_reason": why}
            return self.answer(
                {
                    "id": "r",
                    "object": "chat.completion",
                    "created": 0,
                    "model": "m",
                    "choices": [choice],
                    "usage": usage,
                }
            )

        def answer(self, body, status=200):
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/v1"


def run(folder, name, count, skill, rollouts=1, breaks=()):
    config = EvalConfig.model_validate(
        {
            "env": {
                "taskset": {"id": HERE, "count": count},
                "agent": {"harness": {"id": HERE}, "runtime": {"type": "subprocess"}},
            },
            "model": "scripted",
            "client": {"base_url": serve(skill, breaks), "api_key_var": "NONE"},
            "num_rollouts": rollouts,
            "max_concurrent": 1,
            "run": {"name": name},
            "rich": None,
            "push": False,
            "output_dir": folder,
        }
    )
    asyncio.run(run_eval(config))
    shutil.rmtree(folder / name / "logs", ignore_errors=True)


def main(folder):
    run(folder, "good", 24, lambda n, t: GOOD[n - 1])
    run(folder, "bad", 24, lambda n, t: BAD[n - 1])
    run(folder, "rollouts", 4, lambda n, t: (n + t) % 3 != 0, rollouts=3, breaks={2})


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main(Path(sys.argv[1]))
