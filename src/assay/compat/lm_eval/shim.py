"""`lm_eval`, as far as task files import it, without lm-evaluation-harness being installed.

Task utilities import a handful of helpers and their own siblings (`lm_eval.tasks.ruler.common_utils`). While such an
import is carried out, and at no other time, a small package of that name stands in `sys.modules`; a real
lm-evaluation-harness, imported before or after, is never disturbed.
"""

from __future__ import annotations

import builtins
import importlib
import logging
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, TypeVar, cast

from assay.registry import Registry, load_object

C = TypeVar("C")

_CLASSES = "assay.compat.lm_eval.class_tasks"
_SAMPLERS = "assay.compat.lm_eval.samplers"
_SAMPLER_NAMES = (
    "BalancedSampler",
    "ContextSampler",
    "FirstNSampler",
    "ManualSampler",
    "SAMPLER_REGISTRY",
    "get_sampler",
)
_AGGREGATIONS = "assay.metrics.aggregations"
_FILTER = {"Filter": "assay.filters:Filter", "register_filter": f"{__name__}:register_filter"}
NAMES: dict[str, dict[str, str]] = {
    "lm_eval": {},
    "lm_eval.api": {},
    "lm_eval.filters": {"build_filter_ensemble": f"{__name__}:build_filter_ensemble"},
    "lm_eval.tasks": {},
    "lm_eval.utils": {
        "weighted_f1_score": f"{__name__}:weighted_f1_score",
        "general_detokenize": f"{__name__}:general_detokenize",
        "eval_logger": f"{__name__}:eval_logger",
    },
    "lm_eval.api.instance": {"Instance": f"{_CLASSES}:LmEvalInstance"},
    "lm_eval.api.task": {"ConfigurableTask": f"{_CLASSES}:ConfigurableTask", "Task": f"{_CLASSES}:ConfigurableTask"},
    "lm_eval.api.filter": {"Filter": "assay.filters:Filter", "FilterEnsemble": "assay.filters:FilterEnsemble"},
    "lm_eval.filters.extraction": {
        **_FILTER,
        "MultiChoiceRegexFilter": "assay.filters:MultiChoiceRegexFilter",
        "POSFilter": "assay.filters:POSFilter",
        "RegexFilter": "assay.filters:RegexFilter",
        "WhitespaceFilter": "assay.filters:RemoveWhitespace",
    },
    "lm_eval.filters.selection": {
        **_FILTER,
        "MajorityVoteFilter": "assay.filters:MajorityVote",
        "TakeFirstFilter": "assay.filters:TakeFirst",
        "TakeKFilter": "assay.filters:TakeFirstK",
    },
    "lm_eval.filters.transformation": {
        **_FILTER,
        "LowercaseFilter": "assay.filters:Lowercase",
        "MapFilter": "assay.filters:MapFilter",
        "SPANFilter": "assay.filters:FormatSpan",
        "UppercaseFilter": "assay.filters:Uppercase",
    },
    "lm_eval.filters.custom": {**_FILTER, "CustomFilter": "assay.filters:Custom"},
    "lm_eval.filters.decontamination": {**_FILTER, "DecontaminationFilter": "assay.filters:Decontaminate"},
    "lm_eval.api.registry": {
        "get_aggregation": f"{__name__}:get_aggregation",
        "get_filter": f"{__name__}:get_filter",
        "register_aggregation": f"{__name__}:register_aggregation",
        "register_filter": f"{__name__}:register_filter",
        "register_metric": f"{__name__}:register_metric",
        "register_model": f"{__name__}:register_model",
        "register_scorer": "assay.compat.lm_eval.scorers:register_scorer",
    },
    "lm_eval.scorers": {
        name: f"assay.compat.lm_eval.scorers:{name}" for name in ("GenScorer", "LLScorer", "ScoredDoc", "Scorer")
    },
    "lm_eval.api.metrics": {
        "LLResults": "assay.compat.lm_eval.scorers:LLResults",
        "mean": f"{__name__}:mean",
        "f1_score": f"{_AGGREGATIONS}:f1",
        **{
            name: f"{_AGGREGATIONS}:{name}"
            for name in (
                *("nanmean", "median", "perplexity", "weighted_perplexity", "bits_per_byte", "matthews_corrcoef"),
                *("aggregate_subtask_metrics", "pooled_sample_stderr"),
            )
        },
        "stderr_for_metric": "assay.scoring:stderr_for_metric",
        "metric_max_over_ground_truths": f"{__name__}:metric_max_over_ground_truths",
    },
    "lm_eval.api.samplers": {name: f"{_SAMPLERS}:{name}" for name in _SAMPLER_NAMES},
    "lm_eval.api.model": {"LM": "assay.models:LM"},
}
"""Module to name to `module:attribute`, imported when it is asked for: most task files need one of them."""

_PACKAGES = {"lm_eval", "lm_eval.api", "lm_eval.filters", "lm_eval.tasks"}
_lock = threading.RLock()
_kept: dict[str, dict[str, ModuleType]] = {}
"""What the package held when it was last put away, by the package of task files that its `tasks` stands for."""
_active: list[str] = []


def import_for_task(name: str, fromlist: Sequence[str], siblings: str) -> ModuleType:
    """What `import lm_eval…` gives in a file of the package of task files `siblings`."""
    with lm_eval_package(siblings):
        return builtins.__import__(name, fromlist=fromlist)


@contextmanager
def lm_eval_package(siblings: str = "") -> Iterator[None]:
    """Let `import lm_eval` find the stand-in; `lm_eval.tasks.*` are the modules of the package `siblings`."""
    with _lock:
        if _active and _active[-1] == siblings:
            yield
            return
        aside = _take_out()
        sys.modules.update(_kept.get(siblings, {}))
        finder = _Finder(siblings)
        sys.meta_path.insert(0, finder)
        _active.append(siblings)
        try:
            yield
        finally:
            _active.pop()
            sys.meta_path.remove(finder)
            _kept[siblings] = _take_out()
            sys.modules.update(aside)


def _take_out() -> dict[str, ModuleType]:
    names = [name for name in sys.modules if name == "lm_eval" or name.startswith("lm_eval.")]
    return {name: sys.modules.pop(name) for name in names}


class _Finder(MetaPathFinder):
    """Answers for `lm_eval` and below, and for nothing else."""

    def __init__(self, siblings: str) -> None:
        self.siblings = siblings

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if fullname in NAMES:
            return ModuleSpec(fullname, _ShimLoader(), is_package=fullname in _PACKAGES)
        if fullname.startswith("lm_eval.tasks."):
            return ModuleSpec(fullname, _SiblingLoader(self.siblings)) if self.siblings else None
        if fullname.startswith("lm_eval."):
            raise ModuleNotFoundError(
                f"{fullname} is a module of lm-evaluation-harness that task files cannot import in assay", name=fullname
            )
        return None


class _SiblingLoader(Loader):
    """`lm_eval.tasks.a.b` is the module that a relative import would give, and not a second copy of it."""

    def __init__(self, siblings: str) -> None:
        self.siblings = siblings

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        own = f"{self.siblings}.{name.removeprefix('lm_eval.tasks.')}"
        try:
            # A module may put another into its place; the import system then gives that one.
            sys.modules[name] = importlib.import_module(own)
        except ModuleNotFoundError as error:
            if f"{own}.".startswith(f"{error.name}."):
                raise ModuleNotFoundError(f"No module named {name!r}", name=name) from None
            raise


class _ShimLoader(Loader):
    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _ShimModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        return None


class _ShimModule(ModuleType):
    """Looks a name up only when it is asked for."""

    def __getattr__(self, name: str) -> Any:
        target = NAMES[self.__name__].get(name)
        if target is None:
            # Dunders are asked for by the import system; only their absence matters.
            raise AttributeError(f"assay has no {self.__name__}.{name} for task files to import")
        return load_object(target)


# ------------------------------------------------------------------ helpers that task files import from it

eval_logger = logging.getLogger("assay.tasks")


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def metric_max_over_ground_truths(
    metric: Callable[[Any, Any], float], prediction: Any, references: Iterable[Any]
) -> float:
    """The best score over several right answers."""
    return max(metric(prediction, reference) for reference in references)


def weighted_f1_score(items: Iterable[tuple[Any, Any]]) -> float:
    """F1 over (gold, prediction) pairs, each class weighted by how often it is gold."""
    from sklearn.metrics import f1_score

    golds, predictions = zip(*items, strict=True)
    return float(f1_score(golds, predictions, average="weighted"))


_GLUED = (" n't", "n't"), (" )", ")"), ("( ", "("), ('" ', '"'), (' "', '"')


def general_detokenize(text: str) -> str:
    """Undo the spaces that word tokenizers put around punctuation.

    >>> general_detokenize("He did n't say ( why ) .")
    "He didn't say (why)."
    """
    for apart, together in _GLUED:
        text = text.replace(apart, together)
    return re.sub(r" (['.,])", r"\1", text)


def register_filter(name: str) -> Callable[[C], C]:
    """Two task families may register one name for the same class copied into each: the last one read stands."""
    from assay.filters import FILTERS

    return _registering(FILTERS, name)


def register_aggregation(name: str) -> Callable[[C], C]:
    from assay.metrics import AGGREGATIONS

    return _registering(AGGREGATIONS, name)


def get_aggregation(name: str) -> Callable[[Sequence[Any]], Any]:
    from assay.metrics import AGGREGATIONS

    return AGGREGATIONS[name].fn


def get_filter(name: str | Callable[..., Any]) -> Callable[..., Any]:
    """The class of a filter by name; a class as it is."""
    from assay.filters import FILTERS

    return FILTERS[name] if isinstance(name, str) else name


def build_filter_ensemble(filter_name: str, components: Sequence[tuple[str, dict[str, Any] | None]]) -> Any:
    from assay.filters import FilterEnsemble

    return FilterEnsemble(filter_name, [get_filter(name)(**(kwargs or {})) for name, kwargs in components])


def register_model(*names: str) -> Callable[[C], C]:
    from assay.models import MODELS

    return _registering(MODELS, *names)


def register_metric(
    *, metric: str, higher_is_better: bool = True, aggregation: str = "mean", **_: Any
) -> Callable[[C], C]:
    """What a metric of lm-evaluation-harness says of itself; a second file of the same name stands."""
    from assay.metrics import METRICS, Metric

    def decorate(function: C) -> C:
        made = Metric(metric, cast(Any, function), "generation", aggregation, higher_is_better)
        METRICS.add(metric, made, replace=True)
        return function

    return decorate


def _registering(entries: Registry[Any], *names: str) -> Callable[[C], C]:
    def decorate(cls: C) -> C:
        for name in names:
            entries.add(name, cls, replace=True)
        return cls

    return decorate
