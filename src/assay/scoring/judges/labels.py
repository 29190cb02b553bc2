"""Verdicts that people gave on some of the answers, by which a judge is checked and its scores are corrected.

A file has one JSON object a line:

    {"task": "demo_open", "doc_hash": "9f…", "answer_hash": "3c…", "verdict": "correct"}

A label belongs to a doc *and* to the answer that was read: another answer to the same doc needs a label of its own. The
docs that have labels must be a random part of all docs; `assay label RUN` draws them so.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assay.errors import ConfigError

_FORM = 'Each line is {"doc_hash": "…", "answer_hash": "…", "verdict": "correct"}; `assay label RUN` writes them.'


def answer_hash(texts: Sequence[str]) -> str:
    """Of the answer that is judged; of all answers of a conversation; of both answers of a pair.

    >>> answer_hash(["42"])[:12]
    'd646f2fabdd1'
    """
    return hashlib.sha256(json.dumps(list(texts), ensure_ascii=False).encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class Labels:
    """Verdicts by doc and answer; several people may have judged the same answer."""

    verdicts: Mapping[tuple[str, str], Sequence[Any]] = field(default_factory=dict)
    docs: frozenset[str] = frozenset()

    def of(self, doc_hash: str, texts: Sequence[str]) -> Sequence[Any]:
        return self.verdicts.get((doc_hash, answer_hash(texts)), ())

    @classmethod
    def read(cls, paths: Iterable[str | Path], task: str) -> Labels:
        """Those of one task; a line that names no task is for any."""
        verdicts: dict[tuple[str, str], list[Any]] = {}
        for path in paths:
            for row in _rows(Path(path)):
                if row.get("task") in (None, task):
                    verdicts.setdefault((row["doc_hash"], row["answer_hash"]), []).append(row["verdict"])
        return cls(verdicts, frozenset(doc for doc, _ in verdicts))


def _rows(path: Path) -> Iterable[dict[str, Any]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"labels: {path} cannot be read: {error}", hint=_FORM) from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise ConfigError(f"labels: {path}, line {number} is not valid JSON: {error}", hint=_FORM) from error
        missing = [key for key in ("doc_hash", "answer_hash", "verdict") if not isinstance(row, dict) or key not in row]
        if missing:
            raise ConfigError(f"labels: {path}, line {number} has no {missing[0]}", hint=_FORM)
        yield row
