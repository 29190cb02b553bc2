"""Result to value: metrics, aggregations over docs, reducers over repeats, normalisers."""

from assay.metrics import aggregations, confidence, likelihoods, majority, matching, overlap, translation  # noqa: F401
from assay.metrics.base import (
    AGGREGATIONS,
    METRICS,
    ChoiceBatch,
    ChoiceResult,
    Kind,
    Metric,
    register_metric,
)
from assay.metrics.normalisation import Normalisation, normalise
from assay.metrics.reducers import REDUCERS, Reducer, count_right, get_reducer
from assay.stats import Aggregation

DEFAULT_METRICS: dict[str, tuple[str, ...]] = {
    "loglikelihood": ("perplexity", "acc"),
    "loglikelihood_rolling": ("word_perplexity", "byte_perplexity", "bits_per_byte"),
    "multiple_choice": ("acc", "acc_norm"),
    "generate_until": ("exact_match",),
}
"""What a task without `metric_list` is scored by."""

__all__ = [
    "AGGREGATIONS",
    "DEFAULT_METRICS",
    "METRICS",
    "REDUCERS",
    "Aggregation",
    "ChoiceBatch",
    "ChoiceResult",
    "Kind",
    "Metric",
    "Normalisation",
    "Reducer",
    "count_right",
    "get_reducer",
    "normalise",
    "register_metric",
]
