"""Within two seconds a run says who is being tried, and for how much longer; what a server answers is called what it is."""

from __future__ import annotations

import http.server
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import assay
from assay.errors import ModelError
from assay.models import waiting_for
from assay.models.waiting import told_while
from assay.run.progress import Counts
from assay.run.watching import watched

pytest.importorskip("aiohttp")


class Heard:
    """Remembers every line, and when it came."""

    def __init__(self) -> None:
        self.began, self.lines = time.monotonic(), list[tuple[float, str]]()

    def stage(self, text: str) -> None:
        self.lines.append((time.monotonic() - self.began, text))

    message = stage

    def update(self, counts: Counts) -> None:
        pass


@contextmanager
def server(status: int, body: bytes) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if int(self.headers.get("Content-Length") or 0):
                self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    made = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=made.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{made.server_port}/v1"
    finally:
        made.shutdown()
        made.server_close()


def run(url: str, tmp_path: Any, heard: Heard | None = None, retries: int = 1, model: str = "local-completions") -> Any:
    args = {"base_url": url, "model": "m", "max_retries": retries}
    store = str(tmp_path / "store.db")
    return assay.evaluate(model=model, model_args=args, tasks=["demo_agreement"], limit=2, store=store, progress=heard)


@pytest.mark.parametrize(
    ("host", "hint"), [("127.0.0.1:9", "Start the server"), ("no-such-host.invalid", "Check the host's name")]
)
def test_a_server_that_is_not_there_is_named_within_two_seconds(tmp_path, host, hint):
    heard = Heard()
    with pytest.raises(ModelError) as caught:
        run(f"http://{host}/v1", tmp_path, heard, retries=3)
    assert hint in str(caught.value.hint)
    began = next(at for at, line in heard.lines if line == "reading tasks")
    at, said = next((at, line) for at, line in heard.lines if line.startswith("waiting for"))
    assert at - began < 3
    assert all(part in said for part in (host, "trying again for about"))


@pytest.mark.parametrize("model", ["local-completions", "local-chat-completions"])
@pytest.mark.parametrize(
    ("status", "body", "named"),
    [
        (200, b"<!doctype html><html><body>Log in</body></html>", "web page"),
        (200, b'{"object": "text_completion"}', "no `choices`"),
        (429, b'{"error": {"message": "slow down"}}', "429"),
    ],
)
def test_what_a_server_answers_is_called_what_it_is(tmp_path, status, body, named, model):
    with server(status, body) as url, pytest.raises(ModelError) as caught:
        run(url, tmp_path, model=model, retries=0)
    assert named in caught.value.message
    assert caught.value.hint is not None
    assert "Start the server" not in caught.value.hint


def test_the_stage_is_shown_again_when_the_wait_is_over(monkeypatch):
    monkeypatch.setattr("assay.run.watching.TICK", 0.01)
    heard = Heard()
    with watched(heard) as progress:
        progress.stage("reading tasks")
        with told_while(lambda now: "waiting for somebody"):
            assert waiting_for() == "waiting for somebody"
            time.sleep(0.2)
        time.sleep(0.2)
    assert [line for _, line in heard.lines] == ["reading tasks", "waiting for somebody", "reading tasks"]
    assert waiting_for() is None


def test_silence_after_answers_is_told_too():
    """A server that went away: requests are under way, and no answer comes."""
    from assay.models.openai.dispatch import Dispatch, InFlight
    from assay.models.openai.transport import Transport
    from assay.models.openai.wire import Settings

    line: Any = Transport(Settings("http://x/v1/completions", {}))
    dispatch: Any = Dispatch(line, [], lambda some: None, lambda: False)
    now = time.monotonic()
    dispatch._in_flight, dispatch._answered, dispatch._last_answer = {0: InFlight(now, line)}, 5, now
    assert dispatch.waits_for(now + 10) is None
    assert "http://x" in dispatch.waits_for(now + 40)
