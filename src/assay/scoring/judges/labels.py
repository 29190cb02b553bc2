"""Verdicts that people gave on some of the answers, by which a judge is checked and its scores are corrected.

A file has one JSON object a line:

    {"task": "demo_open", "doc_hash": "9f…", "answer_hash": "3c…", "verdict": "correct"}

A label belongs to a doc *and* to the answer that was read: another answer to the same doc needs a label of its own. The
docs that have labels must be a random part of all docs; `assay judge label RUN` draws them so.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.errors import ConfigError
from assay.paths import parse_json, read_regular
from assay.results import JudgeCheck, MetricColumn, Score
from assay.stats import corrected_mean, corrected_replicates, ends

MOST = 256 << 20
_FORM = 'Each line is {"doc_hash": "…", "answer_hash": "…", "verdict": "correct"}; `assay judge label RUN` writes them.'


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
            for row in label_rows(Path(path)):
                if row.get("task") in (None, task):
                    verdicts.setdefault((row["doc_hash"], row["answer_hash"]), []).append(row["verdict"])
        return cls(verdicts, frozenset(doc for doc, _ in verdicts))


def label_rows(path: Path) -> Iterator[dict[str, Any]]:
    for place, row in read_rows(path, "labels", _FORM):
        if "gold" in row:  # of the gold answer, not of an answer to it
            continue
        missing = [key for key in ("doc_hash", "answer_hash", "verdict") if key not in row]
        if missing:
            raise ConfigError(f"{place} has no {missing[0]}", hint=_FORM)
        if not isinstance(row["doc_hash"], str) or not isinstance(row["answer_hash"], str):
            raise ConfigError(f"{place}: doc_hash and answer_hash must be text", hint=_FORM)
        yield row


def read_rows(path: Path, what: str, form: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a JSONL file, each with its place. Task files name such files, and a stranger may have written them."""
    try:
        lines = read_regular(path, MOST).decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{what}: {path} cannot be read: {error}", hint=form) from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        place = f"{what}: {path}, line {number}"
        try:
            row = parse_json(line)
        except ValueError as error:
            raise ConfigError(f"{place} is not valid JSON: {error}", hint=form) from error
        if not isinstance(row, dict):
            raise ConfigError(f"{place} is not an object", hint=form)
        yield place, row


def checked(
    score: Score,
    column: MetricColumn,
    keys: NDArray[np.uint64],
    clusters: Sequence[Any] | NDArray[Any] | None,
    bootstrap_iters: int,
) -> Score:
    """The score corrected with labels; without enough labels, marked as unchecked.

    What groups compute from single docs (pass@k) would leave the correction out, so a corrected score has no docs to
    offer: such groups say that there are none.
    """
    labels = column.labels or {}
    opinion = JudgeCheck(len(labels), opinion=score.estimate.value)
    if not labels or score.estimate.value is None or not bootstrap_iters:
        return replace(score, judge=opinion)
    if column.aggregation.name != "mean" or not column.is_numeric:
        return replace(score, judge=replace(opinion, reason="labels correct only means"))
    verdicts = np.asarray(column.values, dtype=np.float64)
    people = np.array([labels.get(doc_id, np.nan) for doc_id in column.doc_ids])
    found = corrected_mean(verdicts, people, clusters)
    if found.estimate.undefined is not None:
        return replace(score, judge=replace(opinion, reason=found.estimate.undefined))
    check = replace(
        opinion,
        is_corrected=True,
        weight=found.weight,
        sensitivity=found.sensitivity,
        specificity=found.specificity,
    )
    return replace(
        score,
        estimate=found.estimate,
        judge=check,
        interval=lambda level: ends(corrected_mean(verdicts, people, clusters, level=level).estimate),
        replicates=corrected_replicates(verdicts, people, keys, clusters, bootstrap_iters),
        counts=None,
        samples=None,
    )
