"""The vLLM backend without vLLM: recorded outputs, and a stand-in engine with the same public surface."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from assay.errors import ConfigError, ModelError
from assay.instance import Instance
from assay.models import Answer, load_model
from assay.models.generation import GenerationSettings
from assay.models.ngram import NgramLM
from assay.models.vllm.engines import ManyEngines, device_groups
from assay.models.vllm.protocol import (
    Request,
    generation_request,
    read_generation,
    read_output,
    read_score,
    score_request,
)

# -- recorded output objects ------------------------------------------------------------------------------------------


@dataclass
class Logprob:
    logprob: float
    rank: int | None = None
    decoded_token: str | None = None


@dataclass
class CompletionOutput:
    index: int
    text: str
    token_ids: list[int]
    cumulative_logprob: float | None = None
    logprobs: Any = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None


@dataclass
class RequestOutput:
    request_id: str
    prompt_token_ids: list[int]
    outputs: list[CompletionOutput]
    prompt_logprobs: list[dict[int, Logprob] | None] | None = None
    finished: bool = True
    num_cached_tokens: int | None = None
    metrics: Any = field(default=None)


SCORED = RequestOutput(
    request_id="0",
    prompt_token_ids=[464, 6766, 318, 4171],
    prompt_logprobs=[
        None,
        {6766: Logprob(-7.51, 412, " sky"), 717: Logprob(-3.02, 1, " first")},
        {318: Logprob(-0.98, 1, " is")},
        {4171: Logprob(-2.25, 2, " blue"), 262: Logprob(-1.75, 1, " the")},
    ],
    outputs=[CompletionOutput(0, "", [13], finish_reason="length")],
    num_cached_tokens=2,
)


def test_scores_are_read_from_the_prompt() -> None:
    output = read_output(SCORED)
    assert read_score(output, 1) == (-2.25, False)
    assert read_score(output, 2) == (pytest.approx(-3.23), False)
    assert output.logprobs is not None
    assert output.logprobs[2] == (-0.98, True)
    assert output.cached_tokens == 2
    with pytest.raises(ModelError, match="left out"):
        read_score(output, 4)


def test_an_output_without_prompt_logprobs_is_said() -> None:
    output = read_output(RequestOutput("0", [1], [CompletionOutput(0, "x", [2])]))
    with pytest.raises(ModelError, match="no prompt_logprobs"):
        read_score(output, 1)


@pytest.mark.parametrize(
    ("text", "finish", "stop", "think", "expected"),
    [
        ("four", "stop", None, None, Answer("four", "eos")),
        ("four", "stop", "\n", None, Answer("four", "stop")),
        ("four", "length", None, None, Answer("four", "length")),
        ("four\n\nNext", "length", None, None, Answer("four", "stop")),
        ("so\n\n 4</think> four\n\nx", "stop", None, "</think>", Answer("four", "stop")),
        ("never ended", "length", None, "</think>", Answer("never ended", "length")),
    ],
)
def test_generations_are_read(text: str, finish: str, stop: str | None, think: str | None, expected: Answer) -> None:
    output = read_output(
        RequestOutput("0", [1], [CompletionOutput(0, text, [5, 6], finish_reason=finish, stop_reason=stop)])
    )
    assert read_generation(output, GenerationSettings(until=("\n\n",)), think) == expected


def test_requests_are_written() -> None:
    assert score_request([1, 2], [3]) == Request((1, 2, 3), {"temperature": 0.0, "max_tokens": 1, "prompt_logprobs": 1, "detokenize": False})  # fmt: skip
    greedy = generation_request([1], GenerationSettings(until=("a",), max_gen_toks=5), stops=["a"], seed=7).params
    assert greedy["temperature"] == 0.0
    assert greedy["stop"] == ["a"]
    assert "seed" not in greedy
    sampled = generation_request(
        [1], GenerationSettings.parse({"temperature": 0.5, "top_k": 3, "n": 1}), stops=[], seed=7
    ).params
    assert (sampled["top_k"], sampled["seed"], sampled["n"]) == (3, 7, 1)


def test_devices_are_shared_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3,5,7")
    assert device_groups(2, 2) == ["2,3", "5,7"]
    with pytest.raises(ConfigError, match="needs 6 devices"):
        device_groups(3, 2)


# -- a stand-in with vLLM's public surface ----------------------------------------------------------------------------

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
        text = answer.response + (self.devices or "" if params.max_tokens == 0 else "")
        out = SimpleNamespace(text=text, token_ids=list(text.encode()), stop_reason="s" if answer.stop_reason == "stop" else None,
                              finish_reason="length" if answer.stop_reason == "length" else "stop")
        return SimpleNamespace(prompt_token_ids=list(prompt), prompt_logprobs=rows, outputs=[out], num_cached_tokens=3)
"""

NGRAM = NgramLM()


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "vllm.py").write_text(STAND_IN)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("vllm", None)


def ask(kind: str, *arguments: Any) -> Instance:
    return Instance(kind, {}, arguments, 0)  # type: ignore[arg-type]


def test_without_vllm_the_error_says_what_to_install() -> None:
    if "vllm" in sys.modules:
        pytest.skip("vLLM is here")
    with pytest.raises(ConfigError, match="pip install vllm"):
        load_model("vllm", {"pretrained": "x"})


def test_scores_and_texts_are_those_of_the_engine(stand_in: None) -> None:
    model: Any = load_model("vllm", {"pretrained": "x", "gpu_memory_utilization": 0.5}, batch_size=4, device="cuda")
    pairs = [ask("loglikelihood", "The river is", f" wide {i}") for i in range(9)]
    pairs += [ask("loglikelihood", "", "Salt é"), ask("loglikelihood", "a", "")]
    answers = model.loglikelihood(pairs)
    assert [a[0] for a in answers] == pytest.approx([a[0] for a in NGRAM.loglikelihood(pairs)])
    assert [a[1] for a in answers] == [a[1] for a in NGRAM.loglikelihood(pairs)]
    assert model.engine.llm.calls == [4, 4, 2]
    texts = [ask("generate_until", f"The {w}", {"until": ["."], "max_gen_toks": 20}) for w in ("river", "mill", "x")]
    assert model.generate_until(texts) == NGRAM.generate_until(texts)
    assert model.usage.prompt_tokens > model.usage.computed_tokens > 0


def test_long_texts_are_cut_and_scored_in_windows(stand_in: None) -> None:
    model: Any = load_model("vllm", {"pretrained": "x", "max_length": 64})
    text = "The river Orle begins in a field that nobody would look at twice. " * 3
    value = model.loglikelihood_rolling([ask("loglikelihood_rolling", text), ask("loglikelihood_rolling", "")])
    assert value[0] == pytest.approx(NGRAM.loglikelihood_rolling([ask("loglikelihood_rolling", text)])[0], rel=0.3)
    assert value[1] == 0.0
    assert len(model.generate_until([ask("generate_until", text, {"max_gen_toks": 10})])[0]) == 10
    answers = dict(
        model.stream("loglikelihood", [ask("loglikelihood", text, " yes"), ask("loglikelihood", "a", text)], [0, 0])
    )
    assert answers[0].failure is None
    assert "context length is 64" in str(answers[1].failure)


def test_draws_have_their_own_seeds(stand_in: None) -> None:
    model = load_model("vllm", {"pretrained": "x"})
    request = ask("generate_until", "The", {"temperature": 1.0, "max_gen_toks": 20})
    draws = [a.response for _, a in sorted(model.stream("generate_until", [request] * 3, [0, 1, 2]))]
    assert len(set(draws)) == 3
    assert dict(model.stream("generate_until", [request], [2]))[0].response == draws[2]


def test_wrong_arguments_are_said(stand_in: None) -> None:
    with pytest.raises(ConfigError, match="Did you mean gpu_memory_utilization"):
        load_model("vllm", {"pretrained": "x", "gpu_memory_utilisation": 0.5})


@pytest.mark.slow
def test_data_parallel_engines_share_the_chunks_and_see_their_own_devices(
    stand_in: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6")
    arguments = {"model": "x", "tokenizer": "x", "dtype": "auto", "trust_remote_code": False, "tensor_parallel_size": 1, "enable_prefix_caching": True, "seed": 0}  # fmt: skip
    engines = ManyEngines(2, arguments)
    chunks = [[Request(tuple(b"The river"), {"max_tokens": n, "temperature": 0.0})] for n in (0, 5, 0, 5, 0, 5, 0)]
    outputs = dict(engines.generate(chunks))
    engines.close()
    assert sorted(outputs) == list(range(7))
    assert {outputs[i][0].text for i in (0, 2, 4, 6)} <= {"4", "6"}
    assert len({outputs[i][0].text for i in (1, 3, 5)}) == 1
