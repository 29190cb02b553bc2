"""Comparisons as a table, as JSON and as lists of flipped docs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from assay.analyses.compare.model import Comparison, ComparisonRow
from assay.finished import Run
from assay.results import format_number
from assay.show import Column, FittedTable
from assay.terminal_text import one_line, with_signs

_COLOURS = {"better": "green", "worse": "red", "equivalent": "cyan", "same": "cyan", "undecided": "yellow"}


def signed(value: float) -> str:
    """A difference with its sign, so that zero reads as zero.

    >>> signed(0.0123), signed(0.0), signed(-0.5)
    ('+0.0123', '0.0000', '-0.5000')
    """
    text = format_number(value)
    return f"+{text}" if value > 0 else text


COLUMNS = [
    Column("task", shrinks=True),
    Column("metric", shrinks=True),
    Column("A", right=True, rank=4),
    Column("B", right=True, rank=4),
    Column("B − A ± stderr", right=True),
    Column("95 % interval", right=True, rank=2),
    Column("n", right=True, rank=3),
    Column("flips", right=True, rank=6),
    Column("p", right=True, rank=5),
    Column("verdict"),
]


def comparison_table(comparison: Comparison) -> FittedTable:
    table = FittedTable(COLUMNS, title=f"A {one_line(comparison.a.label)}\nB {one_line(comparison.b.label)}")
    seen = None
    for row in comparison.rows:
        name = "" if row.name == seen else f"{'  ' * row.depth}{one_line(row.alias)}"
        seen = row.name
        metric = row.metric if row.filter == "none" else f"{row.metric} ({row.filter})"
        verdict = row.verdict.kind if row.verdict else ""
        rest = "" if verdict == "same" else str(row.verdict or "").removeprefix(verdict).removeprefix(": ")
        table.add(
            [
                (name, "bold" if row.kind == "group" else ""),
                one_line(metric),
                *_cells(row).values(),
                (verdict, _COLOURS.get(verdict, "")),
            ],
            one_line("; ".join(part for part in (rest, *_notes(row)) if part)),
            "dim",
        )
    return table


def _cells(row: ComparisonRow) -> dict[str, str]:
    d, e = row.difference, row.difference.estimate
    stderr = "" if e.stderr is None else f" ± {format_number(e.stderr)}"
    return {
        "A": format_number(d.a),
        "B": format_number(d.b),
        "B − A ± stderr": "" if e.value is None else signed(e.value) + stderr,
        "95 % interval": "" if e.low is None or e.high is None else f"[{signed(e.low)}, {signed(e.high)}]",
        "n": f"{e.n:,}",
        "flips": "" if d.gained is None else f"+{d.gained:,} −{d.lost:,}",
        "p": p_text(row),
    }


def p_text(row: ComparisonRow) -> str:
    p = row.p_adjusted
    return "" if p is None else "<0.0001" if p < 0.0001 else f"{p:.4f}"


def _notes(row: ComparisonRow) -> list[str]:
    estimate = row.difference.estimate
    notes = [*row.notes, *([estimate.caution] if estimate.caution else [])]
    if estimate.withheld_reason is not None:
        notes.append(f"no interval: {estimate.withheld_reason}")
    if row.only_a or row.only_b:
        notes.append(f"left out: {row.only_a:,} docs of A, {row.only_b:,} of B")
    return notes


def comparison_legend(comparison: Comparison) -> Iterator[str]:
    """What the reader must know beside the table."""
    tests = sorted({row.difference.test for row in comparison.rows} - {"none"})
    correction = f"corrected (Holm) over {comparison.family} rows"
    yield f"p: {', '.join(tests) or 'no test'}; {correction}; verdicts at {comparison.alpha:g}."
    for refusal in comparison.refusals:
        yield with_signs(f"not compared: {refusal.name}: {refusal.reason}")


def comparison_dict(comparison: Comparison) -> dict[str, Any]:
    """All of it as plain data."""
    return {
        "a": _run_dict(comparison.a),
        "b": _run_dict(comparison.b),
        "alpha": comparison.alpha,
        "tests_corrected_for": comparison.family,
        "rows": [row_dict(row) for row in comparison.rows],
        "not_compared": [{"name": r.name, "reason": r.reason} for r in comparison.refusals],
    }


def _run_dict(run: Run) -> dict[str, str]:
    return {"path": str(run.path), "model": run.result.model_name, "format": run.format}


def row_dict(row: ComparisonRow) -> dict[str, Any]:
    d, e = row.difference, row.difference.estimate
    return {
        "name": row.name,
        "kind": row.kind,
        "depth": row.depth,
        "metric": row.metric,
        "filter": row.filter,
        "a": d.a if d.a == d.a else None,
        "b": d.b if d.b == d.b else None,
        "difference": e.value,
        "stderr": e.stderr,
        "low": e.low,
        "high": e.high,
        "level": e.level,
        "n": e.n,
        "paired": row.paired,
        "method": e.method,
        "undefined": e.undefined,
        "caution": e.caution,
        "test": d.test,
        "p_value": d.p_value,
        "p_adjusted": row.p_adjusted,
        "higher_is_better": row.higher_is_better,
        "margin": row.margin,
        "verdict": None if row.verdict is None else row.verdict.kind,
        "verdict_text": None if row.verdict is None else str(row.verdict),
        "docs_needed": None if row.verdict is None else row.verdict.docs_needed,
        "detectable": None if row.verdict is None else row.verdict.detectable,
        "gained": d.gained,
        "lost": d.lost,
        "flips": None if row.flips is None else {"gained": row.flips.gained.tolist(), "lost": row.flips.lost.tolist()},
        "only_a": row.only_a,
        "only_b": row.only_b,
        "notes": list(row.notes),
    }


def flip_lines(comparison: Comparison, most: int) -> Iterator[str]:
    """For each task with flips: the docs, what was right, and what both answered."""
    for row in comparison.rows:
        if row.flips is None:
            continue
        for word, pairs in (("right → wrong", row.flips.lost), ("wrong → right", row.flips.gained)):
            if len(pairs) == 0:
                continue
            under = "" if row.filter == "none" else f" ({with_signs(row.filter)})"
            yield f"\n{with_signs(row.name)} · {with_signs(row.metric)}{under} · {word}: {len(pairs):,} docs"
            shown = pairs[:most]
            left = comparison.a.shown_docs(row.name, shown[:, 0], row.filter)
            right = comparison.b.shown_docs(row.name, shown[:, 1], row.filter)
            for ids, a, b in zip(shown.tolist(), left, right, strict=True):
                yield from _flip(ids, a, b)
            if len(pairs) > most:
                yield f"  … and {len(pairs) - most:,} more (--json lists them all)"


def _flip(ids: Sequence[int], a: dict[str, Any], b: dict[str, Any]) -> Iterator[str]:
    number = f"doc {ids[0]}" if ids[0] == ids[1] else f"doc {ids[0]} of A, {ids[1]} of B"
    yield f"  {number}: {_short(a.get('doc') or b.get('doc'), 160)}"
    target = _short(a.get("target") or b.get("target"), 60)
    yield f"    target {target} · A {answer_text(a.get('filtered_resps'))} · B {answer_text(b.get('filtered_resps'))}"


def answer_text(text: Any) -> str:
    """What was answered: the choice with the highest likelihood, or the beginning of the text."""
    try:
        answer = json.loads(text) if isinstance(text, str) else text
    except ValueError:
        return _short(text, 60)
    if (choice := likeliest(answer)) is not None:
        return f"choice {choice}"
    return _short(answer[0] if isinstance(answer, list) and len(answer) == 1 else answer, 60)


def likeliest(answer: Any) -> int | None:
    """The choice with the highest likelihood; None if these are no likelihoods.

    >>> likeliest([[-1.5, False], [-0.3, True]]), likeliest(["B"])
    (1, None)
    """
    if not isinstance(answer, list) or not answer or not all(_is_likelihood(each) for each in answer):
        return None
    likelihoods = [float(each[0]) for each in answer]
    return likelihoods.index(max(likelihoods))


def _is_likelihood(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and str(value[1]).lower() in ("true", "false")


def _short(text: Any, most: int) -> str:
    line = " ".join(("" if text is None else str(text)).split())
    return with_signs(line if len(line) <= most else line[: most - 1] + "…")


def comparison_json(comparisons: Sequence[Comparison]) -> str:
    """One comparison as an object, several under `comparisons`; a line a row: a million flips indented are slow."""
    texts = [_lines(comparison_dict(c)) for c in comparisons]
    return texts[0] if len(texts) == 1 else '{"comparisons": [' + ",\n".join(texts) + "]}"


def _lines(data: dict[str, Any]) -> str:
    fields = []
    for name, value in data.items():
        if isinstance(value, list) and value:
            text = "[\n    " + ",\n    ".join(json.dumps(each, ensure_ascii=False) for each in value) + "\n  ]"
        else:
            text = json.dumps(value, ensure_ascii=False)
        fields.append(f"  {json.dumps(name)}: {text}")
    return "{\n" + ",\n".join(fields) + "\n}"
