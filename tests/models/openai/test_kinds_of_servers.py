"""Servers people run, answering as they do: what each gives is found out, and what it lacks is said.

A stub here differs from the next in what it lists under `/models`, whether it echoes prompts with log-probabilities, takes
lists of prompts, and in what it refuses. The table in docs/servers.md has the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.models.openai.asking import ByteEncoder, ask, connect, generations, pairs, with_tokens
from tests.models.openai.faulty_server import SGLANG, VLLM, Dialect, FaultyServer

from assay.models.base import NoLikelihoods
from assay.models.openai.arguments import is_azure, request_headers
from assay.models.openai.wire import Settings

PAGE = Path(__file__).parents[3] / "docs" / "servers.md"


@dataclass(frozen=True)
class Kind:
    """What a server says of its model, and what it can do."""

    listing: Mapping[str, Any]
    echo: bool = False
    lists: bool = False
    dialect: Dialect = field(default=Dialect())
    context: int | None = None
    """As the server's list says."""


KINDS = {
    "vLLM": Kind({"owned_by": "vllm", "max_model_len": 4096}, echo=True, lists=True, dialect=VLLM, context=4096),
    "SGLang": Kind({"owned_by": "sglang", "max_model_len": 8192}, echo=True, lists=True, dialect=SGLANG, context=8192),
    "text-generation-inference": Kind({"owned_by": "meta-llama/Llama"}),
    "llama.cpp": Kind({"owned_by": "llamacpp", "meta": {"n_ctx": 2048, "n_ctx_train": 8192}}, context=2048),
    "Ollama": Kind({"owned_by": "library"}),
    "LM Studio": Kind({"owned_by": "organization_owner"}),
    "OpenRouter": Kind({"context_length": 131072}, context=131072),
    "Together": Kind({"owned_by": "Meta", "context_length": 32768}, context=32768),
    "Fireworks": Kind({"owned_by": "fireworks", "context_length": 16384}, context=16384),
}


def stub(kind: Kind) -> FaultyServer:
    server = FaultyServer(echo=kind.echo, lists=kind.lists, dialect=kind.dialect)
    server.listing = {"id": "ngram", **kind.listing}
    return server


@pytest.mark.parametrize("name", KINDS)
def test_each_server_generates_scores_if_it_can_and_says_its_context(name: str) -> None:
    kind = KINDS[name]
    with stub(kind) as server:
        model = connect(server)
        assert model.context_length() == kind.context
        assert all(model.generate_until(generations(3)))
        if kind.echo:
            choices = [ask("loglikelihood", "The river is", f" {letter}") for letter in "ABCD"]
            assert len(model.loglikelihood(choices)) == 4
            together = [body["prompt"] for body in server.bodies if isinstance(body["prompt"], list)]
            assert bool(together) == kind.lists
        else:
            with pytest.raises(NoLikelihoods):
                model.loglikelihood(pairs(1))
        model.close()


@pytest.mark.parametrize("name", [*KINDS, "Azure"])
def test_each_server_has_its_row_in_the_docs(name: str) -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith(f"| {name} |")]
    assert len(rows) == 1
    if name in KINDS:
        assert ("scores" in rows[0]) == KINDS[name].echo


def test_azure_gets_its_key_in_a_header_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "secret-of-azure")
    url = "https://mine.openai.azure.com/openai/deployments/x/chat/completions?api-version=2024-10-21"
    assert is_azure(url)
    headers = request_headers(None, "OPENAI_API_KEY", key_required=False, azure=True)
    assert headers == {"api-key": "secret-of-azure"}
    assert Settings(url, headers).redact("denied: secret-of-azure") == "denied: …"
    assert not is_azure("https://openai.azure.com.example.org/v1")


@pytest.mark.parametrize("model", ["o3-mini", "openai/gpt-5", "gpt-5.1"])
def test_reasoning_models_get_no_temperature_and_a_length_with_thoughts(model: str) -> None:
    with FaultyServer() as server:
        lm = connect(server, "local-chat-completions", model=model)
        lm.generate_until([ask("generate_until", "The", {"until": ["."], "max_gen_toks": 7, "temperature": 0.5})])
        lm.close()
    (body,) = server.bodies
    assert body["max_completion_tokens"] == 7
    assert not body.keys() & {"max_tokens", "temperature", "stop", "top_p"}


class Knowing(ByteEncoder):
    max_length: Any = 300


@pytest.mark.parametrize(
    ("listed", "encoder", "given", "expected"),
    [
        (200, Knowing(), None, 200),
        (None, Knowing(), None, 300),
        (400, ByteEncoder(), None, 400),
        (200, Knowing(), 90, 90),
    ],
)
def test_prompts_are_cut_to_what_server_and_tokenizer_say(
    listed: int | None, encoder: Any, given: int | None, expected: int
) -> None:
    with FaultyServer() as server:
        if listed:
            server.listing["max_model_len"] = listed
        more = {} if given is None else {"max_length": given}
        model = with_tokens(connect(server, **more), encoder)
        model.generate_until([ask("generate_until", "x" * 1000, {"until": ["."], "max_gen_toks": 10})])
        model.close()
    assert len(server.bodies[-1]["prompt"]) == expected - 10
