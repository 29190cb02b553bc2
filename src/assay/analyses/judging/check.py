"""What is a judge worth? Its verdicts beside people's, with itself, with the panel, and with what should not matter."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from assay.errors import ConfigError
from assay.finished import open_run, sample_rows
from assay.results import JudgeCheck, MetricKey, self_preference
from assay.stats import Basis, Estimate, Judged, krippendorff

MORE_LABELS = 100


@dataclass(frozen=True)
class Calibration:
    """Docs with this verdict: how many have labels, and what people say on average."""

    verdict: float
    labels: int
    people: float


@dataclass(frozen=True)
class CheckedJudge:
    """One judged number of one task."""

    task: str
    key: MetricKey
    check: JudgeCheck
    estimate: Estimate
    agreement: float | None
    """Share of labelled docs on which judge and people say the same."""
    correlation: float | None
    """Of verdicts with labels."""
    calibration: tuple[Calibration, ...]
    length: float | None
    """Rank correlation of what the judge says too much (verdict − label) with the answer's length; of pairs, with by how many
    characters it is longer than the other."""
    opinion_length: float | None
    """Rank correlation of the verdict itself with the answer's length."""
    repeats: Estimate
    """Krippendorff's α of one judge's repeated verdicts."""
    panel: Estimate
    """Krippendorff's α of the members of a panel."""
    position_flip: float | None
    unread: int
    """Replies that could not be read."""
    half_width_with_more: float | None
    """Half the width of the interval that so many more labels would give."""
    warnings: tuple[str, ...] = ()

    @property
    def half_width(self) -> float | None:
        return self.estimate.half_width


@dataclass
class _Docs:
    """What the samples of one task and filter say about its judge."""

    verdicts: list[float] = field(default_factory=list)
    labels: list[float] = field(default_factory=list)
    lengths: list[float] = field(default_factory=list)
    flips: list[float] = field(default_factory=list)
    by_repeat: list[list[float]] = field(default_factory=list)
    by_judge: list[list[float]] = field(default_factory=list)
    unread: int = 0


class CheckedJudges(tuple[CheckedJudge, ...]):
    """Every judged number of a run."""

    def to_dict(self) -> list[dict[str, Any]]:
        estimates = ("estimate", "repeats", "panel")
        return [{**asdict(each), **{name: getattr(each, name).to_dict() for name in estimates}} for each in self]


def check_judges(path: str | Path) -> CheckedJudges:
    """Every judged number of a run."""
    run = open_run(path)
    result, found = run.result, []
    for name, task in result.tasks.items():
        for key, score in task.scores.items():
            if (
                score.judge is None
                or name not in run.tasks
                or score.aggregation != "mean"
                or _is_one_of_panel(key, task.scores)
            ):
                continue
            docs = _read(sample_rows(run, name), key)
            found.append(_checked(name, key, score.judge, score.estimate, docs, self_preference(result.config)))
    if not found:
        raise ConfigError(f"{path} has no judged scores", hint="Name a run of a task whose scorer is a judge.")
    return CheckedJudges(found)


def _is_one_of_panel(key: MetricKey, scores: Any) -> bool:
    """Members of a panel have numbers of their own, named after the panel's."""
    return any(
        key.filter == other.filter and key.metric.startswith(f"{other.metric}_") for other in scores if other != key
    )


def _read(rows: Iterable[dict[str, Any]], key: MetricKey) -> _Docs:
    docs = _Docs()
    for row in rows:
        if row["filter"] != key.filter:
            continue
        questions = [
            q for q in json.loads(row["questions"] or "[]") if (q.get("note") or {}).get("filter") == key.filter
        ]
        _count_verdicts(questions, docs)
        verdict = row.get(f"metric:{key.metric}")
        if verdict is None:
            continue
        label, flip = row.get(f"label:{key.metric}"), row.get("metric:position_flip")
        docs.verdicts.append(verdict)
        docs.labels.append(math.nan if label is None else label)
        docs.lengths.append(_length(row))
        if flip is not None:
            docs.flips.append(flip)
    return docs


def _length(row: dict[str, Any]) -> float:
    """Characters of the answer; of a pair, by how many it is the longer one."""
    pair = json.loads(row.get("other") or "{}").get("length_controlled_win_rate")
    return float(pair[1]) if pair else float(len(str(json.loads(row["filtered_resps"])[-1])))


def _count_verdicts(questions: Sequence[dict[str, Any]], docs: _Docs) -> None:
    """Verdicts of the first part of the first draw: repeats of each judge, and one mean a judge."""
    means = []
    for judge in dict.fromkeys(q["role"] for q in questions):
        mine = [q["note"] for q in questions if q["role"] == judge]
        docs.unread += sum(v is None for note in mine for v in note.get("verdicts", ()))
        first = [note for note in mine if (note["part"], note["draw"]) == (mine[0]["part"], mine[0]["draw"])]
        said = [v for note in first for v in note.get("verdicts", ()) if v is not None]
        if len(said) > 1:
            docs.by_repeat.append(said)
        if said:
            means.append(sum(said) / len(said))
    if len(means) > 1:
        docs.by_judge.append(means)


def _checked(
    task: str, key: MetricKey, check: JudgeCheck, estimate: Estimate, docs: _Docs, warnings: Sequence[str]
) -> CheckedJudge:
    judged = Judged(np.array(docs.verdicts), np.array(docs.labels))
    at, lengths = judged.labelled, np.array(docs.lengths, dtype=np.float64)
    f, y = judged.verdicts[at], judged.labels[at]
    return CheckedJudge(
        task,
        key,
        check,
        estimate,
        agreement=float((f == y).mean()) if len(f) else None,
        correlation=_correlation(f, y),
        calibration=tuple(Calibration(float(v), int((f == v).sum()), float(y[f == v].mean())) for v in np.unique(f))
        if len(np.unique(f)) <= 11
        else (),
        length=_rank_correlation(f - y, lengths[at]),
        opinion_length=_rank_correlation(judged.verdicts, lengths),
        repeats=krippendorff(docs.by_repeat),
        panel=krippendorff(docs.by_judge),
        position_flip=float(np.mean(docs.flips)) if docs.flips else None,
        unread=docs.unread,
        half_width_with_more=_with_more(judged, estimate),
        warnings=tuple(warnings),
    )


def _correlation(x: Any, y: Any) -> float | None:
    if len(x) < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    return float(np.corrcoef(x, y)[0, 1])


def _rank_correlation(x: Any, y: Any) -> float | None:
    from scipy.stats import rankdata

    return None if len(x) < 3 else _correlation(rankdata(x), rankdata(y))


def _with_more(judged: Judged, estimate: Estimate) -> float | None:
    """λ²·var(verdicts)/N + var(residuals)/n with n larger; the interval shrinks as its standard error does."""
    n, half = judged.n, estimate.half_width
    if n < 2 or half is None or estimate.basis is not Basis.LABELS or n == len(judged.verdicts):
        return None
    at, weight = judged.labelled, judged.weight
    of_verdicts = weight**2 * float(judged.verdicts.var()) / len(judged.verdicts)
    of_labels = float((judged.labels[at] - weight * judged.verdicts[at]).var(ddof=1))
    more = min(n + MORE_LABELS, len(judged.verdicts))
    now, then = of_verdicts + of_labels / n, of_verdicts + of_labels / more
    return half * math.sqrt(then / now) if now > 0 else None
