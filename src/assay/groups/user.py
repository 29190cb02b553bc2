"""Aggregators that users write: a function of the children's values.

    def worst_two(values, weights):
        return sum(sorted(values.values())[:2]) / 2

`values` maps the names of the children to their numbers, `weights` to their weights (sizes, or what the entry gives),
and a parameter called `samples` receives the values of their docs. The error bar needs no code: the function is applied
to every bootstrap replicate.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from assay.config import FunctionRef
from assay.errors import ConfigError, ScoringError
from assay.groups.formulas import Combine, Floats, Formula, Mask
from assay.groups.members import Member
from assay.stats import poisson_weights

Samples = Mapping[str, Floats]


def formula_of_function(function: Callable[..., Any], kwargs: Mapping[str, Any]) -> Formula:
    """Wrap a user's function. Its signature decides what it is given; `kwargs` of the entry come by name."""
    fn = function.load() if isinstance(function, FunctionRef) else function
    name = getattr(fn, "__name__", type(fn).__name__)
    wanted = _wanted(fn, name)
    on_samples = "samples" in wanted

    def bind(members: Sequence[Member]) -> Combine:
        def call(values: Mapping[str, float], weights: Mapping[str, float], samples: Samples | None) -> Any:
            given: dict[str, Any] = {"weights": weights, "samples": samples}
            return fn(values, **{key: given[key] for key in wanted}, **kwargs)

        return looped(call, members, name, on_samples=on_samples)

    return Formula(name, _unbound, weighted=True, by_size=True, bind=bind, on_samples=on_samples)


Call = Callable[[Mapping[str, float], Mapping[str, float], Samples | None], Any]


def looped(call: Call, members: Sequence[Member], name: str, *, on_samples: bool = False) -> Combine:
    """`combine` for a rule that takes one set of named values at a time: a loop over the replicates."""
    names = [member.name for member in members]

    def once(values: Floats, weights: Floats, mask: Mask | None, samples: Samples | None) -> float:
        enters = np.ones(len(names), dtype=bool) if mask is None else mask
        chosen = [i for i in range(len(names)) if enters[i]]
        if samples is not None:
            samples = {names[i]: samples[names[i]] for i in chosen}
        result = call(
            {names[i]: float(values[i]) for i in chosen}, {names[i]: float(weights[i]) for i in chosen}, samples
        )
        return _number(result, name)

    def combine(values: Floats, weights: Floats, mask: Mask | None = None) -> Floats:
        if values.ndim == 1:
            return np.asarray(_reported(once, name, values, weights, mask, _samples(members) if on_samples else None))
        draws = _resampled(members, len(values)) if on_samples else None
        rows = (
            _quietly(once, name, row, weights, None if mask is None else mask[b], None if draws is None else draws(b))
            for b, row in enumerate(values)
        )
        return np.fromiter(rows, dtype=np.float64, count=len(values))

    return combine


def _wanted(fn: Callable[..., Any], name: str) -> list[str]:
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):  # some built-ins have no signature
        return []
    if not parameters or parameters[0].kind is inspect.Parameter.KEYWORD_ONLY:
        raise ConfigError(
            f"the aggregator {name!r} takes no values", hint="Its first parameter receives {child: value}."
        )
    return [p.name for p in parameters[1:] if p.name in ("weights", "samples")]


def _number(result: Any, name: str) -> float:
    if result is None:
        return float("nan")
    if not isinstance(result, Real | np.ndarray) or (isinstance(result, np.ndarray) and result.ndim):
        raise ScoringError(
            f"the aggregator {name!r} returned {result!r:.80}",
            hint="An aggregator returns one number, or None if there is none.",
        )
    return float(result)


def _reported(once: Callable[..., float], name: str, *args: Any) -> float:
    try:
        return once(*args)
    except ScoringError:
        raise
    except Exception as error:
        raise ScoringError(f"the aggregator {name!r} raised {type(error).__name__}: {error}") from error


def _quietly(once: Callable[..., float], name: str, *args: Any) -> float:
    """A replicate may be a point where the rule has no value (a division by zero): it counts as undefined."""
    try:
        return once(*args)
    except (ArithmeticError, ValueError):
        return float("nan")
    except ScoringError:
        raise
    except Exception as error:
        raise ScoringError(f"the aggregator {name!r} raised {type(error).__name__} in a replicate: {error}") from error


def _samples(members: Sequence[Member]) -> dict[str, Floats]:
    return {member.name: _docs(member)[0] for member in members}


def _resampled(members: Sequence[Member], replicates: int) -> Callable[[int], dict[str, Floats]]:
    """Replicate b of a child's docs: each as often as its weight says."""
    docs = {member.name: _docs(member) for member in members}
    weights = {name: poisson_weights(keys, replicates) for name, (_, keys) in docs.items()}
    return lambda b: {name: np.repeat(values, weights[name][b]) for name, (values, _) in docs.items()}


def _docs(member: Member) -> tuple[Floats, Any]:
    docs = member.score.docs
    if docs is None:
        raise ScoringError(
            f"{member.name!r} has no sample values to hand to the aggregator", hint="Use an aggregator of values only."
        )
    return docs


def _unbound(values: Floats, weights: Floats, mask: Mask | None = None) -> Floats:
    raise AssertionError("a user's aggregator is bound to its children before it is called")
