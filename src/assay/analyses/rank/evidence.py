"""What the docs say of every pair of runs, for a task or, through its members, for a group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from assay.analyses.compare import (
    CompareOptions,
    aggregated,
    as_judged,
    corrected_draws,
    is_checked,
    repeatable_aggregation,
    reported_weights,
)
from assay.errors import ConfigError
from assay.finished import Alignment, DocColumn, Run, align, same_questions
from assay.groups import AGGREGATORS, ArrayAggregator
from assay.results import GroupScore, MetricKey
from assay.stats import PairDraws, drawn_pairs, mean_pairs, unit_index, weighted_pairs


@dataclass
class Evidence:
    """Reads the runs' docs, task by task, and keeps what a reader must be told."""

    runs: Sequence[Run]
    key: MetricKey
    options: CompareOptions
    labels: Sequence[str]
    notes: list[str] = field(default_factory=list)

    def pairs(self, name: str, *, complete: bool = False) -> PairDraws:
        """All pairs on one task or group; `complete` leaves out docs that a run lacks, else each pair has its own."""
        if all(name in run.tasks for run in self.runs):
            return self._task(name, complete)
        return self._group(name, complete)

    def _task(self, name: str, complete: bool) -> PairDraws:
        columns, docs = self.columns(name)
        rules = {
            repeatable_aggregation(c, run.score(name, self.key)) for c, run in zip(columns, self.runs, strict=True)
        }
        rule = rules.pop()
        if rules or rule is None:
            raise ConfigError(
                f"{name}: {self.key} cannot be computed again from the docs' values in all runs",
                hint="Choose another metric with --metric, or leave out the runs that aggregate it differently.",
            )
        is_mean = rule == "mean" and all(c.is_numeric for c in columns) and not is_checked(*columns)
        self._say_missing(name, docs, complete or not is_mean)
        if not is_mean:
            return self._of_replicates(columns, docs, rule)
        values = docs.table()
        complete_docs = ~np.isnan(values).any(axis=0) if complete else np.ones(values.shape[1], dtype=bool)
        return mean_pairs(values[:, complete_docs], docs.units[complete_docs], self.options.bootstrap_iters)

    def _of_replicates(self, columns: Sequence[DocColumn], docs: Alignment, rule: str) -> PairDraws:
        """Numbers that no doc has alone (a median, an f1, a judge's corrected mean), on the docs that all runs have."""
        common = docs.in_all
        taken = [column.take(places[common]) for column, places in zip(columns, docs.places, strict=True)]
        if rule == "mean":
            clusters = unit_index(docs.units[common])
            judged = [as_judged(column) for column in taken]
            if not all(each.n for each in judged):
                lacking = [label for label, each in zip(self.labels, judged, strict=True) if not each.n]
                self.notes.append(
                    f"{', '.join(lacking[:5])}: no labels of people, so all runs are ranked by the judge's verdicts alone"
                )
                values_now = np.stack([column.values for column in taken])
                return mean_pairs(values_now, docs.units[common], self.options.bootstrap_iters)
            values = [j.value if j.n else float(j.verdicts.mean()) for j in judged]
            draws = [corrected_draws(column, clusters, self.options) for column in taken]
        else:
            scores = [aggregated(column, rule, self.options) for column in taken]
            values = [np.nan if s.estimate.value is None else s.estimate.value for s in scores]
            draws = [score.draws for score in scores]
        if not np.isfinite(values).all():
            raise ConfigError(f"{self.key} is undefined for a run on the {int(common.sum()):,} docs that all runs have")
        return drawn_pairs(np.array(values), np.stack(draws), len(np.unique(docs.units[common])), int(common.sum()))

    def columns(self, task: str) -> tuple[list[DocColumn], Alignment]:
        columns = []
        for run in self.runs:
            of_task = run.columns(task)
            if self.key not in of_task:
                raise ConfigError(
                    f"{run.label}: {task} has no {self.key}; it has {', '.join(map(str, of_task)) or 'no metric'}",
                    hint="Choose one that all runs have with --metric.",
                )
            columns.append(of_task[self.key].scored())
        docs = align(*columns)
        if docs.differing:
            self.notes.append(f"{task}: {self._what_differs(task, docs)}")
        return columns, docs

    def _what_differs(self, task: str, docs: Alignment) -> str:
        """Between what the runs were sent. Raises where it makes a ranking meaningless."""
        first, *others = self.runs
        prompts = f"prompts differ on {docs.differing:,} docs"
        differences = [same_questions(first, other, task) or prompts for other in others]
        if prompts in differences and not self.options.ignore_prompts:
            raise ConfigError(
                f"{task}: {prompts}",
                hint="--ignore_prompts ranks the runs anyway; a rank is then that of model and prompt together.",
            )
        return "; ".join(dict.fromkeys(differences))

    def _say_missing(self, task: str, docs: Alignment, complete: bool) -> None:
        counts = (docs.places < 0).sum(axis=1).tolist()
        lacking = [f"{label} {count:,}" for label, count in zip(self.labels, counts, strict=True) if count]
        if lacking:
            how = (
                "only docs that all runs have count" if complete else "each pair is compared on the docs that both have"
            )
            more = f" and {len(lacking) - 5} more runs" if len(lacking) > 5 else ""
            which = ", ".join(lacking[:5])
            self.notes.append(f"{task}: missing, of {len(docs.units):,} docs: {which}{more}; {how}")

    def _group(self, name: str, complete: bool) -> PairDraws:
        group = self._same_group(name)
        aggregator = AGGREGATORS.get(group.aggregation) if group.aggregation is not None else None
        if not isinstance(aggregator, ArrayAggregator) or aggregator.on_samples or aggregator.bind is not None:
            raise ConfigError(
                f"{name}: the aggregator {group.aggregation} cannot be repeated from the members' numbers"
            )
        weights = reported_weights(group)
        members = [self.pairs(share.name, complete=complete or not aggregator.linear) for share in group.children]
        if aggregator.linear:
            return weighted_pairs(members, (weights / weights.sum()).tolist())
        # What is no sum of its members takes every run's own replicates, on docs that all have.
        numbers = [(m.values, m.of_runs) for m in members if m.values is not None and m.of_runs is not None]
        values = aggregator.combine(np.stack([v for v, _ in numbers], axis=-1), weights, None)
        draws = aggregator.combine(np.stack([d for _, d in numbers], axis=-1), weights, None)
        freedom = min(float(member.freedom.min()) for member in members)
        docs = sum(int(member.common.min()) for member in members)
        return drawn_pairs(values, draws, round(freedom) + 1, docs)

    def _same_group(self, name: str) -> GroupScore:
        scores = [
            run.result.groups[name].scores.get(self.key) if name in run.result.groups else None for run in self.runs
        ]
        first = scores[0]
        rules = {(s.aggregation, frozenset(c.name for c in s.children)) if s is not None else None for s in scores}
        if first is None or len(rules) > 1:
            raise ConfigError(
                f"{name}: {self.key} is not in all runs, or comes from other members or another rule",
                hint="Rank a task that all runs have with --tasks.",
            )
        return first
