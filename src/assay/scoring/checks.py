"""What can be known of filters and metrics before anything is scored: whether they exist, fit the task, and take what
they are given."""

from __future__ import annotations

import importlib.util
import re
import warnings
from collections.abc import Callable
from typing import Any

from assay.config import FilterConfig, FilterStep, FunctionRef, MetricConfig, TaskConfig
from assay.errors import AssayError, ConfigError, ConfigWarning, MissingPackage, UnknownName, did_you_mean
from assay.filters import FILTERS, Filter, build_filter
from assay.metrics import AGGREGATIONS, METRICS, OFFLINE_METRICS, Metric, get_reducer, passed_through
from assay.request_types import OUTPUT_TYPES
from assay.scoring.resolve import (
    IGNORES_KWARGS,
    WRITTEN,
    aggregation_of,
    metric_configs,
    own_arguments,
    takes_result,
    takes_texts,
)

EVALUATE_METRICS = frozenset(
    [
        "accuracy",
        "bertscore",
        "bleu",
        "bleurt",
        "brier_score",
        "cer",
        "character",
        "charcut_mt",
        "chrf",
        "code_eval",
        "comet",
        "competition_math",
        "confusion_matrix",
        "coval",
        "cuad",
        "exact_match",
        "f1",
        "frugalscore",
        "glue",
        "google_bleu",
        "indic_glue",
        "mae",
        "mahalanobis",
        "mape",
        "mase",
        "matthews_correlation",
        "mauve",
        "mean_iou",
        "meteor",
        "mse",
        "nist_mt",
        "pearsonr",
        "perplexity",
        "poseval",
        "precision",
        "r_squared",
        "recall",
        "rl_reliability",
        "roc_auc",
        "rouge",
        "sacrebleu",
        "sari",
        "seqeval",
        "smape",
        "spearmanr",
        "squad",
        "squad_v2",
        "super_glue",
        "ter",
        "trec_eval",
        "wer",
        "wiki_split",
        "xnli",
        "xtreme_s",
    ]
)
"""What the `evaluate` library fetches by name. Task files name them without saying where they are from."""

USUAL_NAMES = {"accuracy": "acc", "accuracy_norm": "acc_norm", "normalized_accuracy": "acc_norm"}
"""What people call metrics that have another name here."""

_ENTRY_KEYS = ("metric", "aggregation", "higher_is_better", "hf_evaluate", "reducer", "reduction", "kwargs")
"""Keys of an entry of `metric_list` that are not the metric's arguments."""

_OF_NUMBERS = ("mean", "nanmean", "median", "perplexity", "weighted_perplexity", "bits_per_byte", "brier_score")
"""Aggregations that cannot take pairs of texts."""


def check_filter(step: FilterStep) -> None:
    if isinstance(step.function, str) and step.function not in FILTERS:
        raise UnknownName(f"unknown filter {step.function!r}", hint=did_you_mean(step.function, FILTERS))
    try:
        made = build_filter(step)
    except AssayError:
        raise
    except (TypeError, ValueError, KeyError, re.error) as error:
        raise ConfigError(f"the filter {step.function} cannot be created from {step.kwargs}: {error}") from error
    if isinstance(step.function, str) and step.kwargs and type(made).__init__ is Filter.__init__:
        raise ConfigError(f"the filter {step.function} takes no arguments, but got {', '.join(step.kwargs)}")


_LIKELIHOODS = {"choice": (-1.0, False), "loglikelihood": (-1.0, False), "rolling": -1.0}
"""An answer to a request that is scored and not written, by the kind of metrics that read it."""


def check_reads_likelihoods(chain: FilterConfig, task: TaskConfig) -> None:
    """Where no text is written, a filter that works on text has nothing to do. Own code is not tried."""
    answer = _LIKELIHOODS.get(OUTPUT_TYPES[task.output_type].metric_kind)
    left: Any = [[answer]]
    for step in chain.filter if answer is not None else ():
        made = build_filter(step)
        is_ours = isinstance(step.function, str) and type(made).__module__.startswith("assay.")
        if not is_ours or any(map(callable, vars(made).values())):
            return
        try:
            left = list(made.apply(left, [{}]))
        except (TypeError, AttributeError):
            left = [""]
        except Exception:  # what else it lacks is in the docs
            return
        first = left[0][0] if isinstance(left[0], list) and left[0] else left[0]
        if not isinstance(first, float | tuple):
            raise ConfigError(
                f"filter {chain.name!r}: {step.function} works on text, but the answers of {task.output_type} tasks are log-likelihoods",
                hint="Remove the step, or have the answer written: output_type: generate_until.",
            )


def check_metric(metric: MetricConfig, task: TaskConfig) -> None:
    if isinstance(metric.aggregation, str):
        AGGREGATIONS[metric.aggregation]  # raises, with the names that are near
    if metric.reducer is not None:
        get_reducer(metric.reducer)
    # What `process_results` or a scorer of the task's own gives may be called anything; nobody but the task knows the names.
    if task.process_results is not None or task.scorer is not None:
        return
    kind = OUTPUT_TYPES[task.output_type].metric_kind
    if not isinstance(metric.metric, str):
        _check_function(metric, kind, task)
        return
    if metric.metric in METRICS and not metric.hf_evaluate:
        check_use(METRICS[metric.metric], metric, task)
        return
    known = METRICS.get(metric.metric)
    is_evaluate = metric.hf_evaluate or metric.metric in OFFLINE_METRICS or metric.metric in EVALUATE_METRICS
    if kind not in WRITTEN and is_evaluate and (known is None or known.form(kind) is None):
        _refuse_or_warn(metric.metric, kind, task)
        return
    if metric.metric in METRICS or metric.metric in OFFLINE_METRICS:
        return
    if not metric.hf_evaluate and metric.metric not in EVALUATE_METRICS:
        near = did_you_mean(metric.metric, [*METRICS, *USUAL_NAMES])
        for usual, ours in USUAL_NAMES.items():
            near = near if near is None else re.sub(rf"\b{usual}\b", ours, near)
        hint = near or "A metric of the `evaluate` library needs `hf_evaluate: true`."
        raise UnknownName(f"unknown metric {metric.metric!r}", hint=hint)
    if importlib.util.find_spec("evaluate") is None:
        raise MissingPackage(
            f"the metric {metric.metric!r} needs the package 'evaluate', which is not installed",
            hint="pip install evaluate",
            package="evaluate",
        )


def check_use(known: Metric, metric: MetricConfig, task: TaskConfig) -> None:
    """Whether a metric says something about this type of task, and takes the arguments that it is given."""
    kind = OUTPUT_TYPES[task.output_type].metric_kind
    form = known.form(kind)
    if form is None:
        _refuse_or_warn(known.name, kind, task)
        return
    if form is passed_through and aggregation_of(metric).name in _OF_NUMBERS:
        raise ConfigError(
            f"the metric {known.name} of a {task.output_type} task gives pairs of texts, but {aggregation_of(metric).name} takes numbers",
            hint=_metrics_for(kind),
        )
    _check_arguments(known, form, metric, task)


def _refuse_or_warn(name: str, kind: str, task: TaskConfig) -> None:
    """A metric that says nothing about a task: lm-evaluation-harness passes over it where another says something."""
    what = f"the metric {name} does not apply to {task.output_type} tasks"
    if task.has_own_defaults or all(_says_nothing(each, kind) for each in metric_configs(task)):
        raise ConfigError(what, hint=_metrics_for(kind))
    warnings.warn(f"task {task.task!r}: {what}; it has no number", ConfigWarning, stacklevel=2)


TAKES = {
    "choice": "the MCResult of a doc: lls, choices, target, is_greedy, …",
    "loglikelihood": "the pair (loglikelihood, is_greedy) of a doc",
    "rolling": "the pair (loglikelihood, text) of a doc",
}
"""What a metric is called with, by what it is of."""


def _check_function(metric: MetricConfig, kind: str, task: TaskConfig) -> None:
    """A function that is listed is called; one written for texts cannot be called with loglikelihoods."""
    if kind not in TAKES and task.class_ is not None:
        return
    function: Any = metric.metric.load() if isinstance(metric.metric, FunctionRef) else metric.metric
    if kind not in TAKES:
        _check_function_of_texts(function, metric, kind, task)
    elif task.lm_eval_version is not None and getattr(function, "kind", None) != kind:
        what = f"task {task.task!r}: lm-evaluation-harness never calls the metric {metric.name} of a {task.output_type} task"
        warnings.warn(f"{what}; it has no number", ConfigWarning, stacklevel=2)
    elif not takes_result(function, metric.kwargs):
        raise ConfigError(
            f"the metric {metric.name} cannot be called with one result, as those of {task.output_type} tasks are",
            hint=f"It is called with {TAKES[kind]}.",
        )


def _check_function_of_texts(function: Any, metric: MetricConfig, kind: str, task: TaskConfig) -> None:
    """It takes predictions and references by name with its arguments, or, as in lm-evaluation-harness, one pair alone."""
    if takes_texts(function, metric.kwargs) or (kind == "trajectory" and takes_result(function, metric.kwargs)):
        return
    how = f"predictions=[answer], references=[target]{''.join(f', {name}=…' for name in metric.kwargs)}"
    if not takes_result(function, {}):
        raise ConfigError(
            f"the metric {metric.name} cannot be called as those of {task.output_type} tasks are",
            hint=f"It is called with {how}; or else with one list, [target, answer].",
        )
    if metric.kwargs:
        what = f"the metric {metric.name} takes one list, [target, answer], and is then given no arguments: {', '.join(metric.kwargs)}"
        if task.has_own_defaults:
            raise ConfigError(what, hint=f"With arguments it is called with {how}.")
        warnings.warn(f"task {task.task!r}: no effect: {what}", ConfigWarning, stacklevel=2)


def _check_arguments(known: Metric, form: Callable[..., Any], metric: MetricConfig, task: TaskConfig) -> None:
    takes = own_arguments(form)
    if takes is None:
        return
    if known.name in IGNORES_KWARGS:
        # As in lm-evaluation-harness, whose files give its own metrics all kinds of arguments. A near miss is none.
        takes = [*takes, *(own_arguments(METRICS["exact_match"].fn) or []), "average"]
    is_lenient = known.name in IGNORES_KWARGS and task.lm_eval_version is not None
    for name in metric.kwargs:
        near = did_you_mean(name, takes) or (None if is_lenient else did_you_mean(name, _ENTRY_KEYS))
        if name not in takes and (near or not is_lenient):
            hint = near or f"It takes: {', '.join(takes) or 'no arguments'}."
            raise ConfigError(f"the metric {known.name} has no argument {name!r}", hint=hint)


def _says_nothing(metric: MetricConfig, kind: str) -> bool:
    if not isinstance(metric.metric, str):
        return False
    known = METRICS.get(metric.metric)
    return kind not in WRITTEN if known is None else known.form(kind) is None


def _metrics_for(kind: str) -> str:
    fitting = [name for name in METRICS if METRICS[name].form(kind) not in (None, passed_through)]
    return f"Metrics for such tasks: {', '.join(fitting)}."
