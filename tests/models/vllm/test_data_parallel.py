"""Several engines in processes of their own: the same answers, each on its own devices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.models.vllm.asking import ask

from assay.errors import ConfigError, ModelError
from assay.models import load_model
from assay.models.vllm.engines import ManyEngines, device_groups
from assay.models.vllm.protocol import Request


def test_devices_are_shared_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3,5,7")
    assert device_groups(2, 2) == ["2,3", "5,7"]
    with pytest.raises(ConfigError, match="needs 6 devices"):
        device_groups(3, 2)


@pytest.mark.slow
def test_data_parallel_engines_share_the_chunks_and_see_their_own_devices(
    stand_in: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6")
    arguments = {
        "model": "x",
        "tokenizer": "x",
        "dtype": "auto",
        "trust_remote_code": False,
        "tensor_parallel_size": 1,
        "seed": 0,
    }
    engines = ManyEngines(2, arguments, None, 1)
    requests = [Request(tuple(b"The river"), {"max_tokens": n, "temperature": 0.0}) for n in (0, 5, 0, 5, 0, 5, 0)]
    outputs = dict(engines.generate(requests, 1))
    engines.close()
    assert sorted(outputs) == list(range(7))
    assert {outputs[i].text for i in (0, 2, 4, 6)} <= {"4", "6"}
    assert len({outputs[i].text for i in (1, 3, 5)}) == 1


def byte_tokenizer(directory: Path) -> str:
    """Token ids are byte values, as in the stand-in, but loaded from files, as every process of a parallel run does."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    raw = Tokenizer(models.BPE(vocab={text: byte for byte, text in bytes_to_unicode().items()}, merges=[]))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    raw.decoder = decoders.ByteLevel()
    end = bytes_to_unicode()[0]
    PreTrainedTokenizerFast(tokenizer_object=raw, bos_token=end, eos_token=end).save_pretrained(directory)
    return str(directory)


@pytest.mark.slow
def test_a_data_parallel_model_answers_like_one_engine(
    stand_in: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6")
    arguments = {"pretrained": "x", "tokenizer": byte_tokenizer(tmp_path / "bytes"), "max_length": 64}
    one: Any = load_model("vllm", arguments, batch_size=2)
    two: Any = load_model("vllm", {**arguments, "data_parallel_size": 2}, batch_size=2)
    assert isinstance(two.engine, ManyEngines)
    assert two.fingerprint() == one.fingerprint()
    text = "The river Orle begins in a field that nobody would look at twice. " * 3
    requests: dict[str, list[tuple[Any, ...]]] = {
        "loglikelihood": [("The river is", f" wide {i}") for i in range(7)] + [("", "Salt é"), ("x", ""), ("x", text)],
        "loglikelihood_rolling": [(text,), ("",), (text[7:],)],
        "generate_until": [(f"The {w}", {"temperature": 1.0, "max_gen_toks": 9}) for w in ("river", "mill", "", "a")],
    }
    try:
        for kind, asked in requests.items():
            instances = [ask(kind, *words) for words in asked]
            draws = list(range(len(asked)))
            found, expected = (dict(model.stream(kind, instances, draws)) for model in (two, one))
            assert found == expected
            assert sorted(found) == draws
    finally:
        two.close()
    assert two.usage == one.usage


@pytest.mark.slow
def test_an_engine_that_ends_is_an_error_that_says_so(stand_in: None, tmp_path: Path) -> None:
    arguments = {"pretrained": "x", "tokenizer": byte_tokenizer(tmp_path / "bytes"), "max_length": 200}
    model = load_model("vllm", {**arguments, "data_parallel_size": 2})
    try:  # the stand-in refuses more than 64 tokens
        with pytest.raises(ModelError, match="AssertionError: too long"):
            model.generate_until([ask("generate_until", "The river", {"max_gen_toks": 100})])
    finally:
        model.close()


def test_data_parallel_needs_the_context_length_before_anything_is_started(
    stand_in: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assay.models.vllm.model.ManyEngines", lambda *_: pytest.fail("started"))
    with pytest.raises(ConfigError, match=r"context length\n.*max_length=N"):
        load_model("vllm", {"pretrained": "x", "data_parallel_size": 2})
