"""IFEval: a prompt gives instructions that a program can check; strictly, or with usual preambles forgiven."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from assay.catalog.instructions.checks import CHECKS


def process_results(doc: dict[str, Any], results: Sequence[str]) -> dict[str, Any]:
    """Per prompt: are all instructions followed? Per instruction: is it?"""
    strict, loose = followed(doc, [results[0]]), followed(doc, relaxed(results[0]))
    return {
        "prompt_level_strict_acc": all(strict),
        "inst_level_strict_acc": strict,
        "prompt_level_loose_acc": all(loose),
        "inst_level_loose_acc": loose,
    }


def followed(doc: dict[str, Any], texts: Sequence[str]) -> list[bool]:
    """For each instruction, whether one of the texts complies. An empty text complies with none."""
    return [
        any(text.strip() and CHECKS[name](text, **_arguments(given)) for text in texts)
        for name, given in zip(doc["instruction_id_list"], doc["kwargs"])
    ]


def _arguments(given: dict[str, Any]) -> dict[str, Any]:
    """The dataset has a column for every argument of every instruction, empty where it does not apply."""
    return {name: value for name, value in given.items() if value}


def relaxed(text: str) -> list[str]:
    """The text as it is, without its first line, its last line or both, and each without asterisks."""
    lines = text.split("\n")
    cut = [text, *("\n".join(part).strip() for part in (lines[1:], lines[:-1], lines[1:-1]))]
    return [*cut, *(variant.replace("*", "") for variant in cut)]


def instruction_accuracy(items: Sequence[Sequence[bool]]) -> float:
    """The share of all instructions of all prompts."""
    flat = [value for item in items for value in item]
    return sum(flat) / len(flat)
