"""One needle at chosen depths of one text: what a model finds, by the length of the text and the needle's place in it.

All docs of a length share their haystack, so that a prefix tree computes what stands before a needle once.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from assay.catalog.long_context.making import Doc, WantedDocs, each_length, read_texts, text_hash
from assay.catalog.long_context.niah import GRASS
from assay.errors import ConfigError

ROOM = 32
"""Tokens kept for the answer."""
CITIES = ("Bergen", "Cusco", "Davao", "Gdansk", "Hobart", "Izmir", "Kumasi", "Lahore", "Mendoza", "Quito")


def needles(essays: str = "", depths: int = 11, needles: int = 5, **given: Any) -> dict[str, Any]:
    """`needles` docs at each of `depths` places from the beginning to the end. `essays` name a text to hide them in."""
    if not (isinstance(depths, int) and depths > 1 and isinstance(needles, int) and needles > 0):
        raise ConfigError(
            f"--metadata depths={depths!r}, needles={needles!r}: they are numbers of places and of docs at each",
            hint="Write depths=11,needles=5.",
        )
    text = " ".join(read_texts(essays, "a text", "essays")).split() if essays else GRASS.split()
    wanted = WantedDocs.of(given)
    facts = {"task": "haystack", "haystack": text_hash(*text), "places": (depths, needles)}
    return wanted.made(lambda: make_docs(wanted, text, depths, needles), **facts)


def make_docs(wanted: WantedDocs, text: list[str], depths: int, needles: int) -> Iterator[Doc]:
    return each_length(wanted, lambda length: _docs(wanted, text, depths, needles, length))


def _docs(wanted: WantedDocs, text: list[str], depths: int, needles: int, length: int) -> Iterator[Doc | None]:
    """Sentences end where a word ends with a full stop; a needle stands between two of them."""
    rng = random.Random(wanted.seed)
    hidden = [(CITIES[at % len(CITIES)], str(rng.randint(10**6, 10**7 - 1))) for at in range(needles)]

    def tokens(words: int) -> int:
        return wanted.tokens(prompt(cut(text, words), *hidden[0], 0.5)) + ROOM

    words = _most(tokens, length)
    if words == 0:
        return
    shared = cut(text, words)
    index = 0
    for depth in (round(100 * at / (depths - 1)) for at in range(depths)):
        for city, number in hidden:
            asked = prompt(shared, city, number, depth / 100)
            yield {
                "index": index,
                "input": asked,
                "outputs": [number],
                "length": wanted.tokens(asked) + ROOM,
                "max_length": length,
                "depth": depth,
                "gen_prefix": f"The magic number of {city} is",
            }
            index += 1


def _most(tokens: Callable[[int], int], length: int) -> int:
    """How many words fit, with a little air: needles differ by a token or two."""
    low, high = 0, 1
    while tokens(high) <= length - 8:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if tokens(middle) <= length - 8 else (low, middle)
    return low


def cut(text: list[str], words: int) -> list[str]:
    """So many words, again from the beginning where the text ends."""
    return (text * (words // len(text) + 1))[:words]


def prompt(words: list[str], city: str, number: str, depth: float) -> str:
    """
    >>> print(prompt("It rains. It pours.".split(), "Quito", "7", 0.5))
    A magic number is hidden in the text below. Remember it: you will be asked for it.
    <BLANKLINE>
    It rains. The magic number of Quito is 7. It pours.
    <BLANKLINE>
    What is the magic number of Quito in the text above?
    """
    place = int(len(words) * depth)
    while 0 < place < len(words) and not words[place - 1].endswith((".", "!", "?")):
        place -= 1
    needle = f"The magic number of {city} is {number}."
    text = " ".join([*words[:place], needle, *words[place:]])
    return (
        "A magic number is hidden in the text below. Remember it: you will be asked for it.\n\n"
        f"{text}\n\nWhat is the magic number of {city} in the text above?"
    )
