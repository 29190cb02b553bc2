"""Drafts make generation faster and change nothing of what is said."""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.models.hf.conftest import BUILDERS, make_network, make_tokenizer

from assay.instance import Instance
from assay.models.hf import HFLM
from assay.models.hf.row import NgramDrafter
from assay.models.hf.rows import RowGenerator

SHOTS = "Question: Which animal lays eggs? Answer: the hen. " * 6
CONTEXTS = [
    *(f"{SHOTS}Question: {question}" for question in ("What do plants need?", "How many legs?", "日本")),
    "1 + 1 = 2, 1 + 1 = 2, 1 + 1 =",
    "A woman",
    "A",
]


def expected_draft(tokens: list[int], most: int) -> list[int]:
    """By the definition: what followed the last earlier occurrence of the last three tokens, or of the last two."""
    for size in (3, 2):
        for end in range(len(tokens) - 1, size - 1, -1):
            if tokens[end - size : end] == tokens[-size:]:
                known = list(tokens)
                for place in range(end, end + most):
                    known.append(known[place])
                return known[len(tokens) :]
    return []


@given(st.lists(st.integers(0, 3), max_size=30), st.integers(0, 4))
def test_a_draft_is_what_followed_the_last_time(tokens: list[int], most: int) -> None:
    assert NgramDrafter(tokens).draft(most) == expected_draft(tokens, most)


def test_the_reach_of_drafts_follows_their_success() -> None:
    drafter = NgramDrafter([1, 2] * 40)
    assert len(drafter.draft(100)) == 4
    drafter.learn(4)
    assert len(drafter.draft(100)) == 9
    drafter.learn(9)
    assert len(drafter.draft(100)) == 16
    drafter.learn(0)
    assert [len(drafter.draft(100)) for _ in range(2)] == [0, 1]


def test_after_each_miss_no_draft_is_tried_for_twice_as_long() -> None:
    drafter = NgramDrafter([1, 2] * 40)
    waited = []
    for _ in range(7):
        drafter.draft(100)
        drafter.learn(0)
        waited.append(next(passes for passes in range(100) if drafter.draft(100)))
    assert waited == [1, 3, 7, 15, 31, 31, 31]
    drafter.learn(1)
    assert drafter.draft(100)


def generate(model: HFLM, rows: int, *, draft: bool, **settings: Any) -> tuple[dict[int, list[int]], RowGenerator]:
    requests = [(text, settings) for text in CONTEXTS for _ in range(2)]
    prompts = model.generations.prepare(requests, [0, 1] * len(CONTEXTS))
    runner = model.generations.engine.runner
    assert runner is not None
    generator = RowGenerator(runner, model.encoder, tokens_per_pass=64, max_rows=rows, cache_bytes=1 << 30, draft=draft)
    return dict(generator.run(prompts)), generator


SETTINGS: list[dict[str, Any]] = [
    {"max_gen_toks": 40},
    {"max_gen_toks": 24, "temperature": 0.4},
    {"max_gen_toks": 24, "repetition_penalty": 1.2},
    {"max_gen_toks": 40, "until": ["e", "\n"]},
]
ROWS = (1, 3, 64)
GRID = list(itertools.product(BUILDERS, range(len(SETTINGS)), ROWS))
"""`make test` holds every seventh case: each network, each setting and each number of rows is among them."""


@cache
def model_of(name: str) -> HFLM:
    return HFLM(make_network(name), tokenizer=make_tokenizer(), threads=1)


@pytest.mark.parametrize(
    ("name", "settings", "rows"),
    [pytest.param(*case, marks=() if i % 7 == 0 else pytest.mark.wide) for i, case in enumerate(GRID)],
)
def test_rows_say_the_same_with_and_without(name: str, settings: int, rows: int) -> None:
    with_drafts, quick = generate(model_of(name), rows, draft=True, **SETTINGS[settings])
    without, slow = generate(model_of(name), rows, draft=False, **SETTINGS[settings])
    assert with_drafts == without
    assert quick.passes <= slow.passes


def test_a_text_that_repeats_itself_takes_fewer_passes(llama: HFLM) -> None:
    said, quick = generate(llama, 64, draft=True, max_gen_toks=60)
    _, slow = generate(llama, 64, draft=False, max_gen_toks=60)
    longest = max(said.values(), key=len)
    assert len(set(longest)) < len(longest) / 2, "the tiny model is known to repeat itself"
    assert quick.passes < 0.8 * slow.passes


def test_no_guess_reaches_beyond_the_last_position_of_the_model(any_model: HFLM) -> None:
    """GPT-2 has a table of positions and would fail at the first one that is not in it."""
    room = any_model.max_length - 40
    text = SHOTS * 10
    (answer,) = dict(
        any_model.stream("generate_until", [Instance("generate_until", {}, (text, {"max_gen_toks": 40}), 0)], [0])
    ).values()
    assert answer.tokens is not None
    assert answer.tokens[0] == room
    assert answer.tokens[1] <= 40


def test_draws_of_one_prompt_are_penalised_alike(llama: HFLM) -> None:
    """The first token of each is chosen from the logits that all of them share."""
    settings = {"max_gen_toks": 1, "temperature": 1.0, "top_k": 1, "repetition_penalty": 1.5}
    prompts = llama.generations.prepare([("A woman is sitting", settings)] * 6, list(range(6)))
    runner = llama.generations.engine.runner
    assert runner is not None
    generator = RowGenerator(runner, llama.encoder, tokens_per_pass=64, max_rows=8, cache_bytes=1 << 30)
    seen: list[Any] = []
    extend = generator._extend

    def look(rows: Any, drafts: Any, logits: Any) -> Any:
        seen.append(logits.float().cpu().numpy().copy())
        return extend(rows, drafts, logits)

    generator._extend = look  # type: ignore[method-assign]
    assert len({tuple(ids) for ids in dict(generator.run(prompts)).values()}) == 1
    assert all(np.array_equal(seen[0], other) for other in seen[1:])
