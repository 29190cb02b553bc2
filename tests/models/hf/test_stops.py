"""Where a generation ends: stop strings over token borders, thinking, and the cost of looking."""

from __future__ import annotations

from typing import Any

import pytest

from assay.models.hf import HFLM
from assay.models.hf.stops import StopRules, StopWatch, final_text, stop_reason

THINKING = StopRules(("\n\n",), frozenset({1}), "</s>", 500, "</think>")


def encode(model: HFLM, text: str) -> list[int]:
    return model.encoder.encode([text], add_special_tokens=False)[0]


def watched(model: HFLM, text: str, rules: StopRules) -> tuple[str, str | None]:
    """What was said when it ended, and why."""
    ids = encode(model, text)
    watch = StopWatch(rules, model.encoder)
    for count in range(1, len(ids) + 1):
        if reason := watch.reason(ids[:count]):
            return model.encoder.decode(ids[:count]), reason
    return text, None


@pytest.mark.parametrize(
    ("text", "said", "answer"),
    [
        ("so 12\n\n</think>\n\n12\n\nmore", "so 12\n\n</think>\n\n12\n\n", "12"),
        ("first\n\n</think>12\n\nmore", "first\n\n</think>12\n\n", "12"),
        ("a\n\nb</think>" + "\n" * 40 + "12\n\nmore", "a\n\nb</think>" + "\n" * 40 + "12\n\n", "12"),
    ],
)
def test_stop_strings_count_after_the_thinking_and_its_blank(llama: HFLM, text: str, said: str, answer: str) -> None:
    found, reason = watched(llama, text, THINKING)
    assert (found, reason) == (said, "stop")
    assert final_text(encode(llama, found), THINKING, llama.encoder) == (found.rpartition("</think>")[0], answer)
    assert stop_reason(encode(llama, found), THINKING, llama.encoder) == "stop"


@pytest.mark.parametrize("text", ["so 12\n\n", "so 12\n\n</think>", "so\n\n</think>\n\n", "so\n\n</think>\n\n12\n"])
def test_a_thinking_model_goes_on(llama: HFLM, text: str) -> None:
    assert watched(llama, text, THINKING)[1] is None
    assert stop_reason(encode(llama, text), THINKING, llama.encoder) is None


def test_the_end_of_thinking_may_be_a_token(llama: HFLM) -> None:
    mark = encode(llama, "=")[0]
    rules = StopRules(("\n\n",), frozenset({1}), "</s>", 500, mark)
    assert watched(llama, "1\n\n+ 1", rules)[1] is None
    assert watched(llama, "1\n\n+ 1=\n\n2\n\n", rules) == ("1\n\n+ 1=\n\n2\n\n", "stop")


def test_without_an_end_of_thinking_all_of_it_is_the_answer(llama: HFLM) -> None:
    assert final_text(encode(llama, "no end"), THINKING, llama.encoder) == (None, "no end")


def test_only_the_last_tokens_are_decoded(llama: HFLM, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace of thousands of tokens is asked about after each of them."""
    lengths: list[int] = []
    decode = llama.encoder.decode

    def counted(ids: Any, **options: Any) -> str:
        lengths.append(len(ids))
        return decode(ids, **options)

    monkeypatch.setattr(llama.encoder, "decode", counted)
    watch = StopWatch(StopRules(("\n\n",), frozenset(), "", 10_000, "</think>"), llama.encoder)
    ids = encode(llama, "thought " * 150 + "</think> answer" + " more" * 150)
    for count in range(1, len(ids) + 1):
        assert watch.reason(ids[:count]) is None
    assert len(lengths) > 300
    assert max(lengths) < 25


OPENED = StopRules(("\n\n",), frozenset({1}), "</s>", 500, None, ("<think>", "</think>"))


@pytest.mark.parametrize(
    ("text", "said", "reasoning", "answer"),
    [
        ("<think>so\n\n12</think>\n\n12\n\nmore", "<think>so\n\n12</think>\n\n12\n\n", "so\n\n12", "12"),
        ("12\n\nmore", "12\n\n", None, "12"),
        ("a <think> b\n\nmore", "a <think> b\n\n", None, "a <think> b"),
        ("<think>so\n\n12 and", "<think>so\n\n12 and", "so\n\n12 and", ""),
    ],
)
def test_a_thought_that_the_model_opens_itself_is_no_answer(
    llama: HFLM, text: str, said: str, reasoning: str | None, answer: str
) -> None:
    found, _ = watched(llama, text, OPENED)
    assert found == said
    assert final_text(encode(llama, found), OPENED, llama.encoder) == (reasoning, answer)
