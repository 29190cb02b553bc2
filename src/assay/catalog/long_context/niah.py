"""RULER's needles in a haystack: sentences with magic numbers in a long text, one or several of which are asked for.

The wording, the sizes and the order of random draws are RULER's, as lm-evaluation-harness has them (`niah_*`): the same
random state, tokenizer, words and essays make the same prompts.
"""

from __future__ import annotations

import random
import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from assay.catalog.long_context.making import Doc, WantedDocs, each_length, grow, read_texts, text_hash
from assay.catalog.long_context.word_lists import adjective_nouns, words_of
from assay.errors import MissingPackage

ROOM = 128
"""Tokens kept for the answer."""
GRASS = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again."
SHUFFLE_SEED = 42
DEPTHS = [round(100 * at / 39) for at in range(40)]
"""Percent of an essay's sentences before a needle."""


@dataclass(frozen=True)
class Needles:
    """What is hidden in what, and how much of it is asked for."""

    haystack: str
    """`repeat` (one sentence again and again), `needle` (other needles), `essay`."""
    key_type: str = "words"
    value_type: str = "numbers"
    keys: int = 1
    values: int = 1
    """Of each key."""
    queries: int = 1
    """Keys that are asked for."""

    @property
    def asks_one(self) -> bool:
        return self.queries * self.values == 1

    def step(self, length: int) -> int:
        """Pieces by which a text grows: words of an essay, or lines."""
        if self.haystack == "essay":
            return 500
        return 5 if length < 4096 else 25


class Haystack(NamedTuple):
    text: str
    answers: list[str]
    query: str
    depth: str | None


def needles(essays: str = "", **given: Any) -> dict[str, Any]:
    """The docs of one `niah_*` task. Its file says what a `Needles` holds, the run how long the texts are."""
    task = Needles(**{name: given[name] for name in Needles.__dataclass_fields__ if name in given})
    words: list[str] = []
    if task.haystack == "essay":
        require_sentences()
        words = re.sub(r"\s+", " ", " ".join(read_texts(essays, "essays", "essays"))).split(" ")
    known = words_of("adjective") + words_of("noun") if "words" in (task.key_type, task.value_type) else ()
    wanted = WantedDocs.of(given)
    facts = {"task": "niah", **asdict(task), "essays": text_hash(*words), "words": text_hash(*known)}
    return wanted.made(lambda: make_docs(task, wanted, words), **facts)


def make_docs(task: Needles, wanted: WantedDocs, words: list[str]) -> Iterator[Doc]:
    return each_length(wanted, lambda length: _docs(task, wanted, words, length))


def _docs(task: Needles, wanted: WantedDocs, words: list[str], length: int) -> Iterator[Doc | None]:
    draw = HaystackWriter(task, words, random.Random(wanted.seed))
    step, least = task.step(length), task.keys * task.values

    def text_of(pieces: int) -> str:
        drawn = draw(pieces)
        return drawn.text + " ".join(drawn.answers)

    available = len(draw.words) if task.haystack == "essay" else None
    most = None if available is None else available + step  # a text of all words is measured once more
    pieces = grow(text_of, wanted.tokens, length - ROOM, step, start=max(step, least), most=most)
    pieces = max(pieces, least)
    pieces = pieces if available is None else min(pieces, available)
    for index in range(wanted.docs):
        yield _fitting(task, wanted, draw, index, length, range(pieces, 0, -step))


def _fitting(
    task: Needles, wanted: WantedDocs, draw: HaystackWriter, index: int, length: int, sizes: range
) -> Doc | None:
    for pieces in sizes:
        if task.haystack != "essay" and pieces < task.keys * task.values:
            return None
        drawn = draw(pieces)
        taken = wanted.tokens(drawn.text) + ROOM
        if taken <= length:
            kind, verb = (task.value_type[:-1], "is") if task.asks_one else (task.value_type, "are")
            return {
                "index": index,
                "input": drawn.text,
                "outputs": drawn.answers,
                "length": taken,
                "max_length": length,
                "gen_prefix": f"The special magic {kind} for {drawn.query} mentioned in the provided text {verb}",
                "depth": drawn.depth,
            }
    return None


class HaystackWriter:
    """Makes one text with its needles after the other, all from one random state."""

    def __init__(self, task: Needles, words: list[str], rng: random.Random) -> None:
        self.task, self.words, self.rng = task, words, rng
        self.kinds: dict[str, Callable[[], str]] = {
            "numbers": lambda: str(rng.randint(10**6, 10**7 - 1)),
            "words": lambda: rng.choice(adjective_nouns()),
            "uuids": lambda: str(uuid.UUID(int=rng.getrandbits(128), version=4)),
        }

    def __call__(self, pieces: int) -> Haystack:
        task = self.task
        values: dict[int, list[str]] = {}
        keys: list[str] = []
        for at in range(task.keys):
            keys.append(self.kinds[task.key_type]())
            values[at] = [self.kinds[task.value_type]() for _ in range(task.values)]
        hidden = [self._needle(keys[at], value) for at in values for value in values[at]]
        random.Random(SHUFFLE_SEED).shuffle(hidden)
        context = self._in_essay(pieces, hidden) if task.haystack == "essay" else self._in_lines(pieces, hidden)
        asked = self.rng.sample(range(task.keys), task.queries)
        answers = [value for at in asked for value in values[at]]
        named = [keys[at] for at in asked]
        query = named[0] if len(named) == 1 else f"{', '.join(named[:-1])}, and {named[-1]}"
        depth = fifth_of(context, self._needle(named[0], answers[0])) if task.asks_one else None
        return Haystack(self._prompt(context, query), answers, query, depth)

    def _needle(self, key: str, value: str) -> str:
        return f"One of the special magic {self.task.value_type} for {key} is: {value}."

    def _in_essay(self, pieces: int, hidden: list[str]) -> str:
        sentences = sentences_of(" ".join(self.words[:pieces]).strip())
        depths = self.rng.sample(DEPTHS, len(hidden))
        places = sorted(int(len(sentences) * (depth / 100)) for depth in depths)
        parts: list[str] = []
        for begin, end, needle in zip([0, *places], places, hidden):
            parts += [" ".join(sentences[begin:end]), needle]
        return " ".join([*parts, " ".join(sentences[places[-1] :])])

    def _in_lines(self, pieces: int, hidden: list[str]) -> str:
        if self.task.haystack == "repeat":
            lines = [GRASS] * pieces
        else:
            key, value = self.kinds[self.task.key_type], self.kinds[self.task.value_type]
            lines = [self._needle(key(), value()) for _ in range(pieces)]
        places = sorted(self.rng.sample(range(pieces), len(hidden)), reverse=True)
        for place, needle in zip(places, hidden):
            lines.insert(place, needle)
        return "\n".join(lines)

    def _prompt(self, context: str, query: str) -> str:
        kind, some, are, are_all = self.task.value_type, "Some", "are", "are all"
        if self.task.asks_one:
            kind, some, are, are_all = kind[:-1], "A", "is", "is"
        return (
            f"{some} special magic {kind} {are} hidden within the following text. Make sure to memorize it. "
            f"I will quiz you about the {kind} afterwards.\n{context}\n"
            f"What {are_all} the special magic {kind} for {query} mentioned in the provided text?"
        )


def fifth_of(text: str, part: str) -> str:
    """
    >>> fifth_of("aaaaaaaaxa", "x")
    '80-100 %'
    """
    at = min(4, 5 * text.index(part) // len(text))
    return f"{20 * at}-{20 * at + 20} %"


def require_sentences() -> None:
    """Refuse essays where nothing splits them into sentences as RULER does."""
    try:
        import nltk

        nltk.data.find("tokenizers/punkt_tab")
    except ModuleNotFoundError:
        raise MissingPackage(
            "RULER splits essays into sentences with nltk, which is not installed",
            hint="pip install nltk, and then: python -m nltk.downloader punkt_tab",
            package="nltk",
        ) from None
    except LookupError:
        raise MissingPackage(
            "RULER splits essays into sentences with nltk, whose punkt_tab is not there",
            hint="python -m nltk.downloader punkt_tab",
            package="nltk",
        ) from None


@lru_cache(maxsize=64)
def sentences_of(text: str) -> list[str]:
    from nltk import sent_tokenize

    return list(sent_tokenize(text))
