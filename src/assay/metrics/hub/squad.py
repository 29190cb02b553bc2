"""squad and squad_v2: the scores of the official evaluation scripts, in percent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from assay.metrics.texts import squad_exact_of, squad_f1_of, squad_normal

normalize_answer = squad_normal


def compute_exact(gold: str, prediction: str) -> int:
    return int(squad_exact_of(prediction, gold))


def compute_f1(gold: str, prediction: str) -> float:
    return squad_f1_of(prediction, gold)


def squad(*, predictions: Sequence[Mapping[str, Any]], references: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    answers = {row["id"]: row["prediction_text"] for row in predictions}
    exact = f1 = 0.0
    for row in references:
        if row["id"] in answers:
            texts = row["answers"]["text"]
            exact += max(squad_exact_of(answers[row["id"]], text) for text in texts)
            f1 += max(squad_f1_of(answers[row["id"]], text) for text in texts)
    return {"exact_match": 100 * exact / len(references), "f1": 100 * f1 / len(references)}


def _raw_scores(
    answers: Mapping[str, str], references: Sequence[Mapping[str, Any]]
) -> tuple[dict[str, float], dict[str, float]]:
    """Exact match and F1 of each prediction, by question, whatever its no-answer probability."""
    exact, f1 = {}, {}
    for row in references:
        key = row["id"]
        if key not in answers:
            continue
        # A question whose answers all normalise to nothing is answered by saying nothing.
        texts = [text for text in row["answers"]["text"] if squad_normal(text)] or [""]
        exact[key] = max(float(compute_exact(text, answers[key])) for text in texts)
        f1[key] = max(compute_f1(text, answers[key]) for text in texts)
    return exact, f1


def squad_v2(
    *,
    predictions: Sequence[Mapping[str, Any]],
    references: Sequence[Mapping[str, Any]],
    no_answer_threshold: float = 1.0,
) -> dict[str, Any]:
    """Totals, the same for answerable (HasAns) and unanswerable (NoAns) questions, and the best over all thresholds.

    A question counts as answerable if any of its reference texts is not empty. A prediction whose no-answer probability
    exceeds the threshold counts as "no answer".
    """
    answers = {row["id"]: row["prediction_text"] for row in predictions}
    no_answer = {row["id"]: row["no_answer_probability"] for row in predictions}
    answerable = {row["id"]: bool(row["answers"]["text"]) for row in references}
    exact_raw, f1_raw = _raw_scores(answers, references)
    at_threshold = [
        {
            key: float(not answerable[key]) if no_answer[key] > no_answer_threshold else value
            for key, value in raw.items()
        }
        for raw in (exact_raw, f1_raw)
    ]
    exact, f1 = at_threshold
    out = _summary(exact, f1)
    for label, wanted in (("HasAns", True), ("NoAns", False)):
        keys = [key for key in exact if answerable[key] is wanted]
        if keys:
            part = _summary({key: exact[key] for key in keys}, {key: f1[key] for key in keys})
            out |= {f"{label}_{name}": value for name, value in part.items()}
    for name, raw in (("exact", exact_raw), ("f1", f1_raw)):
        best, threshold = _best_threshold(answers, raw, no_answer, answerable)
        out |= {f"best_{name}": best, f"best_{name}_thresh": threshold}
    return out


def _summary(exact: Mapping[str, float], f1: Mapping[str, float]) -> dict[str, Any]:
    total = len(exact)
    return {"exact": 100.0 * sum(exact.values()) / total, "f1": 100.0 * sum(f1.values()) / total, "total": total}


def _best_threshold(
    answers: Mapping[str, str], raw: Mapping[str, float], no_answer: Mapping[str, float], answerable: Mapping[str, bool]
) -> tuple[float, float]:
    """Start with "no answer" for all, then believe predictions one by one, the most confident first."""
    current = best = float(sum(1 for key in answerable if not answerable[key]))
    threshold = 0.0
    for key in sorted(no_answer, key=lambda each: no_answer[each]):
        if key not in raw:
            continue
        current += raw[key] if answerable[key] else (-1.0 if answers[key] else 0.0)
        if current > best:
            best, threshold = current, no_answer[key]
    return 100.0 * best / len(raw), threshold


__all__: Sequence[str] = ("compute_exact", "compute_f1", "normalize_answer", "squad", "squad_v2")
