"""What the index needs to know of a file, read off its lines: a name, a kind, tags, includes. No YAML is parsed.

Only top-level keys in their plainest form are believed (`task: name`, `tag: [a, b]` or a dashed list). Whatever looks
any richer, such as quotes, anchors or numbers, is left to the YAML parser, so the shortcut is never a second opinion.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.config import load_file_only
from assay.errors import ConfigError

_KEY = re.compile(rb"^(task|group|tag|class|include|output_type)[ ]*:(.*)$", re.MULTILINE)
_PLAIN = re.compile(rb"[A-Za-z_][\w.+/\-]*(?: [\w.+/\-]+)*")
_ITEM = re.compile(rb"[ ]*-[ ]+([^\n]*)")
_NOT_TEXT = frozenset(b"y n yes no true false on off null none nan inf".split())
_ODD_START = re.compile(rb"\A(?:\xef\xbb\xbf|\s|#[^\n]*\n|---[^\n]*\n)*[\[{%\"'?&*!|>]|\A\s*\Z")
_QUOTED_KEY = re.compile(rb"^[\"'?](?:task|group|tag|class|include|output_type|[^\n\"']*[\"']\s*:)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Facts:
    """Top-level facts of one file by itself, includes not yet followed. None: the file does not say."""

    task: str | None = None
    group: str | None = None
    is_class: bool = False
    tags: tuple[str, ...] | None = None
    include: tuple[str, ...] = ()
    output_type: str | None = None
    error: str | None = None


def read_facts(path: Path | str) -> Facts:
    """Facts of a file; one that cannot be read or understood is a fact too, with its error."""
    try:
        with open(path, "rb") as file:
            raw = file.read()
    except OSError:
        return _parse(Path(path))
    return scan(raw) or _parse(Path(path))


def scan(raw: bytes) -> Facts | None:
    """Facts of the plainest files; None where only the parser can tell."""
    if _ODD_START.match(raw) or _QUOTED_KEY.search(raw):
        return None
    found: dict[str, Any] = {}
    for match in _KEY.finditer(raw):
        key = match[1].decode()
        value: Any
        if key == "class":
            value = True
        else:
            value = _value(match[2].strip(), raw, match.end(), lists=key in ("tag", "include"))
            if value is None and not (key == "task" and _starts_list(match[2].strip(), raw, match.end())):
                return None
        found[key] = value
    if not found:
        return None
    task, group = found.get("task"), found.get("group")
    if not isinstance(task, str | None) or not isinstance(group, str | None):
        return None
    return Facts(task, group, "class" in found, _tuple(found.get("tag")), _tuple(found.get("include")) or (), found.get("output_type"))  # fmt: skip


def _tuple(value: str | tuple[str, ...] | None) -> tuple[str, ...] | None:
    return (value,) if isinstance(value, str) else value


def _value(text: bytes, raw: bytes, end: int, *, lists: bool) -> str | tuple[str, ...] | None:
    if not text and lists:
        return _dashed(raw, end)
    if text[:1] == b"[" and text[-1:] == b"]" and lists:
        items = [_plain(part.strip()) for part in text[1:-1].split(b",")]
        return None if None in items else tuple(item for item in items if item is not None)
    plain = _plain(text)
    return plain if plain is not None and _ends_here(raw, end) else None


def _plain(text: bytes) -> str | None:
    text = text.partition(b" #")[0].rstrip()
    return text.decode() if _PLAIN.fullmatch(text) and text.lower() not in _NOT_TEXT else None


def _ends_here(raw: bytes, end: int) -> bool:
    """A plain scalar may go on in indented lines below."""
    following = raw[end + 1 : end + 2]
    return following not in (b" ", b"\t") or not raw[end + 1 : raw.find(b"\n", end + 1) % (len(raw) + 1)].strip()


def _starts_list(text: bytes, raw: bytes, end: int) -> bool:
    """`task:` with its members below or in brackets: a group's, whose members the index does not need."""
    return text[:1] == b"[" or (not text.partition(b"#")[0].strip() and _ITEM.match(raw, end + 1) is not None)


def _dashed(raw: bytes, end: int) -> tuple[str, ...] | None:
    items: list[str] = []
    position = end + 1
    while match := _ITEM.match(raw, position):
        item = _plain(match[1].strip())
        if item is None:
            return None
        items.append(item)
        position = match.end() + 1
    if raw[position : position + 1] in (b" ", b"\t", b"#"):
        return None
    return tuple(items) or None


def _parse(path: Path) -> Facts:
    try:
        data = load_file_only(path)
    except ConfigError as error:
        return Facts(error=str(error))
    task, group, tag, include = (data.get(key) for key in ("task", "group", "tag", "include"))
    return Facts(
        task=str(task) if isinstance(task, str | int | float) else None,
        group=str(group) if isinstance(group, str | int | float) else None,
        is_class="class" in data,
        tags=None if tag is None else tuple(str(item) for item in (tag if isinstance(tag, list) else [tag])),
        include=tuple(str(item) for item in (include if isinstance(include, list) else [include] if include else [])),
        output_type=str(data["output_type"]) if "output_type" in data else None,
    )
