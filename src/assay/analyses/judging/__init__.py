"""What a judge's verdicts are worth, and several runs on the scale that its preferences make."""

from assay.analyses.judging.check import CheckedJudge, check_judges
from assay.analyses.judging.win_scale import Player, WinScale, win_scales

__all__ = ["CheckedJudge", "Player", "WinScale", "check_judges", "win_scales"]
