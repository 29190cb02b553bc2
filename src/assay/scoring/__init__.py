"""Instances to scores: results, scorers, health, and an estimate for every number."""

from typing import Any

from assay.config import FilterStep, ScorerConfig, TaskConfig
from assay.errors import ConfigError, UnknownName, UntrustedCode
from assay.request_types import OUTPUT_TYPES
from assay.scoring.agents import AgentScorer
from assay.scoring.base import Scorer, ScoringContext, by_doc
from assay.scoring.checks import check_filter, check_metric, check_reads_likelihoods
from assay.scoring.estimation import aggregate, chance_test, estimate, quietly, stderr_for_metric
from assay.scoring.gold import GOLD_VERDICTS, GoldLabel, gold_labels, gold_rows
from assay.scoring.judges import JudgeScorer, answer_hash, checked, label_rows, read_rows, scale_from_json
from assay.scoring.likelihood_scorers import (
    LabelLogprobsScorer,
    LoglikelihoodScorer,
    MultiChoiceScorer,
    MultipleChoiceScorer,
    RollingScorer,
)
from assay.scoring.outcome import ScoringResult, declared
from assay.scoring.resolve import (
    SCORERS,
    ResolvedMetric,
    aggregation_of,
    apply_filters,
    doubtful_settings,
    ensembles_of,
    filters_of,
    higher_is_better_of,
    may_be_right_or_wrong,
    metric_configs,
    resolve_metrics,
    right_or_wrong_metrics,
    says_something,
    scorer_class,
)
from assay.scoring.results import GenResult, MCResult, Results, gold_indices
from assay.scoring.scorers import (
    AnswerScorer,
    CustomScorer,
    GenerateScorer,
    hooked,
    is_draws,
    one_value,
)


def scorer_for(config: TaskConfig, *, multiple_target: bool | None = None) -> Scorer:
    """The scorer of a task: its own `process_results` if it has one, else the one it names, else by output type."""
    if config.process_results is not None:
        return CustomScorer(config.process_results, multiple_target=multiple_target)
    if config.scorer is not None:
        return _named_scorer(config.scorer, config.task, multiple_target)
    scorer: Scorer = OUTPUT_TYPES[config.output_type].scorer_class(multiple_target=multiple_target)
    return scorer


def with_scorer_defaults(config: TaskConfig) -> TaskConfig:
    """The config with the filter and metrics of its scorer, if it has none of its own."""
    if config.scorer is None or config.process_results is not None:
        return config
    kind = scorer_class(config.scorer)
    if not isinstance(kind, type) or not issubclass(kind, Scorer):
        return config
    given: dict[str, Any] = {}
    if kind.default_filter is not Scorer.default_filter and config.filter_list is None:
        steps = _named_scorer(config.scorer, config.task, None).default_filter()
        given["filter_list"] = [{"name": "none", "filter": steps}] if steps else None
    if kind.default_metrics and config.metric_list is None:
        given["metric_list"] = list(kind.default_metrics)
    return config.override(**given) if given else config


def check_scorer(config: TaskConfig) -> None:
    """Whether the scorer that a task names exists, and it and the filter that it brings take their settings."""
    if config.scorer is None or config.process_results is not None:
        return
    if isinstance(named := _named_scorer(config.scorer, config.task, None), Scorer):
        for step in named.default_filter():
            check_filter(FilterStep.model_validate(step))


def _named_scorer(config: ScorerConfig, task: str, multiple_target: bool | None) -> Scorer:
    """The scorer with its settings; a setting that it does not take is an error of the task file."""
    try:
        scorer: Scorer = scorer_class(config)(**config.kwargs, multiple_target=multiple_target)
    except UntrustedCode:
        raise
    except ConfigError as error:
        kind = UnknownName if isinstance(error, UnknownName) else ConfigError
        raise kind(f"task {task!r}, scorer: {error.message}", hint=error.hint) from error
    except TypeError as error:
        hint = "Check the settings under scorer."
        raise ConfigError(f"task {task!r}, scorer {config.type}: {error}", hint=hint) from error
    return scorer


__all__ = [
    "GOLD_VERDICTS",
    "SCORERS",
    "AgentScorer",
    "AnswerScorer",
    "CustomScorer",
    "GenResult",
    "GenerateScorer",
    "GoldLabel",
    "JudgeScorer",
    "LabelLogprobsScorer",
    "LoglikelihoodScorer",
    "MCResult",
    "MultiChoiceScorer",
    "MultipleChoiceScorer",
    "ResolvedMetric",
    "Results",
    "RollingScorer",
    "Scorer",
    "ScoringContext",
    "ScoringResult",
    "aggregate",
    "aggregation_of",
    "answer_hash",
    "apply_filters",
    "by_doc",
    "chance_test",
    "check_filter",
    "check_metric",
    "check_reads_likelihoods",
    "check_scorer",
    "checked",
    "declared",
    "doubtful_settings",
    "ensembles_of",
    "estimate",
    "filters_of",
    "gold_indices",
    "gold_labels",
    "gold_rows",
    "higher_is_better_of",
    "hooked",
    "is_draws",
    "label_rows",
    "may_be_right_or_wrong",
    "metric_configs",
    "one_value",
    "quietly",
    "read_rows",
    "resolve_metrics",
    "right_or_wrong_metrics",
    "says_something",
    "scale_from_json",
    "scorer_class",
    "scorer_for",
    "stderr_for_metric",
    "with_scorer_defaults",
]
