"""Generation settings: one meaning for many spellings, and sampling by the rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import ConfigError
from assay.models.generation import GenerationSettings, cut_at_stop, draw_seed
from assay.models.ngram import choose_token, draw_generator

LOGPROBS = np.log(np.array([0.5, 0.3, 0.15, 0.05]))


@pytest.mark.parametrize(
    ("kwargs", "expected"),
    [
        (None, {}),
        ({}, {"temperature": 0.0, "until": ()}),
        ({"until": "x"}, {"until": ("x",)}),
        ({"until": ["x", "", None, "y"]}, {"until": ("x", "y")}),
        ({"max_gen_toks": 7, "max_new_tokens": 9}, {"max_gen_toks": 7}),
        ({"max_tokens": 5}, {"max_gen_toks": 5}),
        ({"max_gen_toks": None, "max_completion_tokens": 4}, {"max_gen_toks": 4}),
        ({"temperature": 0.7}, {"temperature": 0.7}),
        ({"temperature": 0.7, "do_sample": False}, {"temperature": 0.0}),
        ({"do_sample": True}, {"temperature": 1.0}),
        ({"do_sample": True, "temperature": 0}, {"temperature": 0.0}),
        ({"top_k": -1, "top_p": None}, {"top_k": 0, "top_p": 1.0}),
        ({"num_beams": 1}, {"other": {"num_beams": 1}}),
    ],
)
def test_spellings(kwargs: dict[str, Any] | None, expected: dict[str, Any]) -> None:
    settings = GenerationSettings.parse(kwargs)
    assert {name: getattr(settings, name) for name in expected} == expected


def test_settings_that_make_no_sense_are_said() -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        GenerationSettings.parse({"temperature": "warm"})


def test_the_settings_of_the_task_are_not_changed() -> None:
    kwargs = {"until": ["a"], "temperature": 0.5}
    GenerationSettings.parse(kwargs)
    assert kwargs == {"until": ["a"], "temperature": 0.5}


@given(st.text("ab", max_size=12), st.lists(st.text("ab", min_size=1, max_size=3), max_size=3))
def test_text_is_cut_before_the_first_of_all_stops(text: str, until: list[str]) -> None:
    cut, stopped = cut_at_stop(text, until)
    assert text.startswith(cut)
    assert not any(stop in cut for stop in until)
    assert stopped == any(stop in text for stop in until)


def frequencies(**settings: Any) -> np.ndarray[Any, Any]:
    generator = draw_generator(0, b"", 0)
    tokens = [choose_token(LOGPROBS, GenerationSettings(**settings), generator) for _ in range(4000)]
    return np.bincount(tokens, minlength=4) / 4000


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"temperature": 0.0}, [1, 0, 0, 0]),
        ({"temperature": 1.0}, [0.5, 0.3, 0.15, 0.05]),
        ({"temperature": 0.5}, np.array([0.25, 0.09, 0.0225, 0.0025]) / 0.365),
        ({"temperature": 1.0, "top_k": 2}, [0.625, 0.375, 0, 0]),
        ({"temperature": 1.0, "top_p": 0.7}, [0.625, 0.375, 0, 0]),
        ({"temperature": 1.0, "top_p": 0.0}, [1, 0, 0, 0]),
        ({"temperature": 1.0, "min_p": 0.5}, [0.625, 0.375, 0, 0]),
    ],
)
def test_sampling_rules(settings: dict[str, Any], expected: Any) -> None:
    assert np.abs(frequencies(**settings) - np.array(expected)).max() < 0.035


def test_seeds_differ_by_draw_and_prompt() -> None:
    seeds = {draw_seed(s, c, d) for s in (0, 1) for c in (b"a", b"b") for d in range(10)}
    assert len(seeds) == 40
