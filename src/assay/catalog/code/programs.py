"""Code that models wrote, made complete and run against the tests of its problem in a sandbox."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

_BLOCK = re.compile(r"```(?:\w+)?\n?(.*?)\n?```", re.DOTALL)


def pass_at_k(references: Sequence[str], predictions: Sequence[Sequence[str]], k: Sequence[int]) -> dict[str, float]:
    """The chance that one of k draws passes the tests, for each k."""
    from assay.metrics import load_metric

    scores, _ = load_metric("code_eval").compute(references=references, predictions=predictions, k=list(k))
    return {name: float(score) for name, score in scores.items()}


def pass_at_1(references: Any, predictions: Any) -> float:
    references = [references] if isinstance(references, str) else references
    programs = [[program] if isinstance(program, str) else program for program in predictions]
    return pass_at_k(references, programs, [1])["pass@1"]


def completed(resps: Sequence[Sequence[str]], docs: Sequence[dict[str, Any]]) -> list[list[str]]:
    """The beginning of the function that was given, and what the model added."""
    return [[doc["prompt"] + text for text in texts] for texts, doc in zip(resps, docs)]


def completed_up_to_fence(resps: Sequence[Sequence[str]], docs: Sequence[dict[str, Any]]) -> list[list[str]]:
    """The same for a chat, where the code ends with its block."""
    return [[doc["prompt"] + text.partition("```")[0] for text in texts] for texts, doc in zip(resps, docs)]


def first_blocks(resps: Sequence[Sequence[str]], docs: Sequence[dict[str, Any]]) -> list[list[str]]:
    return [[first_block(text) for text in texts] for texts in resps]


def first_block(text: str) -> str:
    """The first block of code; the prompt has opened it, so the text may begin inside.

    >>> first_block("python\\nx = 1\\n```\\nDone."), first_block("no code")
    ('x = 1', '')
    """
    found = _BLOCK.search(f"```{text}") or _BLOCK.search(text.replace("```python", "```"))
    return found[1] if found else ""
