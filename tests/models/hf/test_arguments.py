"""Model arguments, from the words of the command line to what they change."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tokenizers.processors import TemplateProcessing

from assay.errors import ConfigError, ModelError
from assay.instance import Instance
from assay.models import load_model
from assay.models.hf import HFLM

REMOTE_CODE = """
from transformers import LlamaConfig, LlamaForCausalLM

class OddConfig(LlamaConfig):
    model_type = "odd"

class OddForCausalLM(LlamaForCausalLM):
    config_class = OddConfig
"""


def load(directory: Path, **arguments: Any) -> HFLM:
    model = load_model(
        "hf", {"pretrained": str(directory), "dtype": "float32", "threads": 1, **arguments}, device="cpu"
    )
    assert isinstance(model, HFLM)
    return model


def score(model: HFLM, context: str = "Question: Which?", continuation: str = " light") -> float:
    return float(model.loglikelihood([Instance("loglikelihood", {}, (context, continuation), 0)])[0][0])


@pytest.fixture
def copied(llama_directory: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(llama_directory, tmp_path / "model"))


def test_a_tokenizer_from_elsewhere(copied: Path, llama: HFLM) -> None:
    elsewhere = copied.parent / "tokenizer"
    elsewhere.mkdir()
    for path in copied.glob("tokenizer*"):
        path.rename(elsewhere / path.name)
    assert score(load(copied, tokenizer=str(elsewhere))) == pytest.approx(score(llama), abs=1e-5)


@pytest.fixture
def with_bos(copied: Path) -> Path:
    """A model whose tokenizer puts `<s>` in front, as Llama's does."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(copied)
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    tokenizer.save_pretrained(copied)
    return copied


@pytest.mark.parametrize(
    ("argument", "has_bos"), [({}, True), ({"add_bos_token": True}, True), ({"add_bos_token": False}, False)]
)
def test_a_token_in_front_or_not(with_bos: Path, argument: dict[str, Any], has_bos: bool) -> None:
    model = load(with_bos, **argument)
    (pair,) = model.loglikelihoods.encode([("Question: Which?", " light")])
    assert (pair.context[0] == 0) is has_bos
    assert pair.context.count(0) == has_bos


def test_what_an_empty_context_is_scored_after(copied: Path) -> None:
    model = load(copied, prefix_token_id=5)
    ids = [5, *model.encoder.encode(["light"], add_special_tokens=False)[0]]
    with torch.inference_mode():
        logits = model.model(torch.tensor([ids])).logits[0].log_softmax(-1)
    expected = sum(float(logits[place, token]) for place, token in enumerate(ids[1:]))
    assert score(model, "", "light") == pytest.approx(expected, abs=1e-4)
    assert score(load(copied), "", "light") != pytest.approx(expected, abs=1e-2)


def test_how_to_attend_outside_of_the_tree(copied: Path, llama: HFLM) -> None:
    model = load(copied, attn_implementation="eager", tree=False)
    assert model.model.config._attn_implementation == "eager"
    assert score(model) == pytest.approx(score(llama), abs=1e-4)


def test_code_that_comes_with_a_model_runs_only_when_trusted(
    copied: Path, llama: HFLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transformers.dynamic_module_utils, "HF_MODULES_CACHE", str(copied.parent / "modules"))
    (copied / "odd.py").write_text(REMOTE_CODE)
    config = json.loads((copied / "config.json").read_text())
    config |= {
        "model_type": "odd",
        "auto_map": {"AutoConfig": "odd.OddConfig", "AutoModelForCausalLM": "odd.OddForCausalLM"},
    }
    (copied / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match="--trust_remote_code"):
        load(copied)
    model = load(copied, trust_remote_code=True)
    assert type(model.model).__name__ == "OddForCausalLM"
    assert score(model) == pytest.approx(score(llama), abs=1e-4)


def test_the_revision_of_a_hub_name_reaches_every_loader(monkeypatch: pytest.MonkeyPatch, copied: Path) -> None:
    asked: list[tuple[str, Any]] = []
    for kind in ("AutoConfig", "AutoTokenizer", "AutoModelForCausalLM"):
        real = getattr(transformers, kind).from_pretrained

        def stand_in(name: str, *, revision: str, kind: str = kind, real: Any = real, **options: Any) -> Any:
            asked.append((kind, revision))
            return real(copied, **options)

        monkeypatch.setattr(getattr(transformers, kind), "from_pretrained", stand_in)
    HFLM("org/model", revision="v2", dtype="float32", device="cpu", threads=1)
    assert {("AutoConfig", "v2"), ("AutoTokenizer", "v2"), ("AutoModelForCausalLM", "v2")} <= set(asked)


def test_a_name_of_the_catalog(copied: Path, llama: HFLM, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.models.hf.loading.resolve", lambda name: copied if name == "tiny" else None)
    model = load_model("hf", {"pretrained": "tiny", "dtype": "float32", "threads": 1}, device="cpu")
    assert isinstance(model, HFLM)
    assert score(model) == pytest.approx(score(llama), abs=1e-5)


def test_arguments_of_transformers_are_passed_on_and_said(
    llama_directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = load(llama_directory, low_cpu_mem_usage=True, use_safetensors=True)
    assert "passed on to transformers: low_cpu_mem_usage, use_safetensors" in caplog.text
    plain = load(llama_directory)
    assert model.fingerprint() != plain.fingerprint(), "answers of a model that is loaded otherwise are not shared"


def test_an_argument_that_nobody_knows_is_refused_with_the_nearest(llama_directory: Path) -> None:
    with pytest.raises(ConfigError, match="has no argument 'load_in_4bits'") as error:
        load(llama_directory, load_in_4bits=True)
    assert "load_in_4bit" in str(error.value)
