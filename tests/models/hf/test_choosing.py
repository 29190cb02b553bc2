"""Drawing tokens for many rows at once."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from assay.models.generation import GenerationSettings
from assay.models.hf.row import Place, Prompt, choose_tokens, draw_tokens, uniform
from assay.models.hf.stops import StopRules
from assay.models.ngram import draw_token

SETTINGS = [
    {"temperature": 1.0},
    {"temperature": 0.5},
    {"temperature": 1.0, "top_k": 3},
    {"temperature": 2.0, "top_p": 0.7},
    {"temperature": 1.0, "top_p": 0.0},
    {"temperature": 1.0, "top_k": 5, "top_p": 0.6},
    {"temperature": 1.0, "min_p": 0.2},
    {"temperature": 1.0, "top_k": 10_000},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_a_batch_draws_from_the_distribution_that_one_row_draws_from(settings: dict[str, float]) -> None:
    """Inverse transform at evenly spread points gives each token as often as it is likely."""
    wanted = GenerationSettings(**settings)  # type: ignore[arg-type]
    logits = torch.randn(40, generator=torch.Generator().manual_seed(1)) * 2
    points = (np.arange(2000) + 0.5) / 2000
    batch = np.concatenate(
        [draw_tokens(logits.expand(500, -1), [wanted] * 500, points[at : at + 500]) for at in range(0, 2000, 500)]
    )
    single = [draw_token(logits.numpy(), wanted, point) for point in points]
    assert np.abs(np.bincount(batch, minlength=40) - np.bincount(single, minlength=40)).max() <= 2


def test_a_nucleus_larger_than_the_first_candidates_is_whole() -> None:
    logits = torch.zeros(1, 5000) - torch.arange(5000) * 1e-4
    wanted = GenerationSettings(temperature=1.0, top_p=0.9)
    assert draw_tokens(logits, [wanted], [0.9999])[0] > 4000
    assert draw_tokens(logits, [wanted], [0.9999])[0] == draw_token(logits[0].numpy(), wanted, 0.9999)


def test_rows_of_one_batch_may_ask_for_different_things() -> None:
    logits = torch.randn(len(SETTINGS), 50, generator=torch.Generator().manual_seed(2))
    wanted = [GenerationSettings(**settings) for settings in SETTINGS]  # type: ignore[arg-type]
    together = draw_tokens(logits, wanted, [0.77] * len(wanted))
    assert together == [draw_tokens(logits[i : i + 1], [one], [0.77])[0] for i, one in enumerate(wanted)]


def test_a_draw_belongs_to_its_seed_and_its_place_in_the_answer() -> None:
    settings = GenerationSettings(temperature=1.0)
    prompts = [Prompt((1, 2), settings, StopRules((), frozenset()), seed) for seed in range(200)]
    logits = torch.zeros(200, 1000)
    found = choose_tokens([Place(prompt, [0] * (seed % 3)) for seed, prompt in enumerate(prompts)], logits)
    turned = choose_tokens([Place(prompts[seed], [9] * (seed % 3)) for seed in reversed(range(200))], logits)
    assert found == turned[::-1]
    assert len(set(found)) > 150


def test_numbers_are_uniform_over_seeds_and_over_places() -> None:
    for numbers in (uniform(range(20_000), [0] * 20_000), uniform([7] * 20_000, range(20_000))):
        assert numbers.min() >= 0.0
        assert numbers.max() < 1.0
        counts = np.bincount((numbers * 20).astype(int), minlength=20)
        assert ((counts - 1000) ** 2 / 1000).sum() < 50  # chi-squared with 19 degrees of freedom: p < 1e-4 beyond


def test_a_penalty_counts_what_was_drafted_before_the_place() -> None:
    prompt = Prompt((1,), GenerationSettings(), StopRules((), frozenset()), 0, repetition_penalty=10.0)
    logits = torch.tensor([[0.0, 0.0, 3.0, 2.0]])
    assert choose_tokens([Place(prompt, [])], logits) == [2]
    assert choose_tokens([Place(prompt, [2])], logits) == [3]
    assert logits[0].tolist() == [0.0, 0.0, 3.0, 2.0]
