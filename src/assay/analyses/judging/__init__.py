"""What a judge's verdicts are worth, and several runs on the scale that its preferences make."""

from assay.analyses.judging.check import CheckedJudge, CheckedJudges, check_judges
from assay.analyses.judging.showing import check_findings, scale_findings
from assay.analyses.judging.win_scale import Player, ScaleOptions, WinScale, WinScales, win_scales

__all__ = [
    "CheckedJudge",
    "CheckedJudges",
    "Player",
    "ScaleOptions",
    "WinScale",
    "WinScales",
    "check_findings",
    "check_judges",
    "scale_findings",
    "win_scales",
]
