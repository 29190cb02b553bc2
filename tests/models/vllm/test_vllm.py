"""The vLLM backend without vLLM: recorded outputs, and a stand-in engine with the same public surface."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.models.vllm.asking import NGRAM, ask
from tests.models.vllm.conftest import Load

from assay.errors import ConfigError, ModelError
from assay.instance import Response
from assay.models import load_model
from assay.models.generation import GenerationSettings
from assay.models.info import Usage
from assay.models.vllm.protocol import (
    Request,
    generation_request,
    plan_scores,
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
    assert read_score(output, 2)[0] == pytest.approx(-3.23)
    assert not read_score(output, 2)[1]
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
        ("four", "stop", None, None, Response("four", "eos")),
        ("four", "stop", "\n", None, Response("four", "stop")),
        ("four", "length", None, None, Response("four", "length")),
        ("four\n\nNext", "length", None, None, Response("four", "stop")),
        ("so\n\n 4</think> four\n\nx", "stop", None, "</think>", Response("four", "stop", reasoning="so\n\n 4")),
        ("never ended", "length", None, "</think>", Response("", "length", reasoning="never ended")),
    ],
)
def test_generations_are_read(text: str, finish: str, stop: str | None, think: str | None, expected: Response) -> None:
    output = read_output(
        RequestOutput("0", [1], [CompletionOutput(0, text, [5, 6], finish_reason=finish, stop_reason=stop)])
    )
    assert read_generation(output, GenerationSettings(until=("\n\n",)), think) == expected


def test_requests_are_written() -> None:
    assert score_request([1, 2], [3]) == Request(
        (1, 2, 3), {"temperature": 0.0, "max_tokens": 1, "prompt_logprobs": 1, "detokenize": False}
    )
    greedy = generation_request([1], GenerationSettings(until=("a",), max_gen_toks=5), stops=["a"], seed=7).params
    assert greedy["temperature"] == 0.0
    assert greedy["stop"] == ["a"]
    assert "seed" not in greedy
    sampled = generation_request(
        [1], GenerationSettings.parse({"temperature": 0.5, "top_k": 3, "n": 1}), stops=[], seed=7
    ).params
    assert (sampled["top_k"], sampled["seed"], sampled["n"]) == (3, 7, 1)


# -- the model, on the stand-in ---------------------------------------------------------------------------------------


def test_without_vllm_the_error_says_what_to_install() -> None:
    if "vllm" in sys.modules:
        pytest.skip("vLLM is here")
    with pytest.raises(ConfigError, match="pip install vllm"):
        load_model("vllm", {"pretrained": "x"})


def test_scores_and_texts_are_those_of_the_engine(load: Load, most_waiting: Callable[[], int]) -> None:
    model: Any = load(4, gpu_memory_utilization=0.5)
    pairs = [ask("loglikelihood", "The river is", f" wide {i}") for i in range(9)]
    pairs += [ask("loglikelihood", "", "Salt é")]
    answers = model.loglikelihood(pairs)
    assert [a[0] for a in answers] == pytest.approx([a[0] for a in NGRAM.loglikelihood(pairs)])
    assert [a[1] for a in answers] == [a[1] for a in NGRAM.loglikelihood(pairs)]
    assert most_waiting() == 4
    texts = [ask("generate_until", f"The {w}", {"until": ["."], "max_gen_toks": 20}) for w in ("river", "mill", "x")]
    assert model.generate_until(texts) == NGRAM.generate_until(texts)
    assert model.usage.prompt_tokens > model.usage.computed_tokens > 0


def test_long_texts_are_cut_and_scored_in_windows(load: Load) -> None:
    model: Any = load(max_length=64)
    text = "The river Orle begins in a field that nobody would look at twice. " * 3
    value = model.loglikelihood_rolling([ask("loglikelihood_rolling", text), ask("loglikelihood_rolling", "")])
    assert value[0] == pytest.approx(NGRAM.loglikelihood_rolling([ask("loglikelihood_rolling", text)])[0], rel=0.3)
    assert value[1] == 0.0
    assert len(model.generate_until([ask("generate_until", text, {"max_gen_toks": 10})])[0]) == 10
    answers = dict(
        model.stream("loglikelihood", [ask("loglikelihood", text, " yes"), ask("loglikelihood", "a", text)], [0, 0])
    )
    assert answers[0].failure is None
    assert f"has {len(text)} tokens, but the model reads 62 (raise max_length" in str(answers[1].failure)


def failures(answers: Iterator[tuple[int, Response]]) -> list[str | None]:
    return [answer.failure for _, answer in sorted(answers)]


def test_a_continuation_without_tokens_of_its_own_fails_in_the_words_of_hf(load: Load) -> None:
    """Certain by the arithmetic of an empty sum, it would win every choice."""
    from assay.models.hf.budget import TokenBudget
    from assay.models.hf.loglikelihoods import LogLikelihoods

    model: Any = load(max_length=64)
    pairs = [("Which?", ""), ("", ""), ("Which?", " this")]
    engine: Any = SimpleNamespace(
        encoder=model.encoder, max_length=64, seq2seq=False, usage=Usage(), budget=TokenBudget(64)
    )
    expected = failures(LogLikelihoods(engine).stream(pairs[:2]))
    assert all(expected)
    answers = model.stream("loglikelihood", [ask("loglikelihood", *pair) for pair in pairs], [0, 0, 0])
    assert failures(answers) == [*expected, None]
    with pytest.raises(ModelError, match="no tokens of its own"):
        model.loglikelihood([ask("loglikelihood", *pairs[0])])


@pytest.mark.parametrize("max_gen_toks", [64, 65, 1000])
def test_an_answer_that_leaves_no_room_for_the_prompt_is_refused(
    load: Load, most_waiting: Callable[[], int], max_gen_toks: int
) -> None:
    model: Any = load(max_length=64)
    with pytest.raises(ConfigError, match=rf"max_gen_toks is {max_gen_toks} but the model reads 64 tokens in total"):
        model.generate_until([ask("generate_until", "The river", {"max_gen_toks": max_gen_toks})])
    assert most_waiting() == 0
    assert model.generate_until([ask("generate_until", "The river", {"max_gen_toks": 63})])


@pytest.mark.parametrize(("arguments", "expected"), [({}, 0), ({"prefix_token_id": 10}, 10)])
def test_an_empty_prompt_is_the_prefix_token(load: Load, arguments: dict[str, int], expected: int) -> None:
    model: Any = load(**arguments)
    asked: list[Request] = []
    generate = model.engines.generate

    def watched(requests: Iterable[Request]) -> Any:
        requests = list(requests)
        asked.extend(requests)
        return generate(requests)

    model.engines.generate = watched
    settings = {"max_gen_toks": 5}
    answers = dict(model.stream("generate_until", [ask("generate_until", "", settings)], [0]))
    assert [request.prompt for request in asked] == [(expected,)]
    assert answers[0].tokens is not None
    assert answers[0].tokens[0] == 1
    if not expected:
        assert answers[0].answer == NGRAM.generate_until([ask("generate_until", "", settings)])[0]


def test_choices_of_one_token_are_one_request_behind_their_context(load: Load, stand_in: Path) -> None:
    model: Any = load()
    pairs = [ask("loglikelihood", f"The river {word}", choice) for word in ("is", "was") for choice in "ABCD"]
    pairs.append(ask("loglikelihood", "The river is", "A"))  # asked twice
    answers = model.loglikelihood(pairs)
    assert [a[0] for a in answers] == pytest.approx([a[0] for a in NGRAM.loglikelihood(pairs)])
    assert [a[1] for a in answers] == [a[1] for a in NGRAM.loglikelihood(pairs)]
    assert len(stand_in.read_text().splitlines()) == 2


def test_choices_share_a_long_context_and_are_scored_plainly_behind_a_short_one() -> None:
    context = tuple(range(100))
    shared = plan_scores([((*context,), (1, 2)), ((*context,), (1, 3)), ((*context,), (4,))], by_token=True)
    assert [(len(r.prompt), r.params.get("logprob_token_ids")) for r in shared.requests] == [
        (100, [1, 4]),
        (101, [2, 3]),
    ]
    assert shared.readers == [[(0, 0), (1, 0), (2, 0)], [(0, 1), (1, 1)]]
    for pairs, by_token in (([((1, 2), (1, 2, 3)), ((1, 2), (4, 5))], True), ([((*context,), (1,))] * 2, False)):
        plain = plan_scores(pairs, by_token=by_token)
        assert all("prompt_logprobs" in request.params for request in plain.requests)
        assert plain.readers == [[(0, None)], [(1, None)]]
    many = [((*context,), (token,)) for token in range(129)]  # more than vLLM lists at one place
    assert len(plan_scores(many, by_token=True).requests) == 129


def test_a_token_that_is_left_out_is_scored_plainly(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN_FORGETS", "B")
    pairs = [ask("loglikelihood", "The river is", choice) for choice in "ABCD"]
    assert [a[0] for a in load().loglikelihood(pairs)] == pytest.approx([a[0] for a in NGRAM.loglikelihood(pairs)])


def test_special_tokens_end_answers_and_thoughts_and_are_not_in_the_text() -> None:
    given = generation_request([1], GenerationSettings(until=("<|im_end|>",)), stops=["<|im_end|>"], seed=1)
    assert given.params["skip_special_tokens"] is False
    text = "<s>so it is<|end_think|>four<|eot|><|im_end|> more"
    output = read_output(RequestOutput("0", [1], [CompletionOutput(0, text, [5], finish_reason="length")]))
    settings = GenerationSettings(until=("<|im_end|>",))
    answer = read_generation(output, settings, "<|end_think|>", ("<s>", "<|eot|>"))
    assert (answer.answer, answer.stop_reason) == ("four", "stop")


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"num_beams": 4}, "num_beams is 4"), ({"penalty_alpha": 0.6}, "'penalty_alpha' is not one of vLLM's")],
)
def test_settings_that_vllm_does_not_have_are_refused(load: Load, settings: dict[str, Any], message: str) -> None:
    model = load()
    with pytest.raises(ConfigError, match=message):
        model.generate_until([ask("generate_until", "The", {"max_gen_toks": 3, **settings})])


def test_prefix_caching_is_left_to_vllm_unless_it_is_given(load: Load) -> None:
    plain: Any = load()
    assert "enable_prefix_caching" not in plain.arguments  # off by default for Mamba, on for others


def test_draws_have_their_own_seeds(load: Load) -> None:
    model = load()
    request = ask("generate_until", "The", {"temperature": 1.0, "max_gen_toks": 20})
    draws = [a.answer for _, a in sorted(model.stream("generate_until", [request] * 3, [0, 1, 2]))]
    assert len(set(draws)) == 3
    assert dict(model.stream("generate_until", [request], [2]))[0].answer == draws[2]


def test_wrong_arguments_are_said(load: Load) -> None:
    with pytest.raises(ConfigError, match="Did you mean gpu_memory_utilization"):
        load(gpu_memory_utilisation=0.5)


def test_a_stop_ends_after_what_is_under_way(load: Load) -> None:
    model: Any = load(2)
    requests = [ask("loglikelihood", f"The river {i}", " is") for i in range(6)]
    answers: list[int] = []
    for position, _ in model.stream("loglikelihood", requests, [0] * 6, stop=lambda: bool(answers)):
        answers.append(position)
    assert len(answers) == 2
