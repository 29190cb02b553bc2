"""The key comes from the environment and is shown nowhere, whatever a server or a library says of it."""

from __future__ import annotations

import json

import pytest
from tests.models.openai.asking import connect, generations
from tests.models.openai.faulty_server import FaultyServer

from assay.errors import ConfigError
from assay.models import load_model

SECRET = "sk-a-very-secret-key"


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)


def test_it_goes_into_the_header_and_nowhere_else() -> None:
    with FaultyServer() as server:
        model = connect(server)
        model.generate_until(generations(1))
        assert server.headers[0]["Authorization"] == f"Bearer {SECRET}"
        assert SECRET not in model.fingerprint()
        assert SECRET not in json.dumps(dict(model.model_args))
        assert SECRET not in repr(model.transport.settings)
        model.close()


@pytest.mark.parametrize("space", ["\n", "\r\n", " ", "\t"])
def test_a_line_break_at_its_end_is_no_part_of_it(space: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET + space)
    with FaultyServer() as server:
        model = connect(server)
        model.generate_until(generations(1))
        model.close()
    assert server.headers[0]["Authorization"] == f"Bearer {SECRET}"


@pytest.mark.parametrize("inside", ["\n", "é", "\x7f"])
def test_one_that_no_header_can_hold_is_refused_without_being_shown(
    inside: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", f"{SECRET}{inside}{SECRET}")
    with pytest.raises(ConfigError, match="OPENAI_API_KEY") as caught:
        load_model("local-completions", {"base_url": "http://localhost:1/v1", "model": "m"})
    assert SECRET not in str(caught.value)


# Also where the text is cut within the key, which would leave most of it.
@pytest.mark.parametrize(
    "fault", ["indiscreet:400000", "indiscreet:400285", "indiscreet:200000", "indiscreet:200105", "indiscreet:500285"]
)
def test_a_server_that_repeats_it_does_not_get_it_into_the_reason(fault: str) -> None:
    with FaultyServer(lambda seen, body: fault) as server:
        model = connect(server, max_retries=1)
        answer = dict(model.stream("generate_until", generations(1), [0]))[0]
        model.close()
    assert answer.failure
    assert SECRET[:6] not in answer.failure
    assert "…" in answer.failure


def test_short_keys_of_own_servers_are_not_cut_out_of_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    model = load_model("local-completions", {"base_url": "http://localhost:1/v1", "model": "m"})
    assert model.transport.settings.redact("text") == "text"  # type: ignore[attr-defined]


def test_a_certificate_that_is_not_there_is_a_wrong_argument_and_no_silent_server() -> None:
    with pytest.raises(ConfigError, match=r"ca_cert_path=/no/such\.pem"):
        load_model("local-completions", {"base_url": "https://localhost:1/v1", "ca_cert_path": "/no/such.pem"})
