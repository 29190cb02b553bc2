"""Which rank may each of many runs have, and how few docs would tell?"""

from assay.analyses.rank.engine import RankedRun, Ranking, Rankings, RankOptions, rank
from assay.analyses.rank.showing import findings
from assay.analyses.rank.suspects import Suspect, Suspects, chances_json, find_suspects, suspect_findings
from assay.analyses.rank.thin import Thinned, ThinnedTasks, thin_findings, thin_tasks

__all__ = [
    "RankOptions",
    "RankedRun",
    "Ranking",
    "Rankings",
    "Suspect",
    "Suspects",
    "Thinned",
    "ThinnedTasks",
    "chances_json",
    "find_suspects",
    "findings",
    "rank",
    "suspect_findings",
    "thin_findings",
    "thin_tasks",
]
