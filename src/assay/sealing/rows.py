"""Samples in a bundle: JSON lines, one a doc and filter, as the run's sample file has them, less what would be null."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from assay.data import doc_hash
from assay.errors import ConfigError
from assay.results import GOLD_COLUMN, GOLD_WEIGHT, LABEL_COLUMN, SampleRow, numbers_of, read_samples
from assay.sealing.archive import loads

DOC_FIELDS = ("doc", "target", "arguments")
"""What a bundle without docs leaves out."""
TEXTS = ("doc_hash", "request_hash", "filter", "resps", "filtered_resps", "stops", "tokens", "extras", "questions")


def write_rows(samples: Path, target: Path, *, docs: bool) -> None:
    """The rows of a sample file as JSON lines."""
    with target.open("w", encoding="utf-8", newline="\n") as out:
        for row in read_samples(samples):
            sealed = {name: value for name, value in row.items() if value is not None}
            if not docs:
                sealed = {name: value for name, value in sealed.items() if name not in DOC_FIELDS}
                if "questions" in sealed:  # they quote the doc; their hashes and the verdicts stay
                    bare = [{**each, "arguments": []} for each in json.loads(sealed["questions"])]
                    sealed["questions"] = json.dumps(bare, ensure_ascii=False)
            out.write(json.dumps(sealed, ensure_ascii=False, sort_keys=True, separators=(",", ":")) + "\n")


def read_rows(path: Path, name: str) -> Iterator[dict[str, Any]]:
    """The rows of a bundle's member, each checked for being one."""
    with path.open(encoding="utf-8", errors="surrogatepass") as file:
        for number, line in enumerate(file, 1):
            try:
                row = loads(line)
                if not isinstance(row["doc_id"], int) or any(not isinstance(row.get(key, ""), str) for key in TEXTS):
                    raise TypeError("a field has the wrong type")
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise ConfigError(f"the bundle's {name}, line {number}, is not a sample: {error}") from error
            yield row


def sample_of(row: dict[str, Any]) -> SampleRow:
    """A row of a bundle as a row of the sample file that the run wrote."""
    optional = ("stops", "tokens", "extras", "questions", "failure", "cluster")
    return SampleRow(
        doc_id=row["doc_id"],
        doc_hash=row.get("doc_hash", ""),
        request_hash=row.get("request_hash", ""),
        filter=row.get("filter", ""),
        doc=row.get("doc", "null"),
        target=row.get("target", "null"),
        arguments=row.get("arguments", "[]"),
        resps=row.get("resps", "[]"),
        filtered_resps=row.get("filtered_resps", "[]"),
        flags=tuple(row.get("flags", ())),
        metrics={name: float(value) for name, value in numbers_of(row).items()},
        labels={name: float(value) for name, value in numbers_of(row, LABEL_COLUMN).items()},
        gold={name: float(value) for name, value in numbers_of(row, GOLD_COLUMN).items()},
        gold_weight=row.get(GOLD_WEIGHT),
        other=json.loads(row["other"]) if "other" in row else {},
        **{name: row[name] for name in optional if name in row},
    )


def sealed_docs(rows: Iterator[dict[str, Any]], total: int) -> list[Any]:
    """The docs of a task at their places. At places that the run has no requests for stand docs of no content that matters:
    nobody looks there, but for the names of their fields, and for whether two of them are equal."""
    known = {row["doc_id"]: json.loads(row["doc"]) for row in rows}
    if not known:
        return []
    first = known[min(known)]
    places = range(max(total, max(known) + 1))
    return [known.get(place, {**first, "\0place": place}) for place in places]


def wrong_doc_hashes(rows: Iterator[dict[str, Any]]) -> Iterator[int]:
    """Docs that are not those of their hash."""
    for row in rows:
        if "doc" in row and doc_hash(json.loads(row["doc"])) != row.get("doc_hash"):
            yield row["doc_id"]
