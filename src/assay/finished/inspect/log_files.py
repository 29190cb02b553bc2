"""Log files of inspect: `.eval`, a zip with `header.json` and `samples/<id>_epoch_<n>.json`, or the same in one `.json` file."""

from __future__ import annotations

import json
import re
import struct
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from assay.errors import DataError

_MOST = 256 << 20
"""Bytes of one file of a log, unpacked: a zip of a few kB can hold gigabytes of zeros."""
_MOST_JSON = 1 << 30
_ZSTD = 93
"""How inspect compresses the files of a zip; Python's own library knows it from 3.14 on."""
_SAMPLE = re.compile(r"samples/(?P<id>.+)_epoch_(?P<epoch>\d+)(?P<parts>/sample)?\.json")
"""One file, or for large samples a folder with their parts."""
_CHUNK = re.compile(r"(?P<folder>samples/.+_epoch_\d+/)(?P<part>messages|attachments)/(?P<start>\d+)\.json")


def find_logs(path: Path) -> list[Path]:
    files = [path] if path.is_file() else sorted(file for kind in ("eval", "json") for file in path.rglob(f"*.{kind}"))
    return [file for file in files if file.suffix == ".eval" or (file.suffix == ".json" and is_log(file))]


def is_log(file: Path) -> bool:
    """Whether a JSON file begins as inspect's do: with its version, status and what was evaluated."""
    try:
        with file.open("rb") as opened:
            start = opened.read(2048)
    except OSError:
        return False
    return all(name in start for name in (b'"version"', b'"status"', b'"eval"')) and b'"run_id"' in start


def _open(file: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(file)
    except (OSError, zipfile.BadZipFile) as error:
        raise DataError(
            f"{file} is not an inspect log: {error}", hint="Expected the zip that inspect writes."
        ) from error


def read_header(file: Path) -> dict[str, Any]:
    if file.suffix == ".json":
        whole = _whole(file)
        return {name: value for name, value in whole.items() if name != "samples"}
    with _open(file) as archive:
        names = set(archive.namelist())
        for name in ("header.json", "_journal/start.json"):
            if name in names:
                header: dict[str, Any] = _load(archive, name, file)
                if isinstance(header.get("eval"), dict):
                    return header
    raise DataError(f"{file} has no header.json with an `eval` entry", hint="Expected the log that inspect writes.")


def _whole(file: Path) -> dict[str, Any]:
    """A log in one JSON file."""
    try:
        if file.stat().st_size > _MOST_JSON:
            raise ValueError(f"it has more than {_MOST_JSON >> 20} MB; inspect's own .eval logs are read in parts")
        found = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{file}: {error}", hint="The log is cut off or damaged.") from error
    if not isinstance(found, dict) or not isinstance(found.get("eval"), dict):
        raise DataError(f"{file} has no `eval` entry", hint="Expected the log that inspect writes.")
    return found


def _load(archive: zipfile.ZipFile, name: str, file: Path, kind: type = dict) -> Any:
    try:
        text = _unpacked(archive, archive.getinfo(name))
        if len(text) > _MOST:
            raise ValueError(f"it has more than {_MOST >> 20} MB")
        content = json.loads(text)
    except (
        ValueError,
        RecursionError,
        OSError,
        EOFError,
        zlib.error,
        zipfile.BadZipFile,
        NotImplementedError,
        RuntimeError,  # it wants a password
        struct.error,
    ) as error:
        raise DataError(f"{file}, {name}: {error}", hint="The log is cut off or damaged.") from error
    if not isinstance(content, kind):
        raise DataError(f"{file}, {name}: not {'an object' if kind is dict else 'a list'}")
    return content


def _unpacked(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """At most a byte more than is allowed, whatever the archive says of the size: it may lie."""
    if info.compress_type != _ZSTD:
        with archive.open(info) as packed:
            return packed.read(_MOST + 1)
    import pyarrow as pa

    assert archive.fp is not None
    archive.fp.seek(info.header_offset)
    start = archive.fp.read(30)
    name, extra = struct.unpack("<HH", start[26:30])
    archive.fp.seek(info.header_offset + 30 + name + extra)
    content = archive.fp.read(min(info.compress_size, _MOST))
    with pa.CompressedInputStream(pa.BufferReader(content), "zstd") as stream:
        return bytes(stream.read(_MOST + 1))


def samples_by_doc(files: Sequence[Path]) -> Iterator[list[dict[str, Any]]]:
    """The epochs of each sample, one sample in memory at a time; ids that are numbers in their order."""
    places: dict[str, list[tuple[int, Path, Any]]] = defaultdict(list)
    chunks: dict[tuple[Path, str, str], list[int]] = defaultdict(list)
    for file in files:
        if file.suffix == ".json":
            for sample in _whole(file).get("samples") or ():
                places[str(sample["id"])].append((int(sample["epoch"]), file, sample))
            continue
        with _open(file) as archive:
            for name in archive.namelist():
                if match := _SAMPLE.fullmatch(name):
                    places[match["id"]].append((int(match["epoch"]), file, name))
                elif match := _CHUNK.fullmatch(name):
                    chunks[file, match["folder"], match["part"]].append(int(match["start"]))

    def sample_at(file: Path, place: Any) -> dict[str, Any]:
        """A sample; of a large one its messages and attachments stand in files of their own, by the index of their first."""
        if not isinstance(place, str):
            return dict(place)
        sample: dict[str, Any] = _load(archives[file], place, file)
        if place.endswith("/sample.json"):
            folder = place.removesuffix("sample.json")
            for part in ("messages", "attachments"):
                starts = sorted(chunks[file, folder, part])
                names = [f"{folder}{part}/{start}.json" for start in starts]
                items = [each for name in names for each in _load(archives[file], name, file, list)]
                sample[part] = items if part == "messages" else {str(at): text for at, text in enumerate(items)}
        return sample

    with ExitStack() as stack:
        archives = {file: stack.enter_context(_open(file)) for file in files if file.suffix != ".json"}
        for sample_id in sorted(places, key=lambda text: (not text.isdecimal(), len(text) * text.isdecimal(), text)):
            yield [sample_at(file, place) for _, file, place in sorted(places[sample_id], key=lambda each: each[0])]
