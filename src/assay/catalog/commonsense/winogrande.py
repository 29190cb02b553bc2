"""Winogrande: the two options change what stands before the rest of the sentence, and the rest is what is scored."""

from __future__ import annotations

from typing import Any


def right_option(doc: dict[str, Any]) -> int:
    return int(doc["answer"]) - 1


def beginnings(doc: dict[str, Any]) -> list[str]:
    """
    >>> beginnings({"sentence": "Ann thanked Sue, for _ had helped.", "option1": "Ann", "option2": "Sue"})
    ['Ann thanked Sue, for Ann', 'Ann thanked Sue, for Sue']
    """
    before = doc["sentence"].partition("_")[0]
    return [before + doc["option1"], before + doc["option2"]]


def rest(doc: dict[str, Any]) -> str:
    ending: str = doc["sentence"].partition("_")[2]
    return ending.strip()
