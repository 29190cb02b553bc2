"""`--control RUN`: an earlier run on all docs tightens the interval of this run on some of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from assay.config import RunConfig
from assay.results import MetricKey, Score
from assay.run.collect import Collector
from assay.run.until import kept_scores
from assay.stats import control_estimate


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
            notes.append(f"{task} {key}: corrected by labels; the control run is not used")
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
        result = control_estimate(y, f, np.asarray([kept.value for kept in earlier.values()]))
        if result.estimate.undefined is None:
            tightened[key] = replace(score, estimate=result.estimate)
            worth = f"{len(y)} docs are worth {result.effective_n:.0f} with the control run"
            notes.append(f"{task} {key}: {worth} (correlation {result.correlation:.2f})")
    return tightened, notes
