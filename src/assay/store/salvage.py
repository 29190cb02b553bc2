"""Read what can be read of a damaged store, page by page, without SQLite.

SQLite refuses a file as a whole when it is cut off or its upper pages are gone, though most rows are still there. A row
of this store carries its own checksum, so it can be picked from any page that still looks like a page: nothing wrong
can come back, and nothing readable is given up. Format: https://sqlite.org/fileformat2.html

    page   type 2 or 10 (index b-tree; tables WITHOUT ROWID are kept so) · cell count · cell offsets · … · cells
    cell   [4-byte child, type 2 only] · payload size · payload [· 4-byte number of the first overflow page]
    record header size · a type per column · the columns
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

from assay.store.codec import Row, row_is_intact

_INTERIOR, _LEAF = 2, 10


def salvage(path: Path) -> list[Row]:
    """All intact rows of a file and its write-ahead log; of two rows with one key the later."""
    pages = _Pages(path)
    found: dict[bytes, Row] = {}
    for number in pages.numbers():
        for row in _rows_of_page(pages, number):
            known = found.get(row[0])
            if known is None or known[4] <= row[4]:
                found[row[0]] = row
    return list(found.values())


class _Pages:
    """Pages by number: those of the write-ahead log, newest first, in front of those of the file."""

    def __init__(self, path: Path) -> None:
        self._data = _mapped(path)
        size = int.from_bytes(self._data[16:18], "big")
        size = 65536 if size == 1 else size
        self.size = size if size >= 512 and size & (size - 1) == 0 else 4096
        reserved = self._data[20] if self._data[:6] == b"SQLite" else 0
        self.usable = self.size - reserved
        wal = path.with_name(path.name + "-wal")
        self._wal = _mapped(wal)
        self._in_wal = self._read_wal()

    def numbers(self) -> list[int]:
        in_file = range(1, (len(self._data) + self.size - 1) // self.size + 1)
        return sorted({*in_file, *self._in_wal})

    def page(self, number: int) -> bytes:
        if number in self._in_wal:
            start = self._in_wal[number]
            return self._wal[start : start + self.size]
        return self._data[(number - 1) * self.size : number * self.size]

    def _read_wal(self) -> dict[int, int]:
        """Frames that belong to the current log (its salts match), by page."""
        frames: dict[int, int] = {}
        if len(self._wal) < 32:
            return frames
        size = int.from_bytes(self._wal[8:12], "big")
        if size != self.size and self._data[:6] != b"SQLite":
            self.size = self.usable = size or self.size
        salts = self._wal[16:24]
        for start in range(32, len(self._wal) - self.size - 24 + 1, self.size + 24):
            if self._wal[start + 8 : start + 16] == salts:
                frames[int.from_bytes(self._wal[start : start + 4], "big")] = start + 24
        return frames


def _mapped(path: Path) -> bytes | mmap.mmap:
    """The file's content without reading all of it at once: stores may be larger than memory."""
    if not path.exists() or not path.stat().st_size:
        return b""
    with open(path, "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _rows_of_page(pages: _Pages, number: int) -> list[Row]:
    page = pages.page(number)
    start = 100 if number == 1 else 0
    if len(page) < start + 12 or page[start] not in (_INTERIOR, _LEAF):
        return []
    interior = page[start] == _INTERIOR
    count = int.from_bytes(page[start + 3 : start + 5], "big")
    first = start + (12 if interior else 8)
    rows = []
    for i in range(min(count, (len(page) - first) // 2)):
        cell = int.from_bytes(page[first + 2 * i : first + 2 * i + 2], "big")
        row = _read_cell(pages, page, cell + (4 if interior else 0))
        if row is not None:
            rows.append(row)
    return rows


def _read_cell(pages: _Pages, page: bytes, start: int) -> Row | None:
    try:
        size, start = _varint(page, start)
        local = _local_size(size, pages.usable)
        payload = page[start : start + local]
        if local < size:
            overflow = int.from_bytes(page[start + local : start + local + 4], "big")
            payload += _read_overflow(pages, overflow, size - local)
        return _read_record(payload)
    except (IndexError, UnicodeDecodeError, struct.error):
        return None  # a page that is only half there


def _local_size(size: int, usable: int) -> int:
    """How much of a payload stays on an index page; the rest is on overflow pages."""
    most, least = (usable - 12) * 64 // 255 - 23, (usable - 12) * 32 // 255 - 23
    if size <= most:
        return size
    wanted = least + (size - least) % (usable - 4)
    return wanted if wanted <= most else least


def _read_overflow(pages: _Pages, number: int, missing: int) -> bytes:
    parts: list[bytes] = []
    seen: set[int] = set()
    while missing > 0 and number and number not in seen:
        seen.add(number)
        page = pages.page(number)
        part = page[4 : min(pages.usable, 4 + missing)]
        if not part:
            break
        parts.append(part)
        missing -= len(part)
        number = int.from_bytes(page[:4], "big")
    return b"".join(parts)


def _read_record(payload: bytes) -> Row | None:
    """A row, if that is what this is. Rows of earlier layouts end before the token counts, or before the extras."""
    header, at = _varint(payload, 0)
    kinds: list[int] = []
    while at < header:
        kind, at = _varint(payload, at)
        kinds.append(kind)
    if len(kinds) not in (5, 7, 8) or kinds[0] != 12 + 2 * 32:
        return None
    values: list[bytes | str | int | None] = []
    at = header
    for kind in kinds:
        value, at = _read_value(payload, kind, at)
        values.append(value)
    key, response, stop, checksum, origin, prompt, answer, extras = (*values, None, None, None)[:8]
    if not isinstance(key, bytes) or not isinstance(response, str) or not (stop is None or isinstance(stop, str)):
        return None
    if not isinstance(checksum, int) or not isinstance(origin, int):
        return None
    row = (
        key,
        response,
        stop,
        checksum,
        origin,
        prompt if isinstance(prompt, int) else None,
        answer if isinstance(answer, int) else None,
        extras if isinstance(extras, str) else None,
    )
    return row if row_is_intact(row) else None


def _read_value(payload: bytes, kind: int, at: int) -> tuple[bytes | str | int | None, int]:
    if kind >= 12:
        size = (kind - 12) // 2
        data = payload[at : at + size]
        if len(data) < size:
            raise IndexError("record is cut off")
        return (data.decode() if kind % 2 else data), at + size
    if kind in (8, 9):
        return kind - 8, at
    size = (0, 1, 2, 3, 4, 6, 8, 8)[kind] if kind < 8 else 0
    return (int.from_bytes(payload[at : at + size], "big", signed=True) if size else None), at + size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Seven bits a byte, most significant first; a ninth byte gives all eight."""
    value = 0
    for i in range(8):
        byte = data[at + i]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + i + 1
    return value << 8 | data[at + 8], at + 9
