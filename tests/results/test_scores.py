from __future__ import annotations

import numpy as np

from assay.results import Score
from assay.stats import Estimate


def test_score_computes_its_replicates_once_and_only_when_asked() -> None:
    calls = []
    score = Score(Estimate.missing("no docs"), 0, replicates=lambda: calls.append(1) or np.zeros(3))
    assert not calls
    assert score.draws is score.draws
    assert len(calls) == 1
    assert score.draw_counts is None
