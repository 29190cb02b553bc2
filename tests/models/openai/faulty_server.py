"""A completions and chat server for tests: the n-gram model behind HTTP, with faults on demand.

It echoes prompts with log-probabilities, so that every number a client reads can be compared with the model itself.
"""

from __future__ import annotations

import json
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import accumulate
from typing import Any

from assay.instance import Instance
from assay.models.identity import PROBE_TOKENS, PROBES
from assay.models.ngram import NgramLM

Fault = Callable[[int, dict[str, Any]], str | None]
"""(how often this body was seen before, body) → the fault to show, or None."""


@dataclass(frozen=True)
class Dialect:
    """How a server writes the log-probabilities of an echoed prompt."""

    bos: str = ""
    """A token that it puts in front, and shows."""
    decodes_each: bool = False
    """Half a character is `�`, as in vLLM and SGLang; otherwise `bytes:\\xc3`, as in OpenAI's."""
    offsets: str = "characters"
    """Or `sums` of the lengths of texts, or `none`, which is -1."""
    tops: bool = True
    usage: bool = True


VLLM = Dialect("<s>", decodes_each=True, offsets="sums")
LLAMA3_IN_VLLM = Dialect("<|begin_of_text|>", decodes_each=True, offsets="sums")
SGLANG = Dialect("<s>", decodes_each=True, offsets="none")


class FaultyServer:
    """`with FaultyServer(fault) as server: server.url`."""

    def __init__(
        self,
        fault: Fault = lambda seen, body: None,
        *,
        echo: bool = True,
        delay: float = 0.0,
        dialect: Dialect = Dialect(),  # noqa: B008  frozen
        beside: Mapping[str, Any] | None = None,
        lists: bool = False,
    ) -> None:
        """`beside` are further fields of a chat message, or of a completion. `lists`: it takes several prompts."""
        self.model = NgramLM()
        self.fault, self.echo, self.delay, self.dialect = fault, echo, delay, dialect
        self.beside = dict(beside or {})
        self.lists = lists
        self.listing: dict[str, Any] = {"id": "ngram"}
        if lists:
            self.listing["owned_by"] = "vllm"
        self.seen: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        self.headers: list[dict[str, str]] = []
        self.bodies: list[dict[str, Any]] = []
        self.probes: list[dict[str, Any]] = []
        """What a run asks to recognize the model; kept apart from what its tasks ask."""
        self.paths: list[str] = []
        self.active = self.most_active = 0
        self.written = 0
        self.lock = threading.Lock()
        self.released = threading.Event()

    def __enter__(self) -> FaultyServer:
        outer = self

        class Handler(_Handler):
            server_state = outer

        class Server(ThreadingHTTPServer):
            request_queue_size = 128
            daemon_threads = True

        self._http = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.released.set()
        self._http.shutdown()
        self._http.server_close()

    def complete(self, body: dict[str, Any]) -> dict[str, Any]:
        prompt = body["prompt"]
        if self.lists and isinstance(prompt, list) and not isinstance(prompt[0], int):
            replies = [self.complete({**body, "prompt": one}) for one in prompt]
            choices = [{**reply["choices"][0], "index": at} for at, reply in enumerate(replies)]
            used = [reply["usage"] or {} for reply in replies]
            usage = {name: sum(each.get(name, 0) for each in used) for name in ("prompt_tokens", "completion_tokens")}
            return {"choices": choices[::-1], "usage": usage if self.dialect.usage else None}
        data = bytes(prompt) if isinstance(prompt, list) else prompt.encode()
        text = data.decode("utf-8", "replace")
        settings = {
            "max_gen_toks": body["max_tokens"],
            "until": body.get("stop", []),
            "temperature": body["temperature"],
        }
        answer = self._generate(text, settings, body.get("seed") or 0)
        reason = "length" if answer.stop_reason == "length" else "stop"
        choice: dict[str, Any] = {"index": 0, "text": answer.answer, "finish_reason": reason, **self.beside}
        if body.get("echo") and self.echo:
            choice["text"] = text + choice["text"]
            choice["logprobs"] = self._logprobs(data, answer.answer.encode()[: body["max_tokens"]])
        elif body.get("logprobs"):
            whole = self._logprobs(data, answer.answer.encode())
            choice["logprobs"] = {"top_logprobs": whole["top_logprobs"][len(data) :]}
        generated = len(answer.answer.encode())
        counted = len(data) + bool(self.dialect.bos)
        usage = {"prompt_tokens": counted, "completion_tokens": generated} if self.dialect.usage else None
        return {"choices": [choice], "usage": usage}

    def chat(self, body: dict[str, Any]) -> dict[str, Any]:
        text = self.model.apply_chat_template(body["messages"])
        settings = {
            "max_gen_toks": body.get("max_tokens") or body["max_completion_tokens"],
            "until": body.get("stop", []),
        }
        answer = self._generate(text, settings, 0)
        message = {"role": "assistant", "content": answer.answer, **self.beside}
        reason = "length" if answer.stop_reason == "length" else "tool_calls" if "tool_calls" in message else "stop"
        usage = {"prompt_tokens": 10, "completion_tokens": 5}
        return {"model": "ngram-2", "choices": [{"message": message, "finish_reason": reason}], "usage": usage}

    def _generate(self, text: str, settings: dict[str, Any], draw: int) -> Any:
        instance = Instance("generate_until", {}, (text, settings), 0)
        return next(iter(self.model.stream("generate_until", [instance], [draw])))[1]

    def _logprobs(self, prompt: bytes, generated: bytes) -> dict[str, Any]:
        whole = prompt + generated
        values: list[float | None] = []
        tops: list[dict[str, float] | None] = []
        for at in range(len(whole)):
            row = self.model._ngrams.logprobs(whole[max(0, at - 8) : at])
            values.append(float(row[whole[at]]) if at else None)
            tops.append({chr(int(row.argmax())): float(row.max())} if at else None)
        offsets = [len(whole[:at].decode("utf-8", "ignore")) for at in range(len(whole))]
        texts = [self._token_text(byte) for byte in whole]
        if self.dialect.bos:
            row = self.model._ngrams.logprobs(b"")
            values[0], tops[0] = float(row[whole[0]]), {chr(int(row.argmax())): float(row.max())}
            texts, values, tops, offsets = [self.dialect.bos, *texts], [None, *values], [None, *tops], [0, *offsets]
        if self.dialect.offsets == "sums":
            offsets = list(accumulate(map(len, texts), initial=0))[:-1]
        elif self.dialect.offsets == "none":
            offsets = [-1] * len(texts)
        return {
            "tokens": texts,
            "token_logprobs": values,
            "top_logprobs": tops if self.dialect.tops else None,
            "text_offset": offsets,
        }

    def _token_text(self, byte: int) -> str:
        if byte < 128:
            return chr(byte)
        return "\ufffd" if self.dialect.decodes_each else f"bytes:\\x{byte:02x}"


@cache
def bomb(size: int) -> bytes:
    """Gzip of that many zeros, a hundredth of it."""
    packer = zlib.compressobj(1, wbits=31)
    piece = bytes(1_000_000)
    return b"".join(packer.compress(piece) for _ in range(size // len(piece))) + packer.flush()


def is_probe(body: Mapping[str, Any]) -> bool:
    prompt = body.get("prompt") or (body.get("messages") or [{}])[-1].get("content")
    return prompt in PROBES and (body.get("max_tokens") or body.get("max_completion_tokens")) == PROBE_TOKENS


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_state: FaultyServer

    def do_GET(self) -> None:
        self.server_state.paths.append(self.path)
        self._reply(200, {"data": [self.server_state.listing]})

    def do_POST(self) -> None:
        state = self.server_state
        raw = self.rfile.read(int(self.headers["content-length"]))
        body = json.loads(raw)
        key = raw.decode()
        with state.lock:
            seen, state.seen[key] = state.seen[key], state.seen[key] + 1
            state.headers.append(dict(self.headers))
            (state.probes if is_probe(body) else state.bodies).append(body)
            state.paths.append(self.path)
            state.active += 1
            state.most_active = max(state.most_active, state.active)
        try:
            time.sleep(state.delay)
            fault = state.fault(seen, body)
            if fault is not None:
                self._break(fault)
                return
            reply = state.chat(body) if "/chat/completions" in self.path else state.complete(body)
            with state.lock:
                state.answered[key] += 1
        finally:
            with state.lock:
                state.active -= 1
        self._reply(200, reply)

    def _break(self, fault: str) -> None:
        kind, _, detail = fault.partition(":")
        if kind == "hang":
            self.server_state.released.wait(5)
            self.close_connection = True
        elif kind == "cut":
            self.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"choices": [')
            self.close_connection = True
        elif kind == "drop":
            self.close_connection = True
        elif kind == "garbage":
            self._send(200, b"{this is not JSON")
        elif kind == "gzip":
            self._send(200, b"this is not gzip", encoding="gzip")
        elif kind == "huge":  # announced, and never sent
            self.wfile.write(f"HTTP/1.1 200 OK\r\nContent-Length: {detail}\r\n\r\n{{".encode())
            self.server_state.released.wait(5)
            self.close_connection = True
        elif kind == "endless":
            self._write_on(f"HTTP/1.1 {detail} X\r\n\r\n".encode(), b"x" * 100_000)
        elif kind == "bomb":
            self._send(200, bomb(int(detail)), encoding="gzip")
        elif kind == "trickle":
            self._write_on(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", b" ", pause=0.05)
        elif kind == "moved":
            self.wfile.write(f"HTTP/1.1 307 Moved\r\nLocation: {detail}\r\nContent-Length: 0\r\n\r\n".encode())
        elif kind == "empty":
            self._reply(200, {"choices": []})
        elif kind == "text":
            self._reply(200, {"choices": [{"text": json.loads(detail), "finish_reason": "stop"}]})
        elif kind == "filtered":
            self._reply(200, {"choices": [{"text": "", "message": {}, "finish_reason": "content_filter"}]})
        elif kind == "say":  # an error in the server's own words
            self._reply(400, {"error": {"message": detail}})
        elif kind == "quota":
            self._reply(429, {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}})
        elif kind == "indiscreet":  # repeats the key, behind `detail` characters
            self._send(int(detail) // 1000, b"x" * (int(detail) % 1000) + self.headers["Authorization"].encode())
        else:
            self._reply(int(kind), {"error": {"message": f"fault {kind}"}}, retry_after=detail)

    def _write_on(self, head: bytes, piece: bytes, pause: float = 0.0) -> None:
        """Write pieces until the client has had enough."""
        self.close_connection = True
        with suppress(OSError):
            self.wfile.write(head)
            while not self.server_state.released.wait(pause):
                self.wfile.write(piece)
                self.server_state.written += len(piece)

    def _reply(self, status: int, value: Any, retry_after: str = "") -> None:
        self._send(status, json.dumps(value).encode(), retry_after)

    def _send(self, status: int, data: bytes, retry_after: str = "", encoding: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if encoding:
            self.send_header("Content-Encoding", encoding)
        if retry_after:
            self.send_header("Retry-After", retry_after)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: Any) -> None:
        pass
