"""Do the filters of a task agree on its docs, and do the draws of a doc agree with each other?"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from assay.config import CommandFlag, Names, Options, option
from assay.errors import ConfigError, did_you_mean
from assay.finished import DocColumn, Run, align
from assay.results import matching
from assay.show import Column, Findings, Table, kinds
from assay.show.kinds import Name
from assay.stats import Estimate, cohen_kappa, draw_agreement, krippendorff, unit_keys


@dataclass(frozen=True)
class Agreement:
    """How far two filters, or the draws under one, agree on the same docs."""

    task: str
    metric: str
    between: str
    """`strict / flexible` for two filters, `5 draws (strict)` for draws."""
    measure: str
    estimate: Estimate

    def to_dict(self) -> dict[str, Any]:
        return {"task": self.task, "metric": self.metric, "between": self.between, "measure": self.measure} | {
            name: getattr(self.estimate, name)
            for name in ("value", "stderr", "low", "high", "n", "method", "undefined")
        }


class Agreements(tuple[Agreement, ...]):
    """Of one run."""

    def to_dict(self) -> list[dict[str, Any]]:
        return [each.to_dict() for each in self]


class AgreementOptions(Options):
    """What is looked at."""

    tasks: Names = option((), "Only these tasks.", flag=CommandFlag("-t", "NAMES", default="all"))
    metric: str | None = option(None, "Only this metric.", flag=CommandFlag("-m", "NAME", default="all"))


def agreement(run: Run, options: AgreementOptions | None = None) -> Agreements:
    """Of every metric: each two filters, and the draws under each filter where docs were drawn repeatedly."""
    run.require("samples", "scores")
    options = options or AgreementOptions()
    tasks, metric = options.tasks, options.metric
    for task in tasks:
        if task not in run.tasks:
            raise ConfigError(f"{run.path} has no task {task!r}", hint=did_you_mean(task, run.tasks))
    found: list[Agreement] = []
    for task in tasks or run.tasks:
        columns = run.columns(task)
        keys = [key for key in columns if columns[key].is_numeric]
        chosen = [columns[key].scored() for key in (keys if metric is None else matching(metric, keys))]
        repeats = int(run.result.tasks[task].config.get("repeats") or 1)
        for a, b in combinations(chosen, 2):
            if a.key.metric == b.key.metric:
                found.append(_between_filters(task, a, b))
        found += [each for column in chosen if (each := _among_draws(task, column, repeats)) is not None]
    if not found:
        raise ConfigError(
            f"{run.path} has no task with two filters or with several draws per doc",
            hint="Ask for draws with --repeats, or give the task a second filter.",
        )
    return Agreements(found)


def _between_filters(task: str, a: DocColumn, b: DocColumn) -> Agreement:
    at_a, at_b = align(a, b).shared
    left, right = a.take(at_a), b.take(at_b)
    between = f"{a.key.filter} / {b.key.filter}"
    units = unit_keys(left.docs, left.clusters)
    if set(np.unique(left.values)) | set(np.unique(right.values)) <= {0.0, 1.0}:
        return Agreement(task, a.key.metric, between, "Cohen's κ", cohen_kappa(left.values, right.values, units))
    alpha = krippendorff(np.column_stack([left.values, right.values]).tolist())
    return Agreement(task, a.key.metric, between, "Krippendorff's α", alpha)


def _among_draws(task: str, column: DocColumn, repeats: int) -> Agreement | None:
    """From the share of right draws that a doc scored; None where docs were drawn once, or scores are no such shares."""
    right = column.values * repeats
    if (
        repeats < 2
        or not len(right)
        or not np.allclose(right, np.round(right))
        or right.min() < 0
        or right.max() > repeats
    ):
        return None
    counts = np.column_stack([np.full(len(right), repeats), np.round(right)])
    alpha = draw_agreement(counts, unit_keys(column.docs, column.clusters))
    between = f"{repeats} draws ({column.key.filter})"
    return Agreement(task, column.key.metric, between, "Krippendorff's α", alpha)


COLUMNS: tuple[Column[Agreement], ...] = (
    Column("task", kinds.NAME, lambda each: Name(each.task), shrinks=True),
    Column("metric", kinds.TEXT, lambda each: each.metric, shrinks=True),
    Column("between", kinds.TEXT, lambda each: each.between, shrinks=True),
    Column("value", kinds.VALUE, lambda each: each.estimate),
    Column("95 % interval", kinds.INTERVAL, lambda each: each.estimate, "", rank=1, moves=True),
    Column("n", kinds.COUNT, lambda each: each.estimate.n, rank=2),
)


def findings(found: Agreements) -> Findings:
    def about(each: Agreement) -> dict[str, str]:
        undefined = each.estimate.undefined
        return {"note": each.measure if undefined is None else f"{each.measure}: {undefined}"}

    table = Table.of(COLUMNS, found, row=about, notes_name="measure")
    said = "1 is full agreement, 0 is chance. Docs in a cluster, and docs with equal content, count as one."
    return Findings("Do filters, or the draws of a doc, agree?", tables=(table,), notes=(said,), result=found)
