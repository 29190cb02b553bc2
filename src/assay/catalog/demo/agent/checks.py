"""What is right at the end of the small jobs for agents."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from assay.metrics import run_programs


def solved(trajectory: Any) -> float:
    """Whether a job is done, by its kind."""
    kind = trajectory.doc["id"].partition("-")[0]
    return float(CHECKS[kind](trajectory))


def files_solved(trajectory: Any) -> bool:
    """The answer is in its file, and all other files are as they were."""
    found, doc = trajectory.end_state.text("answer.txt"), trajectory.doc
    if found is None or found.strip() != doc["answer"]:
        return False
    return all(trajectory.end_state.text(path) == text for path, text in json.loads(doc["files"]).items())


def answer_right(trajectory: Any) -> bool:
    return bool(trajectory.answer.strip() == trajectory.doc["answer"])


def booking_right(trajectory: Any) -> bool:
    """Booked is the right train, and nothing else."""
    return bool(trajectory.end_state.tools["Trains"]["booked"] == [trajectory.doc["right"]])


def repaired(trajectory: Any) -> bool:
    """The program as it was left passes tests that it never saw."""
    program = trajectory.end_state.text("program.py")
    return program is not None and bool(run_programs([(program, trajectory.doc["tests"])])[0].passed)


CHECKS: dict[str, Callable[[Any], bool]] = {
    "files": files_solved,
    "table": answer_right,
    "calculator": answer_right,
    "booking": booking_right,
    "repair": repaired,
}
