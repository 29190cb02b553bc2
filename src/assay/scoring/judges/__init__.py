"""Judges: answers graded by a second model, with what is needed to know what its verdicts are worth."""

from assay.scoring.judges.kinds import JUDGE_KINDS, Case, JudgeKind, Part, disarm, fence
from assay.scoring.judges.labels import Labels, answer_hash, checked, label_rows, read_rows
from assay.scoring.judges.reading import read_verdict
from assay.scoring.judges.scales import Grades, NamedScale, Points, Scale, scale_from_json
from assay.scoring.judges.scorer import JudgeScorer

__all__ = [
    "JUDGE_KINDS",
    "Case",
    "Grades",
    "JudgeKind",
    "JudgeScorer",
    "Labels",
    "NamedScale",
    "Part",
    "Points",
    "Scale",
    "answer_hash",
    "checked",
    "disarm",
    "fence",
    "label_rows",
    "read_rows",
    "read_verdict",
    "scale_from_json",
]
