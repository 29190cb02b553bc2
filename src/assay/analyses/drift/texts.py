"""Texts to compare two models on: of tasks, of files, or the sample that ships."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from assay.errors import ConfigError, DataError
from assay.instance import context_text


@dataclass(frozen=True)
class Passage:
    """A text and where it is from."""

    text: str
    domain: str


def bundled_passages() -> list[Passage]:
    """Short texts of several kinds, in the public domain with the rest of the demo's data."""
    sample = files("assay.analyses.drift") / "sample.jsonl"
    return [
        Passage(row["text"], row["domain"]) for row in map(json.loads, sample.read_text(encoding="utf-8").splitlines())
    ]


def passages_of_file(path: Path) -> list[Passage]:
    """JSON lines with `text` and maybe `domain`; else plain text, a passage between blank lines, named after the file."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path} cannot be read: {error}", hint="Use a text file in UTF-8, or JSON lines with text."
        ) from error
    if path.suffix in (".jsonl", ".ndjson"):
        passages = list(_of_lines(path, text))
    else:
        passages = [Passage(part.strip(), path.stem) for part in text.split("\n\n") if part.strip()]
    if not passages:
        raise DataError(f"{path} contains no text", hint="Drift needs text to read.")
    return passages


def _of_lines(path: Path, text: str) -> Iterator[Passage]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise DataError(f"{path}, line {number}: not JSON: {error}") from error
        if not isinstance(row, dict) or not isinstance(row.get("text"), str):
            raise DataError(f"{path}, line {number}: no text", hint='Expected {"text": "…", "domain": "…"}.')
        if row["text"].strip():
            yield Passage(row["text"], str(row.get("domain") or path.stem))


def passages_of_tasks(names: Sequence[str], limit: int | None) -> list[Passage]:
    """What a model reads in these tasks: prompt and first continuation of each doc."""
    from assay.tasks import RequestOptions, TaskManager

    passages: list[Passage] = []
    for name, task in TaskManager().load(list(names)).tasks.items():
        docs: dict[int, str] = {}
        for instance in task.build_all_requests(RequestOptions(limit=limit)):
            parts = [part for part in instance.args[:2] if isinstance(part, str)]
            text = "".join(parts) if parts else context_text(instance.args[0])
            if text.strip():
                docs.setdefault(instance.doc_id or 0, text)
        passages += [Passage(text, name) for text in docs.values()]
    if not passages:
        raise DataError(f"{', '.join(names)}: no text to read", hint="Name tasks whose requests are text.")
    return passages
