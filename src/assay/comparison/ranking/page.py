"""Rankings as one HTML page: ranges as bars, and under the pointer what each pair says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from assay.comparison.ranking.engine import RankedRun, Ranking
from assay.comparison.ranking.render import best_share, ranking_legend
from assay.comparison.render import signed
from assay.comparison.templating import page_template
from assay.signs import with_signs


@dataclass(frozen=True)
class RankMark:
    """One bar; places are percent of the width, which has a step for each rank."""

    run: RankedRun
    left: float
    width: float
    dot: float
    pairs: tuple[str, ...]
    """A line for each other run."""
    cells: tuple[tuple[str, str], ...]
    """For the matrix: which of the two is ahead (`ahead`, `behind`, `open`, `self`), and what the pair says."""

    @property
    def best(self) -> str:
        return best_share(self.run.best)


def rank_marks(ranking: Ranking) -> list[RankMark]:
    step = 100.0 / len(ranking.runs)
    marks = []
    for run in ranking.runs:
        cells = tuple(_cell(ranking, run, other) for other in ranking.runs)
        pairs = tuple(text for kind, text in cells if kind != "self")
        left, width = (run.low - 1) * step, (run.high - run.low + 1) * step
        marks.append(RankMark(run, left, width, (run.rank - 0.5) * step, pairs, cells))
    return marks


def _cell(ranking: Ranking, run: RankedRun, other: RankedRun) -> tuple[str, str]:
    if run.place == other.place:
        return "self", run.label
    value, low, high = ranking.bounds(run, other)
    least = ranking.min_difference
    above = "ahead" if ranking.higher_is_better else "behind"
    below = "behind" if ranking.higher_is_better else "ahead"
    kind = above if low > least else below if high < -least else "open"
    names = with_signs(f"{run.label} − {other.label}")
    return kind, f"{names}: {signed(value)} [{signed(low)}, {signed(high)}]"


def ranking_page(rankings: Sequence[Ranking]) -> str:
    return page_template("rank.html").render(sections=[(r, rank_marks(r), list(ranking_legend(r))) for r in rankings])
