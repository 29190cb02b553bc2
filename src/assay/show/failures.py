"""The docs of a run to look at first: for each task those with the worst scores, surest mistakes before others."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.instance import is_chat
from assay.results import RunResult, TaskResult, kept_arguments

MOST_ROWS = 5_000
"""Rows of a task that are looked at: a report is written at the end of every demo."""
MOST_DOCS, MOST_TASKS = 3, 40
LONGEST = 600


@dataclass(frozen=True)
class Failure:
    task: str
    doc_id: int
    metric: str
    score: float
    question: str
    target: str
    answer: str
    flags: tuple[str, ...] = ()


def worst_failures(result: RunResult) -> dict[str, list[Failure]]:
    """By task, where there are any; nothing where a run kept no samples."""
    if result.place is None:
        return {}
    found = {}
    for name, task in list(result.tasks.items())[:MOST_TASKS]:
        if failures := list(_failures(result.place, name, task)):
            found[name] = failures
    return found


def _failures(directory: Path, name: str, task: TaskResult) -> Iterator[Failure]:
    key, score = next(iter(task.scores.items()), (None, None))
    place = (directory / task.sample_file).resolve() if task.sample_file else None
    if key is None or score is None or score.higher_is_better is None or place is None:
        return
    if not place.is_relative_to(directory.resolve()) or not place.is_file():
        return  # a run may be anybody's: its files lie in its directory
    import pyarrow as pa
    import pyarrow.parquet as pq

    column = f"metric:{key.metric}"
    file = pq.ParquetFile(place)
    if column not in file.schema_arrow.names:
        return
    batch = next(file.iter_batches(MOST_ROWS, columns=["filter", "resps", column]), None)
    if batch is None:
        return
    rows = [
        (value if score.higher_is_better else -value, -_surety(resps), number)
        for number, (chain, resps, value) in enumerate(zip(*(each.to_pylist() for each in batch.columns)))
        if chain == key.filter and isinstance(value, int | float) and math.isfinite(value)
    ]
    best = 0.5 if score.higher_is_better else -math.inf
    chosen = [number for worth, _, number in sorted(rows)[:MOST_DOCS] if worth < best or best == -math.inf]
    names = ["doc_id", "target", "arguments", "filtered_resps", "flags", column]
    whole = next(file.iter_batches(MOST_ROWS, columns=names))
    for row in whole.take(pa.array(chosen, pa.int64())).to_pylist():
        yield Failure(
            task=name,
            doc_id=row["doc_id"],
            metric=key.metric,
            score=row[column],
            question=_question(row["arguments"]),
            target=_short(_plain(row["target"])),
            answer=_answer(row),
            flags=tuple(row["flags"] or ()),
        )


def _surety(resps: str) -> float:
    """How far ahead the likeliest choice is: a mistake made with confidence is worth a look before a toss-up."""
    try:
        pairs = [draws[0][0] for draws in json.loads(resps)]
        first, second = sorted((float(ll) for ll in pairs), reverse=True)[:2]
    except (ValueError, TypeError, LookupError):
        return 0.0
    return first - second if math.isfinite(first - second) else 0.0


def _requests(text: str) -> list[list[Any]]:
    try:
        return kept_arguments(text)
    except (ValueError, LookupError, TypeError, AttributeError):
        return []


def _question(text: str) -> str:
    requests = _requests(text)
    first = requests[0][0] if requests else ""
    # Of a chat what was said last: the turns before it are the same for every doc.
    shown = _said(first[-1].content) if is_chat(first) and first else str(first)
    return f"…{shown[-LONGEST:]}" if len(shown) > LONGEST else shown


def _said(content: Any) -> str:
    """The text of a message; of parts that are no text the kind."""
    if isinstance(content, str):
        return content
    parts = [part if isinstance(part, Mapping) else {"text": str(part)} for part in content]
    return " ".join(str(part["text"]) if "text" in part else f"[{part.get('type', 'part')}]" for part in parts)


def _answer(row: Mapping[str, Any]) -> str:
    value = _plain(row["filtered_resps"])
    items = value if isinstance(value, list) else [value]
    pairs = [item for item in items if isinstance(item, list) and len(item) == 2 and isinstance(item[1], bool)]
    requests = _requests(row["arguments"])
    if len(pairs) > 1 and len(pairs) == len(items) and len(requests) >= len(pairs):
        best = max(range(len(pairs)), key=lambda i: float(pairs[i][0]))
        return _short(requests[best][-1])
    return _short(items[0] if len(items) == 1 else value)


def _plain(text: str | None) -> Any:
    try:
        return None if text is None else json.loads(text)
    except ValueError:
        return text


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
