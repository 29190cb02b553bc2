"""From the config of a task to the scorer, filters, metrics and aggregations that score it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from assay.config import FilterConfig, FilterStep, Function, FunctionRef, MetricConfig, ScorerConfig, TaskConfig
from assay.errors import ConfigError, UntrustedCode, did_you_mean
from assay.filters import DEFAULT_FILTER, FilterEnsemble, tool_filter
from assay.instance import Instance
from assay.metrics import AGGREGATIONS, METRICS, Aggregation, Kind, Metric, Reducer, get_reducer
from assay.registry import Registry
from assay.request_types import OUTPUT_TYPES
from assay.stats import method_for_docs

IGNORES_KWARGS = {
    *("acc", "acc_norm", "acc_bytes", "acc_mutual_info", "exact_match", "f1", "mcc", "brier_score", "likelihood"),
    *("perplexity", "word_perplexity", "byte_perplexity", "bits_per_byte", "bypass"),
}
"""Metrics of lm-evaluation-harness that ignore whatever arguments a task file gives them outside generation."""


LM_EVAL_MODULES = ("lm_eval.api.metrics", "assay.compat.lm_eval.shim")
"""Modules whose functions are lm-evaluation-harness's aggregations: its own, and what stands in for it."""
LM_EVAL_NAMES = {"f1_score": "f1", "bypass_agg": "bypass"}
"""Aggregations whose function is called otherwise there."""


WRITTEN = ("generation", "trajectory")
"""Kinds of results that are, or end with, a text that the model wrote."""


@dataclass(frozen=True)
class ResolvedMetric:
    """A metric of a task, ready to be called.

    `foreign` marks a function that follows lm-evaluation-harness's conventions (a `!function`, an `evaluate` metric):
    several right answers are tried one after the other, and the doc is right if any gives a value that is not zero.
    """

    name: str
    fn: Callable[..., Any]
    aggregation: Aggregation
    higher_is_better: bool | None
    reducer: Reducer | None = None
    kwargs: dict[str, Any] = field(default_factory=dict)
    metric: Metric | None = None
    foreign: bool = False
    takes_pair: bool = False
    """Whether the function takes one `[reference, prediction]` and not the two by name."""
    takes_trajectory: bool = False
    """Whether the function takes a whole trajectory, and not the answer that it ends with."""
    takes_each: bool = False
    """Whether the function is called once a draw, whatever its filter leaves."""

    @property
    def takes_draws(self) -> bool:
        return self.metric.takes_draws if self.metric else self.foreign and not self.takes_each


EVERY_TRAJECTORY = FilterConfig(name="none", filter=[])
"""The last answer of each trajectory, as it is; of the only one without a list around it."""
EVERY_DRAW = FilterConfig(name="none", filter=[FilterStep(function="noop")])


def scores_every_draw(config: TaskConfig) -> bool:
    """Whether the metrics get all draws of a doc without being told: so in files for lm-evaluation-harness 0.5."""
    is_plain = config.process_results is None and config.class_ is None
    return (
        config.lm_eval_version == "0.5" and config.output_type == "generate_until" and config.repeats > 1 and is_plain
    )


def filters_of(config: TaskConfig) -> Sequence[FilterConfig]:
    """The task's filters. Two scores under one name would be taken for one, so names that stand there twice are errors.

    Everybody who scores comes through here, and a run does so before its first request.
    """
    every_draw = EVERY_DRAW if scores_every_draw(config) else DEFAULT_FILTER
    every_draw = EVERY_TRAJECTORY if config.agent is not None else every_draw
    filters = config.filter_list or [tool_filter(config) if config.tools else every_draw]
    if name := _repeated([each.name for each in filters]):
        raise ConfigError(
            f"task {config.task!r}: two filters are named {name!r}", hint="Give one of them another name."
        )
    for each in filters:
        listed = [metric.name for metric in metric_configs(config, each) if not _names_its_scores(metric)]
        if name := _repeated(listed):
            raise ConfigError(
                f"task {config.task!r}: two metrics under filter {each.name!r} are named {name!r}",
                hint="Remove one, or give each its own filter (filter_list with metric_list).",
            )
    return filters


def _repeated(names: Sequence[str]) -> str | None:
    return next((name for i, name in enumerate(names) if name in names[:i]), None)


def _names_its_scores(metric: MetricConfig) -> bool:
    """A function may name its scores by its arguments too; if it does not, the second value of a doc is refused."""
    known = METRICS.get(metric.metric) if isinstance(metric.metric, str) else None
    return not isinstance(metric.metric, str) or (known is not None and known.names_scores)


def ensembles_of(config: TaskConfig) -> list[FilterEnsemble]:
    strict = config.has_own_defaults
    return [
        FilterEnsemble.from_config(each, unwraps=unwraps(each, config), is_strict=strict) for each in filters_of(config)
    ]


def unwraps(of: FilterConfig, config: TaskConfig) -> bool:
    """Whether a filter hands on the only answer as itself. One of lm-evaluation-harness hands on a list, but for
    `take_first`; what code of the task leaves is never taken apart."""
    if config.lm_eval_version is not None:
        return False
    return of.has_steps_unsaid or (config.has_own_defaults and _is_of_names(of))


def _is_of_names(of: FilterConfig) -> bool:
    return all(isinstance(step.function, str) and step.function != "custom" for step in of.filter)


def apply_filters(instances: Sequence[Instance], config: TaskConfig) -> list[FilterEnsemble]:
    """Apply every filter of the task to the instances; the ensembles know what could not be parsed."""
    ensembles = ensembles_of(config)
    for ensemble in ensembles:
        ensemble.apply(instances)
    return ensembles


def metric_configs(config: TaskConfig, of: FilterConfig | None = None) -> Sequence[MetricConfig]:
    """The filter's own metrics, else the task's, else the defaults of the output type."""
    listed = (of.metric_list if of else None) or config.metric_list
    if not listed and config.scorer is not None and scorer_class(config.scorer).has_own_metrics:
        return []
    return listed or [MetricConfig(metric=name) for name in OUTPUT_TYPES[config.output_type].metrics]


def doubtful_settings(config: TaskConfig, repeats: int | None = None, *, habits: bool = True) -> list[str]:
    """What a task says and hardly means, in words: settings without effect, and filters that read the characters of an
    answer as answers. `repeats` and `habits` are those of `idle_settings`."""
    split = [(each.name, fault) for each in ensembles_of(config) if (fault := each.splits_answers)]
    is_text = OUTPUT_TYPES[config.output_type].requests.is_text
    draws = (repeats or config.repeats) if config.process_results is not None and is_text else 1
    lists = [each.name for each in filters_of(config) if draws > 1 and each.has_steps_unsaid]
    of_draws = _functions_of_draws(config, repeats or config.repeats) if is_text else []
    of_lists = _readers_of_lists(config) if is_text and (repeats or config.repeats) == 1 else []
    return [
        *(f"no effect: {idle}" for idle in idle_settings(config, repeats, habits=habits)),
        *(f"filter {name!r}: {fault}, so the characters of the answer are scored one by one" for name, fault in split),
        *(
            f"filter {name!r} hands process_results a list of {draws} draws; `filter: []` says that it is meant"
            for name in lists
        ),
        *(
            f"metric {metric} is called once with all draws that filter {name!r} leaves; `reducer: mean` scores each"
            for name, metric in of_draws
        ),
        *(
            f"filter {name!r} hands {reader} a list with the answer in it; `take_first` at its end hands on the answer"
            for name, reader in of_lists
        ),
    ]


def _readers_of_lists(config: TaskConfig) -> list[tuple[str, str]]:
    """Filters that leave the only answer in its list, and the code that then gets a list. `filter: []` means that."""
    return [
        (each.name, reader)
        for each, ensemble in zip(filters_of(config), ensembles_of(config))
        if each.filter and _is_of_names(each) and not ensemble.unwraps and not ensemble.gives_value
        for reader in _code_that_reads(config, each)
    ]


def _code_that_reads(config: TaskConfig, of: FilterConfig) -> list[str]:
    if config.process_results is not None:
        return ["process_results"]
    return [f"metric {each.name}" for each in metric_configs(config, of) if isinstance(each.metric, FunctionRef)]


def _functions_of_draws(config: TaskConfig, repeats: int) -> list[tuple[str, str]]:
    """Filters of a file of ours that leave several draws, with functions that may be meant for one."""
    if repeats == 1 or not config.has_own_defaults or config.process_results is not None or config.reducer:
        return []
    return [
        (each.name, metric.name)
        for each in filters_of(config)
        if not each.has_steps_unsaid and (not each.filter or each.filter[-1].function != "take_first")
        for metric in metric_configs(config, each)
        if isinstance(metric.metric, FunctionRef) and metric.reducer is None
        if config.agent is None or not _takes_trajectory(metric)
    ]


def _takes_trajectory(metric: MetricConfig) -> bool:
    """Also where its code may not be looked at now: it is the usual function of an agent's task."""
    try:
        return takes_result(_function(metric), metric.kwargs)
    except UntrustedCode:
        return True


def idle_settings(config: TaskConfig, repeats: int | None = None, *, habits: bool = True) -> list[str]:
    """Settings of a task that would do nothing, in words; `repeats` are the run's. Without `habits`, arguments that files
    of lm-evaluation-harness give to metrics that ignore them are passed over."""
    kind = OUTPUT_TYPES[config.output_type].metric_kind
    idle: list[str] = []
    if kind == "loglikelihood" and config.doc_to_choice is not None:
        idle.append("doc_to_choice: output_type loglikelihood scores only the target; multiple_choice scores choices")
    if config.shuffle_choices and config.style is None and isinstance(config.doc_to_text, str | FunctionRef):
        idle.append("shuffle_choices: only forms that list choices are shuffled, such as :mc")
    if templates := [each for each in _texts_in((config.generation_kwargs or {}).get("until")) if "{{" in each]:
        idle.append(f"until: {templates[0]!r} is text there, and no template")
    if config.process_results is not None:
        return idle
    for each in filters_of(config):
        last = each.filter[-1].function if each.filter else None
        for metric in metric_configs(config, each):
            known = METRICS.get(metric.metric) if isinstance(metric.metric, str) else None
            form = None if known is None else known.form(kind)
            if known is not None and form is None:
                continue  # `check_metric` says so
            takes = None if form is None else own_arguments(form)
            unread = [] if takes is None else [name for name in metric.kwargs if name not in takes]
            if unread and (habits or config.lm_eval_version is None):
                idle.append(f"{', '.join(unread)} of metric {metric.name}, which does not use it")
            if metric.reducer or config.reducer:
                idle += _idle_reducer(metric.name, each.name, last, repeats or config.repeats)
    return list(dict.fromkeys(idle))


def _texts_in(value: Any) -> list[str]:
    return [each for each in (value if isinstance(value, list | tuple) else [value]) if isinstance(each, str)]


def _idle_reducer(metric: str, filter_name: str, last_step: Any, repeats: int) -> list[str]:
    """A reducer has nothing to reduce where a doc has one answer."""
    if last_step in ("take_first", "majority_vote"):
        return [
            f"reducer of {metric}: filter {filter_name!r} leaves one answer per doc. To score every draw, "
            "add filter_list: [{name: all, filter: []}]"
        ]
    return [f"reducer of {metric}: each doc is asked once (repeats: 1)"] if repeats == 1 else []


def own_arguments(function: Callable[..., Any]) -> list[str] | None:
    """Names of its options; None where it takes any. A function that swallows the rest calls it `_`."""
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind is p.VAR_KEYWORD and p.name != "_" for p in parameters):
        return None
    given = ("self", "predictions", "references", "result")
    return [p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD) and p.name not in given]


def right_or_wrong_metrics(config: TaskConfig, of: FilterConfig | None = None) -> list[str]:
    """Metrics that may be 0 or 1 for a draw, so that right draws can be counted; code of a task is not asked."""
    listed = [each.name for each in metric_configs(config, of) if aggregation_of(each).name == "mean"]
    return [name for name in listed if may_be_right_or_wrong(config, name)]


def may_be_right_or_wrong(config: TaskConfig, metric: str) -> bool:
    """False for metrics that are known to be shares, whatever their values happen to be."""
    known = METRICS.get(metric) if config.process_results is None else None
    return known is None or known.binary is not False


def resolve_metrics(
    config: TaskConfig, of: FilterConfig | None = None, *, without: Collection[str] = ()
) -> list[ResolvedMetric]:
    """The metrics that say something about this output type; the others yield nothing, as in lm-evaluation-harness.

    `without` are those that the scorer gives by itself.
    """
    kind = OUTPUT_TYPES[config.output_type].metric_kind
    listed = [each for each in metric_configs(config, of) if each.name not in without]
    resolved = [resolve_metric(each, kind, config, of) for each in listed]
    return [metric for metric in resolved if metric is not None]


def says_something(metric: MetricConfig, config: TaskConfig) -> bool:
    """Whether a metric says something about the output type of a task."""
    return resolve_metric(metric, OUTPUT_TYPES[config.output_type].metric_kind, config) is not None


def resolve_metric(
    config: MetricConfig, kind: Kind, task: TaskConfig, of: FilterConfig | None = None
) -> ResolvedMetric | None:
    reducer = config.reducer or task.reducer
    if reducer is None and task.lm_eval_version == "0.5":
        reducer = "pass@k" if config.metric == "exact_match" else "first"
    common: dict[str, Any] = {
        "name": config.name,
        "aggregation": aggregation_of(config),
        "higher_is_better": higher_is_better_of(config),
        "reducer": None if reducer is None else get_reducer(reducer),
        "kwargs": dict(config.kwargs),
    }
    if kind in WRITTEN and config.metric == "exact_match" and task.has_own_defaults:
        common["kwargs"].setdefault("strip", True)
    if isinstance(config.metric, str) and not config.hf_evaluate and config.metric in METRICS:
        return _registered(METRICS[config.metric], kind, common)
    if isinstance(config.metric, str) and kind not in WRITTEN:
        # Choice tasks never call an `evaluate` metric; a name that both know means ours.
        metric = METRICS.get(config.metric)
        return None if metric is None else _registered(metric, kind, common)
    function = _function(config)
    if kind not in WRITTEN:
        # lm-evaluation-harness lists such functions and never calls them.
        is_called = task.lm_eval_version is None or getattr(function, "kind", None) == kind
        return ResolvedMetric(fn=function, foreign=True, **common) if is_called else None
    takes_each = of is not None and (
        (of.has_steps_unsaid and task.lm_eval_version is None) or (task.has_own_defaults and task.repeats == 1)
    )
    if kind == "trajectory" and takes_result(function, config.kwargs):
        return ResolvedMetric(fn=function, foreign=True, takes_trajectory=True, **common)
    pair = not takes_texts(function, config.kwargs)
    return ResolvedMetric(fn=function, foreign=True, takes_pair=pair, takes_each=takes_each, **common)


def _registered(metric: Metric, kind: Kind, common: dict[str, Any]) -> ResolvedMetric | None:
    form = metric.form(kind)
    if form is None:
        return None
    if kind == "trajectory" and metric.takes_trajectories():
        return ResolvedMetric(fn=form, metric=metric, takes_trajectory=True, **common)
    if kind not in WRITTEN:
        common = {**common, "kwargs": _accepted(metric.name, form, common["kwargs"])}
    return ResolvedMetric(fn=form, metric=metric, **common)


def _accepted(name: str, form: Callable[..., Any], given: dict[str, Any]) -> dict[str, Any]:
    """Arguments that a metric takes. Those of lm-evaluation-harness take none and its task files give them some."""
    known = set(inspect.signature(form).parameters)
    unknown = sorted(given.keys() - known)
    if unknown and name not in IGNORES_KWARGS:
        hint = did_you_mean(unknown[0], known) or f"It takes: {', '.join(sorted(known))}."
        raise ConfigError(f"metric {name} has no argument {unknown[0]!r}", hint=hint)
    return {key: value for key, value in given.items() if key in known}


def _function(config: MetricConfig) -> Callable[..., Any]:
    if isinstance(config.metric, FunctionRef):
        return config.metric.load()  # type: ignore[no-any-return]
    if isinstance(config.metric, str):
        from assay.metrics import load_metric

        return load_metric(config.metric).compute  # type: ignore[no-any-return]
    return config.metric


def takes_result(function: Callable[..., Any], kwargs: dict[str, Any]) -> bool:
    """Whether a function takes one result, as metrics of loglikelihoods do, and its arguments."""
    return _binds(function, kwargs, None)


def takes_texts(function: Callable[..., Any], kwargs: dict[str, Any]) -> bool:
    """Whether a function takes `references` and `predictions` by name, and its arguments."""
    return _binds(function, kwargs)


def _binds(function: Callable[..., Any], kwargs: dict[str, Any], *given: Any) -> bool:
    """Whether a function takes what is given; by default `references` and `predictions` by name."""
    try:
        if given:
            inspect.signature(function).bind(*given, **kwargs)
        else:
            inspect.signature(function).bind(references=[], predictions=[], **kwargs)
    except TypeError:
        return False
    except ValueError:  # builtins without a signature
        return True
    return True


def aggregation_of(config: MetricConfig | None) -> Aggregation:
    """The aggregation that an entry names, else the metric's own, else the mean; with the interval method that it names."""
    if config is not None and config.interval is not None:
        method = method_for_docs(config.interval)
        return replace(aggregation_of(config.model_copy(update={"interval": None})), interval=method.name)
    given = None if config is None else config.aggregation
    if given is None:
        metric = METRICS.get(config.metric) if config is not None and isinstance(config.metric, str) else None
        return AGGREGATIONS[metric.aggregation if metric else "mean"]
    if isinstance(given, str):
        return AGGREGATIONS[given]
    function = _loaded(given)
    if (known := _known_aggregation(function)) is not None:
        return known
    return Aggregation(
        str(given) if isinstance(given, FunctionRef) else getattr(given, "__name__", "function"), function
    )


def _known_aggregation(function: Callable[..., Any]) -> Aggregation | None:
    """The registered aggregation that a function is: itself, or the one of that name that lm-evaluation-harness defines,
    as task code imports it."""
    name, home = getattr(function, "__name__", ""), getattr(function, "__module__", None)
    name = LM_EVAL_NAMES.get(name, name)
    if home in LM_EVAL_MODULES and name in AGGREGATIONS:
        return AGGREGATIONS[name]
    known = [AGGREGATIONS[each] for each in AGGREGATIONS]
    return next((each for each in known if each.fn is function), None)


def _loaded(function: Function) -> Callable[..., Any]:
    if isinstance(function, FunctionRef):
        return function.load()  # type: ignore[no-any-return]
    if not callable(function):
        raise ConfigError(f"an aggregation is {function!r}, neither a name nor a function")
    return function


def higher_is_better_of(config: MetricConfig | None) -> bool | None:
    if config is None or config.higher_is_better is not None:
        return None if config is None else config.higher_is_better
    metric = METRICS.get(config.metric) if isinstance(config.metric, str) else None
    return metric.higher_is_better if metric else None


SCORERS: Registry[Any] = Registry(
    "scorer",
    group="assay.scorers",
    lazy={
        "choice": "assay.scoring.scorers:ChoiceScorer",
        "choice_match": "assay.scoring.scorers:ChoiceMatchScorer",
        "first_token": "assay.scoring.scorers:FirstTokenScorer",
        "generate": "assay.scoring.scorers:GenerateScorer",
        "judge": "assay.scoring.judges:JudgeScorer",
        "loglikelihood": "assay.scoring.likelihood_scorers:LoglikelihoodScorer",
        "multiple_choice": "assay.scoring.likelihood_scorers:MultipleChoiceScorer",
        "regex": "assay.scoring.scorers:RegexScorer",
        "rolling": "assay.scoring.likelihood_scorers:RollingScorer",
        "turns": "assay.scoring.scorers:TurnsScorer",
    },
)


def scorer_class(config: ScorerConfig) -> Any:
    """The class that a task names, or brings along. One that is written for another contract says what stands for it."""
    scorer: Any = config.type
    if isinstance(config.type, str):
        scorer = SCORERS[config.type]
    elif isinstance(config.type, FunctionRef):
        scorer = config.type.load()
    adapt = getattr(scorer, "as_scorer", None)
    return scorer if adapt is None else adapt()
