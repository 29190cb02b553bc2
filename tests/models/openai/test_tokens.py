"""Tokens on our side: what is cut, what is sent, and what tells two set-ups apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.models.openai.asking import NGRAM, ByteEncoder, ask, close_to, connect, pairs, with_tokens
from tests.models.openai.faulty_server import FaultyServer

from assay.errors import ConfigError, ModelError
from assay.models import load_model
from assay.models.openai.tokens import TiktokenEncoder, split_pair

BASE = {"base_url": "http://localhost:1/v1", "model": "m"}


@pytest.fixture
def encoding(monkeypatch: pytest.MonkeyPatch) -> str:
    """An encoding of bytes with one merge, where tiktoken keeps its own: those would have to be fetched."""
    tiktoken = pytest.importorskip("tiktoken")
    tiktoken.list_encoding_names()
    ranks = {bytes([byte]): byte for byte in range(256)} | {b" b": 256}
    made = {
        "name": "assay_bytes",
        "pat_str": r"(?s).+",
        "mergeable_ranks": ranks,
        "special_tokens": {"<|endoftext|>": 257},
    }
    monkeypatch.setitem(tiktoken.registry.ENCODING_CONSTRUCTORS, "assay_bytes", lambda: made)
    monkeypatch.delitem(tiktoken.registry.ENCODINGS, "assay_bytes", raising=False)
    return "assay_bytes"


def test_tiktoken_gives_ids_and_an_end_of_text_for_an_empty_context(encoding: str) -> None:
    encoder = TiktokenEncoder(encoding)
    assert encoder.encode("a b é") == [97, 256, 32, 195, 169]
    assert encoder.decode(encoder.encode("a b é")) == "a b é"
    assert encoder.encode("<|endoftext|>") == [257] == [encoder.prefix]
    assert split_pair(encoder, "a ", "b") == ([97], [256])
    assert split_pair(encoder, "", "b") == ([257], [98])


def test_tiktokens_ids_are_sent(encoding: str) -> None:
    with FaultyServer() as server:
        model = connect(server, tokenizer=encoding, tokenizer_backend="tiktoken")
        assert close_to(model.loglikelihood(pairs(3)), NGRAM.loglikelihood(pairs(3)))
        assert all(isinstance(body["prompt"], list) for body in server.bodies)
        assert model.tokenizer_name == "tiktoken:assay_bytes"
        model.close()


def test_a_model_that_tiktoken_does_not_know_gets_no_other_models_tokens() -> None:
    pytest.importorskip("tiktoken")
    with pytest.raises(ConfigError, match=r"no encoding for 'my-model'\n.*cl100k_base"):
        load_model("local-completions", {**BASE, "model": "my-model", "tokenizer_backend": "tiktoken"})


def test_a_tokenizer_that_is_not_there_is_said(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    with pytest.raises(ModelError, match="cannot be loaded"):
        load_model("local-completions", {**BASE, "tokenizer": str(tmp_path)})


class Lossy(ByteEncoder):
    """As many tokenizers are: what is decoded is not quite what was encoded."""

    def decode(self, ids: list[int]) -> str:
        return "lossy " + super().decode(ids)


@pytest.mark.parametrize(("length", "sent"), [(15, "0123456789"), (14, "lossy 123456789")])
def test_only_a_text_that_was_cut_is_written_anew(length: int, sent: str) -> None:
    with FaultyServer() as server:
        model = with_tokens(connect(server, max_length=length), Lossy(), tokenized=False)
        model.generate_until([ask("generate_until", "0123456789", {"max_gen_toks": 5})])
        model.close()
    assert server.bodies[0]["prompt"] == sent


def test_a_text_with_more_characters_than_tokens_is_not_one_that_was_cut(encoding: str) -> None:
    with FaultyServer() as server:
        model = connect(server, tokenizer=encoding, tokenizer_backend="tiktoken", tokenized_requests=False)
        model.encoder.decode = lambda ids: "decoded"
        model.generate_until([ask("generate_until", " b b b", {"max_gen_toks": 5})])
        model.close()
    assert server.bodies[0]["prompt"] == " b b b"


@pytest.mark.parametrize("max_gen_toks", [40, 41, 500])
def test_an_answer_that_leaves_no_room_for_the_prompt_is_refused(max_gen_toks: int) -> None:
    with FaultyServer() as server:
        model = with_tokens(connect(server, max_length=40))
        with pytest.raises(ConfigError, match="no room is left for the prompt"):
            model.generate_until([ask("generate_until", "a question", {"max_gen_toks": max_gen_toks})])
        model.close()
    assert server.bodies == []


def test_an_empty_prompt_is_sent_as_the_token_that_stands_for_it() -> None:
    with FaultyServer() as server:
        model = with_tokens(connect(server))
        model.generate_until([ask("generate_until", "", {"max_gen_toks": 2})])
        model.close()
    assert server.bodies[0]["prompt"] == [0]


# -- fingerprints ---------------------------------------------------------------------------------------------------


def fingerprint(name: str = "local-completions", **settings: Any) -> str:
    return load_model(name, {**BASE, **settings}).fingerprint()


def test_fingerprints_tell_servers_and_settings_apart() -> None:
    different: list[dict[str, Any]] = [
        {},
        {"model": "n"},
        {"base_url": "http://localhost:2/v1"},
        {"base_url": "http://localhost:1/v1?api-version=2"},
        {"seed": 1},
        {"max_length": 100},
        {"eos_string": "</s>"},
        {"header": {"X-Route": "b"}},
    ]
    prints = {fingerprint(**settings) for settings in different}
    prints.add(fingerprint("local-chat-completions"))
    assert len(prints) == len(different) + 1
    assert fingerprint(num_concurrent=2, timeout=1, max_retries=1, price_in=1) in prints


def save_tokenizer(path: Path, letters: str) -> str:
    tokenizers, transformers = pytest.importorskip("tokenizers"), pytest.importorskip("transformers")
    raw = tokenizers.Tokenizer(tokenizers.models.BPE({"<s>": 0, **{c: i + 1 for i, c in enumerate(letters)}}, []))
    transformers.PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<s>").save_pretrained(path)
    return str(path)


def test_fingerprints_tell_tokenizers_apart_by_what_they_do(tmp_path: Path) -> None:
    path = save_tokenizer(tmp_path, "abc")
    one = fingerprint(tokenizer=path)
    assert one == fingerprint(tokenizer=path)
    others = {
        fingerprint(tokenizer=path, **more)
        for more in ({"add_bos_token": True}, {"revision": "v2"}, {"tokenized_requests": False})
    }
    save_tokenizer(tmp_path, "bca")  # the same name, other ids
    assert len({one, *others, fingerprint(tokenizer=path)}) == 5
