"""Instances to scores: results, scorers, health, and an estimate for every number."""

from assay.config import TaskConfig
from assay.request_types import OUTPUT_TYPES
from assay.scoring.base import Scorer, ScoringContext, ScoringResult
from assay.scoring.choices import MultipleChoiceScorer
from assay.scoring.estimation import aggregate, chance_test, estimate
from assay.scoring.resolve import (
    ResolvedMetric,
    aggregation_of,
    apply_filters,
    ensembles_of,
    filters_of,
    higher_is_better_of,
    may_be_right_or_wrong,
    metric_configs,
    resolve_metrics,
    right_or_wrong_metrics,
)
from assay.scoring.results import GenResult, MCResult, Results
from assay.scoring.scorers import CustomScorer, GenerateScorer, LoglikelihoodScorer, RollingScorer


def scorer_for(config: TaskConfig, *, multiple_target: bool | None = None) -> Scorer:
    """The scorer of a task: its own `process_results` if it has one, else by output type."""
    if config.process_results is not None:
        return CustomScorer(config.process_results, multiple_target=multiple_target)
    scorer: Scorer = OUTPUT_TYPES[config.output_type].scorer_class(multiple_target=multiple_target)
    return scorer


__all__ = [
    "CustomScorer",
    "GenResult",
    "GenerateScorer",
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
    "ensembles_of",
    "estimate",
    "filters_of",
    "higher_is_better_of",
    "may_be_right_or_wrong",
    "metric_configs",
    "resolve_metrics",
    "right_or_wrong_metrics",
    "scorer_for",
]
