"""Most replies hold a text and nothing else, and are read by a shorter way. It leads to the same place."""

from __future__ import annotations

from typing import Any
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from assay.models.openai import reading
from assay.models.openai.reading import read_response
from assay.models.openai.wire import Unusable

texts = st.sampled_from(["", "4", "so\n\nQ", "<think>2</think>4", "<think>2", "é \ud83d"])
odd = st.sampled_from([None, "", "x", [], ["x"], {}, {"a": 1}, 0, 7])


def fields(**known: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Some of the known fields, and perhaps one that nobody knows."""
    named = st.fixed_dictionaries({}, optional=known)
    return st.tuples(named, st.dictionaries(st.just("novel"), odd, max_size=1)).map(lambda both: {**both[0], **both[1]})


messages = fields(
    role=st.just("assistant"), content=texts | odd, refusal=odd, tool_calls=odd, reasoning_content=odd, thinking=odd
)
choices = fields(
    index=st.just(0),
    finish_reason=st.sampled_from([None, "stop", "length", "content_filter"]),
    text=texts | odd,
    message=messages,
    reasoning=odd,
)
usages = fields(
    prompt_tokens=st.integers(0, 9), prompt_tokens_details=odd, completion_tokens_details=odd, total_tokens=odd
)
replies = st.builds(
    lambda choices, rest: {"choices": choices, **rest},
    st.lists(choices, min_size=1, max_size=2),
    fields(id=st.just("c"), model=st.sampled_from([None, "", "m"]), usage=usages | odd),
)


def read(reply: dict[str, Any]) -> Any:
    try:
        return read_response(reply, ("\n\n",), None, lambda reply: (1, 2))
    except (Unusable, TypeError, AttributeError) as error:
        return type(error), str(error)


@given(replies)
def test_the_short_way_gives_what_the_long_one_does(reply: dict[str, Any]) -> None:
    with mock.patch.object(reading, "_is_plain", return_value=False):
        whole = read(reply)
    assert read(reply) == whole


def test_a_plain_reply_takes_the_short_way() -> None:
    message = {"role": "assistant", "content": "4"}
    chat = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": {"prompt_tokens": 3}}
    completion = {"id": "c", "choices": [{"index": 0, "text": "4", "finish_reason": "stop"}]}
    for reply in (chat, completion):
        with mock.patch.object(reading, "unread", side_effect=AssertionError):
            assert read_response(reply).answer == "4"
