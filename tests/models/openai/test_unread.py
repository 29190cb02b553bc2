"""A long echo of which only the end is read gives the scores that reading all of it gives."""

from __future__ import annotations

import json
from itertools import accumulate
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.models.openai.echo import EchoRequest, scored_tokens
from assay.models.openai.unread import UnreadList, read_echo
from assay.models.openai.wire import Unusable, read_json

NASTY = ["},{", '","', '"', "]", '],"index":', "]},", "\\", '\\"', "[null,", ",", "{", "null", " é", "😀", ":-1.5},{"]
WORDS = [f" w{i}" for i in range(300)]


def reply_of(texts: list[str], *, order: str = "openai", compact: bool = True, drop_top: bool = False) -> bytes:
    """What a server sends for these tokens, of which the last was generated."""
    values = [None, *[-(i % 7) / 3 - 0.25 for i in range(1, len(texts))]]
    tops = [None, *[{text: value, '"},{': value - 1} for text, value in zip(texts[1:], values[1:])]]
    offsets = list(accumulate(map(len, texts), initial=0))[:-1]
    lists: dict[str, Any] = {
        "tokens": texts,
        "token_logprobs": values,
        "top_logprobs": tops[1:] if drop_top else tops,
        "text_offset": offsets,
    }
    if order == "vllm":
        lists = dict(sorted(lists.items()))
    choice = {"index": 0, "text": "".join(texts), "logprobs": lists, "finish_reason": "length"}
    whole = {"choices": [choice], "usage": {"prompt_tokens": len(texts) - 1}}
    return orjson.dumps(whole) if compact else json.dumps(whole).encode()


def scored(request: EchoRequest, reply: Any) -> Any:
    try:
        return scored_tokens(request, reply)
    except Unusable as error:
        return str(error)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from([*NASTY, *WORDS[:5]]), min_size=1, max_size=40),
    st.integers(1, 200),
    st.sampled_from(["openai", "vllm"]),
    st.booleans(),
)
def test_same_scores_whatever_the_texts_of_tokens(end: list[str], back: int, order: str, compact: bool) -> None:
    texts = [*WORDS, *end, "."]
    prompt = "".join(texts[:-1])
    request = EchoRequest(prompt, max(1, len(prompt) - back))
    content = reply_of(texts, order=order, compact=compact)
    assert scored(request, read_echo(content)) == scored(request, read_json(content))


def test_long_lists_stay_unread() -> None:
    logprobs = read_echo(reply_of([*WORDS * 3, " A", "."]))["choices"][0]["logprobs"]
    assert {type(value) for value in logprobs.values()} == {UnreadList}


@pytest.mark.parametrize("order", ["openai", "vllm"])
def test_lists_of_different_length_are_noticed(order: str) -> None:
    texts = [*WORDS, " A", "."]
    prompt = "".join(texts[:-1])
    reply = read_echo(reply_of(texts, order=order, drop_top=True))
    assert "differ in length" in scored(EchoRequest(prompt, len(prompt) - 2), reply)


def test_token_ids_are_counted_as_before() -> None:
    texts = [*WORDS, " A", "."]
    content = reply_of(texts)
    request = EchoRequest(list(range(301)), 300)
    assert scored(request, read_echo(content)) == scored(request, read_json(content))


@pytest.mark.parametrize("content", [b'{"choices":[]}', b"[1]", b'"x"', b'{"logprobs":{"tokens":[1', b"null"])
def test_anything_else_is_read_as_it_is(content: bytes) -> None:
    def outcome(read: Any) -> Any:
        try:
            return read(content)
        except ValueError:
            return "broken"

    assert outcome(read_echo) == outcome(read_json)
