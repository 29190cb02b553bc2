"""Scorers by the name that a task file gives under `scorer`."""

from __future__ import annotations

from typing import Any

from assay.config import FunctionRef, ScorerConfig
from assay.registry import Registry

SCORERS: Registry[Any] = Registry(
    "scorer",
    group="assay.scorers",
    lazy={
        "choice": "assay.scoring.extraction:ChoiceScorer",
        "choice_match": "assay.scoring.extraction:ChoiceMatchScorer",
        "first_token": "assay.scoring.extraction:FirstTokenScorer",
        "generate": "assay.scoring.scorers:GenerateScorer",
        "judge": "assay.scoring.judges:JudgeScorer",
        "loglikelihood": "assay.scoring.scorers:LoglikelihoodScorer",
        "multiple_choice": "assay.scoring.choices:MultipleChoiceScorer",
        "regex": "assay.scoring.extraction:RegexScorer",
        "rolling": "assay.scoring.scorers:RollingScorer",
        "turns": "assay.scoring.turns:TurnsScorer",
    },
)


def scorer_class(config: ScorerConfig) -> Any:
    """The class that a task names, or brings along. One that is written for another contract says what stands for it."""
    found: Any = config.type
    if isinstance(config.type, str):
        found = SCORERS[config.type]
    elif isinstance(config.type, FunctionRef):
        found = config.type.load()
    adapt = getattr(found, "as_scorer", None)
    return found if adapt is None else adapt()
