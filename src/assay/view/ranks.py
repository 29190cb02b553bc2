"""The page that ranks many runs: bars of the ranks each may have, and its pairs under the pointer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from assay.analyses.rank import Ranking, RankMark, rank, rank_marks, ranking_legend
from assay.finished import open_run
from assay.view.background import PATIENCE
from assay.view.site import PageValues, Site, several_runs_page


@dataclass(frozen=True)
class RankedSection:
    """One ranking, ready to show."""

    ranking: Ranking
    marks: list[RankMark]
    words: list[str]


def rank_runs(directories: Sequence[str]) -> tuple[RankedSection, ...]:
    rankings = rank([open_run(directory) for directory in directories])
    return tuple(RankedSection(r, rank_marks(r), list(ranking_legend(r))) for r in rankings)


def rank_page(site: Site, run_ids: Sequence[str], patience: float = PATIENCE) -> PageValues:
    context = several_runs_page(site, run_ids, rank_runs, patience)
    return context | {"sections": context["found"].value or ()}


def rank_rows(sections: Sequence[RankedSection]) -> Iterator[dict[str, Any]]:
    """For “Download what I see”."""
    for section in sections:
        for run in section.ranking.runs:
            yield {
                "name": section.ranking.name,
                "metric": section.ranking.key.metric,
                "filter": section.ranking.key.filter,
                "run": run.label,
                "score": run.score.value,
                "rank": run.rank,
                "rank_low": run.low,
                "rank_high": run.high,
                "tier": run.tier,
                "probability_best": run.best,
            }
