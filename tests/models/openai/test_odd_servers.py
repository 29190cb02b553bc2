"""What a server says of itself and cannot be true is not scored quietly."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.models.openai.asking import connect, generations
from tests.models.openai.faulty_server import FaultyServer

import assay
from assay.models.openai.echo import EchoRequest, require_logprobs, scored_tokens
from assay.models.openai.wire import Unusable


@contextmanager
def server(names: Sequence[str | None]) -> Iterator[str]:
    """Replies name these models in turn."""
    named = itertools.cycle(names)
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            with lock:
                name = next(named)
            choice = {"message": {"role": "assistant", "content": "4"}, "finish_reason": "stop"}
            self.reply({"choices": [choice], **({"model": name} if name else {})})

        def do_GET(self) -> None:
            self.reply({"data": [{"id": "asked"}]})

        def reply(self, body: Any) -> None:
            data = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=httpd.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{httpd.server_port}/v1"
    finally:
        httpd.shutdown()


@pytest.mark.parametrize(
    ("names", "noted"),
    [
        (["asked"], []),
        ([None], []),
        (["asked-2026-11-18"], []),
        (["provider/Asked"], []),
        (["another"], ["another"]),
        (["asked", "another"], ["asked", "another"]),
        (["one", "two", "three"], ["one", "two", "three"]),
        (["asked-v1", "asked-v2"], ["asked-v1", "asked-v2"]),
    ],
)
def test_replies_that_name_another_model_are_noted(names: list[str | None], noted: list[str], tmp_path: Path) -> None:
    task = {
        "task": "sums",
        "custom_dataset": lambda **_: {"test": [{"q": f"{i} + {i} ="} for i in range(12)]},
        "test_split": "test",
        "doc_to_text": "q",
        "doc_to_target": "4",
        "output_type": "generate_until",
        "metric_list": [{"metric": "exact_match"}],
    }
    with server(names) as url:
        found = assay.evaluate(
            model="local-chat-completions",
            model_args={"base_url": url, "model": "asked"},
            tasks=[task],
            store=str(tmp_path / "store.sqlite"),
            apply_chat_template=True,
        )
    said = [note for note in found.notes if "name" in note or "in turn" in note]
    assert len(said) == bool(noted)
    assert all(name in said[0] for name in noted)


@pytest.mark.parametrize(("value", "top"), [(0.5, -0.1), (-0.1, 0.5), (700.0, 700.0), (float("inf"), 0.0)])
def test_a_log_probability_above_zero_is_an_error(value: float, top: float) -> None:
    logprobs = {
        "tokens": ["a", "b", "c"],
        "token_logprobs": [None, value, -1.0],
        "top_logprobs": [None, {"b": top}, {"c": -1.0}],
        "text_offset": [0, 1, 2],
    }
    reply = {"choices": [{"logprobs": logprobs, "text": "abc"}]}
    with pytest.raises(Unusable, match="above 0"):
        scored_tokens(EchoRequest("ab", 1), reply)


def test_rounding_is_not_an_error() -> None:
    require_logprobs([0.0, -0.0, 1e-5, -3.0, float("-inf")])


def test_a_server_that_was_away_for_a_while_is_told_in_the_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.models.openai.dispatch._OUTAGE", 0.3)
    began = time.monotonic()
    with FaultyServer(lambda seen, body: "503" if time.monotonic() - began < 1.0 else None) as server:
        model = connect(server, backoff=0.1, max_retries=30)
        assert all(model.generate_until(generations(3)))
        (note,) = model.notes()
        assert note.startswith(f"{model.url} did not answer")
        assert all(model.generate_until(generations(3)))
        assert model.notes() == [note]
        model.close()
