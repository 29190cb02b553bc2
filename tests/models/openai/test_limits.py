"""A reply takes no more memory and no more time than one may: what a server sends is not to be trusted."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from tests.models.openai.asking import connect, generations
from tests.models.openai.faulty_server import FaultyServer

from assay.errors import ModelError
from assay.models import load_model
from assay.models.openai import http
from assay.models.openai.transport import Transport
from assay.models.openai.wire import Failed, Job, Settings

MANY = 10**9


def ask_one(server: FaultyServer, **more: Any) -> str:
    """The reason of the failure, and no failure of the request after it."""
    model = connect(server, max_retries=0, **more)
    answer = dict(model.stream("generate_until", generations(1), [0]))[0]
    model.close()
    assert answer.answer is None
    return str(answer.failure)


@pytest.mark.parametrize("fault", [f"huge:{MANY}", "endless:200", "bomb:64000000"])
def test_a_reply_without_end_fails_its_request_and_is_not_read(fault: str) -> None:
    requests = generations(3)
    poison = requests[1].args[0]
    with FaultyServer(lambda seen, body: fault if body["prompt"] == poison else None) as server:
        model = connect(server)
        tracemalloc.start()
        answers = dict(model.stream("generate_until", requests, [0] * 3))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        model.close()
        sent = sum(body["prompt"] == poison for body in server.bodies)
    assert [answers[i].failure is None for i in range(3)] == [True, False, True]
    assert "more than 33,554,432 bytes" in str(answers[1].failure)
    assert sent == 1, "it would come the same again"
    assert peak < 2**27


def test_an_endless_refusal_is_read_as_far_as_it_is_shown() -> None:
    with FaultyServer(lambda seen, body: "endless:400") as server:
        assert ask_one(server).startswith("HTTP 400: xxx")
        assert server.written < 2**24


def test_a_reply_that_trickles_is_given_up_when_its_time_is_over() -> None:
    with FaultyServer(lambda seen, body: "trickle") as server:
        assert "no answer within 0.3 s" in ask_one(server, timeout=0.3)


def test_one_that_hangs_is_given_up_while_the_others_are_answered_by_the_same_workers() -> None:
    requests = generations(40)
    poison = requests[7].args[0]
    with FaultyServer(lambda seen, body: "hang" if body["prompt"] == poison else None) as server:
        model = connect(server, timeout=1, max_retries=1, num_concurrent=4)
        answers = list(model.stream("generate_until", requests, [0] * 40))
        model.close()
        asked = sum(body["prompt"] == poison for body in server.bodies)
    assert sorted(at for at, _ in answers) == list(range(40))
    assert [at for at, answer in answers if answer.failure] == [7]
    assert asked == 2


def test_replies_that_are_too_much_together_are_asked_for_again_with_fewer_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "_MOST_UNDER_WAY", 2_000)
    together = threading.Barrier(4, timeout=5)

    def meet(seen: int, body: dict[str, Any]) -> str | None:
        if seen == 0:
            together.wait()
        return f"text:{json.dumps('x' * 900)}"

    with FaultyServer(meet) as server:
        transport = Transport(Settings(f"{server.url}/completions", {}, ceiling=4, backoff=0.01))
        transport.limit.limit = 4.0
        jobs: list[Job[Any]] = [Job({"prompt": str(i)}, lambda reply: reply["choices"][0]["text"]) for i in range(4)]
        answers = dict(transport.send_all(jobs))
        transport.close()
    assert [len(answers[i]) for i in range(4)] == [900] * 4


def test_a_long_context_may_have_a_longer_echo() -> None:
    with FaultyServer() as server:
        model = connect(server, max_length=2_000_000)
        assert model.transport.settings.max_reply >= 256 * 2_000_000
        model.close()


def test_the_key_does_not_follow_a_redirect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-a-very-secret-key")
    with FaultyServer() as other, FaultyServer(lambda seen, body: f"moved:{other.url}/completions") as server:
        assert ask_one(server).startswith("HTTP 307")
        assert other.headers == []


def test_a_certificate_that_is_not_trusted_is_no_reason_to_try_again(tmp_path: Path) -> None:
    with FaultyServer() as server:
        server._http.socket = _tls(tmp_path).wrap_socket(server._http.socket, server_side=True)
        url = server.url.replace("http://", "https://")
        model = load_model("local-completions", {"base_url": url, "model": "m", "max_retries": 1000, "backoff": 50})
        with pytest.raises(ModelError, match="ca_cert_path"):
            model.generate_until(generations(1))
        model.close()
        trusting: Any = load_model(
            "local-completions", {"base_url": url, "model": "ngram", "ca_cert_path": str(tmp_path / "certificate.pem")}
        )
        assert len(trusting.generate_until(generations(1))) == 1
        trusting.close()


def test_a_proxy_is_used_where_the_environment_names_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with FaultyServer() as proxy:
        monkeypatch.setenv("http_proxy", proxy.url.removesuffix("/v1"))
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        model = load_model("local-completions", {"base_url": "http://far.example/v1", "model": "ngram"})
        assert len(model.generate_until(generations(1))) == 1
        model.close()
        assert proxy.paths == ["http://far.example/v1/completions"]
        with FaultyServer() as near:
            model = connect(near)
            model.generate_until(generations(1))
            model.close()
            assert near.paths == ["/v1/completions"]


@pytest.mark.parametrize(("given", "slots"), [({}, 2), ({"num_concurrent": 300}, 300), ({"num_concurrent": 1}, 1)])
def test_as_many_as_one_says_are_under_way_from_the_start_and_two_where_nothing_is_said(
    given: dict[str, int], slots: int
) -> None:
    model: Any = load_model("local-completions", {"base_url": "http://localhost:1/v1", "model": "m", **given})
    assert model.transport.limit.slots == slots
    assert model.transport.limit.ceiling == given.get("num_concurrent", 1024)


def test_many_connections_do_not_meet_the_limit_on_open_files() -> None:
    code = """
import resource
from assay.models.openai.http import allow_connections
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 3000))
allow_connections(1500)
print(resource.getrlimit(resource.RLIMIT_NOFILE))
allow_connections(5000)
print(resource.getrlimit(resource.RLIMIT_NOFILE))
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found == "(2524, 3000)\n(3000, 3000)\n"


def test_nan_and_half_characters_in_a_reply_are_read_as_servers_mean_them() -> None:
    from assay.models.openai.wire import read_json, write_body

    assert read_json(b'{"a": -Infinity, "b": "\\ud83d"}') == {"a": float("-inf"), "b": "\ud83d"}
    assert write_body({"a": None, "b": 10**30}) == b'{"a":null,"b":1000000000000000000000000000000}'
    assert isinstance(write_body({"a": float("nan")}), Failed)


def _tls(folder: Path) -> ssl.SSLContext:
    """A server's side of a certificate that only those trust who are given it."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=127.0.0.1",
    ]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context
