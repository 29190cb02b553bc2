"""RULER's aggregation tasks: the ten most common words of a numbered list, the three most frequent of a coded text.

Wording, sizes and draws are as in lm-evaluation-harness (`ruler_cwe`, `ruler_fwe`).
"""

from __future__ import annotations

import random
import string
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy.special import zeta

from assay.catalog.long_context.making import Doc, WantedDocs, each_length, grow, text_hash
from assay.catalog.long_context.word_lists import words_of

FIXED_SEED = 42
"""Of orders that are the same in every run."""

# The ten most common words of a list.

COMMON = 10
COMMON_ROOM, COMMON_STEP = 120, 10
_LIST = (
    "Below is a numbered list of words. In these words, some appear more often than others. "
    "Memorize the ones that appear most often.\n"
)
_TEN = "\nQuestion: What are the 10 most common words in the above list?"
_TEN_ANSWER = " Answer: The top 10 words that appear most often in the list are:"


def common_words(**given: Any) -> dict[str, Any]:
    known = words_of("noun", "adjective", "verb")
    wanted = WantedDocs.of(given)
    return wanted.made(lambda: make_lists(wanted, known), task="common words", words=text_hash(*known))


def make_lists(wanted: WantedDocs, known: Sequence[str]) -> Iterator[Doc]:
    return each_length(wanted, lambda length: _lists(wanted, known, length))


def _lists(wanted: WantedDocs, known: Sequence[str], length: int) -> Iterator[Doc | None]:
    draw = DrawList(wanted, known)
    example, repeats = ((20, 3, 1), (6, 1)) if length < 4096 else ((40, 10, 3), (30, 3))

    def both(words: int) -> tuple[str, str, list[str]]:
        shown, solved = draw(*example)
        text, answer = draw(words, *repeats)
        return f"{_LIST}{shown}{_TEN}{_TEN_ANSWER}{numbered(solved)}", f"{_LIST}{text}{_TEN}", answer

    def text_of(words: int) -> str:
        shown, text, answer = both(words)
        return f"{shown}\n{text}{_TEN_ANSWER} {numbered(answer)}"

    room = length - COMMON_ROOM
    words = grow(text_of, wanted.tokens, room, COMMON_STEP, start=COMMON_STEP, most=len(draw.words))
    for index in range(wanted.docs):
        for fewer in range(words, 0, -COMMON_STEP):
            _, text, answer = both(fewer)
            taken = wanted.tokens(text + _TEN_ANSWER) + COMMON_ROOM
            if taken <= length:
                yield _doc(index, text, answer, taken, length, _TEN_ANSWER)
                break


def numbered(words: Sequence[str]) -> str:
    """
    >>> numbered(["ox", "elk"])
    '1. ox 2. elk'
    """
    return " ".join(f"{number}. {word}" for number, word in enumerate(words, 1))


class DrawList:
    """Makes one list after the other: words from the run's random state, their order from a fixed one."""

    def __init__(self, wanted: WantedDocs, known: Sequence[str]) -> None:
        self.rng, self.order = random.Random(wanted.seed), random.Random(FIXED_SEED)
        self.words = list(known)
        self.order.shuffle(self.words)

    def __call__(self, words: int, often: int, seldom: int) -> tuple[str, list[str]]:
        drawn = self.rng.sample(self.words, words)
        common, others = drawn[:COMMON], drawn[COMMON:]
        listed = common * often + others * seldom
        self.order.shuffle(listed)
        return numbered(listed), common


# The three most frequent words of a coded text.

FREQUENT_ROOM, LETTERS, EXPONENT = 50, 6, 2.0
_CODED = (
    "Read the following coded text and track the frequency of each coded word. "
    "Find the three most frequently appeared coded words. "
)
_THREE = (
    "\nQuestion: Do not provide any explanation. Please ignore the dots '....'. "
    "What are the three most frequently appeared words in the above coded text?"
)
_THREE_ANSWER = " Answer: According to the coded text above, the three most frequently appeared words are:"


def frequent_words(**given: Any) -> dict[str, Any]:
    wanted = WantedDocs.of(given)
    return wanted.made(lambda: make_coded(wanted), task="frequent words")


def make_coded(wanted: WantedDocs) -> Iterator[Doc]:
    return each_length(wanted, lambda length: _coded(wanted, length))


def _coded(wanted: WantedDocs, length: int) -> Iterator[Doc | None]:
    """RULER fills the whole length here; the answer comes on top of it."""
    rng = random.Random(wanted.seed)
    step = length // 32
    vocabulary = draw_vocabulary(rng, length // 50)
    words = length // LETTERS
    while wanted.tokens(coded_text(vocabulary, words) + _THREE_ANSWER) < length:
        words += step
    words -= step
    for index in range(wanted.docs):
        vocabulary, fewer = draw_vocabulary(rng, length // 50), words
        while (taken := wanted.tokens(coded_text(vocabulary, fewer) + _THREE_ANSWER)) > length and fewer > step:
            fewer -= step
        if taken > length:
            yield None
            continue
        text = coded_text(vocabulary, fewer)
        yield _doc(index, text, vocabulary[1:4], taken + FREQUENT_ROOM, length, _THREE_ANSWER)


def draw_vocabulary(rng: random.Random, size: int) -> list[str]:
    """Coded words, the most frequent first; that one is dots, to be ignored."""

    def word() -> str:
        return "".join(rng.choices(string.ascii_lowercase, k=LETTERS))

    drawn = [word() for _ in range(size)]
    while len(set(drawn)) < size:
        drawn.append(word())
    vocabulary = sorted(set(drawn))
    random.Random(FIXED_SEED).shuffle(vocabulary)
    return ["...", *vocabulary[1:]]


def coded_text(vocabulary: Sequence[str], words: int) -> str:
    """About so many words; how often each occurs falls with the square of its rank."""
    ranks = np.arange(1, len(vocabulary) + 1)
    counts = (words * ranks**-EXPONENT / zeta(EXPONENT)).astype(int)
    text = [word for word, count in zip(vocabulary, counts) for _ in range(count)]
    random.Random(FIXED_SEED).shuffle(text)
    return f"{_CODED}{' '.join(text)}{_THREE}"


def _doc(index: int, text: str, answer: list[str], taken: int, length: int, begins: str) -> Doc:
    return {
        "index": index,
        "input": text.strip(),
        "outputs": answer,
        "length": taken,
        "max_length": length,
        "gen_prefix": begins.strip(),
    }
