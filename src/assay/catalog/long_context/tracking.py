"""RULER's variable tracking: a chain of assignments in a long text, and a question for all variables with its value.

A short solved text comes first, under other names. Wording, sizes and draws are as in lm-evaluation-harness (`ruler_vt`).
"""

from __future__ import annotations

import random
import string
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from assay.catalog.long_context.making import Doc, WantedDocs, each_length, grow
from assay.catalog.long_context.niah import GRASS

HOPS = 4
ROOM = 30
"""Tokens kept for the answer."""
STEP, EXAMPLE_STEP, EXAMPLE_LENGTH = 10, 5, 500
_ENDS_WITH = "they are: "


class ChainText(NamedTuple):
    text: str
    question: str
    """How the answer begins; RULER's spelling."""
    names: list[str]


def variables(**given: Any) -> dict[str, Any]:
    wanted = WantedDocs.of(given)
    return wanted.made(lambda: make_docs(wanted), task="variable tracking")


def make_docs(wanted: WantedDocs) -> Iterator[Doc]:
    return each_length(wanted, lambda length: _docs(wanted, length))


def _docs(wanted: WantedDocs, length: int) -> Iterator[Doc | None]:
    draw = ChainWriter(wanted)
    shown = _fitting(wanted, draw, _lines(wanted, draw, EXAMPLE_LENGTH, 3, EXAMPLE_STEP, 0), EXAMPLE_LENGTH, 3, 0)
    if shown is None:
        return
    example = f"{shown[0].text}{shown[0].question} {' '.join(shown[0].names)}\n\n"
    beside = wanted.tokens(example)
    lines = _lines(wanted, draw, length, 5, STEP, beside)
    for index in range(wanted.docs):
        found = _fitting(wanted, draw, lines, length, 5, beside)
        if found is None:
            yield None
            continue
        drawn, taken = found
        yield {
            "index": index,
            "input": f"{draw.renamed(example)}\n\n{drawn.text}",
            "outputs": drawn.names,
            "length": taken,
            "max_length": length,
            "gen_prefix": drawn.question.strip(),
        }


def _lines(wanted: WantedDocs, draw: ChainWriter, length: int, letters: int, step: int, beside: int) -> int:
    def text_of(lines: int) -> str:
        drawn = draw(lines, letters)
        return f"{drawn.text}{drawn.question} {drawn.names}"

    return grow(text_of, wanted.tokens, length - ROOM - beside, step, start=step)


def _fitting(
    wanted: WantedDocs, draw: ChainWriter, lines: int, length: int, letters: int, beside: int
) -> tuple[ChainText, int] | None:
    step = EXAMPLE_STEP if letters == 3 else STEP
    for fewer in range(lines, 0, -step):
        drawn = draw(fewer, letters)
        taken = wanted.tokens(drawn.text + drawn.question) + ROOM + beside
        if taken <= length:
            return drawn, taken
    return None


class ChainWriter:
    """Makes one text with its chain after the other, all from one random state."""

    def __init__(self, wanted: WantedDocs) -> None:
        self.rng, self.values = random.Random(wanted.seed), np.random.RandomState(wanted.numpy_seed)

    def __call__(self, lines: int, letters: int) -> ChainText:
        names = [self._name(letters) for _ in range(HOPS + 1)]
        while len(set(names)) <= HOPS:
            names = [*dict.fromkeys(names), self._name(letters)]
        value = int(self.values.randint(10000, 99999))
        chain = [f"VAR {names[0]} = {value}"]
        chain += [f"VAR {after} = VAR {before} " for before, after in pairwise(names)]
        sentences = [f"{GRASS}\n"] * lines
        if lines <= len(chain):  # too few to hide it between: sentence by sentence
            parts = [part for line in sentences for part in line.split(".")]
            sentences = [f"{part}." if part.strip() else part for part in parts]
        for moved, (place, link) in enumerate(zip(sorted(self.rng.sample(range(len(sentences)), len(chain))), chain)):
            sentences.insert(place + moved, link)
        context = " ".join(sentences).replace(". \n", ".\n")
        return ChainText(
            "Memorize and track the chain(s) of variable assignment hidden in the following text.\n\n"
            f"{context}\nQuestion: Find all variables that are assigned the value {value} in the text above.",
            " Answer: According to the chain(s) of variable assignment in the text above, "
            f"{HOPS + 1} variables are assgined the value {value}, {_ENDS_WITH}",
            names,
        )

    def _name(self, letters: int) -> str:
        return "".join(self.rng.choices(string.ascii_uppercase, k=letters))

    def renamed(self, example: str) -> str:
        """The example with other names, so that no two docs show the same."""
        for name in example[example.index(_ENDS_WITH) + len(_ENDS_WITH) :].split():
            example = example.replace(name, self._name(len(name)))
        return example
