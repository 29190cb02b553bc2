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
    def __init__(self, *, temperature=1.0, max_tokens=16, stop=None, prompt_logprobs=None, seed=None, top_p=1.0, top_k=0,
                 min_p=0.0, detokenize=True, skip_special_tokens=True, spaces_between_special_tokens=True):
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
    def __init__(self, model, tokenizer, dtype, trust_remote_code, tensor_parallel_size, enable_prefix_caching, seed, **more):
        self.lm = NgramLM()
        self.llm_engine = SimpleNamespace(model_config=SimpleNamespace(max_model_len=more.get("max_model_len", 64)))
        self.devices = os.environ.get("CUDA_VISIBLE_DEVICES")
        self.calls = []

    def get_tokenizer(self):
        return Tokenizer()

    def generate(self, prompts, params, use_tqdm=True, lora_request=None):
        self.calls.append(len(prompts))
        return [self.one(bytes(prompt["prompt_token_ids"]), p) for prompt, p in zip(prompts, params, strict=True)]

    def one(self, prompt, params):
        assert len(prompt) + params.max_tokens <= 64, "too long"
        rows = None
        if params.prompt_logprobs is not None:
            rows = [None]
            for at in range(1, len(prompt)):
                row = self.lm._ngrams.logprobs(prompt[max(0, at - 8):at])
                ids = {prompt[at], int(row.argmax())}
                rows.append({i: SimpleNamespace(logprob=float(row[i])) for i in ids})
        settings = {"max_gen_toks": params.max_tokens, "until": params.stop or [], "temperature": params.temperature}
        instance = Instance("generate_until", {}, (prompt.decode("utf-8", "replace"), settings), 0)
        answer = next(iter(self.lm.stream("generate_until", [instance], [params.seed or 0])))[1]
        text = answer.answer + (self.devices or "" if params.max_tokens == 0 else "")
        out = SimpleNamespace(text=text, token_ids=list(text.encode()), stop_reason="s" if answer.stop_reason == "stop" else None,
                              finish_reason="length" if answer.stop_reason == "length" else "stop")
        return SimpleNamespace(prompt_token_ids=list(prompt), prompt_logprobs=rows, outputs=[out], num_cached_tokens=3)
"""

LORA = """
class LoRARequest:
    def __init__(self, name, number, path):
        self.path = path
"""


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    package = tmp_path / "vllm"
    (package / "lora").mkdir(parents=True)
    (package / "__init__.py").write_text(STAND_IN)
    (package / "lora" / "__init__.py").touch()
    (package / "lora" / "request.py").write_text(LORA)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "vllm"]:
        del sys.modules[name]
