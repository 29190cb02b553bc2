"""A judged score with the judge's error in it, where people judged some of the answers too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.results import JudgeCheck, MetricColumn, Score
from assay.stats import corrected_mean, corrected_replicates


def checked(
    score: Score,
    column: MetricColumn,
    keys: NDArray[np.uint64],
    clusters: Sequence[Any] | NDArray[Any] | None,
    bootstrap_iters: int,
) -> Score:
    """The score corrected with labels; without enough labels, marked as unchecked.

    What groups compute from single docs (pass@k) would leave the correction out, so a corrected score has no docs to
    offer: such groups say that there are none.
    """
    labels = column.labels or {}
    opinion = JudgeCheck(len(labels), opinion=score.estimate.value)
    if not labels or score.estimate.value is None or not bootstrap_iters:
        return replace(score, judge=opinion)
    if column.aggregation.name != "mean" or not column.is_numeric:
        return replace(score, judge=replace(opinion, reason="labels correct only means"))
    verdicts = np.asarray(column.values, dtype=np.float64)
    people = np.array([labels.get(doc_id, np.nan) for doc_id in column.doc_ids])
    found = corrected_mean(verdicts, people, clusters)
    if found.estimate.undefined is not None:
        return replace(score, judge=replace(opinion, reason=found.estimate.undefined))
    check = replace(
        opinion,
        is_corrected=True,
        weight=found.weight,
        sensitivity=found.sensitivity,
        specificity=found.specificity,
    )
    return replace(
        score,
        estimate=found.estimate,
        judge=check,
        replicates=corrected_replicates(verdicts, people, keys, clusters, bootstrap_iters),
        counts=None,
        samples=None,
    )
