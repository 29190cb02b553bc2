"""A package with vLLM's public surface, behind which the n-gram model answers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

STAND_IN = """
import os
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from assay.models.ngram import NgramLM
from assay.instance import Instance

__version__ = "0.0"


@dataclass
class EngineArgs:
    model: str = ""
    gpu_memory_utilization: float = 0.9


class SamplingParams:
    def __init__(self, n=1, temperature=1.0, max_tokens=16, stop=None, prompt_logprobs=None, logprob_token_ids=None, seed=None,
                 top_p=1.0, top_k=0, min_p=0.0, detokenize=True, skip_special_tokens=True,
                 spaces_between_special_tokens=True, output_kind=None):
        self.__dict__.update(locals())


class Tokenizer:
    bos_token_id = eos_token_id = 0
    name_or_path = "bytes"
    chat_template = None

    def __call__(self, texts, add_special_tokens=True):
        return {"input_ids": [list(text.encode()) for text in texts]}

    def decode(self, ids, skip_special_tokens=True):
        return bytes(ids).decode("utf-8", "replace")


class LLM:
    def __init__(self, model, tokenizer, dtype, trust_remote_code, tensor_parallel_size, seed, **more):
        self.llm_engine = LLMEngine(more.get("max_model_len", 64))

    def get_tokenizer(self):
        return Tokenizer()


class LLMEngine:
    # Computes two requests a step.

    def __init__(self, max_model_len):
        self.lm = NgramLM()
        self.model_config = SimpleNamespace(max_model_len=max_model_len)
        self.devices = os.environ.get("CUDA_VISIBLE_DEVICES")
        self.waiting = {}
        self.most_waiting = 0

    def add_request(self, request_id, prompt, params, lora_request=None):
        assert isinstance(request_id, str) and request_id not in self.waiting
        self.waiting[request_id] = bytes(prompt["prompt_token_ids"]), params
        self.most_waiting = max(self.most_waiting, len(self.waiting))
        return request_id

    def abort_request(self, request_ids, internal=False):
        for request_id in request_ids:
            del self.waiting[request_id]

    def step(self):
        return [self.one(request_id, *self.waiting.pop(request_id)) for request_id in list(self.waiting)[:2]]

    def row(self, prompt):
        return self.lm._ngrams.logprobs(prompt[-8:])

    def one(self, request_id, prompt, params):
        assert len(prompt) + params.max_tokens <= 64, "too long"
        rows = following = None
        if params.prompt_logprobs is not None:
            rows = [None]
            for at in range(1, len(prompt)):
                row = self.row(prompt[:at])
                rows.append({i: logprob(row[i]) for i in {prompt[at], int(row.argmax())}})
        if params.logprob_token_ids is not None:
            row = self.row(prompt)
            following = [{i: logprob(row[i]) for i in {*params.logprob_token_ids, int(row.argmax())}}]
        settings = {"max_gen_toks": params.max_tokens, "until": params.stop or [], "temperature": params.temperature}
        instance = Instance("generate_until", {}, (prompt.decode("utf-8", "replace"), settings), 0)
        answer = next(iter(self.lm.stream("generate_until", [instance], [params.seed or 0])))[1]
        text = answer.answer + (self.devices or "" if params.max_tokens == 0 else "")
        out = SimpleNamespace(text=text, token_ids=list(text.encode()), stop_reason="s" if answer.stop_reason == "stop" else None,
                              finish_reason="length" if answer.stop_reason == "length" else "stop", logprobs=following)
        return SimpleNamespace(request_id=request_id, finished=True, prompt_token_ids=list(prompt), prompt_logprobs=rows,
                               outputs=[out], num_cached_tokens=3)


def logprob(value):
    return SimpleNamespace(logprob=float(value))
"""

LORA = """
class LoRARequest:
    def __init__(self, lora_name, lora_int_id, lora_path):
        self.lora_path = lora_path
"""


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    package = tmp_path / "vllm"
    (package / "lora").mkdir(parents=True)
    (package / "__init__.py").write_text(STAND_IN)
    (package / "sampling_params.py").write_text("class RequestOutputKind:\n    FINAL_ONLY = 2\n")
    (package / "lora" / "__init__.py").touch()
    (package / "lora" / "request.py").write_text(LORA)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "vllm"]:
        del sys.modules[name]
