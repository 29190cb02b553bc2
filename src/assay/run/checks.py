"""What is checked before anything is sent: the same for `assay validate` and for every run."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from assay.config import AggMetricConfig, Origin
from assay.errors import ConfigError, ConfigWarning, did_you_mean
from assay.groups import AGGREGATORS, names_in
from assay.scoring import filters_of, metric_configs, scorer_class
from assay.tasks import (
    GroupSpec,
    Resolved,
    TaskManager,
    check_task,
    code_of_task,
    functions_in,
    may_be_registered,
    worded,
)


def require_sound(
    manager: TaskManager,
    names: Sequence[str | Mapping[str, Any]],
    data_dir: Path | None,
    *,
    overrides: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """Raise the first fault of the tasks and groups that these names or mappings stand for. Reads no data."""
    resolved = manager.resolve(names, overrides=overrides)
    faults = [
        fault
        for key, config in resolved.tasks.items()
        for fault in check_task(config, resolved.origins.get(key), data_dir=data_dir, read_docs=False)
    ]
    faults += [fault for spec in resolved.groups.values() for fault in check_group(spec, resolved)]
    if faults:
        rest = len(faults) - 1
        more = f" ({rest} more: `assay validate` lists {'it' if rest == 1 else 'them'})" if rest else ""
        raise faults[0].reworded(f"{faults[0].message}{more}")


def check_group(spec: GroupSpec, resolved: Resolved) -> list[ConfigError]:
    """All that is wrong with what a group says of itself."""
    errors: list[ConfigError] = []
    origins = resolved.origins.get(spec.name, {})
    for field, look in _looks(spec, resolved):
        try:
            with code_of_task():
                look()
        except ConfigError as error:
            error = may_be_registered(error, spec.config) if errors else error
            place = _place(origins.get(field) or origins.get("group"))
            errors.append(error.reworded(f"{place}group {spec.name!r}: {error.message}"))
    return errors


def _place(origin: Origin | None) -> str:
    return f"{origin}: " if origin else ""


def _looks(spec: GroupSpec, resolved: Resolved) -> Iterator[tuple[str, Callable[[], object]]]:
    for location, ref in functions_in(spec.config):
        yield str(location[0]), ref.load
    if not spec.children:
        yield "task", partial(_refuse, "it has no members", "List at least one task under `task:`.")
    for condition in spec.conditions.values():
        yield "task", partial(names_in, condition)
    for entry in spec.config.aggregate_metric_list or []:
        if isinstance(entry.aggregation, str):
            yield "aggregate_metric_list", partial(AGGREGATORS.__getitem__, entry.aggregation)
        yield "aggregate_metric_list", partial(_check_entry, entry, spec, resolved)
    for each in spec.config.group_filter or []:
        wanted = "threshold" if each.function == "threshold" else "k"
        if getattr(each, wanted) is None:
            yield "group_filter", partial(_refuse, f"the filter {each.function} has no {wanted}", f"Add {wanted}: ….")


def _refuse(message: str, hint: str) -> None:
    raise ConfigError(message, hint=hint)


def _check_entry(entry: AggMetricConfig, spec: GroupSpec, resolved: Resolved) -> None:
    """Whether some task below the group can have the metric, under a filter that exists there."""
    if spec.config.scorer is not None:
        return
    for name in entry.weights or {}:
        if name not in spec.children and name not in _tasks_below(spec, resolved):
            raise ConfigError(
                f"weights name {name!r}, which is not a member", hint=f"Members: {', '.join(spec.children)}."
            )
    reported: dict[str, set[str]] = {}
    for name in _tasks_below(spec, resolved):
        config = resolved.tasks[name]
        if (config.process_results is not None and config.formats is None) or config.class_ is not None:
            return  # nobody but its code knows what it reports
        config = worded(config)
        if config.scorer is not None and scorer_class(config.scorer).has_own_metrics:
            return
        for each in filters_of(config):
            for metric in metric_configs(config, each):
                if not isinstance(metric.metric, str):
                    return  # a function may give several scores
                reported.setdefault(metric.name, set()).add(each.name)
    family = entry.metric.partition("@")[0]
    known = {name.partition("@")[0] for name in reported} | {"pass", "maj"}
    if reported and entry.metric not in reported and family not in known:
        near = did_you_mean(entry.metric, reported)
        if near is None and entry.lm_eval_semantics:
            # Group files of lm-evaluation-harness name such metrics; there the row is left out, with a warning.
            what = f"group {spec.name!r}: no member reports the metric {entry.metric!r}; it has no number"
            warnings.warn(what, ConfigWarning, stacklevel=2)
            return
        raise ConfigError(
            f"no member reports the metric {entry.metric!r}",
            hint=near or f"Members report: {', '.join(sorted(reported))}.",
        )
    filters = reported.get(entry.metric, set())
    for name in entry.filter_list or []:
        if filters and name not in filters:
            raise ConfigError(
                f"no member has {entry.metric} under a filter {name!r}", hint=f"Filters: {', '.join(sorted(filters))}."
            )


def _tasks_below(spec: GroupSpec, resolved: Resolved) -> list[str]:
    names: list[str] = []
    for child in spec.children:
        if child in resolved.tasks:
            names.append(child)
        elif child in resolved.groups:
            names += _tasks_below(resolved.groups[child], resolved)
    return names
