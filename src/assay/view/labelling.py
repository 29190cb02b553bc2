"""The page on which people judge answers, blind to the judge's verdict, with the keyboard.

It shows what the judge was shown: the fenced texts of its question. Docs are drawn by a hash of their content, so that two
runs of a task get labels on the same docs, and their difference is paired.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from assay.errors import ConfigError
from assay.finished import stored_questions
from assay.results import RunDirectory, RunResult
from assay.scoring import label_rows, read_rows, scale_from_json
from assay.view.gold_items import GoldItem
from assay.view.render import render
from assay.view.security import RequestGuard
from assay.view.server import LINKS, LOOPBACK_NAMES, listen, palette, static_directory

_FENCED = re.compile(r"^\[(\w+) ([0-9a-f]{16})\]\n(.*?)\n\[end of \1 \2\]$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Item:
    """One answer to be judged by a person."""

    task: str
    doc_hash: str
    answer_hash: str
    texts: tuple[tuple[str, str], ...]
    """Name and text of what the judge was shown."""
    allowed: dict[str, Any]

    @property
    def key(self) -> tuple[str, str]:
        return self.doc_hash, self.answer_hash

    about = "The judge's verdicts are hidden."
    after = "Score the run again with --labels FILE, or look at assay judge check RUN."

    @property
    def buttons(self) -> list[tuple[str, str, str]]:
        """Key, verdict and words."""
        keys = [*map(str, range(1, 10)), "0"]
        return [(keys[i] if i < len(keys) else "", choice, choice) for i, choice in enumerate(self.choices)]

    @property
    def asks_for(self) -> str:
        """What may be typed in place of a button."""
        return "" if self.choices else f"Verdict ({', '.join(map(str, self.allowed.get('points', ()))) or 'a grade'})"

    @property
    def choices(self) -> list[str]:
        """Verdicts with a key each: named ones, or whole grades."""
        if "words" in self.allowed:
            return list(self.allowed["words"])
        if "low" in self.allowed and self.allowed["high"] - self.allowed["low"] < 10:
            return [f"{grade:g}" for grade in range(int(self.allowed["low"]), int(self.allowed["high"]) + 1)]
        return []

    def row(self, verdict: str) -> dict[str, Any] | None:
        """The line of the label file; None where the scale has no such verdict."""
        if scale_from_json(self.allowed).read(verdict) is None:
            return None
        return {"task": self.task, "doc_hash": self.doc_hash, "answer_hash": self.answer_hash, "verdict": verdict}

    @staticmethod
    def given(path: Path) -> list[dict[str, Any]]:
        return list(label_rows(path))


def draw_items(run: RunDirectory, n: int, tasks: Sequence[str] = ()) -> list[Item]:
    """The answers of `n` docs of each judged task, drawn at random."""
    items: list[Item] = []
    for name in RunResult.load(run.path).tasks:
        path = run.sample_file(name)
        if (tasks and name not in tasks) or not path.is_file():
            continue
        docs: dict[str, list[Item]] = {}
        for _, doc_hash, questions in stored_questions(path):
            docs.setdefault(doc_hash, []).extend(_items(name, doc_hash, questions))
        judged = sorted((doc for doc in docs if docs[doc]), key=_place)
        items += [item for doc in judged[:n] for item in {item.key: item for item in docs[doc]}.values()]
    if not items:
        raise ConfigError(f"{run.path} has no judged answers", hint="Label a run of a task whose scorer is a judge.")
    return items


def _place(doc_hash: str) -> str:
    return hashlib.sha256(f"label {doc_hash}".encode()).hexdigest()


def _items(task: str, doc_hash: str, questions: str) -> Iterator[Item]:
    """One for each answer; of a conversation the last question, which shows all turns."""
    by_answer: dict[str, Item] = {}
    for question in json.loads(questions):
        note = question.get("note") or {}
        if "answer_hash" not in note or note.get("attempt") != 1 or note.get("part") == "mine second":
            continue
        texts = tuple((name, text) for name, _, text in _FENCED.findall(_prompt(question)))
        by_answer[note["answer_hash"]] = Item(task, doc_hash, note["answer_hash"], texts, note["allowed"])
    yield from by_answer.values()


def _prompt(question: dict[str, Any]) -> str:
    """As the scorer wrote it; of a chat the last message, which is JSON text here."""
    text = str(question["arguments"][0])
    if text.startswith("[{"):
        return str(json.loads(text)[-1]["content"])
    return text


class LabelBook:
    """The labels of a run, in its directory; each is on disk before the next answer is shown."""

    def __init__(self, path: Path, items: Sequence[Item | GoldItem]) -> None:
        self.path, self.items = path, list(items)
        given = items[0].given(path) if path.exists() and items else []
        written = [row for _, row in read_rows(path, "labels", "")] if path.exists() else []
        self.others = [row for row in written if row not in given]
        """Labels of another kind in the same file: they stay."""
        # In a larger draw each doc stands for fewer.
        weights = {item.doc_hash: item.weight for item in items if isinstance(item, GoldItem)}
        self.given = [
            {**row, "weight": round(weights[row["doc_hash"]], 6)} if row["doc_hash"] in weights else row
            for row in given
        ]

    @property
    def done(self) -> set[tuple[str, str]]:
        return {(row["doc_hash"], row.get("answer_hash", "")) for row in self.given}

    def next_item(self) -> Item | GoldItem | None:
        done = self.done
        return next((item for item in self.items if item.key not in done), None)

    def find(self, doc_hash: str, answer_hash: str) -> Item | GoldItem | None:
        return next((item for item in self.items if item.key == (doc_hash, answer_hash)), None)

    def give(self, item: Item | GoldItem, verdict: str) -> bool:
        """False where there is no such verdict."""
        if (row := item.row(verdict)) is None:
            return False
        if item.key not in self.done:
            self.given.append(row)
            self._write()
        return True

    def take_back(self) -> None:
        """The last label of this run, if there is one."""
        if self.given:
            self.given.pop()
            self._write()

    def _write(self) -> None:
        partial = self.path.with_name(f".{self.path.name}.{os.getpid()}.part")
        partial.write_text("".join(json.dumps(row) + "\n" for row in (*self.others, *self.given)), encoding="utf-8")
        os.replace(partial, self.path)


def create_label_app(book: LabelBook, secret: str) -> RequestGuard:
    path = f"/{secret}/give"

    def show(request: Request, problem: str = "") -> Response:
        item = book.next_item()
        context = {
            "item": item,
            "first": book.items[0],
            "path": path,
            "done": len(book.given),
            "all": len(book.items),
            "problem": problem,
        }
        return HTMLResponse(render("label.html", link=LINKS, **context))

    async def give(request: Request) -> Response:
        form = dict(parse_qsl((await request.body()).decode("utf-8", "replace")))
        if form.get("back"):
            book.take_back()
            return RedirectResponse(f"/{secret}", 303)
        item = book.find(str(form.get("doc")), str(form.get("answer", "")))
        if item is None or not book.give(item, str(form.get("verdict", ""))):
            return show(request, "That is not a verdict on this scale.")
        return RedirectResponse(f"/{secret}", 303)

    routes = [
        Route(f"/{secret}", show),
        Route(path, give, methods=["POST"]),
        Route("/static/palette.css", palette),
        Mount("/static", StaticFiles(directory=static_directory())),
    ]
    return RequestGuard(Starlette(routes=routes), hosts=LOOPBACK_NAMES, writes=path)


def serve_labels(book: LabelBook, *, port: int = 0, open_browser: bool = True, ready: Callable[[str], None]) -> None:
    """Serve on loopback until interrupted."""
    import uvicorn

    listener, secret = listen("127.0.0.1", port), secrets.token_urlsafe(16)
    address = f"http://127.0.0.1:{listener.getsockname()[1]}/{secret}"
    ready(address)
    if open_browser:
        webbrowser.open(address)
    config = uvicorn.Config(create_label_app(book, secret), log_level="warning", access_log=False, server_header=False)
    uvicorn.Server(config).run(sockets=[listener])
