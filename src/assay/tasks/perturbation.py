"""Perturbations: the same question with typos, in other case, with other spaces, words or order of choices, or no question at all.

How a doc is perturbed depends on its content and on nothing else, so it is the same in every run. The doc itself stays as
it was, and with it the hash by which two runs are paired: a perturbed run is compared with the clean one doc by doc.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from assay.errors import ConfigError, MissingPackage, did_you_mean

Change: TypeAlias = Callable[[str, random.Random], str]

_SPEC = re.compile(r"([a-z_]+)(?:\((\d*\.?\d+)\))?")
_PIECES = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|^(?: {4}|\t).*$|\n|[^\S\n]+|[^\s`]+|`", re.DOTALL | re.MULTILINE)
_LABEL = re.compile(r"\(?[A-Z]{1,2}[.):]")
_WORD = re.compile(r"(\W*)([^\W\d_]{3,})(\W*)")
_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_NEIGHBOURS = {
    letter: "".join(row[j] for j in (i - 1, i + 1) if 0 <= j < len(row))
    for row in _ROWS
    for i, letter in enumerate(row)
}


def typo(word: str, rng: random.Random) -> str:
    """A letter that is missing, doubled, or the one beside it on the keyboard; the first letter stays."""
    at = rng.randrange(1, len(word))
    letter = word[at]
    slips = ["", letter * 2, *_NEIGHBOURS.get(letter.lower(), "")]
    slip: str = rng.choice(slips)
    return word[:at] + slip + word[at + 1 :]


def swap(word: str, rng: random.Random) -> str:
    """Two letters that changed places; the first letter stays."""
    places = [i for i in range(1, len(word) - 1) if word[i] != word[i + 1]]
    if not places:
        return word
    at = rng.choice(places)
    return word[:at] + word[at + 1] + word[at] + word[at + 2 :]


def change_case(word: str, rng: random.Random) -> str:
    forms = [form for form in (word.upper(), word.lower(), word.capitalize()) if form != word]
    return rng.choice(forms) if forms else word


def add_space(space: str, rng: random.Random) -> str:
    """Twice the space between two words, or a line broken; breaks that are there stay as they are."""
    return space if "\n" in space else rng.choice([space * 2, space * 3])


_GRAMMAR = frozenset(
    [
        "a",
        "about",
        "after",
        "all",
        "am",
        "an",
        "and",
        "any",
        "are",
        "as",
        "at",
        "be",
        "been",
        "before",
        "being",
        "both",
        "but",
        "by",
        "can",
        "could",
        "did",
        "do",
        "does",
        "each",
        "either",
        "every",
        "few",
        "for",
        "from",
        "had",
        "has",
        "have",
        "he",
        "her",
        "him",
        "his",
        "how",
        "i",
        "if",
        "in",
        "into",
        "is",
        "it",
        "its",
        "less",
        "many",
        "may",
        "me",
        "might",
        "more",
        "most",
        "much",
        "must",
        "my",
        "neither",
        "no",
        "nor",
        "not",
        "of",
        "off",
        "on",
        "one",
        "only",
        "or",
        "other",
        "our",
        "out",
        "over",
        "shall",
        "she",
        "should",
        "so",
        "some",
        "such",
        "than",
        "that",
        "the",
        "their",
        "them",
        "then",
        "there",
        "these",
        "they",
        "this",
        "those",
        "to",
        "too",
        "up",
        "us",
        "very",
        "was",
        "we",
        "were",
        "what",
        "when",
        "where",
        "whether",
        "which",
        "who",
        "whom",
        "whose",
        "why",
        "will",
        "with",
        "would",
        "you",
        "your",
    ]
)
"""Words that hold a sentence together. WordNet knows many as something else: `was` as Washington, `as` as arsenic."""


def _meanings(word: str) -> list[Any]:
    try:
        from nltk.corpus import wordnet

        meanings: list[Any] = wordnet.synsets(word)
    except (ImportError, LookupError) as error:
        raise MissingPackage(
            "synonyms come from WordNet, which is not installed",
            hint="pip install nltk && python -m nltk.downloader wordnet",
            package="nltk",
        ) from error
    return meanings


def synonym(word: str, rng: random.Random) -> str:
    """Another word for what the word means most often, by WordNet; the word itself where there is none.

    Only words in the form in which a dictionary lists them: `planets` would lose its plural.
    """
    plain = word.lower()
    if plain in _GRAMMAR:
        return word
    listed = [lemma for meaning in _meanings(plain) for lemma in meaning.lemmas() if lemma.name() == plain]
    if not listed:
        return word
    usual = max(listed, key=lambda lemma: lemma.count()).synset()
    others = sorted(name for name in usual.lemma_names() if name.isalpha() and name.islower() and name != plain)
    if not others:
        return word
    chosen: str = rng.choice(others)
    return chosen.capitalize() if word[0].isupper() else chosen


@dataclass(frozen=True)
class Perturbation:
    """What is changed, and in which share of the words (or of the spaces between them) by default."""

    change: Change | None
    rate: float
    on_spaces: bool = False


PERTURBATIONS: dict[str, Perturbation] = {
    "typo": Perturbation(typo, 0.1),
    "swap": Perturbation(swap, 0.1),
    "case": Perturbation(change_case, 0.1),
    "whitespace": Perturbation(add_space, 0.1, on_spaces=True),
    "synonyms": Perturbation(synonym, 0.1),
    "choice_order": Perturbation(None, 1.0),
    "blind": Perturbation(None, 1.0),
    "no_context": Perturbation(None, 1.0),
}


def is_perturbation(part: str) -> bool:
    """Whether a part of a task's name is a perturbation.

    >>> is_perturbation("typo(0.1)"), is_perturbation("mc")
    (True, False)
    """
    found = _SPEC.fullmatch(part)
    return found is not None and found[1] in PERTURBATIONS


def read_perturbation(spec: str) -> tuple[str, float]:
    """
    >>> read_perturbation("typo(0.2)"), read_perturbation("case")
    (('typo', 0.2), ('case', 0.1))
    """
    found = _SPEC.fullmatch(spec.strip())
    if found is None or found[1] not in PERTURBATIONS:
        name = found[1] if found else spec
        raise ConfigError(
            f"there is no perturbation {spec!r}",
            hint=did_you_mean(name, PERTURBATIONS) or f"There are: {', '.join(PERTURBATIONS)}, as in typo(0.1).",
        )
    rate = PERTURBATIONS[found[1]].rate if found[2] is None else float(found[2])
    if not 0 < rate <= 1:
        raise ConfigError(f"perturbation {spec!r}: the share of words is {rate:g}", hint="It must lie between 0 and 1.")
    return found[1], rate


def perturbed_text(text: str, specs: Sequence[str], seed: str, keep: Collection[str] = ()) -> str:
    """The text with its words changed; words in `keep` stay, as do numbers, choice labels and code.

    >>> perturbed_text("What is the capital of France?", ["swap(1.0)"], "doc", keep=["France"])
    'Waht is teh capitla of France?'
    """
    kept = {word.lower() for word in keep}
    for spec in specs:
        name, rate = read_perturbation(spec)
        rule = PERTURBATIONS[name]
        if rule.change is not None:
            rng = random.Random(f"{spec}\0{seed}")
            pieces = _PIECES.findall(text)
            text = "".join(_changed(piece, rule, rate, rng, kept) for piece in pieces)
    return text


def _changed(piece: str, rule: Perturbation, rate: float, rng: random.Random, kept: Collection[str]) -> str:
    assert rule.change is not None
    if rule.on_spaces:
        is_gap = piece.isspace() and "\n" not in piece and not piece.startswith(("    ", "\t"))
        return rule.change(piece, rng) if is_gap and rng.random() < rate else piece
    word = _WORD.fullmatch(piece)
    if word is None or "`" in piece or _LABEL.fullmatch(piece) or word[2].lower() in kept:
        return piece
    return f"{word[1]}{rule.change(word[2], rng)}{word[3]}" if rng.random() < rate else piece


def choice_order(count: int, seed: str) -> list[int]:
    """The places of the choices in their new order."""
    order = list(range(count))
    random.Random(f"choice_order\0{seed}").shuffle(order)
    return order
