"""Whatever of a model is changed where it is, is another model: its old answers are not reused."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.models.hf.conftest import make_network, make_tokenizer

from assay.models import load_model, load_when_asked


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    folder = tmp_path / "model"
    make_network("llama").save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    return folder


def fingerprints(args: dict[str, Any]) -> tuple[str, str]:
    """As a model that is loaded says it, and as a run sees it before anything is loaded."""
    words: dict[str, Any] = {"device": "cpu"}
    return load_model("hf", args, **words).fingerprint(), load_when_asked("hf", args, **words).fingerprint()


def changes(args: dict[str, Any], change: Callable[[], None]) -> None:
    before = fingerprints(args)
    assert fingerprints(args) == before
    change()
    after = fingerprints(args)
    assert after[0] != before[0]
    assert after[1] == after[0]


def overwrite(folder: Path, file: str = "model.safetensors") -> None:
    """One number of one tensor, in a file of the same size and the same time."""
    path = folder / file
    times = path.stat()
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(bytes(data))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def test_weights(model: Path) -> None:
    changes({"pretrained": str(model)}, lambda: overwrite(model))


def test_tokenizer(model: Path) -> None:
    def edit() -> None:
        path = model / "tokenizer_config.json"
        path.write_text(path.read_text().replace("</s>", "<s>"))

    changes({"pretrained": str(model)}, edit)


def lora(base: Path, place: Path) -> Path:
    peft = pytest.importorskip("peft")
    from transformers import AutoModelForCausalLM

    torch.manual_seed(1)
    network = AutoModelForCausalLM.from_pretrained(base)
    config = peft.LoraConfig(r=2, target_modules=["q_proj"], init_lora_weights=False, task_type="CAUSAL_LM")
    peft.get_peft_model(network, config).save_pretrained(place)
    return place


def test_an_adapter(model: Path, tmp_path: Path) -> None:
    adapter = lora(model, tmp_path / "adapter")
    changes({"pretrained": str(model), "peft": str(adapter)}, lambda: overwrite(adapter, "adapter_model.safetensors"))


def test_a_model_in_a_folder_of_the_directory(model: Path) -> None:
    inside = model / "inside"
    make_network("llama").save_pretrained(inside)
    make_tokenizer().save_pretrained(inside)
    changes({"pretrained": str(model), "subfolder": "inside"}, lambda: overwrite(inside))


@pytest.mark.parametrize("safe", [True, False])
def test_one_layer_of_a_large_file(tmp_path: Path, safe: bool) -> None:
    """Files are too large to be read whole; every tensor is looked at all the same."""
    from safetensors.torch import save_file

    from assay.models.hf.files import fingerprint

    tensors = {f"layer.{i}": torch.full((64, 256), float(i)) for i in range(40)}
    path = tmp_path / ("model.safetensors" if safe else "pytorch_model.bin")
    seen = set()
    for changed in [None, *tensors]:
        given = {name: value + (name == changed) for name, value in tensors.items()}
        save_file(given, path) if safe else torch.save(given, path)
        seen.add(fingerprint({}, [path], None, None))
    assert path.stat().st_size > 1 << 20
    assert len(seen) == 41


MODEL = """
from assay.models import LM
class Fixed(LM):
    def loglikelihood(self, requests): return [({value}, True) for _ in requests]
    def loglikelihood_rolling(self, requests): return [0.0 for _ in requests]
    def generate_until(self, requests): return ["" for _ in requests]
"""


def test_the_file_of_a_model_class(tmp_path: Path) -> None:
    path = tmp_path / "fixed.py"
    seen = set()
    for value in ("-1.0", "-2.0"):
        path.write_text(MODEL.format(value=value))
        shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)
        seen.add(load_model(f"{path}:Fixed").fingerprint())
    assert len(seen) == 2
