"""The page that ranks many runs: bars of the ranks each may have, and its pairs under the pointer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from assay.comparison import Ranking, RankMark, open_run, rank, rank_marks, ranking_legend
from assay.errors import AssayError
from assay.view.site import PATIENCE, PageValues, Site


@dataclass(frozen=True)
class RankedSection:
    """One ranking, ready to show."""

    ranking: Ranking
    marks: list[RankMark]
    words: list[str]


@dataclass(frozen=True)
class RankedRuns:
    """Rankings ready to show, or why there are none."""

    sections: tuple[RankedSection, ...] = ()
    problem: str | None = None
    hint: str | None = None


def rank_here(directories: Sequence[str]) -> RankedRuns:
    """May run in a process of its own."""
    try:
        rankings = rank([open_run(directory) for directory in directories])
    except AssayError as error:
        return RankedRuns(problem=error.message, hint=error.hint)
    return RankedRuns(tuple(RankedSection(r, rank_marks(r), list(ranking_legend(r))) for r in rankings))


def rank_page(site: Site, run_ids: Sequence[str], patience: float = PATIENCE) -> PageValues:
    runs = [site.run_of(run_id) for run_id in dict.fromkeys(run_ids)]
    summaries = [site.library.summary(run) for run in runs]
    context: PageValues = {"runs": summaries, "ranked": None, "problem": None, "all_runs": site.choices()}
    if len(runs) < 2:
        return context
    for run in runs:
        site.results_of(run)
    directories = [site.library.directory(run) for run in runs]
    ranked = site.comparisons.get(rank_here, directories, sum(s.samples for s in summaries), patience)
    if ranked is None:
        return context | {"pending": True}
    problem = ranked.problem
    for directory, summary in zip(directories, summaries, strict=True):
        # The page may be shared; where things lie on this machine is nobody's business.
        problem = problem and problem.replace(str(directory), summary.model)
    return context | {"ranked": ranked, "problem": problem}


def rank_rows(ranked: RankedRuns | None) -> Iterator[dict[str, Any]]:
    """For “Download what I see”."""
    for section in ranked.sections if ranked else ():
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
