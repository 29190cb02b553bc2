"""Models from directories and files, and what is said when one is broken."""

from __future__ import annotations

import copy
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tests.models.tiny_catalog import tiny_gguf

from assay.errors import ConfigError, ModelError
from assay.instance import Instance
from assay.models import load_model
from assay.models.hf import HFLM


def score(model: Any) -> float:
    value: float = model.loglikelihood([Instance("loglikelihood", {}, ("Question: Which?", " light"), 0)])[0][0]
    return value


@pytest.fixture
def copied(llama_directory: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(llama_directory, tmp_path / "model"))


def test_a_directory_gives_what_the_loaded_model_gives(llama_directory: Path, llama: HFLM) -> None:
    model = load_model("hf", {"pretrained": str(llama_directory), "dtype": "float32", "threads": 1}, device="cpu")
    assert score(model) == pytest.approx(score(llama), abs=1e-5)
    assert model.check.passed  # type: ignore[attr-defined]


def test_an_unknown_argument_suggests_the_right_one(llama_directory: Path) -> None:
    with pytest.raises(ConfigError, match="Did you mean max_length"):
        load_model("hf", {"pretrained": str(llama_directory), "max_lenght": 5})


def test_a_directory_that_is_not_there() -> None:
    with pytest.raises(ModelError, match="no model directory"):
        HFLM("./no/such/model")


def test_a_directory_without_config(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no config\.json"):
        HFLM(str(tmp_path))


def test_a_directory_without_a_tokenizer(copied: Path) -> None:
    for path in copied.glob("tokenizer*"):
        path.unlink()
    with pytest.raises(ModelError, match="has no tokenizer files") as caught:
        HFLM(str(copied))
    assert "tokenizer=" in str(caught.value)


def test_a_broken_tokenizer(copied: Path) -> None:
    (copied / "tokenizer.json").write_text("{")
    with pytest.raises(ModelError, match="tokenizer"):
        HFLM(str(copied))


@pytest.mark.parametrize("keep", [0, 4, 2000])
def test_a_cut_safetensors_file(copied: Path, keep: int) -> None:
    weights = copied / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:keep])
    with pytest.raises(ModelError, match=r"weights of .* cannot be read") as caught:
        HFLM(str(copied))
    assert "download complete" in str(caught.value)


def test_a_broken_gguf(copied: Path) -> None:
    (copied / "model.gguf").write_bytes(b"GGUF nonsense")
    with pytest.raises(ModelError, match=r"model\.gguf"):
        HFLM(str(copied / "model.gguf"))


def test_a_gguf_file_gives_what_its_weights_give_in_transformers(tmp_path: Path) -> None:
    tiny_gguf(tmp_path / "tiny.gguf")
    model = load_model("hf", {"pretrained": str(tmp_path), "gguf_file": "tiny.gguf", "threads": 1}, device="cpu")
    assert isinstance(model, HFLM)
    same = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file="tiny.gguf", dtype=torch.float32)
    ids = torch.tensor([[1, 5, 6, 7]])
    with torch.inference_mode():
        assert torch.allclose(model.model(ids).logits.float(), same(ids).logits, atol=1e-4)
    by_path = HFLM(str(tmp_path / "tiny.gguf"), threads=1)
    assert by_path.fingerprint() == model.fingerprint()
    assert model.check.passed, model.check.reason


def test_files_beside_a_gguf_are_other_models(tmp_path: Path) -> None:
    """Quantisations of one model often lie in one directory, with the user's other downloads."""
    tiny_gguf(tmp_path / "tiny.Q8.gguf")
    shutil.copy(tmp_path / "tiny.Q8.gguf", tmp_path / "tiny.Q4.gguf")
    first = HFLM(str(tmp_path / "tiny.Q8.gguf"), threads=1)
    assert first.fingerprint() != HFLM(str(tmp_path / "tiny.Q4.gguf"), threads=1).fingerprint()
    assert first.source is not None
    assert first.source.files() == [tmp_path / "tiny.Q8.gguf"]


def test_a_gguf_name_that_is_not_there_suggests_one_that_is(copied: Path) -> None:
    (copied / "tiny.Q4_1.gguf").write_bytes(b"")
    with pytest.raises(ModelError, match=r"Did you mean tiny\.Q4_1\.gguf"):
        HFLM(str(copied), gguf_file="tiny.Q4_0.gguf")


def test_an_unknown_dtype(llama_directory: Path) -> None:
    with pytest.raises(ConfigError, match="Did you mean bfloat16"):
        HFLM(str(llama_directory), dtype="bfloat61")


def test_an_unknown_backend(llama_directory: Path) -> None:
    with pytest.raises(ConfigError, match="One of: default, causal, seq2seq"):
        HFLM(str(llama_directory), backend="other")


def test_an_adapter_that_is_not_one(llama_directory: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"peft|adapter"):
        HFLM(str(llama_directory), peft=str(tmp_path))


def test_arguments_of_other_harnesses_without_effect_are_said_to_be_so(
    llama_directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    HFLM(str(llama_directory), logits_cache=False, threads=1)
    assert "logits_cache" in caplog.text


def test_a_model_object_needs_its_tokenizer(network: Any) -> None:
    with pytest.raises(ConfigError, match="tokenizer object"):
        HFLM(network("llama"))


def test_the_context_length_comes_from_the_config_unless_given(llama: HFLM, llama_directory: Path) -> None:
    assert llama.max_length == 256
    assert HFLM(str(llama_directory), max_length=32, threads=1).max_length == 32


def test_equal_files_have_equal_fingerprints_and_changed_ones_do_not(llama_directory: Path, copied: Path) -> None:
    first = HFLM(str(llama_directory), threads=1).fingerprint()
    assert HFLM(str(copied), threads=1).fingerprint() == first
    assert HFLM(str(copied), threads=1, max_length=64).fingerprint() != first
    weights = bytearray((copied / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (copied / "model.safetensors").write_bytes(weights)
    assert HFLM(str(copied), threads=1).fingerprint() != first


def test_a_model_object_has_a_fingerprint_of_its_weights(network: Any, tokenizer: Any, llama: HFLM) -> None:
    assert HFLM(network("llama"), tokenizer=tokenizer, threads=1).fingerprint() == llama.fingerprint()
    assert HFLM(network("mistral"), tokenizer=tokenizer, threads=1).fingerprint() != llama.fingerprint()


def test_an_adapter_goes_by_the_tree_too(llama_directory: Path, llama: HFLM, network: Any, tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    settings = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    peft.get_peft_model(copy.deepcopy(network("llama")), settings).save_pretrained(tmp_path)
    model = HFLM(str(llama_directory), peft=str(tmp_path), dtype="float32", threads=1)
    assert model.check.passed, model.check.reason
    merged = HFLM(model.model.merge_and_unload(), tokenizer=model.tokenizer, threads=1)
    adapted = HFLM(str(llama_directory), peft=str(tmp_path), dtype="float32", threads=1)
    assert score(adapted) == pytest.approx(score(merged), abs=1e-4)
    assert score(adapted) != pytest.approx(score(llama), abs=1e-3)
    assert adapted.fingerprint() != HFLM(str(llama_directory), dtype="float32", threads=1).fingerprint()
    request = Instance("generate_until", {}, ("A woman", {"max_gen_toks": 5}), 0)
    assert adapted.generate_until([request]) == merged.generate_until([request])
