"""An explanation as findings: the sentence, what each cause is worth, the docs it changed, and the fields that differ."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from assay.analyses.compare import likeliest
from assay.analyses.explain.branches import StepSuccess, first_apart
from assay.analyses.explain.engine import UNEXPLAINED, CauseShare, Explanation
from assay.analyses.explain.facts import FieldDifference
from assay.finished import AnsweredDoc
from assay.instance import context_text
from assay.show import Axis, Column, Findings, Table, Whisker, kinds
from assay.show.kinds import Link, Linked, Name
from assay.stats import Estimate
from assay.terminal_text import with_signs


def findings(explanation: Explanation) -> Findings:
    a, b = explanation.a, explanation.b
    parts = ", ".join(map(_in_words, explanation.shares))
    fields = (_fields(explanation),) if explanation.fields else ()
    steps = (_by_step(explanation.steps),) if explanation.steps else ()
    examples = (_examples(explanation),) if explanation.shown else ()
    return Findings(
        title=f"{explanation.task}: why {b.label} is not {a.label}",
        lead=(
            f"A {a.label}: {explanation.task} {explanation.key_a} {explanation.score_a:.4f}",
            f"B {b.label}: {explanation.task} {explanation.key_b} {explanation.score_b:.4f}",
            f"B − A is {explanation.difference:+.4f}: {parts or 'nothing to explain'}",
            *_where_decided(explanation.steps),
        ),
        tables=(_shares(explanation), *steps, *examples, *fields),
        notes=tuple(f"note: {note}" for note in dict.fromkeys(explanation.notes)),
        result=explanation,
    )


def _in_words(share: CauseShare) -> str:
    e = share.estimate
    interval = "" if e.low is None or e.high is None or e.low == e.high else f" [{e.low:+.4f}, {e.high:+.4f}]"
    number = f"{e.value or 0.0:+.4f}{interval}"
    if share.cause == UNEXPLAINED:
        return f"{number} {UNEXPLAINED}"
    return f"{number} from {share.cause} ({share.docs:,} docs)"


def _shares(explanation: Explanation) -> Table:
    axis = Axis.about_zero(share.estimate for share in explanation.shares)

    def interval(share: CauseShare) -> Estimate | None:
        return None if share.estimate.low == share.estimate.high else share.estimate

    columns: tuple[Column[CauseShare], ...] = (
        Column("from", kinds.NAME, lambda share: Name(share.cause), "cause", shrinks=True),
        Column("share of B − A", kinds.SIGNED, lambda share: share.estimate.value or 0.0, "value"),
        Column("95 % interval", kinds.SIGNED_INTERVAL, interval, "", rank=1, moves=True),
        Column("", kinds.WHISKER, lambda share: Whisker.of(share.estimate, axis, reference=0.0)),
        Column("docs", kinds.COUNT, lambda share: share.docs, rank=2),
    )
    return Table.of(columns, explanation.shares, row=lambda share: {"note": share.detail}, notes_name="what differs")


def _where_decided(steps: Sequence[StepSuccess]) -> Iterator[str]:
    first = first_apart(steps)
    if steps and first is None:
        yield "branches from no step can be shown to do better or worse than those from step 1: it takes more docs or draws to say where the outcome was decided"
    elif first is not None:
        which = "step 1" if first == 2 else f"steps 1 to {first - 1}"
        yield f"step {first} is the first from which branches do better or worse than from step 1: the outcome was decided in {which}"


def _by_step(steps: Sequence[StepSuccess]) -> Table:
    """Intervals of a column hold all together."""
    columns: tuple[Column[StepSuccess], ...] = (
        Column("branches at", kinds.NAME, lambda each: Name(f"step {each.step}"), "step"),
        Column("success", kinds.NUMBER, lambda each: each.estimate.value, "value"),
        Column("95 % together", kinds.INTERVAL, lambda each: each.estimate, "", rank=1, moves=True),
        Column(
            "less step 1", kinds.SIGNED, lambda each: each.difference.value if each.difference else None, "difference"
        ),
        Column("95 % together", kinds.SIGNED_INTERVAL, lambda each: each.difference, "", moves=True),
        Column("docs", kinds.COUNT, lambda each: each.docs, rank=2),
    )
    return Table.of(columns, steps)


Example = tuple[str, int, AnsweredDoc, AnsweredDoc]


def _examples(explanation: Explanation) -> Table:
    """Docs whose value a cause changed: how each run ended its prompt, and what was answered."""
    items = [
        (share.cause, doc_id, *explanation.shown[doc_id])
        for share in explanation.shares
        for doc_id in share.examples
        if doc_id in explanation.shown
    ]

    def doc(item: Example) -> Linked:
        return Linked(str(item[1]), Link(str(explanation.a.path), explanation.task, item[1]))

    columns: tuple[Column[Example], ...] = (
        Column("from", kinds.TEXT, lambda item: item[0], "cause", shrinks=True),
        Column("doc", kinds.LINK, doc),
        Column("target", kinds.TEXT, lambda item: short(item[2].target, 40)),
        Column("A", kinds.TEXT, lambda item: _answered(item[2]), shrinks=True),
        Column("B", kinds.TEXT, lambda item: _answered(item[3]), shrinks=True),
    )
    return Table.of(columns, items, row=lambda item: {"note": _prompts(item[2], item[3])}, notes_name="prompts end in")


def _prompts(a: AnsweredDoc, b: AnsweredDoc) -> str:
    sides = []
    for name, doc in (("A", a), ("B", b)):
        prompt = doc.requests[0].prompt if doc.requests else None
        sides.append(f"{name} …{short('' if prompt is None else context_text(prompt)[-60:])}")
    return " · ".join(sides)


def _answered(doc: AnsweredDoc) -> str:
    if (choice := likeliest(doc.filtered)) is not None:
        return f"choice {choice}"
    return f"{short(doc.responses[0] if doc.responses else None, 60)}, parsed as {short(doc.filtered, 40)}"


def _fields(explanation: Explanation) -> Table:
    columns: tuple[Column[FieldDifference], ...] = (
        Column("configs differ in", kinds.TEXT, lambda each: each.name, "field", shrinks=True),
        Column("A", kinds.TEXT, lambda each: short(each.a), shrinks=True),
        Column("B", kinds.TEXT, lambda each: short(each.b), shrinks=True),
    )
    return Table.of(columns, explanation.fields)


def short(value: Any, most: int = 90) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = repr(text)[1:-1] if isinstance(value, str) else text
    return with_signs(text if len(text) <= most else text[: most - 1] + "…")
