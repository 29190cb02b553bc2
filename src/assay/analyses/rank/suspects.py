"""Docs whose published gold answer is probably wrong, by the answers of several runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.analyses.rank.engine import RankOptions, common_key
from assay.errors import ConfigError
from assay.finished import AnsweredDoc, Run
from assay.results import MetricKey
from assay.scoring import GoldLabel, gold_labels
from assay.show import Column, Findings, Table, kinds
from assay.show.kinds import Link, Linked
from assay.stats import NO_ANSWER, OTHER, calibrated, suspicion
from assay.tasks import bare_name

FEWEST = 3
"""Runs, below which alike says nothing."""
_NO_CHOICES = 5
"""Answers that a doc without choices is taken to allow, at least."""


@dataclass(frozen=True)
class Suspect:
    """One doc."""

    task: str
    doc_id: int
    doc_hash: str
    name: str
    """What a table of scores calls it; elsewhere its id."""
    published: str
    likely: str | None
    """The answer that is probably right; None where only scores are known."""
    alike: int
    """Runs that gave it."""
    right: int
    """Runs that gave the published one."""
    runs: int
    probability: float
    """That the published answer is wrong."""
    label: str | None
    """What people say."""

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass(frozen=True)
class Suspects:
    """All docs, the most suspect first."""

    docs: tuple[Suspect, ...]
    runs: int
    labels: int
    """By which the probabilities are calibrated."""
    shown: int = 20
    place: str = ""

    @property
    def expected(self) -> float:
        """How many published answers are wrong, by these probabilities."""
        return sum(doc.probability for doc in self.docs)

    def chances(self) -> dict[str, float]:
        """By doc hash, for drawing docs to check."""
        return {doc.doc_hash: max(1e-6, round(doc.probability, 6)) for doc in self.docs}

    def to_dict(self) -> dict[str, Any]:
        return {
            "runs": self.runs,
            "labels": self.labels,
            "docs": len(self.docs),
            "expected_wrong": self.expected,
            "suspects": [doc.to_dict() for doc in self.docs[: self.shown]],
        }


@dataclass
class _Doc:
    doc_id: int
    doc_hash: str
    name: str
    published: str
    options: int
    answers: dict[int, str | None]
    """By run; None for an answer of which only that it is wrong is known."""
    right: set[int]


def find_suspects(runs: Sequence[Run], options: RankOptions, shown: int = 20) -> Suspects:
    """Docs that able runs answer alike and against the published answer, in all tasks that the runs share."""
    if len(runs) < FEWEST:
        raise ConfigError(f"{len(runs)} runs are too few to suspect a gold answer", hint=f"Name {FEWEST} or more.")
    shared = [task for task in runs[0].tasks if all(task in run.tasks for run in runs)]
    tasks = [task for task in shared if not options.tasks or task in options.tasks]
    if not tasks:
        raise ConfigError("the runs have no such task in common", hint=f"They share {', '.join(shared[:5]) or 'none'}.")
    labels = gold_labels(options.labels)
    found: list[Suspect] = []
    used = 0
    for task in tasks:
        own = {
            digest: label
            for name, of in labels.items()
            if name is None or bare_name(name) == bare_name(task)
            for digest, label in of.items()
        }
        docs, count = _of_task(runs, task, common_key(runs, task, options.metric), own)
        found += docs
        used += count
    if not found:
        raise ConfigError(
            f"{', '.join(tasks)}: no doc is right or wrong in {FEWEST} runs",
            hint="Suspects need scores of 0 and 1; --metric names another.",
        )
    ordered = sorted(found, key=lambda doc: -doc.probability)
    return Suspects(tuple(ordered), len(runs), used, shown, str(runs[0].path))


def _of_task(
    runs: Sequence[Run], task: str, key: MetricKey, labels: Mapping[str, GoldLabel]
) -> tuple[list[Suspect], int]:
    docs = [doc for doc in _docs(runs, task, key).values() if len(doc.answers) >= FEWEST]
    if not docs:
        return [], 0
    answers = np.full((len(runs), len(docs)), NO_ANSWER, dtype=np.int64)
    names: list[list[str]] = []
    for at, doc in enumerate(docs):
        codes = {doc.published: 0}
        for run, answer in doc.answers.items():
            is_right = run in doc.right
            answers[run, at] = 0 if is_right else OTHER if answer is None else codes.setdefault(answer, len(codes))
        names.append([*codes])
    allowed = np.array([max(doc.options, len(each), 2) for doc, each in zip(docs, names)], dtype=np.int64)
    seen = suspicion(answers, np.zeros(len(docs), dtype=np.int64), allowed)
    checked = [(at, labels[doc.doc_hash]) for at, doc in enumerate(docs) if doc.doc_hash in labels]
    checked = [(at, label) for at, label in checked if label.says_something]
    places = [at for at, _ in checked]
    wrong = np.array([float(label.verdict != "right") for _, label in checked])
    intercept, slope = calibrated(seen.log_odds[places], wrong, np.array([label.weight for _, label in checked]))
    odds = intercept + slope * seen.log_odds
    probabilities = 1 / (1 + np.exp(-odds))
    made = []
    for at, doc in enumerate(docs):
        likely = int(seen.likely[at])
        alike = int((answers[:, at] == likely).sum())
        made.append(
            Suspect(
                task,
                doc.doc_id,
                doc.doc_hash,
                doc.name,
                doc.published,
                names[at][likely] if 0 <= likely < len(names[at]) else None,
                alike,
                len(doc.right),
                len(doc.answers),
                float(probabilities[at]),
                labels[doc.doc_hash].verdict if doc.doc_hash in labels else None,
            )
        )
    return made, len(checked)


def _docs(runs: Sequence[Run], task: str, key: MetricKey) -> dict[str, _Doc]:
    """By doc hash, what each run answered."""
    found: dict[str, _Doc] = {}
    for number, run in enumerate(runs):
        for doc in run.docs(task, key.filter):
            value = doc.metrics.get(key.metric)
            if value is None or value not in (0, 1):
                continue
            published, answer, options = _answer(doc)
            if (entry := found.get(doc.doc_hash)) is None:
                name = str(doc.doc_id)
                if run.format == "table":
                    name, options = doc.doc["doc"], doc.doc.get("options", options)
                entry = _Doc(doc.doc_id, doc.doc_hash, name, published, options or _NO_CHOICES, {}, set())
                found[doc.doc_hash] = entry
            entry.answers[number] = answer
            if value == 1:
                entry.right.add(number)
    return found


def _answer(doc: AnsweredDoc) -> tuple[str, str | None, int]:
    """The published answer, the given one (None where it is not known), and how many choices there are (0: none)."""
    scored = [
        (request.continuation, draws[0][0])
        for request, draws in zip(doc.requests, doc.responses)
        if draws and isinstance(draws[0], list | tuple) and request.prompt != ""
    ]
    if len(scored) > 1:
        names = [str(name).strip() for name, _ in scored]
        taken = max(range(len(scored)), key=lambda i: scored[i][1])
        target = doc.target
        if isinstance(target, int) and 0 <= target < len(names):
            target = names[target]
        return str(target), names[taken], len(scored)
    left = next(_texts(doc.filtered), None)
    given = None if left is None or left.strip() in ("", "[invalid]") else left.strip()
    return "" if doc.target is None else str(doc.target), given, 0


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)


def suspect_findings(suspects: Suspects) -> Findings:
    """The most suspect docs, with what is published and what runs say."""
    columns: tuple[Column[Suspect], ...] = (
        Column("task", kinds.TEXT, lambda doc: doc.task, "task", shrinks=True),
        Column("doc", kinds.LINK, lambda doc: Linked(doc.name, Link(suspects.place, doc.task, doc.doc_id)), "doc_id"),
        Column("published", kinds.TEXT, lambda doc: _short(doc.published), "published", shrinks=True),
        Column("runs say", kinds.TEXT, lambda doc: _short(doc.likely or "another"), "likely", shrinks=True),
        Column("alike", kinds.TEXT, lambda doc: f"{doc.alike} of {doc.runs}" if doc.likely else "", "alike"),
        Column("published by", kinds.COUNT, lambda doc: doc.right, "right", rank=2),
        Column("P(wrong)", kinds.PROBABILITY, lambda doc: doc.probability, "probability"),
        Column("label", kinds.TEXT, lambda doc: doc.label or "", "label", rank=1),
    )
    how = (
        f"calibrated on {suspects.labels:,} labels"
        if suspects.labels
        else "not calibrated: --labels gives people's labels of gold answers, and assay judge label RUN --gold makes them"
    )
    notes = (
        f"P(wrong): that the published answer is wrong, from the answers of {suspects.runs} runs; {how}. Look before you correct: runs "
        "may share a mistake.",
        f"Over all {len(suspects.docs):,} docs these come to {suspects.expected:.1f} wrong answers.",
    )
    table = Table.of(columns, suspects.docs[: suspects.shown])
    return Findings("Docs whose gold answer may be wrong", tables=(table,), notes=notes, result=suspects)


def _short(text: str, most: int = 40) -> str:
    one = " ".join(text.split())
    return one if len(one) <= most else f"{one[: most - 1]}…"


def chances_json(suspects: Suspects) -> bytes:
    return json.dumps(suspects.chances()).encode()
