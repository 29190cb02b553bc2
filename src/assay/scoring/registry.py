"""Scorers by the name that a task file gives under `scorer`."""

from __future__ import annotations

from typing import Any

from assay.config import FunctionRef, ScorerConfig
from assay.registry import Registry

SCORERS: Registry[Any] = Registry(
    "scorer",
    group="assay.scorers",
    lazy={
        "generate": "assay.scoring.scorers:GenerateScorer",
        "judge": "assay.scoring.judges:JudgeScorer",
        "loglikelihood": "assay.scoring.scorers:LoglikelihoodScorer",
        "multiple_choice": "assay.scoring.choices:MultipleChoiceScorer",
        "rolling": "assay.scoring.scorers:RollingScorer",
    },
)


def scorer_class(config: ScorerConfig) -> Any:
    """The class that a task names, or brings along."""
    if isinstance(config.type, str):
        return SCORERS[config.type]
    return config.type.load() if isinstance(config.type, FunctionRef) else config.type
