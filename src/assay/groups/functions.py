"""Code that users write for groups: aggregators of their own, and scorers of whole groups.

    def worst_two(values, weights):
        return sum(sorted(values.values())[:2]) / 2

`values` maps the names of the children to their numbers, `weights` to their weights (sizes, or what the entry gives),
and a parameter called `samples` receives the values of their docs. A function `f(group, task_results)`, and a class with
such a method `aggregate`, get the dictionaries of results files instead. A group's `scorer` gives numbers that are no
aggregate of one metric:

    def gap(values):
        return {"gap": values["easy"]["acc,none"] - values["hard"]["acc,none"]}

The error bar needs no code: whatever it is, it is applied to every bootstrap replicate.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any, TypeAlias

import numpy as np

from assay.config import AggMetricConfig, FunctionRef, GroupConfig, code_place
from assay.errors import ConfigError, ScoringError, did_you_mean
from assay.groups.aggregators import AGGREGATORS, ArrayAggregator, Combine
from assay.groups.members import Floats, GroupLike, Mask, Member, Scores, docs_below
from assay.results import GroupScore, JudgeCheck, MetricKey, Score, Share, read_key, write_key
from assay.stats import Estimate, bootstrap_estimate, poisson_weights

Samples: TypeAlias = Mapping[str, Floats]
Call: TypeAlias = Callable[[Mapping[str, float], Mapping[str, float], Samples | None], Any]
"""(values, weights, samples) by child → one number"""


def aggregator_of(entry: AggMetricConfig, group: GroupLike) -> ArrayAggregator:
    """The aggregator that an entry of `aggregate_metric_list` names or brings along."""
    where = f"group {group.name!r}, metric {entry.metric!r}"
    aggregator: Any = _named_or_given(entry.aggregation, where)
    if isinstance(aggregator, ArrayAggregator):
        if unknown := [name for name in entry.kwargs if name not in aggregator.kwargs]:
            raise ConfigError(
                f"{where}: {aggregator.name} has no argument {', '.join(unknown)}",
                hint=f"It takes {', '.join(aggregator.kwargs)}." if aggregator.kwargs else "Remove kwargs.",
            )
        return aggregator
    if isinstance(aggregator, type) and hasattr(aggregator, "aggregate"):
        return _over_dictionaries(
            aggregator.__name__, entry, group, lambda config: aggregator(config, **entry.kwargs).aggregate
        )
    if takes_group(aggregator):
        return _over_dictionaries(
            _name_of(aggregator), entry, group, lambda config: partial(aggregator, **entry.kwargs)
        )
    return _over_values(aggregator, entry.kwargs)


def takes_group(function: Any) -> bool:
    """Whether a function is one of the group and its tasks' dictionaries: its first parameter is called `group`."""
    if isinstance(function, type) or not callable(function):
        return False
    try:
        return next(iter(inspect.signature(function).parameters), None) == "group"
    except (TypeError, ValueError):  # some built-ins have no signature
        return False


def _name_of(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _over_values(function: Callable[..., Any], kwargs: Mapping[str, Any]) -> ArrayAggregator:
    """A function of the children's values. Its signature decides what else it is given."""
    name = _name_of(function)
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # some built-ins have no signature
        wanted = []
    else:
        if not parameters or parameters[0].kind is inspect.Parameter.KEYWORD_ONLY:
            raise ConfigError(
                f"the aggregator {name!r} takes no values", hint="Its first parameter must receive {child: value}."
            )
        wanted = [p.name for p in parameters[1:] if p.name in ("weights", "samples")]
    on_samples = "samples" in wanted

    def call(values: Mapping[str, float], weights: Mapping[str, float], samples: Samples | None) -> Any:
        offered: dict[str, Any] = {"weights": weights, "samples": samples}
        return function(values, **{parameter: offered[parameter] for parameter in wanted}, **kwargs)

    def bind(members: Sequence[Member], key: MetricKey) -> Combine:
        return _Looped(call, members, name, on_samples)

    return ArrayAggregator(name, bind=bind, weighted=True, by_size=True, on_samples=on_samples)


def _named_or_given(aggregation: Any, where: str) -> Any:
    if isinstance(aggregation, FunctionRef):
        return aggregation.load()
    if not isinstance(aggregation, str):
        return aggregation
    if aggregation not in AGGREGATORS:
        raise ConfigError(
            f"{where}: unknown aggregation {aggregation!r}",
            hint=did_you_mean(aggregation, AGGREGATORS) or f"Known: {', '.join(AGGREGATORS)}.",
        )
    named: Any = AGGREGATORS[aggregation]
    return named.load() if isinstance(named, FunctionRef) else named


def _number_for(key: MetricKey, numbers: Any, name: str) -> Any:
    """The number of that metric among those that the aggregator gave: under its filter, else under any."""
    if not isinstance(numbers, Mapping):
        raise ScoringError(f"the aggregator {name!r} returned {numbers!r:.80}", hint="It returns {metric: value}.")
    text = write_key(key)
    if text in numbers or not numbers:
        return numbers.get(text)
    named = [value for other, value in numbers.items() if _key_of(other).metric == key.metric]
    if not named:
        raise ScoringError(
            f"the aggregator {name!r} returned {', '.join(map(str, numbers))} but not {key.metric}",
            hint="It must return {metric: value} that includes the metric of its entry.",
        )
    return named[0]


def _over_dictionaries(
    name: str, entry: AggMetricConfig, group: GroupLike, make: Callable[[GroupConfig], Callable[..., Any]]
) -> ArrayAggregator:
    """Code that reads the dictionaries of tasks and gives that of the group. It sees one metric under one filter.

    `make` gets a config with the one entry, naming the filter whose turn it is, and gives the function to call.
    """

    def bind(members: Sequence[Member], key: MetricKey) -> Combine:
        own = entry.model_copy(update={"filter_list": [key.filter]})
        aggregate = make(GroupConfig(group=group.name, aggregate_metric_list=[own]))
        sizes = {member.name: {"sample_len": member.size, "samples": member.size} for member in members}
        text = write_key(key)

        def call(values: Mapping[str, float], weights: Mapping[str, float], samples: Samples | None) -> Any:
            results = {child: {text: value, **sizes[child]} for child, value in values.items()}
            return _number_for(key, aggregate(group, results), name)

        return _Looped(call, members, name)

    return ArrayAggregator(name, bind=bind)


def _key_of(text: str) -> MetricKey:
    """Users may leave the filter away."""
    return read_key(text) if "," in text else MetricKey(text)


# One set of named values at a time: a loop over the replicates


@dataclass(frozen=True)
class _Looped:
    """A function of plain numbers as a `Combine`: called once for the point, and once for each replicate."""

    call: Call
    members: Sequence[Member]
    name: str
    on_samples: bool = False

    def __call__(self, values: Floats, weights: Floats, mask: Mask | None = None) -> Floats:
        if values.ndim == 1:
            samples = {member.name: _docs(member)[0] for member in self.members} if self.on_samples else None
            try:
                return np.asarray(self._once(values, weights, mask, samples))
            except ScoringError:
                raise
            except Exception as error:  # code of a task file may raise anything
                raise ScoringError(
                    f"the aggregator {self.name!r} raised {type(error).__name__}: {error}{_at(error)}"
                ) from error
        draws = _resampled(self.members, len(values)) if self.on_samples else None
        rows = (
            self._in_replicate(row, weights, None if mask is None else mask[b], None if draws is None else draws(b))
            for b, row in enumerate(values)
        )
        return np.fromiter(rows, dtype=np.float64, count=len(values))

    def _in_replicate(self, *args: Any) -> float:
        try:
            return self._once(*args)
        except ScoringError:
            raise
        except (ArithmeticError, ValueError):
            return float("nan")  # a point where it has no value (a division by zero) is undefined, not an error
        except Exception as error:  # code of a task file may raise anything
            message = f"the aggregator {self.name!r} raised {type(error).__name__} in a replicate: {error}"
            raise ScoringError(message) from error

    def _once(self, values: Floats, weights: Floats, mask: Mask | None, samples: Samples | None) -> float:
        chosen = [(i, member.name) for i, member in enumerate(self.members) if mask is None or mask[i]]
        if samples is not None:
            samples = {name: samples[name] for _, name in chosen}
        result = self.call(
            {name: float(values[i]) for i, name in chosen}, {name: float(weights[i]) for i, name in chosen}, samples
        )
        if result is None:
            return float("nan")
        if not isinstance(result, Real | np.ndarray) or (isinstance(result, np.ndarray) and result.ndim):
            raise ScoringError(
                f"the aggregator {self.name!r} returned {result!r:.80}",
                hint="An aggregator must return one number, or None if there is none.",
            )
        return float(result)


def _resampled(members: Sequence[Member], replicates: int) -> Callable[[int], dict[str, Floats]]:
    """Replicate b of a child's docs: each as often as its weight says."""
    docs = {member.name: _docs(member) for member in members}
    weights = {name: poisson_weights(keys, replicates) for name, (_, keys) in docs.items()}
    return lambda b: {name: np.repeat(values, weights[name][b]) for name, (values, _) in docs.items()}


def _docs(member: Member) -> tuple[Floats, Any]:
    docs = member.score.docs
    if docs is None:
        raise ScoringError(
            f"{member.name!r} has no sample values to pass to the aggregator", hint="Use an aggregator of values only."
        )
    return docs


# A group's own scorer

Values: TypeAlias = dict[str, dict[str, float]]
"""{task: {"metric,filter": value}}"""


def run_scorer(group: GroupLike, scores: Scores) -> dict[MetricKey, GroupScore]:
    """The numbers a group's `scorer` gives, with the error bars of its replicates. No filter in a key means `none`."""
    scorer: Any = group.config.scorer
    function = scorer.load() if isinstance(scorer, FunctionRef) else scorer
    name = str(getattr(function, "__name__", "scorer"))
    inputs = {
        task: {write_key(k): s for k, s in scores[task].items() if s.estimate.value is not None}
        for task in group.task_names
        if task in scores
    }
    point = {task: {k: float(s.estimate.value or 0.0) for k, s in own.items()} for task, own in inputs.items()}
    call = partial(_call_scorer, f"group {group.name!r}: the scorer {name!r}", function)
    numbers = call(point)
    table = _scorer_replicates(call, inputs, list(numbers))
    size = sum(max((score.size for score in own.values()), default=0) for own in inputs.values())
    below = [score for own in inputs.values() for score in own.values()]
    results: dict[MetricKey, GroupScore] = {}
    for text, value in numbers.items():
        key = _key_of(text)
        if value is None:
            estimate = Estimate.missing(f"{name} returned no value", size)
        else:
            estimate = bootstrap_estimate(value, table[text], size)
        written = write_key(key)
        results[key] = GroupScore(
            estimate,
            size=size,
            aggregation=name,
            replicates=partial(table.__getitem__, text),
            keys=lambda: docs_below(below),
            children=tuple(Share(task, None, own[written]) for task, own in point.items() if written in own),
            judge=JudgeCheck.of_members([score.judge for score in below]),
            missing={task: "was not scored" for task in group.task_names if task not in scores},
        )
    return results


def _call_scorer(where: str, function: Callable[[Values], Any], values: Values) -> dict[str, float | None]:
    try:
        result = function(values)
    except Exception as error:  # code of a task file may raise anything
        raise ScoringError(f"{where} raised {type(error).__name__}: {error}{_at(error)}") from error
    if not isinstance(result, Mapping):
        raise ScoringError(f"{where} returned {result!r:.80}", hint="A scorer returns {metric: value}.")
    for key, value in result.items():
        if value is not None and not isinstance(value, int | float | np.number):
            raise ScoringError(f"{where} gives {key} = {value!r:.80}", hint="Each value is a number, or None.")
    return {str(key): None if value is None else float(value) for key, value in result.items()}


def _scorer_replicates(
    call: Callable[[Values], dict[str, float | None]], inputs: Mapping[str, Mapping[str, Score]], keys: Sequence[str]
) -> dict[str, Floats]:
    draws = {task: {key: score.draws for key, score in own.items()} for task, own in inputs.items()}
    count = min((len(row) for own in draws.values() for row in own.values()), default=0)
    table = {key: np.full(count, np.nan) for key in keys}
    for b in range(count):
        try:
            numbers = call({task: {key: float(row[b]) for key, row in own.items()} for task, own in draws.items()})
        except ScoringError as error:
            if isinstance(error.__cause__, ArithmeticError | ValueError):
                continue  # the scorer has no value here; beyond a few such replicates the error bar is withheld
            raise
        for key, value in numbers.items():
            if key in table and value is not None:
                table[key][b] = value
    return table


def _at(error: BaseException) -> str:
    """Where in somebody's code it was."""
    place = code_place(error)
    return "" if place is None else f" ({place})"
