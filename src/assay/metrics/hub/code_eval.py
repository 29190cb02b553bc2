"""code_eval: run model-written programs against their tests, in a sandbox each."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from assay.metrics.programs import run_programs, unsafe_code_allowed
from assay.metrics.reducers import pass_at_k


def code_eval(
    *,
    predictions: Sequence[Sequence[str]],
    references: Sequence[str],
    k: Sequence[int] = (1, 10, 100),
    num_workers: int | None = None,
    timeout: float = 3.0,
) -> tuple[dict[str, float], dict[int, list[tuple[int, dict[str, Any]]]]]:
    """pass@k over problems, and what became of each program.

    `predictions[i]` are candidates for the problem whose tests are `references[i]`. A k that some problem has too few
    candidates for is left out.
    """
    if not unsafe_code_allowed() and _called_while_importing():
        # Task files try the metric once when they are imported and throw the answer away. That runs no model's code,
        # and listing or checking a task must not need permission to run any.
        return {f"pass@{each}": 0.0 for each in k}, {}
    jobs = [
        (task, j, (candidate, tests))
        for task, (candidates, tests) in enumerate(zip(predictions, references, strict=True))
        for j, candidate in enumerate(candidates)
    ]
    verdicts = run_programs([job for _, _, job in jobs], seconds=timeout, workers=num_workers)
    results: dict[int, list[tuple[int, dict[str, Any]]]] = defaultdict(list)
    for (task, j, _), verdict in zip(jobs, verdicts):
        entry = {"task_id": task, "passed": verdict.passed, "result": verdict.result, "completion_id": j}
        results[task].append((j, entry))
    outcomes = [[entry["passed"] for _, entry in results[task]] for task in range(len(predictions))]
    return _pass_rates(outcomes, k), dict(results)


def _pass_rates(outcomes: Sequence[Sequence[bool]], ks: Sequence[int]) -> dict[str, float]:
    rates: dict[str, float] = {}
    for k in ks:
        values = [pass_at_k(outcome, k) for outcome in outcomes]
        known = [value for value in values if value is not None]
        if known and len(known) == len(values):
            rates[f"pass@{k}"] = sum(known) / len(known)
    return rates


def _called_while_importing() -> bool:
    """Whether the call comes from the top level of a module."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("assay.metrics.hub"):
        frame = frame.f_back  # type: ignore[assignment]
    return frame is not None and frame.f_code.co_name == "<module>"
