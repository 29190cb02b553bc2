"""Instances to scores: results, scorers, health, and an estimate for every number."""

from assay.config import TaskConfig
from assay.scoring.base import Key, Scorer, ScoringContext, ScoringResult, declared
from assay.scoring.chance import Chance, chance_test
from assay.scoring.choices import MultipleChoiceScorer
from assay.scoring.compare_filters import Disagreement, disagreements, unparsed_bounds
from assay.scoring.custom import CustomScorer
from assay.scoring.estimate import aggregate, estimate
from assay.scoring.health import Health
from assay.scoring.resolve import (
    ResolvedMetric,
    aggregation_of,
    apply_filters,
    ensembles_of,
    filters_of,
    higher_is_better_of,
    metric_configs,
    resolve_metrics,
)
from assay.scoring.results import GenResult, MCResult, Results
from assay.scoring.scorers import GenerateScorer, LoglikelihoodScorer, RollingScorer

SCORERS: dict[str, type[Scorer]] = {
    "generate_until": GenerateScorer,
    "multiple_choice": MultipleChoiceScorer,
    "loglikelihood": LoglikelihoodScorer,
    "loglikelihood_rolling": RollingScorer,
}


def scorer_for(config: TaskConfig, *, multiple_target: bool | None = None) -> Scorer:
    """The scorer of a task: its own `process_results` if it has one, else by output type."""
    if config.process_results is not None:
        return CustomScorer(config.process_results, multiple_target=multiple_target)
    return SCORERS[config.output_type](multiple_target=multiple_target)


__all__ = [
    "SCORERS",
    "Chance",
    "CustomScorer",
    "Disagreement",
    "GenResult",
    "GenerateScorer",
    "Health",
    "Key",
    "LoglikelihoodScorer",
    "MCResult",
    "MultipleChoiceScorer",
    "ResolvedMetric",
    "Results",
    "RollingScorer",
    "Scorer",
    "ScoringContext",
    "ScoringResult",
    "aggregate",
    "aggregation_of",
    "apply_filters",
    "chance_test",
    "declared",
    "disagreements",
    "ensembles_of",
    "estimate",
    "filters_of",
    "higher_is_better_of",
    "metric_configs",
    "resolve_metrics",
    "scorer_for",
    "unparsed_bounds",
]
