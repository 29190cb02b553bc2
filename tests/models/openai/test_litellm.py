"""Other providers through litellm, against servers on loopback: one that speaks OpenAI's protocol, one Anthropic's."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.models.openai.asking import generations
from tests.models.openai.faulty_server import FaultyServer

import assay
from assay.errors import ConfigError, ModelError
from assay.models import load_model

pytestmark = pytest.mark.skipif(find_spec("litellm") is None, reason="litellm is not installed")


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, "key-for-nobody")


def test_it_answers_as_the_same_server_does_without_it() -> None:
    with FaultyServer() as server:
        plain = load_model("local-chat-completions", {"base_url": server.url, "model": "ngram"})
        through = load_model("litellm", {"base_url": server.url, "model": "openai/ngram"})
        expected, found = plain.generate_until(generations(6)), through.generate_until(generations(6))
        usage = through.usage
        plain.close()
        through.close()
    assert found == expected
    assert usage is not None
    assert usage.generated_tokens == 30


class Messages(BaseHTTPRequestHandler):
    """Anthropic's `/v1/messages`: thoughts, a text, a tool call; or a refusal of the key, or of one request."""

    bodies: list[dict[str, Any]]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.bodies.append(body)
        if self.headers["x-api-key"] == "wrong-key":
            self.reply(
                401, {"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}}
            )
        elif "poison" in json.dumps(body["messages"]):
            self.reply(400, {"type": "error", "error": {"type": "invalid_request_error", "message": "no poison"}})
        else:
            content: list[dict[str, Any]] = [{"type": "thinking", "thinking": "Let me see.", "signature": "s"}]
            content += [{"type": "text", "text": "B"}]
            usage = {"input_tokens": 11, "output_tokens": 7}
            said = {"id": "msg", "type": "message", "role": "assistant", "model": body["model"], "content": content}
            self.reply(200, {**said, "stop_reason": "end_turn", "stop_sequence": None, "usage": usage})

    def reply(self, status: int, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def anthropic() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    handler = type("Handler", (Messages,), {"bodies": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", handler.bodies  # type: ignore[attr-defined]
    server.shutdown()
    server.server_close()


def test_a_choice_task_runs_on_anthropics_protocol(anthropic: tuple[str, list[dict[str, Any]]], tmp_path: Path) -> None:
    url, bodies = anthropic
    result = assay.evaluate(
        model="anthropic-chat",
        model_args={"base_url": url, "model": "claude-3-5-haiku-latest"},
        tasks=["demo_capitals_en:gen"],
        limit=4,
        apply_chat_template=True,
        run_dir=str(tmp_path / "run"),
        store=str(tmp_path / "store.sqlite"),
        bootstrap_iters=0,
    )
    health = result.tasks["demo_capitals_en:gen"].health
    assert (health.docs, health.failed, health.unparsed) == (4, 0, {})
    assert {body["model"] for body in bodies} == {"claude-3-5-haiku-latest"}
    (file,) = (tmp_path / "run").rglob("*.parquet")
    assert "Let me see." in json.dumps([row["extras"] for row in assay.results.read_samples(file)])


def test_a_refused_request_fails_alone_and_a_wrong_key_ends_the_run(
    anthropic: tuple[str, list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, _ = anthropic
    model = load_model("anthropic-chat", {"base_url": url, "model": "claude-3-5-haiku-latest", "backoff": 0.01})
    requests = generations(3)
    requests[1].arguments = ("poison", {"max_gen_toks": 4})
    answers = dict(model.stream("generate_until", requests, [0, 0, 0]))
    assert [answers[i].answer for i in range(3)] == ["B", None, "B"]
    assert "no poison" in str(answers[1].failure)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "wrong-key")
    with pytest.raises(ModelError, match="AuthenticationError"):
        list(model.stream("generate_until", generations(1), [0]))


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ConfigError, match="needs a model name"):
        load_model("litellm", {})
    with pytest.raises(ConfigError, match="has no argument 'num_concurent'"):
        load_model("litellm", {"model": "openai/x", "num_concurent": 3})
