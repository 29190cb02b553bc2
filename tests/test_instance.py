"""Messages: there and back, and never taken for a text."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.instance import Instance, Message, Response, context_text, is_chat
from assay.store import request_key

CALL = {"id": "1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "content": "Hello"},
    {"role": "user", "content": [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": "…"}]},
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "content": "5", "tool_call_id": "1"},
    {"role": "user", "content": "Hello", "name": "Ada"},
]


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_survives_the_way_to_a_dict_and_through_a_pickle(message: dict[str, Any]) -> None:
    made = Message.from_dict(message)
    assert made.to_dict() == message
    assert Message.from_dict(made.to_dict()) == made
    assert pickle.loads(pickle.dumps(made)) == made
    assert hash(made) == hash(Message.from_dict(message))


def test_a_turn_that_only_calls_tools_may_have_no_content() -> None:
    message = Message.from_dict({"role": "assistant", "content": None, "tool_calls": [CALL]})
    assert (message.content, message.tool_calls) == ("", (CALL,))


@given(st.text())
def test_messages_and_their_json_are_different_requests(content: str) -> None:
    chat = (Message("user", content),)
    text = context_text(chat)
    assert is_chat(chat)
    assert not is_chat(text)
    settings: dict[str, Any] = {"until": []}
    keys = {
        request_key("m", "generate_until", (chat, settings)),
        request_key("m", "generate_until", (text, settings)),
        request_key("m", "generate_until", ([message.to_dict() for message in chat], settings)),
    }
    assert len(keys) == 3
    assert request_key("m", "generate_until", ((Message("user", content),), settings)) in keys


def test_the_token_count_is_that_of_the_first_response() -> None:
    instance = Instance("loglikelihood", {}, ("a", "b"), 0)
    assert instance.token_count is None
    instance.responses = [Response((-1.0, True), tokens=(7, 2))]
    assert instance.token_count == 2
