"""Tokens find their place in the prompt whatever a server says of it, or it is said that they do not."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.models.openai.echo import place_tokens, scored_tokens_of, tokens_beyond


def sums(texts: list[str]) -> list[int]:
    """Offsets as vLLM gives them."""
    return list(accumulate(map(len, texts), initial=0))[:-1]


def beyond(prompt: str, border: int, texts: list[str], offsets: list[int]) -> list[str] | None:
    places = place_tokens(prompt, texts, offsets)
    chosen = None if places is None else tokens_beyond(border, places, len(prompt))
    assert chosen == (None if (quick := scored_tokens_of(prompt, border, texts, offsets)) is None else list(quick))
    return None if chosen is None else [texts[i] for i in chosen]


SKY = "The sky is blue"


@pytest.mark.parametrize("bos", [[], ["<s>"], ["<|begin_of_text|>"], ["[gMASK]", "<sop>"], [""]])
@pytest.mark.parametrize("style", ["sums", "negative", "absent"])
def test_specials_before_the_prompt_do_not_shift_it(bos: list[str], style: str) -> None:
    texts = [*bos, "The", " sky", " is", " blue", "."]
    offsets = {"sums": sums(texts), "negative": [-1] * len(texts), "absent": []}[style]
    assert beyond(SKY, 10, texts, offsets) == [" blue"]


def test_offsets_that_fit_are_taken_as_they_are() -> None:
    texts = ["The", " sk", "bytes:\\xc3", "bytes:\\xbf", ".", " or"]
    assert place_tokens("The skÿ.", texts, [0, 3, 6, 6, 7, 8]) == [(0, 3), (3, 6), (6, 6), (6, 7), (7, 8), (8, 9)]


@pytest.mark.parametrize(
    "words", [["The", "sky", "is", "blue"], ["▁The", "▁sky", "▁is", "▁blue"], [" The", " sky", " is", " blue"]]
)
def test_words_of_sentencepiece_get_their_spaces_back(words: list[str]) -> None:
    texts = ["<s>", *words, "."]
    assert beyond(SKY, 10, texts, sums(texts)) == [words[3]]


def test_a_prompt_may_begin_with_the_text_of_a_special() -> None:
    once, twice = ["<s>", "Hi", " you", "."], ["<s>", "<s>", "Hi", " you", "."]
    assert beyond("<s>Hi you", 5, once, sums(once)) == [" you"]
    assert beyond("<s>Hi you", 5, twice, sums(twice)) == [" you"]


def test_a_token_that_reaches_over_the_border_counts_to_the_continuation() -> None:
    texts = ["<s>", "The", " skylight", "."]
    assert beyond("The skylight", 7, texts, sums(texts)) == [" skylight"]


def test_pieces_of_a_character_share_its_place() -> None:
    texts = ["<s>", "a", "�", "�", " b", "."]
    assert beyond("a😀 b", 1, texts, sums(texts)) == ["�", "�", " b"]
    assert beyond("a😀 b", 2, texts, sums(texts)) == [" b"]
    assert beyond("a😀", 1, texts[:4] + texts[5:], [-1] * 5) == ["�", "�"]


def test_pieces_of_two_characters_with_the_border_between_them_cannot_be_told_apart() -> None:
    texts = ["a", "�", "�", "�", " b", "."]
    assert beyond("a😀é b", 2, texts, sums(texts)) is None
    assert beyond("a😀é b", 1, texts, sums(texts)) == ["�", "�", "�", " b"]


def test_a_token_of_the_prompt_is_not_taken_for_a_special_where_pieces_could_lie_in_two_ways() -> None:
    texts = [" é", " ", "�", "�"]
    assert beyond(" é é", 1, texts, [-1] * 4) is None


@pytest.mark.parametrize(
    "texts",
    [
        ["token_id:464", "token_id:6766", "token_id:318", "token_id:4171"],
        ["the", " sky", " is", " blue"],
        ["sky", " is", " blue", "."],
        ["The", " sky", " is"],
        ["?"],
    ],
    ids=["ids", "other letters", "cut at the start", "cut at the end", "no echo"],
)
def test_what_does_not_lie_along_the_prompt_is_not_guessed(texts: list[str]) -> None:
    assert place_tokens(SKY, texts, sums(texts)) is None
    assert place_tokens(SKY, texts, [-1] * len(texts)) is None


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_what_is_told_is_right(data: st.DataObject) -> None:
    """Bytes of a text cut anywhere, decoded one by one as vLLM does: the right tokens, or none."""
    prompt = data.draw(st.text("ab é😀\n的", min_size=2, max_size=12))
    border = data.draw(st.integers(1, len(prompt) - 1))
    raw = prompt.encode()
    cuts = sorted(data.draw(st.sets(st.integers(1, len(raw) - 1), max_size=len(raw) - 1)))
    ranges = list(zip([0, *cuts], [*cuts, len(raw)]))
    bos = data.draw(st.sampled_from([[], ["<s>"], [""]]))
    generated = data.draw(st.sampled_from([[], ["."], ["�"], ["a"], [" b"]]))
    texts = [*bos, *(raw[a:b].decode("utf-8", "replace") for a, b in ranges), *generated]
    first = len(prompt[:border].encode())
    right = [len(bos) + i for i, (_, end) in enumerate(ranges) if end > first]
    for offsets in (sums(texts), [-1] * len(texts)):
        places = place_tokens(prompt, texts, offsets)
        chosen = None if places is None else tokens_beyond(border, places, len(prompt))
        assert chosen == (None if (quick := scored_tokens_of(prompt, border, texts, offsets)) is None else list(quick))
        assert chosen in (None, right)
        if prompt.isascii():
            assert chosen == right
