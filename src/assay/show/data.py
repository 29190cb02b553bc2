"""Findings for machines: CSV, JSON, JUnit XML, and what build systems show beside a change."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any
from xml.sax.saxutils import quoteattr

from assay.results import plain as as_plain
from assay.show.findings import BuildCheck, Findings, ShownRow, Table, name_of
from assay.show.kinds import plain
from assay.terminal_text import csv_cell, one_line


def table_data(table: Table) -> Iterator[dict[str, Any]]:
    """Rows as plain values, in full precision."""
    for row in table.rows:
        yield row_data(table, row)


def row_data(table: Table, row: ShownRow) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for column, cell in zip(table.columns, row.cells, strict=True):
        if column.for_machines:
            values = [None] * len(column.fields) if cell is None else map(plain, column.kind.data(cell))
            data |= dict(zip(column.fields, values, strict=True))
    return data | {"notes": row.note}


def to_csv(findings: Findings) -> str:
    """The first table, and those that have its columns: then the first column says which."""
    alike = [table for table in findings.tables if _fields(table) == _fields(findings.tables[0])]
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    for number, table in enumerate(alike):
        for at, data in enumerate(table_data(table)):
            said = {"table": one_line(table.title), **data} if len(alike) > 1 else data
            if number == at == 0:
                writer.writerow(said)
            writer.writerow([csv_cell(value) for value in said.values()])
    return buffer.getvalue()


def _fields(table: Table) -> list[str]:
    return [field for column in table.columns for field in column.fields]


def to_json(findings: Findings) -> str:
    """What the result says of itself, a line for each entry of its lists: a million flips indented are slow.

    Of findings without a result, as a small package may have them, the rows of the tables.
    """
    if findings.result is None:
        return (
            json_lines({"title": findings.title, "tables": [[*table_data(table)] for table in findings.tables]}) + "\n"
        )
    return json_lines(findings.result.to_dict()) + "\n"


def json_lines(data: Any) -> str:
    """
    >>> print(json_lines({"a": 1, "rows": [{"x": 1}, {"x": 2}]}))
    {
      "a": 1,
      "rows": [
        {"x": 1},
        {"x": 2}
      ]
    }
    """
    if isinstance(data, Mapping):
        fields = [f"  {json.dumps(str(name))}: {_entries(value, '    ', '  ')}" for name, value in data.items()]
        return "{\n" + ",\n".join(fields) + "\n}" if fields else "{}"
    return _entries(data, "  ", "")


def _entries(value: Any, indent: str, end: str) -> str:
    if isinstance(value, list | tuple) and value and isinstance(value[0], Mapping | list | tuple):
        return f"[\n{indent}" + f",\n{indent}".join(map(_dumped, value)) + f"\n{end}]"
    return _dumped(value)


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=as_plain)


def to_junit(findings: Findings) -> str:
    """One case per row. *Cannot tell* is an error where the row had to hold, and is skipped where nothing had to."""
    cases, counts = [], {"failure": 0, "error": 0, "skipped": 0}
    for table in findings.tables:
        for row in table.rows:
            check = row.check or BuildCheck(table.title or findings.title, name_of(row, table), "passed", "", "")
            tag = {"failed": "failure", "cannot tell": "error" if check.is_required else "skipped"}.get(check.outcome)
            if tag is not None:
                counts[tag] += 1
            said = f"<{tag} message={_attribute(check.message)}/>" if tag is not None else ""
            head = f"<testcase classname={_attribute(check.name)} name={_attribute(f'{check.case} ({check.of})' if check.of else check.case)}>"
            cases.append(f"  {head}{_properties(row_data(table, row))}{said}</testcase>")
    totals = (
        f'tests="{len(cases)}" failures="{counts["failure"]}" errors="{counts["error"]}" skipped="{counts["skipped"]}"'
    )
    head = f"<testsuite name={_attribute(findings.title)} {totals}>"
    return "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', head, *cases, "</testsuite>"]) + "\n"


def _properties(data: Mapping[str, Any]) -> str:
    numbers = {
        name: value for name, value in data.items() if isinstance(value, int | float) and not isinstance(value, bool)
    }
    said = "".join(f'<property name={_attribute(name)} value="{value}"/>' for name, value in numbers.items())
    return f"<properties>{said}</properties>" if said else ""


def _attribute(text: str) -> str:
    return quoteattr(one_line(text))


def notable_checks(findings: Findings) -> list[tuple[BuildCheck, bool]]:
    """What a build system shows, and whether it is an error: checks that did not pass, or where nothing had to, what is worse."""
    found = [check for check in findings.checks if check.outcome != "passed"]
    return [
        (check, check.is_required and check.outcome == "failed")
        for check in found
        if check.is_required or check.outcome == "failed"
    ]


NOTICES = 10
"""Rows that are told where nothing was checked: a workflow shows no more of one step."""


def to_annotations(findings: Findings) -> str:
    """Workflow commands of GitHub, a line each: what did not pass, or, where nothing had to, what was found."""
    if not findings.checks:
        rows = [(table, row) for table in findings.tables for row in table.rows][:NOTICES]
        return "".join(
            f"::notice title={_property(findings.title)}::{_in_words(table, row).replace('%', '%25')}\n"
            for table, row in rows
        )
    lines = [
        f"::{'error' if is_error else 'warning'} title={_property(f'{check.name} {check.case}')}::"
        + one_line(check.message).replace("%", "%25")
        for check, is_error in notable_checks(findings)
    ]
    return "".join(f"{line}\n" for line in lines)


def _in_words(table: Table, row: ShownRow) -> str:
    cells = [(table.columns[at].name, one_line(table.text_of(row, at))) for at in table.shown()]
    return ", ".join(f"{name} {text}".strip() for name, text in cells if text)


def _property(text: str) -> str:
    return one_line(text).replace("%", "%25").replace(":", "%3A").replace(",", "%2C")


def to_code_quality(findings: Findings) -> str:
    """GitLab's code quality report."""
    entries: Sequence[Mapping[str, Any]] = [
        {
            "description": one_line(check.message),
            "check_name": "assay",
            "fingerprint": sha256(check.identity.encode(errors="surrogatepass")).hexdigest(),
            "severity": "major" if is_error else "minor",
            "location": {"path": "assay.yaml", "lines": {"begin": 1}},
        }
        for check, is_error in notable_checks(findings)
    ]
    return json.dumps(entries, ensure_ascii=False, indent=1) + "\n"
