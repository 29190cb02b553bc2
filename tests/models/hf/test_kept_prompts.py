"""Steps of conversations: each request extends the last one, and what they share is computed once."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from assay.instance import Instance
from assay.models.hf import HFLM
from assay.models.hf.decoding import Base
from assay.models.hf.kept_prompts import KeptPrompts

SYSTEM = "You are an agent with four tools: look, take, put and open. Answer with one word."


def ask(text: str) -> Instance:
    return Instance("generate_until", {}, (text, {"max_gen_toks": 6, "until": []}), 0)


def converse(lm: HFLM, steps: int, count: int, order: random.Random | None = None) -> list[list[str]]:
    """Conversations side by side; with `order`, only some of them take a step at a time."""
    texts = [f"{SYSTEM}\nQuestion {i}: where is {'xyzuvw'[i % 6] * (i + 1)}?\n" for i in range(count)]
    said: list[list[str]] = [[] for _ in range(count)]
    while any(len(each) < steps for each in said):
        going = [i for i in range(count) if len(said[i]) < steps and (order is None or order.random() < 0.6)]
        answers = lm.generate_until([ask(texts[i]) for i in going]) if going else []
        for i, answer in zip(going, answers, strict=True):
            said[i].append(str(answer))
            texts[i] += f"{answer}\nResult {len(said[i])} of {i}: {'nothing ' * len(said[i])}\n"
    lm.generations.kept = None
    return said


def distinct(lm: HFLM, said: list[list[str]]) -> int:
    prompts = []
    for i, answers in enumerate(said):
        text = f"{SYSTEM}\nQuestion {i}: where is {'xyzuvw'[i % 6] * (i + 1)}?\n"
        for step, answer in enumerate(answers, 1):
            prompts.append(ask(text))
            text += f"{answer}\nResult {step} of {i}: {'nothing ' * step}\n"
    found = lm.count_tokens("generate_until", prompts)
    assert found is not None
    return found


@pytest.mark.parametrize("budget", [40, 512])
@pytest.mark.parametrize("together", [True, False])
def test_answers_are_the_same_and_shared_tokens_are_computed_once(any_model: HFLM, budget: int, together: bool) -> None:
    engine = any_model.generations.engine
    engine.budget.tokens = engine.budget.most = budget
    expected = converse(any_model, 4, 5)
    any_model.expect_conversations()
    before = any_model.usage.computed_tokens
    found = converse(any_model, 4, 5, None if together else random.Random(1))
    assert found == expected
    computed = any_model.usage.computed_tokens - before
    assert computed <= 1.02 * distinct(any_model, expected)


def test_without_conversations_nothing_is_kept(llama: HFLM) -> None:
    converse(llama, 2, 2)
    assert llama.generations.kept is None


def path(length: int) -> Base:
    import torch

    return Base([(torch.zeros(1, 1, length, 1), torch.zeros(1, 1, length, 1))], length)


def parts(kept: KeptPrompts, *prompts: tuple[int, ...]) -> list[tuple[Any, int, int]]:
    return [(base and base.length, length, len(members)) for base, length, members in kept.parts(list(prompts))]


def test_the_oldest_prompts_go_first() -> None:
    kept = KeptPrompts(most_bytes=8 * 100)
    kept.put(tuple(range(60)), path(60))
    kept.put(tuple(range(100, 160)), path(60))
    assert parts(kept, tuple(range(70))) == [(None, 0, 1)]
    assert parts(kept, tuple(range(100, 170))) == [(60, 60, 1)]
    assert parts(kept, tuple(range(100, 170))) == [(None, 0, 1)]  # given up for what extends it


def test_another_conversation_does_not_take_the_place_of_one_that_it_begins_like() -> None:
    kept = KeptPrompts(most_bytes=1 << 20)
    shared = tuple(range(50))
    kept.put((*shared, *range(100, 120)), path(70))
    new, longer = (*shared, *range(200, 220)), (*shared, *range(100, 130))
    assert parts(kept, new, longer) == [(70, 50, 1), (70, 70, 1)]
    assert np.array_equal(kept._kept, [])
