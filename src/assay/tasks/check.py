"""What can be known of a task before it runs: whether all it names exists and fits, and what a doc's requests are.

To check a task everything is really looked up, the way a run would: functions are imported, filters built, templates
compiled and, where the data are at hand, rendered for the first doc. No model is asked and nothing is downloaded.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from assay.config import FILE_FORMATS, FunctionRef, MetricConfig, Origin, TaskConfig, locate
from assay.errors import AssayError, ConfigError, MissingPackage, did_you_mean
from assay.filters import FILTERS, build_filter
from assay.instance import Instance
from assay.metrics import AGGREGATIONS, METRICS, OFFLINE_METRICS, get_reducer
from assay.scoring import filters_of
from assay.tasks.base import Task
from assay.tasks.fewshot import SAMPLERS
from assay.tasks.requests import RequestOptions
from assay.templates import compile_template

_TEMPLATES = ("doc_to_text", "doc_to_target", "doc_to_choice", "description", "gen_prefix", "doc_to_question")
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

_MARKS = str.maketrans({" ": "·", "\t": "→\t", "\n": "⏎\n", "\u00a0": "⍽", "\r": "␍"})


def check_task(
    config: TaskConfig, origins: Mapping[str, Origin] | None = None, *, data_dir: Path | None = None
) -> list[ConfigError]:
    """All that is wrong with a task, each with the file and line of the field."""
    # Functions first: importing a task's module may register the filters and metrics that its file names.
    faults: list[ConfigError] = []
    for looks in (_function_looks, _looks):
        known: set[str] = set()
        for location, look in looks(config):
            try:
                look()
            except ConfigError as error:
                if error.message not in known:  # one broken module behind five fields is one fault
                    faults.append(_placed(error, location, config, origins or {}))
                known.add(error.message)
        if faults:
            return faults
    try:
        _render_first_doc(config, data_dir)
    except AssayError as error:
        faults.append(ConfigError(error.message, hint=error.hint))
    return faults


Look = tuple[tuple[str | int, ...], Callable[[], object]]


def _function_looks(config: TaskConfig) -> Iterator[Look]:
    for location, ref in functions_in(config):
        yield location, ref.load


def _looks(config: TaskConfig) -> Iterator[Look]:
    if config.class_ is not None:
        return
    yield ("dataset_path",), lambda: _check_source(config)
    for i, chain in enumerate(config.filter_list or []):
        for j, step in enumerate(chain.filter):
            yield ("filter_list", i, "filter", j), partial(_check_filter, step)
        yield from _metric_looks(chain.metric_list or [], config, ("filter_list", i, "metric_list"))
    yield from _metric_looks(config.metric_list or [], config, ("metric_list",))
    yield ("filter_list",), lambda: filters_of(config)
    yield ("reducer",), lambda: None if config.reducer is None else get_reducer(config.reducer)
    sampler = config.fewshot_config.sampler
    if isinstance(sampler, str):
        yield ("fewshot_config", "sampler"), lambda: SAMPLERS[sampler]
    for owner, prefix in ((config, ()), (config.fewshot_config, ("fewshot_config",))):
        for name in _TEMPLATES:
            if isinstance(source := getattr(owner, name, None), str):
                yield (*prefix, name), partial(compile_template, source)
    for i, turn in enumerate(config.turns or []):
        if isinstance(turn, str):
            yield ("turns", i), partial(compile_template, turn)


def functions_in(
    value: Any, location: tuple[str | int, ...] = ()
) -> Iterator[tuple[tuple[str | int, ...], FunctionRef]]:
    """Every `!function` inside a config, with its place."""
    if isinstance(value, FunctionRef):
        yield location, value
    elif isinstance(value, BaseModel):
        for name in value.model_fields_set:
            alias = type(value).model_fields[name].alias or name
            yield from functions_in(getattr(value, name), (*location, alias))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from functions_in(item, (*location, key))
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield from functions_in(item, (*location, position))


def _check_source(config: TaskConfig) -> None:
    if config.dataset_path is None and config.custom_dataset is None:
        raise ConfigError("it names no dataset", hint="Give dataset_path, or custom_dataset: !function module.name.")
    if config.eval_split is None:
        raise ConfigError("it has no split to evaluate", hint="Give test_split or validation_split.")


def _check_filter(step: Any) -> None:
    if isinstance(step.function, str) and step.function not in FILTERS:
        raise ConfigError(f"unknown filter {step.function!r}", hint=did_you_mean(step.function, FILTERS))
    try:
        build_filter(step)
    except AssayError:
        raise
    except (TypeError, ValueError, KeyError, re.error) as error:
        raise ConfigError(f"the filter {step.function} cannot be made from {step.kwargs}: {error}") from error


def _metric_looks(metrics: list[MetricConfig], config: TaskConfig, where: tuple[str | int, ...]) -> Iterator[Look]:
    for i, metric in enumerate(metrics):
        yield (*where, i), partial(_check_metric, metric, config)


def _check_metric(metric: MetricConfig, config: TaskConfig) -> None:
    if isinstance(metric.aggregation, str):
        AGGREGATIONS[metric.aggregation]  # raises, with the names that are near
    if metric.reducer is not None:
        get_reducer(metric.reducer)
    # What `process_results` returns may be called anything; nobody but the task knows these names.
    if not isinstance(metric.metric, str) or config.process_results is not None or metric.metric in METRICS:
        return
    if metric.metric in OFFLINE_METRICS:
        return
    if metric.hf_evaluate or metric.metric in EVALUATE_METRICS:
        if importlib.util.find_spec("evaluate") is None:
            raise MissingPackage(
                f"the metric {metric.metric!r} needs the package 'evaluate', which is not installed",
                hint="pip install evaluate",
                package="evaluate",
            )
        return
    raise ConfigError(
        f"unknown metric {metric.metric!r}",
        hint=did_you_mean(metric.metric, METRICS) or "A metric of the `evaluate` library needs `hf_evaluate: true`.",
    )


def _placed(
    error: ConfigError, location: tuple[str | int, ...], config: TaskConfig, origins: Mapping[str, Origin]
) -> ConfigError:
    origin = locate(origins.get(str(location[0])), location)
    where = f"{origin}: " if origin is not None else ""
    field = ".".join(str(part) for part in location)
    return error.reworded(f"{where}task {config.task!r}: {field}: {error.message}")


def _render_first_doc(config: TaskConfig, data_dir: Path | None) -> None:
    """Ask the task for its first request, if that needs no download."""
    if config.class_ is not None or config.custom_dataset is not None:
        return
    task = Task.from_config(config, data_dir=data_dir)
    if task.source.mirror_files() or _is_local(config):
        next(iter(task.iter_requests(RequestOptions(limit=1, num_fewshot=0))))


def _is_local(config: TaskConfig) -> bool:
    path, files = config.dataset_path or "", (config.dataset_kwargs or {}).get("data_files")
    if path not in FILE_FORMATS:
        return (Path(path) / "dataset_dict.json").exists()
    listed = files.values() if isinstance(files, dict) else [files]
    names = [name for item in listed for name in (item if isinstance(item, list) else [item])]
    return bool(names) and all(isinstance(name, str) and Path(name).is_file() for name in names)


# ---------------------------------------------------------------------- the requests of one doc


def preview(task: Task, doc_id: int, options: RequestOptions | None = None) -> list[Instance]:
    """The requests of a doc, with the shots that it has in a run over all docs."""
    total = task.doc_count
    if not 0 <= doc_id < total:
        raise ConfigError(
            f"task {task.task_name} has no doc {doc_id}", hint=f"There are {total} docs, with ids 0 to {total - 1}."
        )
    chosen = replace(options or RequestOptions(), samples=None, limit=doc_id + 1, only=(doc_id,))
    return next(iter(task.iter_requests(chosen))).instances


def visible(text: str) -> str:
    r"""The text with its white space shown.

    >>> visible("A: b\n")
    'A:·b⏎\n'
    """
    return text.translate(_MARKS)


def as_json(instance: Instance) -> dict[str, Any]:
    """A request as plain values: what `assay show --json` prints."""
    return {
        "request_type": instance.request_type,
        "idx": instance.idx,
        "doc_id": instance.doc_id,
        "task": instance.task_name,
        "repeats": instance.repeats,
        "target": instance.target,
        "arguments": list(instance.arguments),
    }
