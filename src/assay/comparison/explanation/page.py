"""An explanation as one HTML page: the shares as bars around zero."""

from __future__ import annotations

from dataclasses import dataclass

from assay.comparison.explanation.engine import CauseShare, Explanation
from assay.comparison.explanation.render import explanation_lines
from assay.comparison.templating import page_template


@dataclass(frozen=True)
class ShareMark:
    """One bar; places are percent of the width."""

    share: CauseShare
    dot: float
    left: float | None
    right: float | None


def explanation_page(explanation: Explanation) -> str:
    estimates = [share.estimate for share in explanation.shares]
    ends = [abs(end) for e in estimates for end in (e.value, e.low, e.high) if end is not None]
    reach = 1.05 * max(ends, default=0.0) or 1.0

    def percent(value: float | None) -> float | None:
        return None if value is None else 50 + 50 * value / reach

    marks = [
        ShareMark(
            share, percent(share.estimate.value) or 50.0, percent(share.estimate.low), percent(share.estimate.high)
        )
        for share in explanation.shares
    ]
    lines = [line for line in explanation_lines(explanation) if line][3:]
    return page_template("explain.html").render(explanation=explanation, marks=marks, words=lines)
