"""`--control RUN`: an earlier run on all docs tightens the interval of this run on some of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from assay.config import RunConfig
from assay.groups import MetricKey
from assay.run.accumulate import Accumulator
from assay.run.until import kept_scores
from assay.stats import Score, control_estimate


def controlled(scores: dict[MetricKey, Score], accumulator: Accumulator, config: RunConfig) -> tuple[dict[MetricKey, Score], list[str]]:  # fmt: skip
    """The scores with intervals tightened where the earlier run has the same metric on these docs, and what was gained."""
    if config.control is None:
        return scores, []
    found, notes = dict(scores), []
    for key, score in scores.items():
        column = accumulator.columns[key.metric, key.filter]
        if column.mean is None or accumulator.aggregations[key.metric, key.filter].name != "mean":
            continue
        earlier = kept_scores(config.control, accumulator.task.task_name, (key.metric, key.filter))
        hashes = accumulator.hash_of
        pairs = [(value, earlier[hashes[doc_id]].value) for doc_id, value in zip(column.doc_ids, column.values) if hashes[doc_id] in earlier]  # fmt: skip
        if len(pairs) < len(column.values):
            notes.append(f"{accumulator.task.task_name} {key}: the control run lacks {len(column.values) - len(pairs)} of the docs; not used")  # fmt: skip
            continue
        y, f = np.asarray(pairs, dtype=np.float64).T
        result = control_estimate(y, f, np.asarray([kept.value for kept in earlier.values()]))
        if result.estimate.undefined is None:
            found[key] = replace(score, estimate=result.estimate)
            notes.append(f"{accumulator.task.task_name} {key}: {len(y)} docs are worth {result.effective_n:.0f} with the control run (correlation {result.correlation:.2f})")  # fmt: skip
    return found, notes
