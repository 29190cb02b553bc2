"""What people say of gold answers: whether the published one is right.

A file has one JSON object a line, and may also hold verdicts on answers, which have an `answer_hash`:

    {"task": "mmlu_anatomy", "doc_hash": "9f…", "gold": "right", "weight": 12.5}
    {"task": "mmlu_anatomy", "doc_hash": "3c…", "gold": "wrong", "answer": 2, "weight": 12.5}

The docs must be drawn at random, with chances in proportion to 1/weight; `assay judge label RUN --gold` draws them so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from assay.errors import ConfigError, did_you_mean
from assay.scoring.judges import read_rows

GOLD_VERDICTS = ("right", "wrong", "ambiguous", "cannot tell")
_FORM = (
    'Each line is {"doc_hash": "…", "gold": "right"}, or "wrong" with the right "answer", "ambiguous", "cannot tell"; '
    "`assay judge label RUN --gold` writes them."
)


@dataclass(frozen=True)
class GoldLabel:
    """What somebody says of the gold answer of a doc."""

    verdict: str
    answer: Any = None
    """Where it is wrong, the right one: the place of a choice, or a text; None where no choice is right."""
    weight: float = 1.0
    """How many docs it stands for, beside the others."""

    @property
    def says_something(self) -> bool:
        return self.verdict != "cannot tell"

    @property
    def has_answer(self) -> bool:
        """Whether the doc has a right answer: the published one or another."""
        return self.verdict == "right" or (self.verdict == "wrong" and self.answer is not None)


def gold_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a file that are about gold answers."""
    for place, row in read_rows(path, "labels", _FORM):
        if "gold" not in row:
            continue
        if not isinstance(row.get("doc_hash"), str):
            raise ConfigError(f"{place} has no doc_hash", hint=_FORM)
        if row["gold"] not in GOLD_VERDICTS:
            near = did_you_mean(str(row["gold"]), GOLD_VERDICTS) or _FORM
            raise ConfigError(f"{place}: gold is {row['gold']!r}, expected {', '.join(GOLD_VERDICTS)}", hint=near)
        weight = row.get("weight", 1.0)
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not (isfinite(weight) and weight > 0):
            raise ConfigError(f"{place}: weight is {weight!r}, expected a number above 0", hint=_FORM)
        yield row


def gold_labels(paths: Iterable[str | Path]) -> Mapping[str | None, dict[str, GoldLabel]]:
    """By task (None: any) and doc hash. Of several labels of one doc the last counts: people change their minds."""
    found: dict[str | None, dict[str, GoldLabel]] = {}
    for path in paths:
        for row in gold_rows(Path(path)):
            label = GoldLabel(row["gold"], row.get("answer"), float(row.get("weight", 1.0)))
            found.setdefault(row.get("task"), {})[row["doc_hash"]] = label
    return found
