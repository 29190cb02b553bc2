"""A server of the OpenAI protocol that answers at once, or after a while, from prepared bytes: far faster than its clients.

    python benchmarks/_server_stub.py [--delay 0.2] [--tokens 1300] [--faults 0.05]      prints its port

A prompt is `TOKENS - 1` words and a choice, as `prompt_of` writes them. `GET /counts` says how many prompts were asked
and answered, and which of them more than once.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import sys
from collections import Counter
from itertools import accumulate

import orjson

from _server_prompts import WORD

TEXT = " The answer is, after some thought about all that was said before, the number 42."


class Replies:
    """Replies as bytes. Those with log-probabilities are prepared but for the number and the choice in them."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens
        self.pieces = orjson.dumps(_echo(["#", *[f" {WORD}"] * (tokens - 2), " #"])).split(b"#")
        self.length = 8 + 5 * (tokens - 2) + 2
        message = {"role": "assistant", "content": TEXT}
        self.chat = _reply({"index": 0, "message": message, "finish_reason": "stop"}, tokens)
        self.text = orjson.dumps({"text": TEXT, "finish_reason": "stop", "index": 0})

    def completion(self, prompts: list[object], echo: bool) -> list[bytes]:
        """In parts: an echo is large, and is put together once."""
        parts = [b'{"id":"c","object":"text_completion","model":"stub","choices":[']
        for at, prompt in enumerate(prompts):
            parts += self.echo(prompt) if echo else [self.text]
            parts[-1] = parts[-1][:-2] + b"%d}" % at
            parts.append(b",")
        parts[-1] = b'],"usage":{"prompt_tokens":%d,"completion_tokens":%d}}' % (
            self.tokens * len(prompts),
            len(prompts),
        )
        return parts

    def echo(self, prompt: object) -> list[bytes]:
        if isinstance(prompt, str) and len(prompt) != self.length:  # not one of ours: someone tries what it can do
            return [orjson.dumps(_echo(re.findall(r"\s*\S+", prompt)))]
        number, choice = (prompt[:8], prompt[-1]) if isinstance(prompt, str) else ("00000000", "A")
        one, two = number.encode(), choice.encode()
        # The text has both in it, so have the tokens, and the most likely ones have the choice.
        between = (one, two, one, two, two)
        return [*(part for pair in zip(self.pieces, between) for part in pair), self.pieces[-1]]


def _echo(words: list[str]) -> dict[str, object]:
    """A prompt with the log-probabilities of its tokens, and of the one that was generated after it."""
    values = [None, *[-round(1.123456 + i / 1000, 6) for i in range(len(words) - 1)], -0.5]
    tops = [None, *({word: value} for word, value in zip([*words[1:], "."], values[1:]))]
    lengths = [8 if word == "#" else len(word) for word in words]  # a place for a number
    offsets = list(accumulate(lengths, initial=0))
    logprobs = {"tokens": [*words, "."], "token_logprobs": values, "top_logprobs": tops, "text_offset": offsets}
    return {"text": "".join([*words, "."]), "logprobs": logprobs, "finish_reason": "length", "index": 0}


def _reply(choice: dict[str, object], tokens: int) -> bytes:
    usage = {"prompt_tokens": tokens, "completion_tokens": 20}
    return orjson.dumps({"id": "c", "object": "chat.completion", "model": "stub", "choices": [choice], "usage": usage})


class State:
    def __init__(self, delay: float, tokens: int, faults: float, count: bool) -> None:
        self.delay, self.faults, self.count = delay, faults, count
        self.replies = Replies(tokens)
        self.chance = random.Random(0)
        self.requests = self.prompts = 0
        self.answered: Counter[str] = Counter()

    def counts(self) -> bytes:
        return orjson.dumps(
            {
                "requests": self.requests,
                "prompts": self.prompts,
                "answered": self.answered.total(),
                "distinct": len(self.answered),
            }
        )


class Connection(asyncio.Protocol):
    def __init__(self, state: State) -> None:
        self.state = state
        self.buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.loop = asyncio.get_running_loop()

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head = self.buffer[:end].lower()
            at = head.find(b"content-length:")
            length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self.buffer) < end + 4 + length:
                return
            body = self.buffer[end + 4 : end + 4 + length]
            self.buffer = self.buffer[end + 4 + length :]
            self.answer(head, body)

    def answer(self, head: bytes, body: bytes) -> None:
        state = self.state
        if head.startswith(b"get"):
            listing = b'{"object":"list","data":[{"id":"stub","object":"model","owned_by":"vllm"}]}'
            self.write(b"200 OK", state.counts() if b"/counts" in head[:40] else listing)
            return
        state.requests += 1
        if state.faults and state.chance.random() < state.faults:
            self.fail(state.chance.choice(["429 Too Many Requests", "503 Service Unavailable", "cut"]))
            return
        asked = orjson.loads(body)
        if "messages" in asked:
            prompts: list[object] = [asked["messages"][-1]["content"]]
            reply = [state.replies.chat]
        else:
            given = asked["prompt"]
            prompts = given if isinstance(given, list) and not isinstance(given[0], int) else [given]
            reply = state.replies.completion(prompts, bool(asked.get("echo")))
        state.prompts += len(prompts)
        if state.count:
            state.answered.update(map(str, prompts))
        if state.delay:
            self.loop.call_later(state.delay, self.write, b"200 OK", *reply)
        else:
            self.write(b"200 OK", *reply)

    def fail(self, kind: str) -> None:
        if kind == "cut":
            self.transport.write(b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"choices": [')
            self.transport.close()
        else:
            self.write(kind.encode(), b'{"error": {"message": "busy"}}')

    def write(self, status: bytes, *body: bytes) -> None:
        head = b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        self.transport.write(b"".join([head % (status, sum(map(len, body))), *body]))


async def serve(state: State) -> None:
    server = await asyncio.get_running_loop().create_server(lambda: Connection(state), "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)  # until whoever started it goes away


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--delay", type=float, default=0.0)
    parser.add_argument("--tokens", type=int, default=26)
    parser.add_argument("--faults", type=float, default=0.0)
    parser.add_argument("--count", action="store_true", help="remember every prompt that was answered")
    given = parser.parse_args()
    asyncio.run(serve(State(given.delay, given.tokens, given.faults, given.count)))


if __name__ == "__main__":
    main()
