"""The stand-in of these tests and the backend use names that vLLM 0.32 has."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.models.vllm.asking import ask
from tests.models.vllm.conftest import Load
from tests.models.vllm.signatures import PLACES, pinned, read_signatures

from assay.models.vllm.protocol import Request


def names_of(function: Any) -> set[str]:
    parameters = inspect.signature(function).parameters.values()
    kinds = {parameter.kind: parameter for parameter in parameters}
    assert inspect.Parameter.VAR_POSITIONAL not in kinds
    return {p.name for p in parameters if p.kind is not p.VAR_KEYWORD} - {"self"}


@pytest.fixture
def vllm(stand_in: Path) -> Iterator[Any]:
    yield importlib.import_module("vllm")
    for name in [name for name in sys.modules if name.partition(".")[0] == "vllm"]:
        del sys.modules[name]


def test_the_stand_in_takes_nothing_that_vllm_does_not(vllm: Any) -> None:
    from vllm.lora.request import LoRARequest

    engine_arguments = pinned("EngineArgs") | pinned("LLM")
    assert names_of(vllm.SamplingParams) <= pinned("SamplingParams")
    assert names_of(vllm.LLM) <= engine_arguments
    assert set(vllm.EngineArgs.__dataclass_fields__) <= pinned("EngineArgs")
    assert names_of(LoRARequest) <= pinned("LoRARequest")
    engine = vllm.LLMEngine
    for method in ("add_request", "step", "abort_request"):
        assert names_of(getattr(engine, method)) <= pinned(f"LLMEngine.{method}")


def test_requests_and_arguments_have_names_that_vllm_knows(load: Load) -> None:
    model: Any = load(lora_local_path="/lora")
    assert model.arguments.keys() <= pinned("EngineArgs")
    asked: list[Request] = []
    generate = model.engines.generate

    def watched(requests: Any) -> Any:
        requests = list(requests)
        asked.extend(requests)
        return generate(requests)

    model.engines.generate = watched
    settings = {"until": ["\n"], "temperature": 0.7, "max_gen_toks": 4, "num_beams": 1, "use_cache": True}
    model.generate_until([ask("generate_until", "The", settings)])
    model.loglikelihood([ask("loglikelihood", "The", " river"), ask("loglikelihood", "Then", "x")])
    model.loglikelihood_rolling([ask("loglikelihood_rolling", "The river")])
    assert {name for request in asked for name in request.params} <= pinned("SamplingParams")
    assert any("logprob_token_ids" in request.params for request in asked)


def test_outputs_have_the_attributes_that_are_read(vllm: Any) -> None:
    engine = vllm.LLMEngine(64)
    engine.add_request("1", {"prompt_token_ids": [65]}, vllm.SamplingParams(max_tokens=2, logprob_token_ids=[66]))
    (output,) = engine.step()
    assert vars(output).keys() <= pinned("RequestOutput")
    assert vars(output.outputs[0]).keys() <= pinned("CompletionOutput")
    assert vars(output.outputs[0].logprobs[0][66]).keys() <= pinned("Logprob")


@pytest.mark.skipif("VLLM_WHEEL" not in os.environ, reason="VLLM_WHEEL names no wheel of vLLM")
def test_the_table_is_what_the_wheel_says() -> None:
    found = read_signatures(os.environ["VLLM_WHEEL"])
    assert not {name: pinned(name) - found[name] for name in PLACES if pinned(name) - found[name]}
    assert found["SamplingParams"] == pinned("SamplingParams")
    assert found["LLMEngine.add_request"] == pinned("LLMEngine.add_request")
