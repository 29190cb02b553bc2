"""AGIEval: choice questions with several right answers, and mathematical answers to be found in free text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from assay.catalog.mathematics.answers import boxed, equal_answers
from assay.timelimit import timed

_NUMBER = re.compile(r"(?:\$)?\d+(?:\.\d+)?(?![\w\d])")


def score_choices(doc: dict[str, Any], results: Sequence[tuple[float, bool]]) -> dict[str, float]:
    """Right if the most likely choice is one of the right ones."""
    likelihoods = [loglikelihood for loglikelihood, _ in results]
    normed = [value / len(choice) for value, choice in zip(likelihoods, doc["choices"])]
    return {"acc": float(_best(likelihoods) in doc["gold"]), "acc_norm": float(_best(normed) in doc["gold"])}


def _best(values: Sequence[float]) -> int:
    return max(range(len(values)), key=values.__getitem__)


def score_answer(doc: dict[str, Any], results: Sequence[str]) -> dict[str, int]:
    gold, found = final_answer(doc["answer"] or ""), final_answer(results[0])
    return {"acc": int(gold == found if gold is None or found is None else equal_answers(found, gold))}


def final_answer(text: str) -> str | None:
    r"""What follows the last equals sign of the box, of the last formula, or of the text; else the last number.

    >>> final_answer(r"so \boxed{x = 3}"), final_answer("it is $y=2$"), final_answer("we get 4 or 5")
    ('3', '2', '5')
    """
    if "\\boxed" in text:
        content = boxed(text)
        return None if content is None else _after_equals(content)
    if (formulas := timed(r"\$(.*)\$").findall(text)) and (answer := _after_equals(formulas[-1])):
        return answer
    if "=" in text:
        return _after_equals(text).rstrip(".").split("\\n")[0]
    numbers = _NUMBER.findall(text)
    return numbers[-1] if numbers else None


def _after_equals(text: str) -> str:
    return text.rpartition("=")[2].lstrip(" ") if "=" in text else text
