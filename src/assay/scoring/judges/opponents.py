"""The answers that a pairwise judge compares with: those of another run, or of a file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.errors import ConfigError
from assay.results import RunDirectory, read_columns
from assay.scoring.judges.labels import read_rows

_FORM = 'Use a run directory, or a JSONL file with {"doc_hash": "…", "answer": "…"} (or doc_id) on each line.'


@dataclass(frozen=True)
class Opponent:
    """Answers by the hash of the doc, or where a file has none by its position."""

    by_hash: dict[str, str]
    by_id: dict[int, str]

    def answer(self, doc_hash: str, doc_id: int) -> str | None:
        return self.by_hash.get(doc_hash, self.by_id.get(doc_id))

    @classmethod
    def read(cls, given: str, task: str, filter_name: str) -> Opponent:
        path = Path(given).expanduser()
        if path.is_dir():
            return cls(dict(_of_run(RunDirectory.open(path), task, filter_name)), {})
        if path.is_file():
            return _of_file(path)
        raise ConfigError(f"the opponent {given!r} does not exist", hint=_FORM)


def _of_run(run: RunDirectory, task: str, filter_name: str) -> Iterator[tuple[str, str]]:
    """Under the same filter where the run has it, else under its first: the first row of a doc is of that."""
    path = run.sample_file(task)
    if not path.is_file():
        raise ConfigError(f"the opponent {run.path} kept no samples of {task!r}", hint=_FORM)
    seen: dict[str, str] = {}
    for doc_hash, name, text, raw in read_columns(path, ["doc_hash", "filter", "filtered_resps", "resps"]):
        if name == filter_name or doc_hash not in seen:
            left = json.loads(text)
            # A run of answers only (`--predict_only`) applied no filter.
            seen[doc_hash] = _text(json.loads(raw) if all(each is None for each in left) else left)
    yield from seen.items()


def _text(responses: Any) -> str:
    """The last request's answer, which ends a conversation; the first of several draws."""
    last = responses[-1] if isinstance(responses, list) and responses else ""
    while isinstance(last, list) and last:
        last = last[0]
    return last if isinstance(last, str) else ""


def _of_file(path: Path) -> Opponent:
    by_hash: dict[str, str] = {}
    by_id: dict[int, str] = {}
    for place, row in read_rows(path, "opponent", _FORM):
        try:
            answer = row["answer"]
            if "doc_hash" in row:
                by_hash[str(row["doc_hash"])] = str(answer)
            else:
                by_id[int(row["doc_id"])] = str(answer)
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{place}: {error!r}", hint=_FORM) from error
    return Opponent(by_hash, by_id)
