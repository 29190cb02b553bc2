"""A package with vLLM's public surface, behind which the n-gram model answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from assay.models import load_model

STAND_IN = """
import os
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any

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


class LLM:
    def __init__(self, model, tokenizer, dtype, trust_remote_code, tensor_parallel_size, seed, **more):
        print("the stand-in loads", model, flush=True)
        if "fail" in model:
            raise RuntimeError("no such weights")
        self.llm_engine = LLMEngine(more.get("max_model_len", 64))


class LLMEngine:
    # Computes two requests a step.

    def __init__(self, max_model_len):
        self.model_config = SimpleNamespace(max_model_len=max_model_len)
        self.devices = os.environ.get("CUDA_VISIBLE_DEVICES")
        self.waiting = {}
        self.engine_core = SimpleNamespace(shutdown=lambda: note("shut down"))

    def add_request(self, request_id, prompt, params, lora_request=None):
        assert isinstance(request_id, str) and request_id not in self.waiting
        self.waiting[request_id] = bytes(prompt["prompt_token_ids"]), params
        note(len(self.waiting))
        if os.environ.get("STAND_IN_DIES") and b"die" in self.waiting[request_id][0]:
            os.kill(os.getpid(), 9)
        return request_id

    def abort_request(self, request_ids, internal=False):
        for request_id in request_ids:
            del self.waiting[request_id]

    def step(self):
        return [self.one(request_id, *self.waiting.pop(request_id)) for request_id in list(self.waiting)[:2]]

    def row(self, prompt):
        return ngram()._ngrams.logprobs(prompt[-8:])

    def one(self, request_id, prompt, params):
        from assay.instance import Instance
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
            for forgotten in os.environ.get("STAND_IN_FORGETS", "").encode():
                following[0].pop(forgotten, None)
        settings = {"max_gen_toks": params.max_tokens, "until": params.stop or [], "temperature": params.temperature}
        instance = Instance("generate_until", {}, (prompt.decode("utf-8", "replace"), settings), 0)
        answer = next(iter(ngram().stream("generate_until", [instance], [params.seed or 0])))[1]
        text = answer.answer + (self.devices or "" if params.max_tokens == 0 else "")
        out = SimpleNamespace(text=text, token_ids=list(text.encode()), stop_reason="s" if answer.stop_reason == "stop" else None,
                              finish_reason="length" if answer.stop_reason == "length" else "stop", logprobs=following)
        return SimpleNamespace(request_id=request_id, finished=True, prompt_token_ids=list(prompt), prompt_logprobs=rows,
                               outputs=[out], num_cached_tokens=3)


def logprob(value):
    return SimpleNamespace(logprob=float(value))


def note(what):
    # How many requests are in its hands after each that it is given, and that it was told to end.
    with open(os.environ["STAND_IN_NOTES"], "a") as file:
        print(what, file=file)


@cache
def ngram():
    from assay.models.ngram import NgramLM

    return NgramLM()
"""

LORA = """
class LoRARequest:
    def __init__(self, lora_name, lora_int_id, lora_path):
        self.lora_path = lora_path
"""


Load = Callable[..., Any]


def byte_tokenizer(directory: Path) -> str:
    """Token ids are byte values, as in the stand-in."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    raw = Tokenizer(models.BPE(vocab={text: byte for byte, text in bytes_to_unicode().items()}, merges=[]))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    raw.decoder = decoders.ByteLevel()
    end = bytes_to_unicode()[0]
    PreTrainedTokenizerFast(tokenizer_object=raw, bos_token=end, eos_token=end).save_pretrained(directory)
    return str(directory)


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> str:
    return byte_tokenizer(tmp_path_factory.mktemp("tokenizer") / "bytes")


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package, where engines find it; the file of its notes."""
    package = tmp_path / "engine" / "vllm"
    (package / "lora").mkdir(parents=True)
    (package / "__init__.py").write_text(STAND_IN)
    (package / "sampling_params.py").write_text("class RequestOutputKind:\n    FINAL_ONLY = 2\n")
    (package / "lora" / "__init__.py").touch()
    (package / "lora" / "request.py").write_text(LORA)
    monkeypatch.syspath_prepend(str(package.parent))
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    notes = tmp_path / "notes"
    notes.touch()
    monkeypatch.setenv("STAND_IN_NOTES", str(notes))
    return notes


@pytest.fixture
def load(stand_in: Path, tokenizer: str) -> Iterator[Load]:
    """Loads the model on the stand-in, as a run does, and ends it after the test."""
    loaded: list[Any] = []

    def load(batch_size: int | str | None = None, **arguments: Any) -> Any:
        given = {"pretrained": "x", "tokenizer": tokenizer, **arguments}
        loaded.append(load_model("vllm", given, **({} if batch_size is None else {"batch_size": batch_size})))
        return loaded[-1]

    yield load
    for model in loaded:
        model.close()


@pytest.fixture
def most_waiting(stand_in: Path) -> Callable[[], int]:
    """How many requests an engine had in its hands at most."""
    return lambda: max((int(line) for line in stand_in.read_text().splitlines() if line.isdigit()), default=0)
