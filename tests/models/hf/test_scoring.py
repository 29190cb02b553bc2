"""Log-likelihoods by the tree against a plain forward pass of each request by itself."""

from __future__ import annotations

import copy
import random
from functools import cache
from typing import Any

import pytest
import torch

from assay.instance import Instance
from assay.models.hf import HFLM, tree
from assay.models.hf.scoring import log_probabilities, score_by_tree, score_plainly
from assay.models.hf.tokenization import Scored
from assay.models.hf.tree import TreeRunner
from assay.models.likelihoods import rolling_windows
from assay.models.prefix_tree import PrefixTree


def ask(request_type: Any, *arguments: Any) -> Instance:
    return Instance(request_type, {}, arguments, 0)


def one_by_one(model: HFLM, tokens: list[int], targets: list[int]) -> tuple[float, bool]:
    """What transformers itself says, for one sequence."""
    with torch.inference_mode():
        logits = model.model(torch.tensor([tokens])).logits[0, -len(targets) :].float()
    values = torch.log_softmax(logits, dim=-1)[range(len(targets)), targets]
    return float(values.sum()), bool((logits.argmax(-1) == torch.tensor(targets)).all())


def branching_requests(seed: int, *, longest: int = 40) -> list[Scored]:
    """All share a beginning, questions share examples, choices share questions; duplicates, one ends inside another."""
    draw = random.Random(seed)

    def some(most: int) -> list[int]:
        return [draw.randrange(2, 500) for _ in range(draw.randint(1, most))]

    requests: list[Scored] = []
    beginning = some(4)
    for _ in range(3):
        examples = beginning + some(longest)
        for _ in range(3):
            question = examples + some(15)
            for _ in range(4):
                answer = some(6)
                requests.append(Scored((question + answer)[:-1], answer))
    whole = requests[0].tokens + requests[0].targets[-1:]
    requests.append(Scored(whole[:-2], whole[-3:-1]))
    return [*requests, requests[3], requests[3]]


@cache
def expected_scores(model: HFLM, seed: int) -> list[tuple[float, bool]]:
    return [one_by_one(model, request.tokens, request.targets) for request in branching_requests(seed)]


@pytest.mark.parametrize("limits", [tree._LIMITS, (1,), (12,), (1 << 30,)], ids=["best", "pieces", "small", "whole"])
@pytest.mark.parametrize("budget", [7, 64, 150, 4096])
def test_tree_scores_equal_plain_forward_passes(
    any_model: HFLM, budget: int, limits: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the size of passes, and of the groups that attend together."""
    monkeypatch.setattr(tree, "_LIMITS", limits)
    requests = branching_requests(budget)
    runner = TreeRunner(any_model.model)
    found = dict(score_by_tree(runner, requests, budget))
    assert set(found) == set(range(len(requests)))
    assert runner.computed == PrefixTree([request.tokens for request in requests]).size
    for index, (value, greedy) in enumerate(expected_scores(any_model, budget)):
        assert found[index][0] == pytest.approx(value, abs=2e-4)
        assert found[index][1] == greedy


def test_plain_scoring_equals_one_by_one(any_model: HFLM) -> None:
    requests = branching_requests(1)
    for index, (value, greedy) in score_plainly(any_model.model, requests, 100):
        expected = one_by_one(any_model, requests[index].tokens, requests[index].targets)
        assert value == pytest.approx(expected[0], abs=2e-4)
        assert greedy == expected[1]


def test_the_self_check_lets_every_kind_of_attention_through(any_model: HFLM) -> None:
    assert any_model.check.passed, any_model.check.reason
    assert any_model.check.difference is not None
    assert any_model.check.difference < 1e-4


def test_a_model_that_the_tree_does_not_fit_says_so(caplog: pytest.LogCaptureFixture, tokenizer: Any) -> None:
    from tests.models.hf.families import build

    # It takes no cache that could be continued.
    model = HFLM(build("rwkv", vocab_size=512), tokenizer=tokenizer, threads=1, max_length=128)
    assert (model.check.way, model.check.decodes) == ("batch", False)
    assert "computed separately" in caplog.text
    (answer,) = model.loglikelihood([ask("loglikelihood", "Question: what", " light")])
    pair = model.encoder.encode_pairs([("Question: what", " light")])[0]
    assert answer[0] == pytest.approx(
        one_by_one(model, (pair.context + pair.continuation)[:-1], pair.continuation)[0], abs=1e-4
    )


def test_greedy_is_the_argmax_also_in_a_tie() -> None:
    logits = torch.tensor([[1.0, 3.0, 3.0], [0.0, 0.0, 5.0]])
    values, greedy = log_probabilities(logits, [0, 0, 1], [1, 2, 2])
    assert greedy.tolist() == [True, False, True]
    assert values[0] == values[1]


def test_rolling_adds_up_all_windows(any_model: HFLM) -> None:
    text = "The man walks to the door and opens it. " * 30
    tokens = any_model.encoder.encode([text])[0]
    windows = rolling_windows(tokens, any_model.encoder.prefix_token_id, any_model.max_length)
    assert len(windows) > 1
    expected = sum(one_by_one(any_model, (read + targets)[:-1], targets)[0] for read, targets in windows)
    found = any_model.loglikelihood_rolling([ask("loglikelihood_rolling", text), ask("loglikelihood_rolling", "")])
    assert found[0] == pytest.approx(expected, rel=1e-6)
    assert found[1] == 0.0


def test_out_of_memory_halves_the_budget_and_loses_nothing(llama: HFLM, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("light", "water", "a spider", "the door")
    instances = [
        ask("loglikelihood", f"Question {i}: What do plants need?", f" {word}") for i in range(9) for word in words
    ]
    expected = llama.loglikelihood(instances)
    real, budget = TreeRunner.run, llama.loglikelihoods.engine.budget
    monkeypatch.setattr(budget, "tokens", 64)

    def cramped(self: TreeRunner, step: Any, *args: Any, **kwargs: Any) -> Any:
        if len(step) > 16:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate a lot")
        return real(self, step, *args, **kwargs)

    monkeypatch.setattr(TreeRunner, "run", cramped)
    found = llama.loglikelihood(instances)
    assert budget.tokens == 16
    for ours, theirs in zip(found, expected):
        assert ours[0] == pytest.approx(theirs[0], abs=1e-4)
    monkeypatch.setattr(TreeRunner, "run", real)
    llama.loglikelihood(instances)
    assert budget.tokens == 32  # the memory may be there again


def test_order_and_company_do_not_change_an_answer(llama: HFLM) -> None:
    requests = [ask("loglikelihood", f"Question {i}: how many legs?", " eight") for i in range(12)]
    forward = llama.loglikelihood(requests)
    backward = llama.loglikelihood(requests[::-1])[::-1]
    alone = [llama.loglikelihood([request])[0] for request in requests]
    for one, two, three in zip(forward, backward, alone):
        assert one[0] == pytest.approx(two[0], abs=1e-4)
        assert one[0] == pytest.approx(three[0], abs=1e-4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["llama", "mistral", "gemma2"])
def test_half_precision_agrees_within_its_rounding(network: Any, tokenizer: Any, name: str, dtype: torch.dtype) -> None:
    model = HFLM(copy.deepcopy(network(name)).to(dtype), tokenizer=tokenizer, threads=1)
    assert model.check.passed, model.check.reason
