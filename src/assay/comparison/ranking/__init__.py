"""Which place may each of many runs have, and how few docs would tell."""

from assay.comparison.ranking.engine import RankedRun, Ranking, RankOptions, rank
from assay.comparison.ranking.render import (
    RankMark,
    rank_marks,
    ranking_json,
    ranking_legend,
    ranking_markdown,
    ranking_page,
    ranking_table,
)
from assay.comparison.ranking.tables import open_runs
from assay.comparison.ranking.thin import Thinned, thin_runs, thinned_lines

__all__ = [
    "RankMark",
    "RankOptions",
    "RankedRun",
    "Ranking",
    "Thinned",
    "open_runs",
    "rank",
    "rank_marks",
    "ranking_json",
    "ranking_legend",
    "ranking_markdown",
    "ranking_page",
    "ranking_table",
    "thin_runs",
    "thinned_lines",
]
