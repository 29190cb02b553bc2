"""Overlays: versioned lists of docs whose published gold answer is wrong, or that have none, with what is to be done about each.

    overlay: mmlu-pro-2026.1
    docs:
      - {doc_hash: 9f…, task: mmlu_pro, gold: 2, why: "2 g are 0.002 kg", source: "checked by hand"}
      - {doc_hash: 3c…, exclude: true, why: "two choices are the same"}
      - {doc_hash: 77…, fields: {answer: C}, why: "…"}

The same as JSONL: `{"overlay": "…"}` in the first line, then a doc a line. An overlay changes what is scored and never what is
sent, shots included: answers that are stored serve under any overlay, and runs are compared on the same prompts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from assay.config import parse_text
from assay.data import CorrectedDoc
from assay.errors import ConfigError, did_you_mean
from assay.instance import Doc
from assay.paths import parse_json, read_regular
from assay.tasks.prompt import DocRequests
from assay.tasks.questions import NO_GOLD, gold_index

MOST = 64 << 20
_KEYS = ("doc_hash", "task", "exclude", "gold", "fields", "why", "source")
_FORM = "Each doc has doc_hash, why, and one of: exclude: true · gold: 2 (place or text of the answer) · fields: {answer: C}."


@dataclass(frozen=True)
class Correction:
    """What is said of one doc: that it is left out, that another answer is right, or that fields of it are others."""

    doc_hash: str
    place: str
    """Where it is said: file and line."""
    task: str | None = None
    exclude: bool = False
    gold: Any = None
    """The right answer: the place of a choice, or a text."""
    fields: Mapping[str, Any] = field(default_factory=dict)

    def is_of(self, task: str) -> bool:
        """Whether it is about the task, in whatever wording or variant."""
        return self.task is None or bare_name(self.task) == bare_name(task)

    def of(self, doc: Doc) -> CorrectedDoc:
        for name in self.fields:
            if name not in doc:
                near = did_you_mean(name, map(str, doc)) or f"Columns: {', '.join(map(str, doc))}."
                raise ConfigError(f"{self.place}: the doc has no field {name!r}", hint=near)
        return CorrectedDoc({**doc, **self.fields}, self.doc_hash, self.gold)


@dataclass(frozen=True)
class Overlay:
    """One file."""

    name: str
    sha256: str
    corrections: Sequence[Correction]


def bare_name(task: str) -> str:
    """
    >>> bare_name("arc_easy:cloze"), bare_name("gsm8k@0shot")
    ('arc_easy', 'gsm8k')
    """
    return re.split("[:@]", task)[0]


def read_overlay(path: str | Path) -> Overlay:
    """The overlay of a file."""
    try:
        data = read_regular(path, MOST)
        text = data.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"overlay: {path} cannot be read: {error}", hint=_FORM) from error
    head, rows = _lines(text, path) if Path(path).suffix == ".jsonl" else _document(text, Path(path))
    name = head.get("overlay")
    if not isinstance(name, str) or not name.strip():
        raise ConfigError(
            f"overlay: {path} does not say its name",
            hint="Begin it with overlay: NAME-VERSION, such as mmlu-pro-2026.1.",
        )
    corrections = [_correction(row, f"overlay: {path}, {place}") for place, row in rows]
    seen: dict[tuple[str, str | None], str] = {}
    for each in corrections:
        if (before := seen.setdefault((each.doc_hash, each.task), each.place)) != each.place:
            raise ConfigError(f"{each.place}: the doc is also in {before}", hint="Leave one of the two out.")
    return Overlay(name.strip(), sha256(data).hexdigest(), corrections)


def _lines(text: str, path: str | Path) -> tuple[Mapping[str, Any], list[tuple[str, Any]]]:
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                rows.append((f"line {number}", parse_json(line)))
            except ValueError as error:
                raise ConfigError(f"overlay: {path}, line {number} is not valid JSON: {error}", hint=_FORM) from error
    head = rows[0][1] if rows and isinstance(rows[0][1], Mapping) else {}
    return head, rows[1:]


def _document(text: str, path: Path) -> tuple[Mapping[str, Any], list[tuple[str, Any]]]:
    data = parse_text(text, path).data
    docs = data.get("docs", [])
    if not isinstance(docs, list):
        raise ConfigError(f"overlay: {path}: docs is {type(docs).__name__}, expected a list", hint=_FORM)
    return data, [(f"doc {number}", row) for number, row in enumerate(docs, 1)]


def _correction(row: Any, place: str) -> Correction:
    if not isinstance(row, Mapping):
        raise ConfigError(f"{place} is not an object", hint=_FORM)
    for key in row:
        if key not in _KEYS:
            raise ConfigError(f"{place}: unknown key {key!r}", hint=did_you_mean(str(key), _KEYS) or _FORM)
    doc_hash = row.get("doc_hash")
    if not isinstance(doc_hash, str) or re.fullmatch("[0-9a-f]{64}", doc_hash) is None:
        raise ConfigError(
            f"{place}: doc_hash is {doc_hash!r}, expected 64 hexadecimal digits",
            hint="Samples have it (doc_hash); so has the viewer's page of a doc.",
        )
    said = [key for key in ("exclude", "gold", "fields") if row.get(key) is not None and row[key] is not False]
    if len(said) != 1:
        raise ConfigError(f"{place} says {' and '.join(said) or 'nothing of what is wrong'}", hint=_FORM)
    kinds: dict[str, Any] = {"exclude": bool, "gold": int | str | list, "fields": dict}
    if not isinstance(row[said[0]], kinds[said[0]]) or (said == ["gold"] and isinstance(row["gold"], bool)):
        raise ConfigError(f"{place}: {said[0]} is {row[said[0]]!r}", hint=_FORM)
    if not isinstance(row.get("why"), str) or not row["why"].strip():
        raise ConfigError(f"{place} does not say why", hint="Add why: what is wrong with the published answer.")
    task = row.get("task")
    if task is not None and not isinstance(task, str):
        raise ConfigError(f"{place}: task is {task!r}, expected a name", hint=_FORM)
    return Correction(doc_hash, place, task, said == ["exclude"], row.get("gold"), row.get("fields") or {})


def corrected(published: DocRequests, again: DocRequests, correction: Correction) -> DocRequests:
    """The requests as published, to be scored by the corrected doc. Raises where the correction would change what is sent, or nothing."""
    if [each.arguments for each in published.instances] != [each.arguments for each in again.instances]:
        raise ConfigError(
            f"{correction.place}: the correction would change what is sent",
            hint="An overlay corrects gold answers alone; leave the doc out with exclude: true.",
        )
    golds = [[each.target for each in one.instances] for one in (published, again)]
    if correction.gold is not None and golds[0] == golds[1]:
        raise ConfigError(
            f"{correction.place}: gold {correction.gold!r} changes nothing",
            hint="It is the published answer, or the task's own code finds its answers: correct the fields that it reads.",
        )
    choices, target = again.instances[0].choices, again.instances[0].target
    if choices and any(
        gold_index(each, choices) == NO_GOLD for each in (target if isinstance(target, list) else [target])
    ):
        raise ConfigError(
            f"{correction.place}: the corrected answer is none of the doc's {len(choices)} choices: {target!r}",
            hint="Places count from 0. Where no choice is right, exclude: true leaves the doc out.",
        )
    again.doc, again._hash = published.doc, correction.doc_hash
    return again
