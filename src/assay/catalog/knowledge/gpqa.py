"""GPQA: the four answers are shuffled, doc by doc, by the process's own generator, which a run seeds."""

from __future__ import annotations

import random
import re
from typing import Any

_ANSWERS = ("Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3", "Correct Answer")


def process_docs(dataset: Any) -> Any:
    return dataset.map(lambda doc: shuffled([clean(doc[name]) for name in _ANSWERS]))


def process_docs_leaderboard(dataset: Any) -> Any:
    """The leaderboard also dropped everything in square brackets."""
    return dataset.map(lambda doc: shuffled([_without_brackets(doc[name]) for name in _ANSWERS]))


def shuffled(answers: list[str]) -> dict[str, str]:
    """The answers in random order, and the label of the right one, which comes last in the data."""
    right = answers[-1]
    random.shuffle(answers)
    choices = {f"choice{number}": answer for number, answer in enumerate(answers, 1)}
    return {**choices, "answer": f"({'ABCD'[answers.index(right)]})"}


def clean(text: str | None) -> str:
    return " " if text is None else text.strip().replace(" [title]", ". ").replace("  ", " ")


def _without_brackets(text: str | None) -> str:
    if text is None:
        return " "
    return re.sub(r"\[.*?\]", "", text.strip().replace(" [title]", ". ")).replace("  ", " ")
