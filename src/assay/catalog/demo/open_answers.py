"""The fixed answers of `demo_open`."""

from __future__ import annotations

from typing import Any


def fixed_answers(resps: list[list[str]], docs: list[dict[str, Any]]) -> list[list[str]]:
    """Each doc's own answer in place of the model's."""
    return [[str(doc["answer"])] * len(given) for given, doc in zip(resps, docs)]
