"""A gate's report as findings: one row per check, those that need attention first, and docs that were right before."""

from __future__ import annotations

from assay.analyses.compare import newly_wrong
from assay.analyses.gate.engine import GateCheck, GateReport
from assay.show import BuildCheck, Column, Conclusion, Findings, Table, kinds
from assay.show.kinds import Kind, Name, Word

OUTCOMES = {
    "failed": Word("FAIL", "bad", "❌"),
    "cannot tell": Word("CANNOT TELL", "warn", "❔"),
    "passed": Word("PASS", "good", "✅"),
}


def _bound(cell: tuple[GateCheck, float | None]) -> str:
    """Of a difference with its sign, of a share in percent."""
    check, value = cell
    if value is None or not check.is_measured:
        return ""
    if check.kind == "newly wrong":
        return f"{value:.2%}"
    return f"{value:.4f}" if check.kind == "threshold" else f"{value:+.4f}"


BOUND = Kind(_bound, data=lambda cell: (cell[1],), right=True)
COLUMNS: tuple[Column[GateCheck], ...] = (
    Column("outcome", kinds.WORD, lambda check: OUTCOMES[check.outcome]),
    Column("task", kinds.NAME, lambda check: Name(check.name), "name", shrinks=True),
    Column("metric", kinds.TEXT, lambda check: None if check.key is None else str(check.key), shrinks=True),
    Column("value", kinds.NUMBER, lambda check: check.value, rank=3, moves=True),
    Column("against", kinds.NUMBER, lambda check: check.against, rank=4),
    Column("bound", BOUND, lambda check: (check, check.result.deciding_bound), rank=2, moves=True),
    Column("limit", BOUND, lambda check: (check, check.result.limit), rank=2, moves=True),
    Column("n", kinds.COUNT, lambda check: check.n or None, rank=1),
)


def findings(report: GateReport, title: str, summary: str) -> Findings:
    """`title` says what was held against what; `summary` is the last line of a build's log."""
    checks = sorted(report.checks, key=lambda check: list(OUTCOMES).index(check.outcome))
    alphas = {check.result.alpha for check in checks}
    said = (
        f"bound: the worst value (or difference from the baseline) that the data allow at {1 - max(alphas, default=0.05):.0%}, "
        "and for a check that failed, the best one; a check passes if its bound is within the limit"
    )
    return Findings(
        title=f"{title}: {report.outcome}",
        tables=(Table.of(COLUMNS, checks, row=_about, notes_name="why"),),
        details=lambda: tuple(_newly_wrong(report)),
        notes=(said, *(f"note: {note}" for note in report.notes)),
        verdict=Conclusion(report.outcome, summary),
        result=report,
    )


def _about(check: GateCheck) -> dict[str, object]:
    case = check.rule or str(check.key or "scores")
    said = BuildCheck(check.name, case, check.outcome, check.line(), f"{check.name} {check.key} {check.rule}")
    why = check.too_few if check.is_measured else check.reason
    return {"note": " — ".join(part for part in (check.rule, why) if part), "check": said}


def _newly_wrong(report: GateReport) -> list[Table]:
    """Docs of checks that did not pass which the baseline had right and the new run has wrong."""
    wanted = {(check.name, check.key) for check in report.checks if check.outcome != "passed"}
    return [
        table
        for before, comparison in report.comparisons.items()
        for table in newly_wrong(
            comparison, [row for row in comparison.rows if (before + row.name, row.key) in wanted], before
        )
    ]
