"""What the index needs to know of a file, read off its lines: a name, a kind, tags, includes, and what `assay ls` shows.

Only top-level keys in their plainest form are believed (`task: name`, `tag: [a, b]` or a dashed list). Whatever looks
any richer, such as quotes, anchors or numbers, is left to the YAML parser, so the shortcut is never a second opinion. Of a
mapping (`metadata`, `style`) only its own lines are parsed.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

from assay.config import is_well_formed, load_file_only, parse_text
from assay.errors import ConfigError
from assay.paths import read_regular

_MOST = 64 << 20
"""Bytes of a file that is looked at; the parser says what is too large for a task file."""

_KEYS = rb"task|group|tag|class|include|output_type|num_fewshot|dataset_path|metadata|style"
_KEY = re.compile(rb"""^(?:(["']?)(%b)\1[ ]*:(?=[ \t\r\n]|\Z)(.*)$|[?&*!])""" % _KEYS, re.MULTILINE)
_PLAIN = re.compile(rb"(?:[A-Za-z_]|\.{1,2}/|/)[\w.+/\-]*(?: [\w.+/\-]+)*")
_QUOTED = re.compile(rb"""(["'])([^"'\\\n]*)\1""")
_ITEM = re.compile(rb"[ ]*-[ ]+([^\n]*)")
_COMMENT = re.compile(rb"\s+#.*")
_WHOLE = re.compile(rb"0|[1-9][0-9]{0,8}")
_BLOCK = re.compile(rb"(?:[ ]+[^\n]*\n|[ ]*\n|#[^\n]*\n)*(?:[ ]+[^\n]*\Z)?")
"""The indented lines below a key."""
_NOT_TEXT = frozenset(b"y n yes no true false on off null none nan inf".split())
_ODD_START = re.compile(
    rb"\xef\xbb\xbf|(?:\s|#[^\n]*\n|---[^\n]*\n)*(?:[\[{%?&*!|>\-]|\Z)"
    rb"|(?:#[^\n]*\n|---[^\n]*\n|[ \t]*\n)*[ \t]+[^\s#]"  # indented as a whole
)


class Facts(NamedTuple):
    """Top-level facts of one file by itself, includes not yet followed. None: the file does not say."""

    task: str | None = None
    group: str | None = None
    is_class: bool = False
    tags: tuple[str, ...] | None = None
    include: tuple[str, ...] = ()
    output_type: str | None = None
    shots: int | None = None
    dataset: str | None = None
    description: str | None = None
    """Empty where there is metadata that has none: it still takes the place of an included file's."""
    style: str | None = None
    error: str | None = None


def read_facts(path: Path | str) -> Facts:
    """Facts of a file; one that cannot be read or understood is a fact too, with its error."""
    try:
        raw = read_regular(path, _MOST)
    except OSError:
        return _parse(Path(path))
    facts = scan(raw)
    if facts is None:
        return _parse(Path(path))
    # A broken file keeps its name, so that asking for it shows its error.
    return facts if is_well_formed(raw) else _parse(Path(path), facts)


def scan(raw: bytes) -> Facts | None:
    """Facts of the plainest files; None where only the parser can tell."""
    if _ODD_START.match(raw):
        return None
    values: dict[bytes, Any] = {}
    for match in _KEY.finditer(raw):
        key = match[2]
        if key is None or key in values:
            return None
        values[key] = _value(key, match[3].strip(), raw, match.end())
        if values[key] is None:
            return None
    if not values:
        return None
    task, tags, include = values.get(b"task"), values.get(b"tag"), values.get(b"include")
    return Facts(
        task=task if isinstance(task, str) else None,
        group=values.get(b"group"),
        is_class=b"class" in values,
        tags=(tags,) if isinstance(tags, str) else tags,
        include=(include,) if isinstance(include, str) else include or (),
        output_type=values.get(b"output_type"),
        shots=values.get(b"num_fewshot"),
        dataset=values.get(b"dataset_path"),
        description=values.get(b"metadata"),
        style=values.get(b"style"),
    )


def _value(key: bytes, text: bytes, raw: bytes, end: int) -> str | tuple[str, ...] | bool | int | None:
    """The value of a key whose line ends at `end`; True for what the index need not know; None: ask the parser."""
    if key == b"class":
        return True
    if key in (b"metadata", b"style"):
        return _mapped(key, text, raw, end)
    if key == b"num_fewshot":
        number = _COMMENT.sub(b"", text)
        return int(number) if _WHOLE.fullmatch(number) and raw[end + 1 : end + 2] not in (b" ", b"\t") else None
    if text[:1] == b"#":
        text = b""
    if not text or text[:1] == b"[":
        items = _dashed(raw, end) if not text else _bracketed(text)
        if key == b"task" and (items is not None or text or _ITEM.match(raw, end + 1)):
            return True  # the members of a group
        return items if key in (b"tag", b"include") else None
    if raw[end + 1 : end + 2] in (b" ", b"\t"):
        return None  # a scalar may go on in the indented lines below
    return _scalar(text)


def _mapped(key: bytes, text: bytes, raw: bytes, end: int) -> str | None:
    """What `metadata` says in its description, or the name of a style."""
    block = _BLOCK.match(raw, end + 1)
    lines = key + b": " + text + b"\n" + (block[0] if block else b"")
    if b"\t" in lines or (block and raw[block.end() : block.end() + 1] == b"-"):
        return None
    if key == b"metadata" and b"description" not in lines and (not text or text[:1] in b"{#"):
        return ""
    try:
        parsed = parse_text(lines.decode(), Path("metadata"))
    except (ConfigError, UnicodeDecodeError):
        return None  # it may name an anchor of another place
    facts = facts_of(parsed.data)
    return facts.description if key == b"metadata" else facts.style


def _scalar(text: bytes) -> str | None:
    text = _COMMENT.sub(b"", text)
    if quoted := _QUOTED.fullmatch(text):
        text = quoted[2]
    elif not _PLAIN.fullmatch(text) or text.lower() in _NOT_TEXT:
        return None
    try:
        return text.decode() or None
    except UnicodeDecodeError:
        return None


def _bracketed(text: bytes) -> tuple[str, ...] | None:
    text = _COMMENT.sub(b"", text)
    items = [_scalar(part.strip()) for part in text[1:-1].split(b",")]
    return tuple(item for item in items if item) if text[-1:] == b"]" and None not in items else None


def _dashed(raw: bytes, end: int) -> tuple[str, ...] | None:
    items: list[str] = []
    position = end + 1
    while match := _ITEM.match(raw, position):
        item = _scalar(match[1].strip())
        if item is None:
            return None
        items.append(item)
        position = match.end() + 1
    return None if raw[position : position + 1] in (b" ", b"\t", b"#") else tuple(items) or None


def _parse(path: Path, scanned: Facts | None = None) -> Facts:
    try:
        data = load_file_only(path)
    except ConfigError as error:
        return (scanned or Facts())._replace(error=str(error))
    return facts_of(data)


def facts_of(data: dict[str, Any]) -> Facts:
    """The facts in a mapping that the parser has read."""
    task, group, tag, include = (data.get(key) for key in ("task", "group", "tag", "include"))
    shots, dataset, about, style = (data.get(key) for key in ("num_fewshot", "dataset_path", "metadata", "style"))
    description = about.get("description") if isinstance(about, dict) else ""
    style = style.get("name") if isinstance(style, dict) else style
    return Facts(
        task=str(task) if isinstance(task, str | int | float) else None,
        group=str(group) if isinstance(group, str | int | float) else None,
        is_class="class" in data,
        tags=None if tag is None else tuple(str(item) for item in (tag if isinstance(tag, list) else [tag])),
        include=tuple(str(item) for item in (include if isinstance(include, list) else [include] if include else []))
        if not isinstance(include, dict)  # fields for the members of a group, and no file
        else (),
        output_type=str(data["output_type"]) if "output_type" in data else None,
        shots=shots if isinstance(shots, int) and not isinstance(shots, bool) else None,
        dataset=dataset if isinstance(dataset, str) else None,
        description=None if "metadata" not in data else description if isinstance(description, str) else "",
        style=style if isinstance(style, str) else None,
    )
