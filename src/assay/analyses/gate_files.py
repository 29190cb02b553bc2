"""A gate's report where people and machines look for it: a comment on a pull request, JUnit XML, annotations of GitHub.

All of it may hold text of models and task files: Markdown and XML are escaped, and annotations stay on one line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from assay.analyses.compare import Comparison, ComparisonRow, answer_text, comparison_dict
from assay.analyses.gate import GateReport
from assay.terminal_text import one_line

_MARKS = {"failed": "❌", "cannot tell": "❔", "passed": "✅"}
_MARKDOWN = str.maketrans({sign: f"\\{sign}" for sign in "\\`*_{}[]<>#|~"} | {"&": "&amp;"})
FLIPS_SHOWN = 5


def gate_markdown(report: GateReport, title: str, link: str | None = None) -> str:
    """A comment: the verdict, one row per check (those that need attention first), and docs that were right before."""
    counts = {word: sum(check.outcome == word for check in report.checks) for word in _MARKS}
    lines = [
        f"### {_MARKS[report.outcome]} {_escaped(title)}: {report.outcome}",
        "",
        ", ".join(f"{count} {word}" for word, count in counts.items() if count) or "Nothing was checked.",
        "",
        "| | task | metric | value | against | n | |",
        "|---|---|---|---:|---:|---:|---|",
    ]
    for check in sorted(report.checks, key=lambda each: list(_MARKS).index(each.outcome)):
        key = "" if check.key is None else str(check.key)
        value, against = ("" if number is None else f"{number:.4f}" for number in (check.value, check.against))
        cells = [
            check.name,
            key,
            value,
            against,
            f"{check.n:,}",
            f"{check.rule} — {check.reason}" if check.rule else check.reason,
        ]
        lines.append(f"| {_MARKS[check.outcome]} | " + " | ".join(map(_escaped, cells)) + " |")
    lines += [f"\nNote: {_escaped(note)}" for note in report.notes]
    lines += _flips(report)
    if link:
        lines += ["", f"[The full comparison]({link})"]
    return "\n".join(lines) + "\n"


def _flips(report: GateReport) -> Iterator[str]:
    """Docs of checks that did not pass which the baseline had right and the new run has wrong."""
    wanted = {(check.name, check.key) for check in report.checks if check.outcome != "passed"}
    for before, comparison in report.comparisons.items():
        rows = [row for row in comparison.rows if (before + row.name, row.key) in wanted]
        yield from _newly_wrong(comparison, rows, before)


def _newly_wrong(comparison: Comparison, rows: Sequence[ComparisonRow], before: str = "") -> Iterator[str]:
    """Once for all metrics of a task under which the same docs are newly wrong."""
    groups: dict[tuple[str, str, bytes, bytes], list[ComparisonRow]] = {}
    for row in rows:
        if row.flips is not None and len(row.flips.lost):
            place = (row.name, row.filter, row.flips.lost.tobytes(), row.flips.gained.tobytes())
            groups.setdefault(place, []).append(row)
    for (name, *_), alike in groups.items():
        flips = alike[0].flips
        assert flips is not None
        several = sum(row.name == name for row in comparison.rows) > 1
        under = f" {' and '.join(str(row.key) for row in alike)}" if several else ""
        named = escape(one_line(f"{before}{name}{under}"))
        yield f"\n<details><summary>{named}: {len(flips.lost):,} docs newly wrong, {len(flips.gained):,} newly right</summary>\n"
        yield from _lost_docs(comparison, alike[0])
        yield "\n</details>"


_VERDICTS = {"better": "🟢", "worse": "❌", "equivalent": "✅", "same": "✅", "undecided": "❔"}


def comparison_markdown(comparison: Comparison, link: str | None = None) -> str:
    """A comment: one row per number, and the docs that are newly wrong where B is worse."""
    rows = [(row, row.verdict.kind if row.verdict else "undecided") for row in comparison.rows]
    counts = {kind: sum(each == kind for _, each in rows) for kind in _VERDICTS}
    lines = [
        f"### {_escaped(comparison.b.label)} against {_escaped(comparison.a.label)}",
        "",
        ", ".join(f"{count} {kind}" for kind, count in counts.items() if count),
        "",
        "| | task | metric | A | B | B − A | 95 % interval | n | |",
        "|---|---|---|---:|---:|---:|---|---:|---|",
    ]
    for row, kind in rows:
        d, e = row.difference, row.difference.estimate
        ends = "" if e.low is None or e.high is None else f"[{e.low:+.4f}, {e.high:+.4f}]"
        change = "" if e.value is None else f"{e.value:+.4f}"
        said = "; ".join([str(row.verdict or ""), *row.notes])
        cells = [row.name, str(row.key), f"{d.a:.4f}", f"{d.b:.4f}", change, ends, f"{e.n:,}", said]
        lines.append(f"| {_VERDICTS[kind]} | " + " | ".join(map(_escaped, cells)) + " |")
    lines += [f"\nNot compared: {_escaped(f'{each.name}: {each.reason}')}" for each in comparison.refusals]
    lines += _newly_wrong(comparison, [row for row, kind in rows if kind == "worse"])
    if link:
        lines += ["", f"[The full comparison]({link})"]
    return "\n".join(lines) + "\n"


def comparison_junit(comparisons: Sequence[Comparison]) -> str:
    """JUnit XML, one case per row. Worse is a failure; undecided rows are skipped, because nothing had to hold."""
    cases = []
    for comparison in comparisons:
        for row in comparison.rows:
            kind = row.verdict.kind if row.verdict else "undecided"
            case = f"<testcase classname={_attribute(row.name)} name={_attribute(f'{row.key} ({comparison.b.label})')}"
            tag = {"worse": "failure", "undecided": "skipped"}.get(kind)
            said = _attribute(str(row.verdict or kind))
            cases.append(f"  {case}/>" if tag is None else f"  {case}><{tag} message={said}/></testcase>")
    counts = [sum(f"<{tag} " in case for case in cases) for tag in ("failure", "skipped")]
    head = f'<testsuite name="assay compare" tests="{len(cases)}" failures="{counts[0]}" skipped="{counts[1]}">'
    return "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', head, *cases, "</testsuite>"]) + "\n"


def _lost_docs(comparison: Comparison, row: ComparisonRow) -> Iterator[str]:
    assert row.flips is not None
    shown = row.flips.lost[:FLIPS_SHOWN]
    before = comparison.a.shown_docs(row.name, shown[:, 0], row.filter)
    after = comparison.b.shown_docs(row.name, shown[:, 1], row.filter)
    for (_, doc_id), old, new in zip(shown.tolist(), before, after, strict=True):
        doc, target = (_text(new.get(name) or old.get(name)) for name in ("doc", "target"))
        yield f"- doc {doc_id}: {doc}<br>target {target}, was {_answer(old)}, is {_answer(new)}"


def _answer(sample: Mapping[str, Any]) -> str:
    return _escaped(answer_text(sample.get("filtered_resps")))


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return _escaped(text if len(text) <= 120 else f"{text[:119]}…")


def _escaped(text: str) -> str:
    return one_line(text).translate(_MARKDOWN)


def comparison_report(comparisons: Sequence[Comparison], link: str | None = None) -> str:
    """What `COMPARISON_SCHEMA` describes."""
    found = [comparison_dict(comparison) for comparison in comparisons]
    return json.dumps({"format": 1, "link": link, "comparisons": found}, ensure_ascii=False) + "\n"


def gate_json(report: GateReport, title: str, link: str | None = None) -> str:
    """What `GATE_SCHEMA` describes."""
    return (
        json.dumps({"format": 1, "title": title, "link": link, **report.to_dict()}, ensure_ascii=False, indent=1) + "\n"
    )


_TEXT, _NUMBER = {"type": ["string", "null"]}, {"type": ["number", "null"]}
_OUTCOME = {"enum": ["passed", "failed", "cannot tell"]}
GATE_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "A gate's report: `assay gate --report FILE`, `assay ci`",
    "type": "object",
    "required": ["passed", "outcome", "checks", "notes"],
    "properties": {
        "format": {"const": 1},
        "title": _TEXT,
        "link": _TEXT,
        "passed": {"type": "boolean"},
        "outcome": {**_OUTCOME, "description": "One failed check outweighs others that cannot tell."},
        "notes": {"type": "array", "items": {"type": "string"}},
        "checks": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name", "key", "outcome", "kind", "result", "value", "against", "n", "rule", "reason"],
                "properties": {
                    "name": {"type": "string", "description": "Task or group."},
                    "key": {"type": "string", "description": "metric,filter; empty for a whole task."},
                    "rule": {"type": "string", "description": "As written in assay.yaml; empty for `assay gate`."},
                    "outcome": _OUTCOME,
                    "reason": {"type": "string", "description": "What was measured and required, in words."},
                    "kind": {"type": "string", "description": "paired, unpaired, threshold, newly failed, or why not."},
                    "value": _NUMBER,
                    "against": {**_NUMBER, "description": "The baseline's value."},
                    "n": {"type": "integer"},
                    "result": {
                        "type": "object",
                        "required": ["passed", "bound", "limit", "alpha", "unclear", "docs_needed"],
                        "properties": {
                            "passed": {"type": "boolean"},
                            "bound": {
                                **_NUMBER,
                                "description": "The worst value that the data allow at this error rate.",
                            },
                            "limit": {"type": "number"},
                            "alpha": {"type": "number"},
                            "unclear": {"type": "boolean"},
                            "docs_needed": {"type": ["integer", "null"]},
                        },
                    },
                },
            },
        },
    },
}


_RUN = {
    "type": "object",
    "required": ["path", "model", "format"],
    "properties": {name: {"type": "string"} for name in ("path", "model", "format")},
}
COMPARISON_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "What a comparison found: `assay compare --report FILE`",
    "type": "object",
    "required": ["format", "comparisons"],
    "properties": {
        "format": {"const": 1},
        "link": _TEXT,
        "comparisons": {
            "type": "array",
            "description": "Every further run (b) against the first (a).",
            "items": {
                "type": "object",
                "required": ["a", "b", "alpha", "rows", "not_compared"],
                "properties": {
                    "a": _RUN,
                    "b": _RUN,
                    "alpha": {"type": "number"},
                    "tests_corrected_for": {"type": "integer"},
                    "rows": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": [
                                "name",
                                "metric",
                                "filter",
                                "a",
                                "b",
                                "difference",
                                "low",
                                "high",
                                "n",
                                "verdict",
                            ],
                            "properties": {
                                "name": {"type": "string", "description": "Task or group."},
                                "kind": {"enum": ["task", "group"]},
                                "metric": {"type": "string"},
                                "filter": {"type": "string"},
                                "a": _NUMBER,
                                "b": _NUMBER,
                                "difference": {**_NUMBER, "description": "b less a."},
                                "stderr": _NUMBER,
                                "low": _NUMBER,
                                "high": _NUMBER,
                                "level": {"type": "number"},
                                "n": {"type": "integer"},
                                "paired": {"type": "boolean"},
                                "verdict": {"enum": ["better", "worse", "equivalent", "same", "undecided", None]},
                                "notes": {"type": "array", "items": {"type": "string"}},
                            },
                        },
                    },
                    "not_compared": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["name", "reason"],
                            "properties": {"name": {"type": "string"}, "reason": {"type": "string"}},
                        },
                    },
                },
            },
        },
    },
}


@dataclass(frozen=True)
class Finding:
    """What a build system shows beside a change."""

    title: str
    message: str
    serious: bool
    identity: str
    """Tells it from every other finding, and is the same in the next build."""


def gate_findings(report: GateReport) -> list[Finding]:
    """Checks that did not pass."""
    return [
        Finding(
            f"{check.name} {check.key or ''}".strip(),
            check.line(),
            check.outcome == "failed",
            f"{check.name} {check.key} {check.rule}",
        )
        for check in report.checks
        if check.outcome != "passed"
    ]


def comparison_findings(comparisons: Sequence[Comparison]) -> list[Finding]:
    """Rows that are worse: warnings, for nothing had to hold."""
    return [
        Finding(
            f"{row.name} {row.key}",
            f"{row.name} {row.key}: worse, {comparison.b.label} has {row.difference.b:.4f}, "
            f"{comparison.a.label} has {row.difference.a:.4f}",
            False,
            f"{comparison.b.label} {row.name} {row.key}",
        )
        for comparison in comparisons
        for row in comparison.rows
        if row.verdict is not None and row.verdict.kind == "worse"
    ]


def code_quality(findings: Sequence[Finding]) -> str:
    """GitLab's code quality report."""
    entries = [
        {
            "description": one_line(finding.message),
            "check_name": "assay",
            "fingerprint": sha256(finding.identity.encode(errors="surrogatepass")).hexdigest(),
            "severity": "major" if finding.serious else "minor",
            "location": {"path": "assay.yaml", "lines": {"begin": 1}},
        }
        for finding in findings
    ]
    return json.dumps(entries, ensure_ascii=False, indent=1) + "\n"


def gate_junit(report: GateReport, title: str) -> str:
    """JUnit XML, one case per check. *Cannot tell* is an error, not a failure; a build may treat them differently."""
    failures = sum(check.outcome == "failed" for check in report.checks)
    errors = sum(check.outcome == "cannot tell" for check in report.checks)
    counts = f'tests="{len(report.checks)}" failures="{failures}" errors="{errors}"'
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f"<testsuite name={_attribute(title)} {counts}>"]
    for check in report.checks:
        case = (
            f"<testcase classname={_attribute(check.name)} name={_attribute(check.rule or str(check.key or 'scores'))}"
        )
        if check.outcome == "passed":
            lines.append(f"  {case}/>")
        else:
            tag = "failure" if check.outcome == "failed" else "error"
            lines.append(f"  {case}><{tag} message={_attribute(check.line())}/></testcase>")
    return "\n".join([*lines, "</testsuite>"]) + "\n"


def _attribute(text: str) -> str:
    return quoteattr(one_line(text))


def workflow_commands(findings: Sequence[Finding], environment: Mapping[str, str]) -> Iterator[str]:
    """Workflow commands of GitHub; elsewhere nothing. GitLab reads files."""
    if environment.get("GITHUB_ACTIONS") != "true":
        return
    for finding in findings:
        kind = "error" if finding.serious else "warning"
        yield f"::{kind} title={_property(finding.title)}::{one_line(finding.message).replace('%', '%25')}"


def _property(text: str) -> str:
    return one_line(text).replace("%", "%25").replace(":", "%3A").replace(",", "%2C")
