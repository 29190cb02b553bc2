"""The registry of aggregators, and what an entry's `aggregation` may be.

A registered name, a function of the children's values (`!function` or Python), a function `f(group, task_results)`, or
a class with such an `aggregate`. All end as a `Formula`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from assay.config import AggMetricConfig, FunctionRef
from assay.errors import ConfigError, did_you_mean
from assay.groups import formulas
from assay.groups.classic import Aggregator, formula_of_class, formula_of_group_function, takes_group
from assay.groups.formulas import Formula
from assay.groups.group import Group
from assay.groups.user import formula_of_function
from assay.registry import Registry

Entry: TypeAlias = Formula | type[Aggregator] | Callable[..., Any]

AGGREGATORS: Registry[Entry] = Registry("aggregator", group="assay.aggregators")
for _formula in (
    formulas.MEAN,
    formulas.WEIGHTED_MEAN,
    formulas.MEDIAN,
    formulas.HARMONIC_MEAN,
    formulas.GEOMETRIC_MEAN,
    formulas.MINIMUM,
    formulas.MAXIMUM,
    formulas.PASS_AT_K,
):
    AGGREGATORS.add(_formula.name, _formula)


def formula_for(entry: AggMetricConfig, group: Group) -> Formula:
    """The rule of one entry of `aggregate_metric_list`."""
    given: Any = entry.aggregation
    if isinstance(given, str):
        if given not in AGGREGATORS:
            raise ConfigError(
                f"group {group.name!r}, metric {entry.metric!r}: unknown aggregation {given!r}",
                hint=did_you_mean(given, AGGREGATORS) or f"Known: {', '.join(AGGREGATORS)}.",
            )
        given = AGGREGATORS[given]
    if isinstance(given, FunctionRef):
        given = given.load()
    if isinstance(given, Formula):
        _check_kwargs(given, entry, group)
        return given
    if isinstance(given, type) and issubclass(given, Aggregator):
        return formula_of_class(given, entry, group)
    if takes_group(given):
        return formula_of_group_function(given, entry, group)
    return formula_of_function(given, entry.kwargs)


def _check_kwargs(formula: Formula, entry: AggMetricConfig, group: Group) -> None:
    known: Sequence[str] = ("k",) if formula.name == "pass@k" else ()
    unknown: Mapping[str, Any] = {key: value for key, value in entry.kwargs.items() if key not in known}
    if unknown:
        raise ConfigError(
            f"group {group.name!r}, metric {entry.metric!r}: {formula.name} takes no argument {', '.join(unknown)}",
            hint=f"It takes {', '.join(known)}." if known else "Drop kwargs.",
        )
