"""Scores from a long echo, whatever the texts of its tokens, the order of its lists and the way it is written."""

from __future__ import annotations

import json
from itertools import accumulate
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.models.openai.echo import EchoedToken, EchoRequest, scored_tokens
from assay.models.openai.wire import Unusable, read_json

NASTY = ["},{", '","', '"', "]", '],"index":', "]},", "\\", '\\"', "[null,", ",", "{", "null", " é", "😀", ":-1.5},{"]
WORDS = [f" w{i}" for i in range(300)]


def value_at(place: int) -> float:
    return -(place % 7) / 3 - 0.25


def reply_of(texts: list[str], *, order: str = "openai", compact: bool = True, drop_top: bool = False) -> Any:
    """What a server sends for these tokens, of which the last was generated."""
    values = [None, *map(value_at, range(1, len(texts)))]
    tops = [None, *[{text: value, '"},{': value - 1} for text, value in zip(texts[1:], values[1:])]]
    lists: dict[str, Any] = {
        "tokens": texts,
        "token_logprobs": values,
        "top_logprobs": tops[1:] if drop_top else tops,
        "text_offset": list(accumulate(map(len, texts), initial=0))[:-1],
    }
    if order == "vllm":
        lists = dict(sorted(lists.items()))
    choice = {"index": 0, "text": "".join(texts), "logprobs": lists, "finish_reason": "length"}
    whole = {"choices": [choice], "usage": {"prompt_tokens": len(texts) - 1}}
    return read_json(orjson.dumps(whole) if compact else json.dumps(whole).encode())


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from([*NASTY, *WORDS[:5]]), min_size=1, max_size=40),
    st.integers(1, 200),
    st.sampled_from(["openai", "vllm"]),
    st.booleans(),
)
def test_the_continuation_is_scored_whatever_the_texts_of_tokens(
    end: list[str], back: int, order: str, compact: bool
) -> None:
    texts = [*WORDS, *end, "."]
    prompt = "".join(texts[:-1])
    start = len(prompt) - back
    ends = list(accumulate(map(len, texts[:-1])))
    expected = [value_at(i) for i, end_of_token in enumerate(ends) if end_of_token > start]
    scored = scored_tokens(EchoRequest(prompt, start), reply_of(texts, order=order, compact=compact))
    assert [token.logprob for token in scored] == expected


@pytest.mark.parametrize("order", ["openai", "vllm"])
def test_lists_of_different_length_are_noticed(order: str) -> None:
    texts = [*WORDS, " A", "."]
    prompt = "".join(texts[:-1])
    with pytest.raises(Unusable, match="differ in length"):
        scored_tokens(EchoRequest(prompt, len(prompt) - 2), reply_of(texts, order=order, drop_top=True))


def test_token_ids_are_counted() -> None:
    scored = scored_tokens(EchoRequest(list(range(301)), 300), reply_of([*WORDS, " A", "."]))
    assert scored == [EchoedToken(value_at(300), value_at(300))]
