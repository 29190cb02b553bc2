"""RACE: one doc holds all questions on an article. The last one is asked; the others are shown with their answers."""

from __future__ import annotations

import ast
from typing import Any

_BLANK = "  _  ."
"""Marks a question that is a sentence to be completed."""


def problems(doc: dict[str, Any]) -> list[dict[str, Any]]:
    """The questions, which the dataset keeps as the text of a Python list."""
    found: list[dict[str, Any]] = ast.literal_eval(doc["problems"])
    return found


def right_choice(doc: dict[str, Any]) -> int:
    return "ABCD".index(problems(doc)[-1]["answer"])


def choices(doc: dict[str, Any]) -> list[str]:
    options: list[str] = problems(doc)[-1]["options"]
    return options[:4]


def text(doc: dict[str, Any]) -> str:
    *solved, asked = problems(doc)
    return f"Article: {doc['article']}\n\n{''.join(map(_with_answer, solved))}{asked['question']}"


def _with_answer(problem: dict[str, Any]) -> str:
    question, answer = problem["question"], problem["options"]["ABCD".index(problem["answer"])]
    if question.endswith(_BLANK):
        return f"{question[:-5]}{answer}\n"
    return f"Question: {question}\nAnswer: {answer}\n"
