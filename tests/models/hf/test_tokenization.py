"""Text to ids: the rules on which published scores depend, against a literal statement of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.errors import ModelError
from assay.models.hf.tokenization import Pair, TextEncoder, to_scored


class Prefixing:
    """A tokenizer that puts BOS in front by default, as Llama's does: one token a character."""

    bos_token_id, eos_token_id, bos_token = 1, 2, "^"

    def __call__(self, texts: list[str], add_special_tokens: bool = True) -> dict[str, Any]:
        return {
            "input_ids": [[1] * (add_special_tokens and not text.startswith("^")) + [*map(ord, text)] for text in texts]
        }

    def decode(self, ids: list[int], skip_special_tokens: bool = True) -> str:
        return "".join("^" if token == 1 else chr(token) for token in ids)


def literal_pair(encoder: TextEncoder, context: str, continuation: str) -> tuple[list[int], list[int]]:
    spaces = len(context) - len(context.rstrip())
    if spaces:
        continuation = context[-spaces:] + continuation
        context = context[:-spaces]
    whole = encoder.tokenizer([context + continuation])["input_ids"][0]
    alone = encoder.tokenizer([context])["input_ids"][0]
    return alone, whole[len(alone) :]


words = st.text(alphabet="Question man door 12\n日", max_size=12)


@given(st.lists(st.tuples(words.filter(lambda text: bool(text.strip())), words), max_size=6))
@settings(max_examples=60, deadline=None)
def test_pairs_are_split_where_the_context_alone_ends(tokenizer: Any, pairs: list[tuple[str, str]]) -> None:
    encoder = TextEncoder(tokenizer)
    for (context, continuation), found in zip(pairs, encoder.encode_pairs(pairs)):
        assert (found.context, found.continuation) == literal_pair(encoder, context, continuation)


def test_whitespace_of_the_context_is_scored_with_the_continuation(tokenizer: Any) -> None:
    encoder = TextEncoder(tokenizer)
    for context in ("Answer: ", "Answer:\n\n", "Answer: \t"):
        (pair,) = encoder.encode_pairs([(context, "light")])
        assert encoder.decode(pair.context) == "Answer:"
        assert encoder.decode(pair.continuation) == context[len("Answer:") :] + "light"


def test_an_empty_context_is_the_prefix_token(tokenizer: Any) -> None:
    encoder = TextEncoder(tokenizer)
    plain, bringing = encoder.encode_pairs([("", "light"), ("", "<s>light")])
    assert plain.context == [tokenizer.bos_token_id]
    assert bringing == plain, "a text that brings its own prefix token does not get a second one"


def test_the_prefix_token_is_the_argument_then_bos_then_eos(tokenizer: Any, bare_tokenizer: Any) -> None:
    assert TextEncoder(tokenizer, prefix_token_id=9).prefix_token_id == 9
    assert TextEncoder(tokenizer).prefix_token_id == tokenizer.bos_token_id
    with pytest.raises(ModelError, match="neither a BOS nor an EOS"):
        TextEncoder(bare_tokenizer).encode_pairs([("", "light")])
    assert TextEncoder(bare_tokenizer).encode_pairs([("Answer:", " light")])[0].continuation


@pytest.mark.parametrize(("add_bos_token", "expected"), [(None, [1, 97]), (True, [1, 97]), (False, [97])])
def test_bos_follows_the_tokenizer_unless_told(add_bos_token: bool | None, expected: list[int]) -> None:
    encoder = TextEncoder(Prefixing(), add_bos_token=add_bos_token)
    assert encoder.encode(["a"]) == [expected]
    assert encoder.encode_prompts(["a"]) == [expected]


def test_a_text_that_starts_with_bos_gets_no_second_one() -> None:
    encoder = TextEncoder(Prefixing())
    assert encoder.encode(["^a", "a"]) == [[ord("^"), 97], [1, 97]]
    assert encoder.encode_prompts(["^a", "a"]) == [[ord("^"), 97], [1, 97]]


def test_both_texts_of_a_pair_carry_bos() -> None:
    (pair,) = TextEncoder(Prefixing()).encode_pairs([("a", "b")])
    assert pair == Pair([1, 97], [98])


def test_too_long_is_cut_from_the_left() -> None:
    scored = to_scored(Pair(list(range(10)), [90, 91]), 4)
    assert scored.tokens == [7, 8, 9, 90]
    assert scored.targets == [90, 91]


def test_nothing_to_encode() -> None:
    assert TextEncoder(Prefixing()).encode([]) == []
    assert TextEncoder(Prefixing()).encode_pairs([]) == []
