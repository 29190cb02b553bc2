"""Tags and notes on samples, kept beside the run in `notes.json`: who looks at the run next sees them too."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from assay.errors import ConfigError
from assay.results import write_whole
from assay.view.library import Library, RunEntry
from assay.view.untrusted import read_json

LONGEST_NOTE, LONGEST_TAG, MOST_TAGS = 10_000, 40, 20
ANY = "*"
"""In place of a tag: every doc that has a note or a tag."""


@dataclass(frozen=True)
class Note:
    """What somebody wrote about one doc."""

    task: str
    doc_id: int
    doc_hash: str = ""
    tags: tuple[str, ...] = ()
    note: str = ""
    updated: float = 0.0


@dataclass(frozen=True)
class NoteFile:
    notes: tuple[Note, ...] = ()
    by_doc: Mapping[tuple[str, int], Note] = field(default_factory=dict)

    @classmethod
    def of(cls, notes: Mapping[tuple[str, int], Note]) -> NoteFile:
        return cls(tuple(notes.values()), notes)

    @classmethod
    def parse(cls, data: Any) -> NoteFile:
        made = [
            Note(n["task"], n["doc_id"], n.get("doc_hash", ""), tuple(n["tags"]), n["note"], n.get("updated", 0.0))
            for n in data["notes"]
        ]
        return cls.of({(note.task, note.doc_id): note for note in made})

    def of_task(self, task: str) -> dict[int, Note]:
        return {note.doc_id: note for note in self.notes if note.task == task}

    def docs(self, task: str, tag: str) -> tuple[int, ...]:
        """The docs of a task with a tag, or with anything at all."""
        return tuple(n.doc_id for n in self.notes if n.task == task and (tag == ANY or tag in n.tags))

    def tags(self, task: str) -> dict[str, int]:
        """How many docs of a task have each tag."""
        return dict(Counter(tag for note in self.notes if note.task == task for tag in note.tags).most_common())


class Notes:
    """Reads and writes the notes of runs. An imported file of another harness has no directory to keep them in."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self._lock = threading.Lock()

    def path(self, run: RunEntry) -> Path | None:
        return run.path / "notes.json" if run.kind == "assay" else None

    def of(self, run: RunEntry) -> NoteFile:
        path = self.path(run)
        return NoteFile() if path is None or not path.is_file() else read_json(path, NoteFile.parse)

    def write(self, run: RunEntry, note: Note) -> None:
        """Keep a note in place of the one before; an empty one takes it away."""
        path = self.path(run)
        if path is None:
            raise ConfigError(
                "notes cannot be stored for a run of another harness",
                hint="Make a run directory of it: assay export RUN --to assay.",
            )
        with self._lock:
            kept = dict(self.of(run).by_doc)
            kept.pop((note.task, note.doc_id), None)
            if note.tags or note.note:
                kept[note.task, note.doc_id] = note
            rows = [asdict(each) for each in kept.values()]
            write_whole(path, json.dumps({"format": 1, "notes": rows}, ensure_ascii=False, indent=1).encode())


def note_from(form: Mapping[str, str], task: str, doc_id: int, doc_hash: str) -> Note:
    """A note as a form gives it: tags are separated by commas.

    >>> note_from({"tags": " bad gold, bad gold,,unclear", "note": " Two answers fit. "}, "t", 3, "h").tags
    ('bad gold', 'unclear')
    """
    tags = [" ".join(tag.split())[:LONGEST_TAG] for tag in form.get("tags", "").split(",")]
    kept = tuple(dict.fromkeys(tag for tag in tags if tag))[:MOST_TAGS]
    text = form.get("note", "").replace("\r\n", "\n").strip()[:LONGEST_NOTE]
    return Note(task, doc_id, doc_hash, kept, text, time.time())
