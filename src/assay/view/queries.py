"""Questions to a sample file: which rows, in which order, and what they hold.

Rows are found first, by narrow columns, and read second, by their number: Parquet then decodes only the row groups that are
shown. Searching text must read all of it, so it goes in pieces and within a time; what was not searched is said.
"""

from __future__ import annotations

import json
import time
from array import array
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from assay.errors import DataError
from assay.results import METRIC_COLUMN, REQUIRED_COLUMNS
from assay.view.database import SAMPLES, Database, SampleRecord, quoted

PIECE = 1 << 15
BUDGET = 0.2
"""Seconds a search may take before it answers with what it has."""
MOST_HITS = 100_000
FLAGS = (
    *("unparsed", "truncated", "empty", "tied", "failed"),
    *("left_out", "no_gold", "unfinished_thought", "refused", "unjudged", "not_independent", "weak_sandbox"),
)
"""What health counts of single docs."""
LISTED = ("disagree", "flips", "gained", "lost")
"""Choices that need a join: their rows are found once and held."""
ONLY = ("wrong", "right", *FLAGS, *LISTED)
HALF = 0.5
"""A score below counts as wrong: exact for 0 and 1, a fair cut for F1 and the like."""


@dataclass(frozen=True)
class SampleFile:
    """A sample file and what its columns are."""

    path: Path
    columns: tuple[str, ...]
    filters: tuple[str, ...]
    rows: int
    docs: int

    @property
    def metrics(self) -> list[str]:
        return [name.removeprefix(METRIC_COLUMN) for name in self.columns if name.startswith(METRIC_COLUMN)]

    def column(self, metric: str) -> str:
        """The quoted column of a metric of this file."""
        return quoted(METRIC_COLUMN + (metric if metric in self.metrics else self.metrics[0]))


@dataclass(frozen=True)
class SampleQuery:
    """What a page of samples shows. Everything is in the URL."""

    filter: str = ""
    only: str = ""
    metric: str = ""
    text: str = ""
    sort: str = "doc"
    descending: bool = False
    page: int = 1
    size: int = 50
    deep: bool = False
    tag: str = ""
    docs: tuple[int, ...] | None = None
    """Only these docs: those that people tagged so."""

    @property
    def offset(self) -> int:
        return (self.page - 1) * self.size


@dataclass(frozen=True)
class SamplePage:
    rows: list[SampleRecord]
    total: int
    searched: int
    """Rows looked at; fewer than the file has when time ran out."""
    complete: bool = True

    def last(self, size: int) -> int:
        return max(1, -(-self.total // size))


class Samples:
    """Queries over sample files, with what is worth keeping between requests."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._files: OrderedDict[tuple[Path, int], SampleFile] = OrderedDict()
        self._searches: OrderedDict[tuple[Any, ...], tuple[list[int], int]] = OrderedDict()
        self._lists: OrderedDict[tuple[Any, ...], array[int]] = OrderedDict()

    def open(self, path: Path) -> SampleFile:
        key = (path, path.stat().st_mtime_ns)
        if key not in self._files:
            columns = [row["column_name"] for row in self.database.rows(f"DESCRIBE SELECT * FROM {SAMPLES}", [path])]
            if missing := [name for name in REQUIRED_COLUMNS if name not in columns]:
                raise DataError(f"{path.name} does not contain samples: it has no column {missing[0]!r}")
            counts = self.database.rows(
                f"SELECT filter, count(*) AS n, min(file_row_number) AS first FROM {SAMPLES}"
                " GROUP BY filter ORDER BY first",
                [path],
            )
            self._files[key] = SampleFile(
                path=path,
                columns=tuple(name for name in columns if name != "file_row_number"),
                filters=tuple(str(row["filter"]) for row in counts),
                rows=sum(row["n"] for row in counts),
                docs=max((row["n"] for row in counts), default=0),
            )
            _trim(self._files, 256)
        return self._files[key]

    def page(self, file: SampleFile, query: SampleQuery, other: SampleFile | None = None) -> SamplePage:
        """The rows of one page, whole."""
        if query.text or query.only in LISTED:
            hits, searched = self._hits(file, query, other)
            wanted = hits[query.offset : query.offset + query.size]
            return SamplePage(self.read(file, wanted), len(hits), searched, searched >= file.rows)
        where, parameters = _where(file, query)
        total = self.database.one(f"SELECT count(*) AS n FROM {SAMPLES} s {where}", [file.path, *parameters])["n"]
        numbers = self.database.rows(
            f"SELECT file_row_number AS r FROM {SAMPLES} s {where} ORDER BY {_order(file, query)} LIMIT ? OFFSET ?",
            [file.path, *parameters, query.size, query.offset],
        )
        return SamplePage(self.read(file, [row["r"] for row in numbers]), total, file.rows)

    def read(self, file: SampleFile, numbers: Sequence[int]) -> list[SampleRecord]:
        """Whole rows by number, in that order."""
        if not numbers:
            return []
        listed = ", ".join(str(int(n)) for n in numbers)
        rows = self.database.rows(f"SELECT * FROM {SAMPLES} WHERE file_row_number IN ({listed})", [file.path])
        by_number = {row["file_row_number"]: row for row in rows}
        return [by_number[n] for n in numbers if n in by_number]

    def first_docs(self, file: SampleFile, most: int) -> list[int]:
        """The first docs of the file, in its order."""
        chosen = next(iter(file.filters), "")
        sql = f"SELECT doc_id FROM {SAMPLES} WHERE filter = ? ORDER BY file_row_number LIMIT ?"
        return [row["doc_id"] for row in self.database.rows(sql, [file.path, chosen, most])]

    def doc(self, file: SampleFile, doc_id: int) -> list[SampleRecord]:
        """All rows of a doc, one per filter."""
        return self.database.rows(
            f"SELECT * FROM {SAMPLES} WHERE doc_id = ? ORDER BY file_row_number", [file.path, doc_id]
        )

    def docs(self, file: SampleFile, doc_ids: Sequence[int]) -> dict[int, list[SampleRecord]]:
        """All rows of several docs at once."""
        found: dict[int, list[SampleRecord]] = {doc_id: [] for doc_id in doc_ids}
        listed = ", ".join(str(int(doc_id)) for doc_id in found)
        if not listed:
            return found
        sql = f"SELECT * FROM {SAMPLES} WHERE doc_id IN ({listed}) ORDER BY file_row_number"
        for row in self.database.rows(sql, [file.path]):
            found[row["doc_id"]].append(row)
        return found

    def twin(self, file: SampleFile, row: SampleRecord) -> list[SampleRecord]:
        """The rows of the same doc, by content, in another run."""
        same = self.doc(file, row["doc_id"])
        if same and same[0]["doc_hash"] == row["doc_hash"]:
            return same
        numbers = self.database.rows(
            f"SELECT file_row_number AS r FROM {SAMPLES} WHERE doc_hash = ? ORDER BY r",
            [file.path, row["doc_hash"]],
        )
        return self.read(file, [each["r"] for each in numbers])

    def at(self, file: SampleFile, query: SampleQuery, position: int, other: SampleFile | None = None) -> int | None:
        """The doc at a place in the list, for previous and next."""
        if position < 0:
            return None
        one = replace(query, page=position + 1, size=1)
        rows = self.page(file, one, other).rows
        return rows[0]["doc_id"] if rows else None

    def download(self, file: SampleFile, query: SampleQuery, other: SampleFile | None = None) -> Iterator[SampleRecord]:
        """Every row the query finds, in order, streamed. A search is carried through to the end."""
        if query.text or query.only in LISTED:
            hits, _ = self._hits(file, replace(query, deep=True), other, budget=float("inf"))
            for start in range(0, len(hits), 256):
                yield from self.read(file, hits[start : start + 256])
            return
        where, parameters = _where(file, query)
        yield from self.database.stream(
            f"SELECT * FROM {SAMPLES} s {where} ORDER BY {_order(file, query)}", [file.path, *parameters]
        )

    def _hits(
        self, file: SampleFile, query: SampleQuery, other: SampleFile | None, budget: float | None = None
    ) -> tuple[Sequence[int], int]:
        """Numbers of the rows in the query's order, and how many rows were looked at."""
        listed = self._list(file, query, other) if query.only in LISTED else None
        if listed is not None and query.docs is not None:
            where, parameters = _where(file, replace(query, only=""))
            sql = f"SELECT file_row_number AS r FROM {SAMPLES} s {where}"
            chosen_docs = {row["r"] for row in self.database.rows(sql, [file.path, *parameters])}
            listed = array("q", (n for n in listed if n in chosen_docs))
        hits: Sequence[int] = array("q") if listed is None else listed
        searched = file.rows
        if query.text:
            matches, searched = self._search(file, query, budget)
            chosen = None if listed is None else set(listed)
            hits = matches if chosen is None else array("q", (n for n in matches if n in chosen))
        return (hits if query.sort == "doc" and not query.descending else self._sorted(file, query, hits)), searched

    def _search(self, file: SampleFile, query: SampleQuery, budget: float | None) -> tuple[Sequence[int], int]:
        narrow = replace(query, page=1, size=1, deep=False, sort="doc", descending=False)
        key = (file.path, file.rows, replace(narrow, only="") if query.only in LISTED else narrow)
        hits, searched = self._searches.get(key, ([], 0))
        seconds = budget if budget is not None else 20.0 if query.deep else BUDGET
        if searched < file.rows:
            hits, searched = self._look_on(file, query, list(hits), searched, time.monotonic() + seconds)
            self._searches[key] = (hits, searched)
            _trim(self._searches, 32)
        return hits, searched

    def _look_on(
        self, file: SampleFile, query: SampleQuery, hits: list[int], start: int, until: float
    ) -> tuple[list[int], int]:
        where, parameters = _where(file, query, text=True)
        while start < file.rows and len(hits) < MOST_HITS:
            piece = self.database.rows(
                f"SELECT file_row_number AS r FROM {SAMPLES} s {where} AND file_row_number BETWEEN ? AND ? ORDER BY r",
                [file.path, *parameters, start, start + PIECE - 1],
            )
            hits += [row["r"] for row in piece]
            start += PIECE
            if time.monotonic() > until:
                break
        return hits, min(start, file.rows)

    def _list(self, file: SampleFile, query: SampleQuery, other: SampleFile | None) -> array[int]:
        """Rows on which filters disagree, or whose verdict differs in the other run, in the order of the file."""
        key = (
            file.path,
            file.rows,
            query.only,
            query.metric,
            query.filter,
            None if other is None else (other.path, other.rows),
        )
        if key not in self._lists:
            self._lists[key] = array("q", self._find_list(file, query, other))
            _trim(self._lists, 16)
        return self._lists[key]

    def _find_list(self, file: SampleFile, query: SampleQuery, other: SampleFile | None) -> list[int]:
        if not file.metrics:
            return []
        if query.only == "disagree":
            column = file.column(query.metric)
            inner = f"SELECT doc_id FROM {SAMPLES} GROUP BY doc_id HAVING min({column}) <> max({column})"
            chosen = "AND filter = ?" if query.filter else ""
            sql = f"SELECT file_row_number AS r FROM {SAMPLES} WHERE doc_id IN ({inner}) {chosen} ORDER BY r"
            files = [file.path, file.path]
            return [row["r"] for row in self.database.rows(sql, [*files, query.filter] if chosen else files)]
        if other is None or query.metric not in other.metrics:
            return []
        # Runs of one task mostly have their docs in the same order; walking both files side by side costs half a join.
        matched, rows = self._changed(
            file, query, other, "POSITIONAL JOIN", "WHERE a.doc_hash = b.doc_hash AND a.filter = b.filter"
        )
        if matched < (min(file.docs, other.docs) if query.filter else min(file.rows, other.rows)):
            _, rows = self._changed(
                file, query, other, "JOIN", "ON a.doc_hash = b.doc_hash AND a.filter = b.filter WHERE true"
            )
        return sorted(set(rows))  # a doc that occurs twice meets its copies too

    def _changed(
        self, file: SampleFile, query: SampleQuery, other: SampleFile, join: str, where: str
    ) -> tuple[int, list[int]]:
        here, there = f"a.{file.column(query.metric)} >= {HALF}", f"b.{other.column(query.metric)} >= {HALF}"
        change = {
            "flips": f"({here}) <> ({there})",
            "gained": f"NOT ({here}) AND ({there})",
            "lost": f"({here}) AND NOT ({there})",
        }[query.only]
        chosen = "AND a.filter = ?" if query.filter else ""
        files = [file.path, other.path]
        matched = self.database.one(
            f"SELECT count(*) AS n, list(a.file_row_number) FILTER ({change}) AS rows"
            f" FROM {SAMPLES} a {join} {SAMPLES} b {where} {chosen}",
            [*files, query.filter] if chosen else files,
        )
        return matched["n"], matched["rows"] or []

    def _sorted(self, file: SampleFile, query: SampleQuery, hits: Sequence[int]) -> Sequence[int]:
        if not hits:
            return hits
        listed = ", ".join(map(str, hits))
        rows = self.database.rows(
            f"SELECT file_row_number AS r FROM {SAMPLES} s WHERE file_row_number IN ({listed})"
            f" ORDER BY {_order(file, query)}",
            [file.path],
        )
        return [row["r"] for row in rows]


def _order(file: SampleFile, query: SampleQuery) -> str:
    direction = "DESC" if query.descending else "ASC"
    if query.sort == "length":
        return f"length(resps) {direction}, file_row_number"
    if query.sort.startswith(METRIC_COLUMN) and query.sort in file.columns:
        return f"{quoted(query.sort)} {direction} NULLS LAST, file_row_number"
    return f"file_row_number {direction}"


def _where(file: SampleFile, query: SampleQuery, *, text: bool = False) -> tuple[str, list[Any]]:
    clauses: list[str] = ["true"]
    parameters: list[Any] = []
    if query.filter:
        clauses.append("s.filter = ?")
        parameters.append(query.filter)
    if query.docs is not None:
        clauses.append(f"s.doc_id IN ({', '.join(str(int(doc)) for doc in query.docs) or 'NULL'})")
    if query.only in FLAGS:
        clauses.append("list_contains(s.flags, ?)")
        parameters.append(query.only)
    if query.only in ("wrong", "right") and file.metrics:
        clauses.append(f"s.{file.column(query.metric)} {'<' if query.only == 'wrong' else '>='} {HALF}")
    if text:
        needle = json.dumps(query.text, ensure_ascii=False)[1:-1].lower()
        columns = [name for name in ("arguments", "resps", "target", "doc", "filtered_resps") if name in file.columns]
        clauses.append("(" + " OR ".join(f"contains(lower(s.{name}), ?)" for name in columns) + ")")
        parameters += [needle] * len(columns)
    return "WHERE " + " AND ".join(clauses), parameters


def _trim(cache: OrderedDict[Any, Any], most: int) -> None:
    while len(cache) > most:
        cache.popitem(last=False)
