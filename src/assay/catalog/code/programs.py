"""Code that models wrote, made complete and run against the tests of its problem in a sandbox."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

_BLOCK = re.compile(r"```(?:\w*\r?\n)?(.*?)\n?```", re.DOTALL)


def run_tests(references: Sequence[str], predictions: Sequence[Sequence[str]], k: Sequence[int]) -> dict[str, Any]:
    """For each k the chance that one of k draws passes the tests, and the share of draws that compile.

    A k beyond the number of draws is left out.
    """
    from assay.metrics import Reduced, load_metric
    from assay.results import Draws

    run = load_metric("code_eval").compute
    rates, outcomes = run(references=references, predictions=predictions, k=list(k))
    passed = [outcome["passed"] for _, outcome in outcomes.get(0, [])]
    n, right = len(passed), sum(passed)
    of_mean = right * (n - right) / (n * n * (n - 1)) if n > 1 else None
    failed = [program for program, ran in zip(predictions[0], passed) if not ran]
    # In the sandbox too: a program can be written so that compiling it alone brings an interpreter down.
    _, compiled = run(references=[""] * len(failed), predictions=[[compiling(program)] for program in failed], k=[1])
    well_formed = sum(passed) + sum(outcome["passed"] for each in compiled.values() for _, outcome in each)
    return {
        **{
            name: Reduced(float(rate), Draws(n, right, of_mean if name == "pass@1" else None))
            for name, rate in rates.items()
        },
        "compilation_rate": well_formed / len(passed) if passed else 0.0,
    }


def compiling(program: str) -> str:
    return f"compile({program!r}, 'program', 'exec')"


def completed(resps: Sequence[Sequence[str]], docs: Sequence[dict[str, Any]]) -> list[list[str]]:
    """The beginning of the function that was given, and what the model added."""
    return [[doc["prompt"] + text for text in texts] for texts, doc in zip(resps, docs)]


def completed_up_to_fence(resps: Sequence[Sequence[str]], docs: Sequence[dict[str, Any]]) -> list[list[str]]:
    """The same for a chat, where the code ends with its block."""
    return [[doc["prompt"] + text.partition("```")[0] for text in texts] for texts, doc in zip(resps, docs)]


def first_blocks(resps: Sequence[Sequence[str]], docs: Sequence[dict[str, Any]]) -> list[list[str]]:
    return [[first_block(text) for text in texts] for texts in resps]


def first_block(text: str) -> str:
    """The first block of code; the prompt has opened it, so the text may begin inside. A word is a language only where its line ends:
    lm-evaluation-harness takes the `def` of a function for one, and no answer that continues the prompt can pass.

    >>> first_block("python\\nx = 1\\n```\\nDone."), first_block("def f():\\n  pass\\n```"), first_block("no code")
    ('x = 1', 'def f():\\n  pass', '')
    """
    found = _BLOCK.search(f"```{text}") or _BLOCK.search(text.replace("```python", "```"))
    return found[1] if found else ""
