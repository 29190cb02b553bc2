"""An explanation in words, as JSON, and as an HTML page with the shares as bars around zero."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from assay.analyses.compare import likeliest, page_template
from assay.analyses.explain.engine import UNEXPLAINED, CauseShare, Explanation
from assay.finished import AnsweredDoc
from assay.instance import context_text
from assay.terminal_text import with_signs


def explanation_lines(explanation: Explanation) -> Iterator[str]:
    """The sentence, what each share is worth, examples, and the fields that differ."""
    yield f"A {with_signs(explanation.a.label)}: {explanation.task} {explanation.key_a} {explanation.score_a:.4f}"
    yield f"B {with_signs(explanation.b.label)}: {explanation.task} {explanation.key_b} {explanation.score_b:.4f}"
    parts = ", ".join(_in_words(share) for share in explanation.shares)
    yield f"{explanation.difference:+.4f} apart: {with_signs(parts) or 'nothing to explain'}"
    for share in explanation.shares:
        yield ""
        yield f"{with_signs(share.cause)}: {_interval(share)}, {share.docs:,} docs{' · ' + share.detail if share.detail else ''}"
        for doc_id in share.examples:
            if doc_id in explanation.shown:
                yield from _example(*explanation.shown[doc_id])
    if explanation.fields:
        yield ""
        yield "configs differ in:"
    for each in explanation.fields:
        yield f"  {each.name}: {_short(each.a)} → {_short(each.b)}"
    yield from (f"note: {note}" for note in dict.fromkeys(explanation.notes))


def _in_words(share: CauseShare) -> str:
    e = share.estimate
    half = "" if e.low is None or e.high is None or e.low == e.high else f" ± {(e.high - e.low) / 2:.4f}"
    number = f"{e.value or 0.0:+.4f}{half}"
    return (
        f"{number} {UNEXPLAINED}"
        if share.cause == UNEXPLAINED
        else f"{number} from {share.cause} ({share.docs:,} docs)"
    )


def _interval(share: CauseShare) -> str:
    e = share.estimate
    ends = "" if e.low is None or e.high is None or e.low == e.high else f" [{e.low:+.4f}, {e.high:+.4f}]"
    return f"{e.value or 0.0:+.4f}{ends}"


def _example(a: AnsweredDoc, b: AnsweredDoc) -> Iterator[str]:
    yield f"  doc {a.doc_id}, target {_short(a.target)}"
    for name, doc in (("A", a), ("B", b)):
        prompt = doc.requests[0].prompt if doc.requests else None
        text = "" if prompt is None else context_text(prompt)
        yield f"    {name} asked …{_short(text[-80:])} · {_answered(doc)}"


def _answered(doc: AnsweredDoc) -> str:
    if (choice := likeliest(doc.filtered)) is not None:
        return f"likeliest: choice {choice}"
    return f"answered {_short(doc.responses[0] if doc.responses else None)} · parsed as {_short(doc.filtered)}"


def _short(value: Any, most: int = 90) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = repr(text)[1:-1] if isinstance(value, str) else text
    return with_signs(text if len(text) <= most else text[: most - 1] + "…")


def explanation_json(explanation: Explanation) -> str:
    data = {
        "task": explanation.task,
        "metric_a": str(explanation.key_a),
        "metric_b": str(explanation.key_b),
        "a": explanation.score_a,
        "b": explanation.score_b,
        "difference": explanation.difference,
        "shares": [
            {
                "cause": share.cause,
                **{name: getattr(share.estimate, name) for name in ("value", "low", "high")},
                "docs": share.docs,
                "detail": share.detail,
                "examples": list(share.examples),
            }
            for share in explanation.shares
        ],
        "fields": [{"name": each.name, "a": each.a, "b": each.b} for each in explanation.fields],
        "notes": list(dict.fromkeys(explanation.notes)),
    }
    return json.dumps(data, ensure_ascii=False, indent=1, default=str)


@dataclass(frozen=True)
class ShareMark:
    """One bar; places are percent of the width."""

    share: CauseShare
    dot: float
    left: float | None
    right: float | None


def explanation_page(explanation: Explanation) -> str:
    estimates = [share.estimate for share in explanation.shares]
    ends = [abs(end) for e in estimates for end in (e.value, e.low, e.high) if end is not None]
    reach = 1.05 * max(ends, default=0.0) or 1.0

    def percent(value: float | None) -> float | None:
        return None if value is None else 50 + 50 * value / reach

    marks = [
        ShareMark(
            share, percent(share.estimate.value) or 50.0, percent(share.estimate.low), percent(share.estimate.high)
        )
        for share in explanation.shares
    ]
    lines = [line for line in explanation_lines(explanation) if line][3:]
    return page_template("explain.html").render(explanation=explanation, marks=marks, words=lines, reach=reach)
