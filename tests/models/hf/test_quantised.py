"""Models that are quantised while they are loaded, by what transformers knows."""

from __future__ import annotations

import copy
import json
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.models.hf.test_arguments import load, score
from tests.models.hf.test_linear import Holder
from transformers.quantizers import auto
from transformers.quantizers.base import HfQuantizer
from transformers.utils.quantization_config import QuantizationConfigMixin

import assay
from assay.errors import ConfigError
from assay.models.hf import HFLM
from assay.models.hf.linear import pack_linear_layers
from assay.models.hf.loading import quantization_options
from assay.models.hf.selfcheck import self_check


class RoundedConfig(QuantizationConfigMixin):
    def __init__(self, levels: int = 7, **_: Any) -> None:
        self.quant_method = "rounded"
        self.levels = levels


class Rounded(HfQuantizer):
    """A package's own way to quantise, as far as transformers knows one: here four bits, one scale for each row."""

    requires_calibration = False

    def _process_model_after_weight_loading(self, model: Any, **_: Any) -> Any:
        for part in model.modules():
            if isinstance(part, torch.nn.Linear):
                scales = part.weight.data.abs().amax(dim=1, keepdim=True) / self.quantization_config.levels
                part.weight.data = (part.weight.data / scales).round() * scales
        return model

    def is_serializable(self) -> bool:
        return False

    def is_trainable(self) -> bool:
        return False


@pytest.fixture
def rounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(auto.AUTO_QUANTIZATION_CONFIG_MAPPING, "rounded", RoundedConfig)
    monkeypatch.setitem(auto.AUTO_QUANTIZER_MAPPING, "rounded", Rounded)


NF4 = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}
needs_bitsandbytes = pytest.mark.skipif(find_spec("bitsandbytes") is None, reason="bitsandbytes is not installed")
WAYS = [
    pytest.param({"quantization_config": {"quant_method": "rounded"}}, id="mapping"),
    pytest.param(NF4, id="bitsandbytes", marks=needs_bitsandbytes),
]


@pytest.mark.usefixtures("rounded")
@pytest.mark.parametrize("arguments", WAYS)
def test_a_quantised_model_is_another_model_and_shares_prefixes(
    arguments: dict[str, Any], llama_directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = load(llama_directory, **arguments)
    assert f"passed on to transformers: {', '.join(arguments)}" in caplog.text
    whole = load(llama_directory)
    assert 1e-4 < abs(score(model) - score(whole)) < 0.5
    assert model.fingerprint() != whole.fingerprint()
    assert model.check.way == "tree", model.check.reason


def test_four_bits_that_are_multiplied_in_half_precision_are_judged_by_its_noise(llama: HFLM) -> None:
    """As bitsandbytes does with `bnb_4bit_compute_dtype`: the rest of the model stays in float32, and says so."""
    model = copy.deepcopy(llama.model)
    for layer in [part for part in model.modules() if isinstance(part, torch.nn.Linear)]:
        weight = layer.weight.data.bfloat16()
        layer.forward = lambda states, weight=weight: torch.nn.functional.linear(states.bfloat16(), weight).float()
    assert model.dtype == torch.float32
    assert self_check(model).way != "tree"
    model.config.quantization_config = SimpleNamespace(load_in_4bit=True, bnb_4bit_compute_dtype=torch.bfloat16)
    check = self_check(model)
    assert check.way == "tree", check.reason


@pytest.mark.usefixtures("rounded")
def test_answers_are_not_shared_between_a_model_and_its_quantised_form(llama_directory: Path, tmp_path: Path) -> None:
    def run(**arguments: Any) -> Any:
        given = {"pretrained": str(llama_directory), "dtype": "float32", "threads": 1, **arguments}
        return assay.evaluate(
            model="hf",
            model_args=given,
            tasks=["demo_capitals_en"],
            limit=4,
            store=str(tmp_path / "store.sqlite"),
            run_dir=str(tmp_path / f"run{len(arguments)}"),
        )

    run()
    run(quantization_config={"quant_method": "rounded"})
    written = json.loads((tmp_path / "run1" / "run.json").read_text())
    assert written["counts"]["tokens_computed"] > 0
    assert written["config"]["model_args"]["quantization_config"] == {"quant_method": "rounded"}


@pytest.mark.skipif(find_spec("bitsandbytes") is not None, reason="bitsandbytes is installed")
def test_a_package_that_quantising_needs_is_named(llama_directory: Path) -> None:
    with pytest.raises(ConfigError, match="4-bit quantization requires bitsandbytes") as error:
        load(llama_directory, load_in_4bit=True)
    assert error.value.hint is not None
    assert "pip install" in error.value.hint


def test_bits_and_bytes_are_gathered_into_one_config() -> None:
    found = quantization_options({"load_in_8bit": True, "llm_int8_threshold": 5.0, "variant": "fp16"})
    assert found["variant"] == "fp16"
    assert found["quantization_config"].load_in_8bit
    assert found["quantization_config"].llm_int8_threshold == 5.0
    assert quantization_options({"load_in_4bit": False}) == {}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"load_in_4bit": True, "quantization_config": {}}, "load_in_4bit cannot be combined with quantization_config"),
        ({"load_in_4bit": True, "load_in_8bit": True}, "load_in_4bit, load_in_8bit: ValueError: .* only one"),
        ({"bnb_4bit_quant_type": "nf4"}, "bnb_4bit_quant_type: has no effect, because nothing is quantised"),
        ({"load_in_4bit": True, "bnb_4bit_compute_dtype": "bf16"}, "bnb_4bit_compute_dtype: .*bf16"),
        ({"quantization_config": "nf4"}, "quantization_config is the text 'nf4'"),
    ],
)
def test_what_cannot_be_quantised_is_said_before_anything_is_loaded(
    arguments: dict[str, Any], message: str, llama_directory: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        HFLM.check_arguments({"pretrained": str(llama_directory), **arguments})


class Packed(torch.Tensor):
    """Quantised numbers behind the face of a tensor, as torchao has them."""


def test_weights_that_are_not_plain_tensors_keep_their_own_product() -> None:
    layer = torch.nn.Linear(24, 40)
    layer.weight = torch.nn.Parameter(layer.weight.detach().as_subclass(Packed), requires_grad=False)
    assert pack_linear_layers(Holder(layer)) == 0
