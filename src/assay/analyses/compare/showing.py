"""A comparison as findings: a table of differences, the docs that changed, and a forest plot."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from assay.analyses.compare.model import Comparison, ComparisonRow, Comparisons
from assay.errors import ConfigError, did_you_mean
from assay.show import Axis, BuildCheck, Column, Findings, ForestPlot, Table, Whisker, kinds, repeated_names
from assay.show.kinds import FlipCount, Link, Linked, Name, Word
from assay.stats import Estimate
from assay.terminal_text import one_line

VERDICTS = {
    "better": Word("better", "good", "🟢"),
    "worse": Word("worse", "bad", "❌"),
    "equivalent": Word("equivalent", "same", "✅"),
    "same": Word("same", "same", "✅"),
    "undecided": Word("undecided", "warn", "❔"),
}
DOCS_SHOWN = 5


def findings(comparisons: Comparisons, flips: int = 0) -> Findings:
    """With `flips`, so many docs of each task whose verdict changed are part of what everybody sees."""
    tables = [table for each in comparisons for table in (_table(each), *(_flips(each, flips) if flips else ()))]
    title = f"{', '.join(each.b.label for each in comparisons)} against {comparisons[0].a.label}"
    counts = {kind: sum(_kind(row) == kind for each in comparisons for row in each.rows) for kind in VERDICTS}
    return Findings(
        title=title,
        tables=tuple(tables),
        details=lambda: () if flips else tuple(table for each in comparisons for table in newly_wrong(each)),
        notes=(", ".join(f"{count} {kind}" for kind, count in counts.items() if count),),
        result=comparisons,
    )


def _kind(row: ComparisonRow) -> str:
    return row.verdict.kind if row.verdict is not None else "undecided"


def metric_text(row: ComparisonRow) -> str:
    return row.metric if row.filter == "none" else f"{row.metric} ({row.filter})"


def _table(comparison: Comparison) -> Table:
    """All rows of a metric share an axis: accuracy and perplexity do not fit on one."""
    rows = comparison.rows
    repeated = dict(zip(map(id, rows), repeated_names([row.name for row in rows])))
    axes = {
        metric: Axis.about_zero(row.interval for row in rows if row.metric == metric)
        for metric in {row.metric for row in rows}
    }
    here, there = str(comparison.a.path), str(comparison.b.path)

    def name(row: ComparisonRow) -> Name:
        return Name(row.alias, row.name, row.depth, repeated[id(row)], Link(here, row.name))

    def flips(row: ComparisonRow) -> FlipCount | None:
        d = row.difference
        if d.gained is None or d.lost is None:
            return None
        if row.kind == "group":
            return FlipCount(d.gained, d.lost)
        place = Link(here, row.name, against=there, metric=row.metric, filter=row.filter)
        gained = replace(place, only="gained", title="right only in B")
        return FlipCount(d.gained, d.lost, (gained, replace(place, only="lost", title="right only in A")))

    def whisker(row: ComparisonRow) -> Whisker:
        about = f"{row.verdict or ''} ({axes[row.metric].text})"
        return Whisker.of(row.interval, axes[row.metric], reference=0.0, band=row.margin, label=about)

    columns: tuple[Column[ComparisonRow], ...] = (
        Column("task", kinds.NAME, name, "name", shrinks=True),
        Column("metric", kinds.TEXT, metric_text, shrinks=True, for_machines=False),
        Column("metric", kinds.TEXT, lambda row: row.metric, for_people=False),
        Column("filter", kinds.TEXT, lambda row: row.filter, for_people=False),
        Column("A", kinds.NUMBER, lambda row: row.difference.a, rank=4),
        Column("B", kinds.NUMBER, lambda row: row.difference.b, rank=4),
        Column("B − A ± stderr", kinds.SIGNED_WITH_ERROR, lambda row: row.difference.estimate, "difference"),
        Column("verdict", kinds.WORD, lambda row: None if row.verdict is None else VERDICTS[row.verdict.kind]),
        Column(
            f"{1 - comparison.alpha:.0%} interval".replace("%", " %"),
            kinds.SIGNED_INTERVAL,
            lambda row: row.interval,
            "",
            rank=2,
        ),
        Column("", kinds.WHISKER, whisker),
        Column("n", kinds.COUNT, lambda row: row.difference.estimate.n, rank=3),
        Column("flips", kinds.FLIPS, flips, "", rank=6),
        Column("p", kinds.P_VALUE, lambda row: row.p_adjusted, rank=5),
    )
    return Table.of(
        columns,
        rows,
        row=lambda row: {"note": _note(row), "is_group": row.kind == "group", "check": _check(comparison, row)},
        title=f"A {comparison.a.label}\nB {comparison.b.label}",
        notes=tuple(_legend(comparison)),
    )


def _note(row: ComparisonRow) -> str:
    estimate, kind = row.difference.estimate, _kind(row)
    said = "" if kind == "same" or row.verdict is None else str(row.verdict).removeprefix(kind).removeprefix(": ")
    notes = [
        said,
        *row.notes,
        estimate.caution or "",
        f"no interval: {estimate.withheld_reason}" if estimate.withheld_reason else "",
    ]
    if row.gold is not None:
        notes.append(_gold(row.gold))
    if row.only_a or row.only_b:
        notes.append(f"left out: {row.only_a:,} docs of A, {row.only_b:,} of B")
    return "; ".join(part for part in notes if part)


def _gold(found: Estimate) -> str:
    """
    >>> _gold(Estimate(0.021, 0.01, 0.001, 0.041, 900, "labels"))
    'gold checked: +0.0210 [+0.0010, +0.0410]'
    """
    if found.value is None or found.low is None or found.high is None:
        return f"gold unchecked: {found.undefined or found.method}"
    return f"gold checked: {kinds.signed(found.value)} [{kinds.signed(found.low)}, {kinds.signed(found.high)}]"


def _check(comparison: Comparison, row: ComparisonRow) -> BuildCheck:
    """Nothing had to hold: what is worse is a warning, what is undecided is skipped."""
    kind, d = _kind(row), row.difference
    a, b = comparison.a.label, comparison.b.label
    return BuildCheck(
        name=row.name,
        case=str(row.key),
        of=b,
        outcome={"worse": "failed", "undecided": "cannot tell"}.get(kind, "passed"),  # type: ignore[arg-type]
        message=f"{row.name} {row.key}: {row.verdict or kind}, {b} has {d.b:.4f}, {a} has {d.a:.4f}",
        identity=f"{b} {row.name} {row.key}",
        is_required=False,
    )


TESTS = {
    "mcnemar mid-P": "counts the docs that only one run got right",
    "directions": "counts the clusters that went up and down",
    "paired t": "the mean of the docs' differences",
    "paired delta": "what each doc adds to the difference of scores that are no means",
    "paired, prediction-powered": "verdicts, corrected by people's labels",
    "member by member": "the differences of all members at once",
    "t on replicates": "the difference in each bootstrap replicate",
    "unpaired t": "two numbers with their standard errors, no doc in common",
}


def _legend(comparison: Comparison) -> Iterator[str]:
    """What the reader must know beside the table."""
    tests = sorted({row.difference.test for row in comparison.rows} - {"none"})
    named = [
        f"{test} ({TESTS[plain]})" if (plain := test.removesuffix(", by cluster")) in TESTS else test for test in tests
    ]
    rows = "one row" if comparison.family == 1 else f"{comparison.family} rows"
    correction = f"corrected (Holm) over {rows}"
    yield f"p: {', '.join(named) or 'no test'}; {correction}; verdicts at {comparison.alpha:g}."
    if comparison.efforts and any(row.is_quality for row in comparison.rows):
        yield f"…/solved: what each solved doc took; these {comparison.efforts} rows are corrected among themselves, apart from the others."
    if comparison.family > 1:
        yield f"intervals: they hold for all {comparison.family} rows together, and agree with the verdicts; --json has those of each row alone."
    for refusal in comparison.refusals:
        yield f"not compared: {refusal.name}: {refusal.reason}"


# The docs that changed


DocPair = tuple[int, int, dict[str, Any], dict[str, Any]]


def _doc_columns(comparison: Comparison, task: str) -> tuple[Column[DocPair], ...]:
    def doc(pair: DocPair) -> Linked:
        text = str(pair[0]) if pair[0] == pair[1] else f"{pair[0]} of A, {pair[1]} of B"
        return Linked(text, Link(str(comparison.a.path), task, pair[0]))

    return (
        Column("doc", kinds.LINK, doc),
        Column("what", kinds.TEXT, lambda pair: _short(pair[2].get("doc") or pair[3].get("doc"), 160), shrinks=True),
        Column("target", kinds.TEXT, lambda pair: _short(pair[2].get("target") or pair[3].get("target"), 60)),
        Column("A", kinds.TEXT, lambda pair: answer_text(pair[2].get("filtered_resps"))),
        Column("B", kinds.TEXT, lambda pair: answer_text(pair[3].get("filtered_resps"))),
    )


def _docs_table(comparison: Comparison, row: ComparisonRow, pairs: Any, title: str, most: int, rest: str) -> Table:
    shown = pairs[:most]
    left = comparison.a.shown_docs(row.name, shown[:, 0], row.filter)
    right = comparison.b.shown_docs(row.name, shown[:, 1], row.filter)
    items = [(int(i), int(j), a, b) for (i, j), a, b in zip(shown.tolist(), left, right, strict=True)]
    notes = (f"… and {len(pairs) - most:,} more ({rest})",) if len(pairs) > most else ()
    return Table.of(_doc_columns(comparison, row.name), items, title=title, notes=notes)


def _flips(comparison: Comparison, most: int) -> Iterator[Table]:
    """For each task with flips: the docs, what was right, and what both answered."""
    for row in comparison.rows:
        if row.flips is None:
            continue
        for word, pairs in (("right → wrong", row.flips.lost), ("wrong → right", row.flips.gained)):
            if len(pairs):
                title = f"{row.name} · {metric_text(row)} · {word}: {len(pairs):,} docs"
                yield _docs_table(comparison, row, pairs, title, most, "--json lists them all")


def newly_wrong(
    comparison: Comparison, rows: Sequence[ComparisonRow] | None = None, before: str = ""
) -> Iterator[Table]:
    """Docs that are newly wrong where B is worse; once for all metrics of a task under which they are the same docs."""
    chosen = [row for row in comparison.rows if _kind(row) == "worse"] if rows is None else rows
    groups: dict[tuple[str, str, bytes, bytes], list[ComparisonRow]] = {}
    for row in chosen:
        if row.flips is not None and len(row.flips.lost):
            place = (row.name, row.filter, row.flips.lost.tobytes(), row.flips.gained.tobytes())
            groups.setdefault(place, []).append(row)
    for (name, *_), alike in groups.items():
        flips = alike[0].flips
        assert flips is not None
        several = sum(row.name == name for row in comparison.rows) > 1
        under = f" {' and '.join(str(row.key) for row in alike)}" if several else ""
        title = f"{before}{name}{under}: {len(flips.lost):,} docs newly wrong, {len(flips.gained):,} newly right"
        yield _docs_table(comparison, alike[0], flips.lost, title, DOCS_SHOWN, "--flips N shows more")


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
    if not isinstance(answer, list) or not answer:
        return None
    pairs = [each for each in answer if isinstance(each, list) and len(each) == 2]
    if len(pairs) < len(answer) or any(str(each[1]).lower() not in ("true", "false") for each in pairs):
        return None
    likelihoods = [float(each[0]) for each in answer]
    return likelihoods.index(max(likelihoods))


def _short(text: Any, most: int) -> str:
    line = " ".join(("" if text is None else str(text)).split())
    return one_line(line if len(line) <= most else line[: most - 1] + "…")


def difference_plot(comparison: Comparison, metric: str | None = None) -> ForestPlot:
    """The differences under one metric; the first of the table if none is named."""
    metrics = list(dict.fromkeys(row.metric for row in comparison.rows))
    chosen = metric or next(iter(metrics), "")
    if chosen not in metrics:
        hint = did_you_mean(chosen, metrics) or f"There are: {', '.join(metrics) or 'none'}."
        raise ConfigError(f"no metric {chosen!r} was compared", hint=hint)
    rows = [row for row in comparison.rows if row.metric == chosen and row.difference.estimate.value is not None]
    axis = Axis.about_zero(row.interval for row in rows)
    lines = [
        Whisker.of(
            row.interval,
            axis,
            label=f"{'    ' * row.depth}{row.alias}",
            text=f"{kinds.signed(row.difference.estimate.value or 0.0)}{f'  {row.verdict.kind}' if row.verdict else ''}",
            is_bold=row.kind == "group",
        )
        for row in rows
    ]
    return ForestPlot(f"{comparison.b.label} − {comparison.a.label} · {chosen}", tuple(lines), axis, zero=0.0)
