"""The batch endpoint: submitted once, waited for, gone on with by the same command. Against a server that speaks it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.instance import Instance
from assay.models import load_model


class BatchServer:
    """Answers "honey" to everything, one batch after `open` is set. Requests that say "poison" are refused."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        self.direct: list[dict[str, Any]] = []
        self.open = threading.Event()
        self.url = ""

    def keep(self, content: bytes) -> str:
        name = f"file-{len(self.files)}"
        self.files[name] = content
        return name

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        message = {"role": "assistant", "content": "honey"}
        usage = {"prompt_tokens": 9, "completion_tokens": 1}
        return {"model": "m", "usage": usage, "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}

    def finish(self, batch: dict[str, Any]) -> None:
        done, wrong = [], []
        for line in self.files[batch["input_file_id"]].splitlines():
            request = json.loads(line)
            entry = {"custom_id": request["custom_id"], "error": None}
            if "poison" in json.dumps(request["body"]):
                refusal = {"error": {"message": "no poison, please"}}
                wrong.append({**entry, "response": {"status_code": 400, "body": refusal}})
            else:
                done.append({**entry, "response": {"status_code": 200, "body": self.answer(request["body"])}})
        for name, lines in (("output_file_id", done[::-1]), ("error_file_id", wrong)):
            if lines:
                batch[name] = self.keep("\n".join(map(json.dumps, lines)).encode())
        batch["status"] = "completed"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[BatchServer]:
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    state = BatchServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            *_, kind, name = self.path.removesuffix("/content").split("/")
            if kind == "batches" and name in state.batches:
                batch = state.batches[name]
                if state.open.is_set() and batch["status"] == "in_progress":
                    state.finish(batch)
                self.reply(json.dumps(batch).encode())
            elif kind == "files":
                self.reply(state.files[name])
            else:
                self.reply(b'{"data": [{"id": "m"}]}' if name == "models" else b"{}", 200 if name == "models" else 404)

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path == "/v1/files":
                head = f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode()
                (file,) = [
                    part
                    for part in BytesParser().parsebytes(head + raw).get_payload()
                    if part.get_filename()  # type: ignore[union-attr]
                ]
                self.reply(json.dumps({"id": state.keep(file.get_payload(decode=True))}).encode())  # type: ignore[union-attr,arg-type]
            elif self.path == "/v1/batches":
                name = f"batch_{len(state.batches)}"
                state.batches[name] = {"id": name, "status": "in_progress", **json.loads(raw)}
                self.reply(json.dumps(state.batches[name]).encode())
            else:
                state.direct.append(json.loads(raw))
                self.reply(json.dumps(state.answer(state.direct[-1])).encode())

        def reply(self, content: bytes, status: int = 200) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{http.server_port}/v1"
    threading.Thread(target=http.serve_forever, daemon=True).start()
    yield state
    http.shutdown()
    http.server_close()


def connect(server: BatchServer) -> Any:
    arguments = {"base_url": server.url, "model": "m", "batch": True, "batch_wait": 0.05}
    return load_model("openai-chat", arguments)


def questions(*texts: str) -> list[Instance]:
    return [Instance("generate_until", {}, (text, {"max_gen_toks": 4}), 0) for text in texts]


def test_all_requests_go_in_one_file_and_come_back_in_their_places(server: BatchServer) -> None:
    server.open.set()
    model = connect(server)
    answers = dict(model.stream("generate_until", questions("a", "poison", "c"), [0, 0, 0]))
    assert [answers[i].answer for i in range(3)] == ["honey", None, "honey"]
    assert "no poison, please" in str(answers[1].failure)
    assert (len(server.batches), server.direct) == (1, [])
    (batch,) = server.batches.values()
    assert (batch["endpoint"], batch["completion_window"]) == ("/v1/chat/completions", "24h")
    lines = [json.loads(line) for line in server.files[batch["input_file_id"]].splitlines()]
    assert [line["body"]["messages"][0]["content"] for line in lines] == ["a", "c", "poison"]
    model.close()


def test_the_same_command_waits_for_the_same_batch(server: BatchServer) -> None:
    looks = iter(range(100))
    first = connect(server)
    assert list(first.stream("generate_until", questions("a", "b"), [0, 0], lambda: next(looks) > 3)) == []
    first.close()
    server.open.set()
    second = connect(server)
    answers = dict(second.stream("generate_until", questions("b", "a", "new"), [0, 0, 0]))
    assert [answers[i].answer for i in range(3)] == ["honey"] * 3
    sizes = [len(server.files[batch["input_file_id"]].splitlines()) for batch in server.batches.values()]
    assert sizes == [2, 1], "what the first batch holds is not submitted again"
    assert list((Path(second.batches.folder)).glob("*.json")) == []
    second.close()


def test_a_batch_that_failed_is_said_and_submitted_anew(server: BatchServer) -> None:
    model = connect(server)
    looks = iter(range(100))
    list(model.stream("generate_until", questions("a"), [0], lambda: next(looks) > 2))
    server.batches["batch_0"] |= {"status": "failed", "errors": {"data": [{"message": "over quota"}]}}
    with pytest.raises(assay.errors.ModelError, match="over quota"):
        list(model.stream("generate_until", questions("a"), [0]))
    server.open.set()
    assert [one.answer for _, one in model.stream("generate_until", questions("a"), [0])] == ["honey"]
    model.close()


def test_a_whole_run_by_batches(server: BatchServer, tmp_path: Path) -> None:
    server.open.set()
    arguments = {"base_url": server.url, "model": "m", "batch": True, "batch_wait": 0.05}
    result = assay.evaluate(
        model="openai-chat",
        model_args=arguments,
        tasks=["demo_capitals_en:gen"],
        limit=5,
        store=str(tmp_path / "store.sqlite"),
        bootstrap_iters=0,
    )
    assert result.tasks["demo_capitals_en:gen"].health.docs == 5
    assert len(server.batches) == 1
