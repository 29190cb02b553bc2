"""Docs of a run whose gold answers a person is to check, blind to what models answered: drawn at random, or with chances that are given."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

from assay.config import RunConfig
from assay.errors import ConfigError
from assay.finished import stored_docs
from assay.paths import parse_json, read_regular
from assay.results import RunDirectory
from assay.run import make_plan, manager_for
from assay.scoring import GOLD_VERDICTS, gold_rows
from assay.tasks import NO_GOLD, DocRequests, RequestOptions, Task, bare_name, derive_question, gold_index, shuffle_of
from assay.templates import get_n_letters

MOST = 64 << 20
_RIGHT, _WRONG, *_REST = GOLD_VERDICTS


@dataclass(frozen=True)
class GoldItem:
    """One doc: its question, its choices, and the answer that is published as right."""

    task: str
    doc_hash: str
    weight: float
    question: str
    choices: tuple[str, ...]
    gold: Any
    """The place of the choice that is published as right; a text where there are no choices."""

    answer_hash = ""
    about = "What models answered is not shown."
    after = "Score runs with --labels FILE: every score then has its value under the right answers beside it."

    @property
    def key(self) -> tuple[str, str]:
        return self.doc_hash, ""

    @property
    def texts(self) -> tuple[tuple[str, str], ...]:
        letters = get_n_letters(len(self.choices))
        listed = "\n".join(f"{letter}. {choice}" for letter, choice in zip(letters, self.choices))
        published = f"{letters[self.gold]}. {self.choices[self.gold]}" if self._is_among else str(self.gold)
        return (
            ("question", self.question),
            *((("choices", listed),) if listed else ()),
            ("published answer", published),
        )

    @property
    def _is_among(self) -> bool:
        return isinstance(self.gold, int) and 0 <= self.gold < len(self.choices)

    @property
    def buttons(self) -> list[tuple[str, str, str]]:
        """Key, verdict and words."""
        letters = get_n_letters(len(self.choices))
        others = [
            (letter.lower(), f"{_WRONG} {place}", f"{letter} is right")
            for place, letter in enumerate(letters)
            if place != self.gold and len(letter) == 1 and letter != "U"
        ]
        none = [("2", _WRONG, "no choice is right")] if self.choices else []
        return [("1", _RIGHT, "right"), *others, *none, *((str(i), word, word) for i, word in enumerate(_REST, 3))]

    @property
    def asks_for(self) -> str:
        """What may be typed in place of a button."""
        return "" if self.choices else "Wrong; the right answer is"

    def row(self, verdict: str) -> dict[str, Any] | None:
        """The line of the label file; None where there is no such verdict."""
        line = {"task": bare_name(self.task), "doc_hash": self.doc_hash, "weight": round(self.weight, 6)}
        if verdict in GOLD_VERDICTS and (self.choices or verdict != _WRONG):
            return {**line, "gold": verdict}
        if not self.choices:
            return {**line, "gold": _WRONG, "answer": verdict} if verdict.strip() else None
        word, _, place = verdict.partition(" ")
        if word != _WRONG or not place.isdigit() or not 0 <= int(place) < len(self.choices) or int(place) == self.gold:
            return None
        return {**line, "gold": _WRONG, "answer": int(place)}

    @staticmethod
    def given(path: Path) -> list[dict[str, Any]]:
        return list(gold_rows(path))


def draw_gold_items(
    run: RunDirectory, n: int, tasks: Sequence[str] = (), chances: Mapping[str, float] | None = None
) -> list[GoldItem]:
    """`n` docs of all tasks together, in the order of a hash of their content: two runs get the same, and whoever stops early
    has a random part. `chances` are by doc hash, and decide half of the draw; a doc that they lack has the least of them."""
    about = run.read_json("run.json") or {}
    config = RunConfig(**{**about.get("config", {}), "run_dir": None, "output_path": None})
    plan = make_plan(config, None, manager_for(config), about=about.get("model") or {})
    least = min((chances or {}).values(), default=1.0)
    found: dict[str, tuple[float, str, int]] = {}
    docs: dict[str, list[Any]] = {}
    for name, planned in plan.tasks.items():
        path = run.sample_file(name)
        if name in plan.floor_tasks or (tasks and name not in tasks) or not path.is_file():
            continue
        docs[name] = []
        for _, (digest, _, text, *_) in stored_docs(path):
            found.setdefault(digest, ((chances or {}).get(digest, least), name, len(docs[name])))
            docs[name].append(json.loads(text))
        planned.task.config = planned.task.config.override(num_fewshot=0)
        planned.task.eval_docs = docs[name]
    if not found:
        raise ConfigError(f"{run.path} has no docs to check", hint="Name a run that stored its samples.")
    if chances and chances.keys().isdisjoint(found):
        raise ConfigError(
            f"none of the docs of {run.path} has a chance of its own",
            hint="`assay rank RUNS --suspects_docs FILE` writes them, by the docs of runs that stored their samples.",
        )
    # Half of the draw is even, so that no doc stands for more than twice as many as in an even draw.
    given = sum(chance for chance, _, _ in found.values())
    found = {digest: (chance / given + 1 / len(found), name, at) for digest, (chance, name, at) in found.items()}
    total = sum(chance for chance, _, _ in found.values())
    drawn = sorted(found, key=lambda digest: _place(digest) / found[digest][0])[:n]
    items = []
    for digest in drawn:
        chance, name, place = found[digest]
        task = plan.tasks[name].task
        requests = next(iter(task.iter_requests(RequestOptions(num_fewshot=0, only=[place]))))
        items.append(_item(task, requests, digest, max(1.0, total / (len(drawn) * chance))))
    return items


def _place(doc_hash: str) -> float:
    digest = hashlib.sha256(f"gold label {doc_hash}".encode()).hexdigest()
    return (int(digest[:13], 16) + 1) / 16**13


def _item(task: Task, requests: DocRequests, digest: str, weight: float) -> GoldItem:
    first = requests.instances[0]
    shuffle = shuffle_of(task.config)
    if shuffle is not None:  # the places of labels are those of the doc, not of the order in which choices are shown
        asked = shuffle.questions(requests.doc)
        return GoldItem(task.task_name, digest, weight, asked.text, tuple(asked.choices), asked.correct_index)
    context = first.arguments[0]
    text = context if isinstance(context, str) else "\n".join(str(message.content) for message in context)
    if first.choices is None:
        return GoldItem(task.task_name, digest, weight, text, (), requests.target)
    if task.multiple_input:
        contexts = tuple("".join(map(str, each.arguments[:2])) for each in requests.instances)
        return GoldItem(task.task_name, digest, weight, "Which is right?", contexts, first.target)
    gold = NO_GOLD if isinstance(first.target, list) else gold_index(first.target, first.choices)
    asked = derive_question(text, first.choices, gold)
    item = GoldItem(task.task_name, digest, weight, asked.text, tuple(asked.choices), gold)
    return item if gold != NO_GOLD else replace(item, gold=str(first.target))


def read_chances(path: Path) -> dict[str, float]:
    """Doc hash to chance, as `assay rank --suspects_docs` writes them."""
    form = 'It is one JSON object: {"DOC_HASH": 0.2, …}.'
    try:
        given = parse_json(read_regular(path, MOST).decode())
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {error}", hint=form) from error
    if not isinstance(given, dict) or not given:
        raise ConfigError(f"{path} has no chances by doc hash", hint=form)
    for digest, chance in given.items():
        if isinstance(chance, bool) or not isinstance(chance, int | float) or not 0 < chance < inf:
            raise ConfigError(
                f"{path}: the chance of {digest[:12]}… is {chance!r}, expected a number above 0", hint=form
            )
    return {digest: float(chance) for digest, chance in given.items()}
