"""Which place may each of many runs have, and how few docs would tell."""

from assay.analyses.rank.engine import RankedRun, Ranking, RankOptions, rank
from assay.analyses.rank.render import (
    RankMark,
    rank_marks,
    ranking_json,
    ranking_legend,
    ranking_markdown,
    ranking_page,
    ranking_table,
)
from assay.analyses.rank.thin import Thinned, thin_runs, thinned_lines
from assay.finished import open_runs

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
