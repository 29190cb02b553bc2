"""How a gate decides."""

from __future__ import annotations

from typing import Literal

from assay.analyses.compare import CompareOptions
from assay.config import CommandFlag, Names, Texts, option


class GateOptions(CompareOptions):
    """What a run must hold against, and how sure that must be."""

    baseline: str | None = option(
        None, "A run, a results file, or a JSON file of thresholds.", flag=CommandFlag("-b", "RUN_OR_FILE")
    )
    threshold: float | None = option(None, "Instead of a baseline: the score that every named task must reach.")
    margin: float = option(0.01, "The largest acceptable loss; relative for numbers beyond ±1.", gt=0)
    alpha: float = option(0.05, "Probability of passing a model that is worse by the margin.", gt=0, le=0.5)
    tasks: Names = option((), "Tasks or groups to check.", flag=CommandFlag("-t", "NAMES", default="all"))
    metric: Texts = option(
        (),
        "Only this metric: acc, or acc,none; can be repeated.",
        flag=CommandFlag("-m", "NAME", default="all; with --threshold, each task's first"),
    )
    unpaired: bool = option(False, "Allow tasks whose prompts or docs differ; errors add up.")
    cannot_tell: Literal["pass", "fail"] | None = option(
        None, "Exit with 0 or 1 if there are too few docs to tell.", flag=CommandFlag(default="4")
    )
