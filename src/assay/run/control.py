"""`--control RUN`: an earlier run on all docs tightens the interval of this run on some of them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from assay.config import RunConfig
from assay.results import MetricColumn, MetricKey, Score
from assay.run.collect import Collector
from assay.run.until import kept_scores
from assay.stats import Basis, bootstrap_replicates, control_estimate, doc_keys, unit_index, unit_keys

Floats = NDArray[np.float64]
Keys = NDArray[np.uint64]


def controlled(
    scores: dict[MetricKey, Score], collector: Collector, config: RunConfig
) -> tuple[dict[MetricKey, Score], list[str]]:
    """The scores with intervals tightened where the earlier run has the same metric on these docs, and what was gained."""
    if config.control is None:
        return scores, []
    tightened, notes = dict(scores), []
    task, hashes = collector.task.task_name, collector.hash_of
    for key, score in scores.items():
        column = collector.columns[key]
        if not column.is_numeric or column.aggregation.name != "mean":
            continue
        if score.judge is not None and score.judge.is_corrected:
            notes.append(f"{task} {key}: corrected with labels; the control run is not used")
            continue
        earlier = kept_scores(config.control, task, key)
        pairs = [
            (value, earlier[hashes[doc_id]].value)
            for doc_id, value in zip(column.doc_ids, column.values)
            if hashes[doc_id] in earlier
        ]
        if len(pairs) < len(column):
            notes.append(f"{task} {key}: the control run lacks {len(column) - len(pairs)} of the docs; not used")
            continue
        y, f = np.asarray(pairs, dtype=np.float64).T
        everything = np.asarray([kept.value for kept in earlier.values()])
        units = unit_keys_of(collector, column)
        result = control_estimate(y, f, everything, unit_index(units))
        if result.estimate.undefined is None and result.estimate.basis is Basis.CONTROL:
            replicates = partial(
                _controlled_draws, y, f, units, everything, doc_keys(earlier), result.slope, config.bootstrap_iters
            )
            # Groups above must see the controlled number too, not that of the part.
            tightened[key] = replace(
                score,
                estimate=result.estimate,
                replicates=replicates,
                samples=None,
                interval=None,
                lm_eval_stderr=None,
            )
            worth = f"{len(y)} docs are worth {result.effective_n:.0f} with the control run"
            notes.append(f"{task} {key}: {worth} (correlation {result.correlation:.2f})")
    return tightened, notes


def unit_keys_of(collector: Collector, column: MetricColumn) -> Keys:
    """The units of a column's docs, in its order."""
    at = {doc_id: i for i, doc_id in enumerate(collector.doc_ids)}
    rows = np.array([at[doc_id] for doc_id in column.doc_ids], dtype=np.int64)
    keys = np.asarray(collector.keys)[rows]
    clusters = None if collector.clusters is None else np.asarray(collector.clusters)[rows]
    return unit_keys(keys, clusters)


def _controlled_draws(
    y: Floats, f: Floats, units: Keys, everything: Floats, all_keys: Keys, slope: float, replicates: int
) -> Floats:
    """Replicates of θ = mean(y − λf) + λ·mean of the control on all docs, each with the weights of its docs."""

    def average(values: Floats, keys: Keys) -> Floats:
        table = np.column_stack([values, np.ones(len(values))])
        return bootstrap_replicates(table, lambda sums: sums[..., 0] / sums[..., 1], keys, B=replicates)

    return average(y - slope * f, units) + slope * average(everything, all_keys)
