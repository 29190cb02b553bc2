"""MATH with a short answer expected: what stands between the first and the last dollar sign is the answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from assay.catalog.mathematics.answers import boxed, equal_answers


def process_docs(dataset: Any) -> Any:
    return dataset.map(lambda doc: {"answer": boxed(doc["solution"])})


def process_results(doc: dict[str, Any], results: Sequence[str]) -> dict[str, int]:
    text, gold = results[0], boxed(doc["solution"])
    first, last = text.find("$"), text.rfind("$")
    answer = text[first + 1 : last] if first != last else text
    return {"exact_match": int(gold is not None and equal_answers(answer, gold))}
