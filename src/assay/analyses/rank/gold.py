"""The order of runs under the right gold answers, as far as people checked them: on the docs that all runs have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from assay.analyses.compare import CompareOptions
from assay.analyses.rank.evidence import Evidence
from assay.finished import Run
from assay.groups import gold_of_group
from assay.results import GoldCheck, MetricKey
from assay.stats import FEWEST_LABELS, GoldChecked, PairDraws, drawn_pairs, gold_mean, gold_replicates, unit_index


@dataclass(frozen=True)
class GoldOrder:
    """What ranks are made of, and each run's number."""

    pairs: PairDraws
    scores: tuple[GoldCheck, ...]


def gold_order(
    evidence: Evidence, runs: Sequence[Run], name: str, key: MetricKey, options: CompareOptions
) -> GoldOrder | None:
    """None where a run has no labels of gold answers, or too few, or the number is no mean."""
    reported = [run.score(name, key) for run in runs]
    if any(score is None or score.gold is None or score.gold.estimate.value is None for score in reported):
        return None
    found = [_docs(evidence, runs, name, key, at) for at in range(len(runs))]
    parts = [each for each in found if each is not None and each[0].n >= FEWEST_LABELS]
    if len(parts) < len(runs):  # on the docs that all have
        return None
    draws, checks = [], []
    for docs, units in parts:
        clusters = unit_index(units)
        made = gold_mean(docs, clusters)
        checks.append(GoldCheck(made.estimate, made.labels, made.wrong))
        draws.append(gold_replicates(docs, units, clusters, options.bootstrap_iters)())
    values = np.array([docs.judged.value for docs, _ in parts])
    units = parts[0][1]
    pairs = drawn_pairs(values, np.stack(draws), len(np.unique(units)), len(units))
    return GoldOrder(pairs, tuple(checks))


def _docs(
    evidence: Evidence, runs: Sequence[Run], name: str, key: MetricKey, at: int
) -> tuple[GoldChecked, np.ndarray[tuple[int], np.dtype[np.uint64]]] | None:
    """The docs of one run that all have, of a task or of the tasks of a group."""
    groups = runs[at].result.groups
    tasks = (
        [name] if name in runs[at].tasks else [task for task in runs[at].result.below(name) if task in runs[at].tasks]
    )
    parts = {}
    for task in tasks:
        columns, docs = evidence.columns(task)
        gold = columns[at].gold
        values = columns[at].values
        if gold is None and columns[at].is_numeric:
            gold = GoldChecked(values, np.full(len(values), np.nan), np.zeros(len(values)))
        if gold is None:
            return None
        parts[task] = gold.take(docs.places[at][docs.in_all]), docs.units[docs.in_all]
    return parts[name] if name in parts else gold_of_group(groups, name, key, parts)
