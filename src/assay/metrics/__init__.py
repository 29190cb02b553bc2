"""Result to value: metrics, aggregations over docs, reducers over draws, normalisers."""

from assay.metrics import trajectories as trajectories
from assay.metrics.aggregations import aggregate_subtask_metrics, mean, pooled_sample_stderr
from assay.metrics.base import (
    AGGREGATIONS,
    METRICS,
    ChoiceBatch,
    ChoiceResult,
    Kind,
    Metric,
    Reduced,
    passed_through,
    register_aggregation,
    register_metric,
)
from assay.metrics.hub import OFFLINE as OFFLINE_METRICS
from assay.metrics.hub import import_for_task
from assay.metrics.hub import load as load_metric
from assay.metrics.likelihoods import Normalisation, count_bytes, count_words, normalise
from assay.metrics.programs import SANDBOXES, allow_unsafe_code, find_sandbox, noting_verdicts, open_shell, run_programs
from assay.metrics.reducers import (
    REDUCERS,
    Reducer,
    count_right,
    get_reducer,
    is_right_or_wrong,
    ks_for,
    pass_at_k,
    pass_hat_k,
)
from assay.metrics.texts import plain
from assay.stats import Aggregation

__all__ = [
    "AGGREGATIONS",
    "METRICS",
    "OFFLINE_METRICS",
    "REDUCERS",
    "SANDBOXES",
    "Aggregation",
    "ChoiceBatch",
    "ChoiceResult",
    "Kind",
    "Metric",
    "Normalisation",
    "Reduced",
    "Reducer",
    "aggregate_subtask_metrics",
    "allow_unsafe_code",
    "count_bytes",
    "count_right",
    "count_words",
    "find_sandbox",
    "get_reducer",
    "import_for_task",
    "is_right_or_wrong",
    "ks_for",
    "load_metric",
    "mean",
    "normalise",
    "noting_verdicts",
    "open_shell",
    "pass_at_k",
    "pass_hat_k",
    "passed_through",
    "plain",
    "pooled_sample_stderr",
    "register_aggregation",
    "register_metric",
    "run_programs",
]
