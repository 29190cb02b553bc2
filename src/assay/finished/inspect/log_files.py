"""Log files of inspect: `.eval`, a zip with `header.json` and `samples/<id>_epoch_<n>.json`, or the same in one `.json` file."""

from __future__ import annotations

import re
import zlib
from array import array
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import groupby, islice
from pathlib import Path
from typing import Any

from assay.errors import DataError
from assay.finished.inspect.archive import Archive
from assay.finished.trials import read_json
from assay.paths import beginning

_MOST_JSON = 1 << 30
_SAMPLE = re.compile(r"samples/(?P<id>.+)_epoch_(?P<epoch>\d+)(?P<parts>/sample)?\.json")
"""One file, or for large samples a folder with their parts."""
_CHUNK = re.compile(r"(?P<folder>samples/.+_epoch_\d+/)(?P<part>messages|attachments|events)/(?P<start>\d+)\.json")


def find_logs(path: Path) -> list[Path]:
    files = [path] if path.is_file() else sorted(file for kind in ("eval", "json") for file in path.rglob(f"*.{kind}"))
    files = [file for file in files if file.is_file()]  # a link may lead to a device that never ends
    return [file for file in files if file.suffix == ".eval" or (file.suffix == ".json" and is_log(file))]


def is_log(file: Path) -> bool:
    """Whether a JSON file begins as inspect's do: with its version, status and what was evaluated."""
    start = beginning(file, 2048)
    return all(name in start for name in (b'"version"', b'"status"', b'"eval"')) and b'"run_id"' in start


def _open(file: Path) -> Archive:
    try:
        return Archive(file)
    except (OSError, ValueError) as error:
        raise DataError(
            f"{file} is not an inspect log: {error}", hint="Expected the zip that inspect writes."
        ) from error


def read_header(file: Path) -> dict[str, Any]:
    if file.suffix == ".json":
        whole = _whole(file)
        return {name: value for name, value in whole.items() if name != "samples"}
    with _open(file) as archive:
        for name in ("header.json", "_journal/start.json"):
            if name in archive.names:
                header: dict[str, Any] = _load(archive, archive.names.index(name), file)
                if isinstance(header.get("eval"), dict):
                    return header
    raise DataError(f"{file} has no header.json with an `eval` entry", hint="Expected the log that inspect writes.")


def _whole(file: Path) -> dict[str, Any]:
    """A log in one JSON file."""
    try:
        if file.stat().st_size > _MOST_JSON:
            raise ValueError(f"it has more than {_MOST_JSON >> 20} MB; inspect's own .eval logs are read in parts")
        found = read_json(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{file}: {error}", hint="The log is cut off or damaged.") from error
    if not isinstance(found, dict) or not isinstance(found.get("eval"), dict):
        raise DataError(f"{file} has no `eval` entry", hint="Expected the log that inspect writes.")
    return found


def _load(archive: Archive, member: int, file: Path, kind: type = dict) -> Any:
    try:
        content = read_json(archive.read(member))
    except (ValueError, RecursionError, OSError, zlib.error) as error:
        raise DataError(f"{file}, {archive.names[member]}: {error}", hint="The log is cut off or damaged.") from error
    if not isinstance(content, kind):
        raise DataError(f"{file}, {archive.names[member]}: not {'an object' if kind is dict else 'a list'}")
    return content


def samples_by_doc(files: Sequence[Path]) -> Iterator[list[dict[str, Any]]]:
    """The epochs of each sample, one sample in memory at a time; ids that are numbers in their order."""
    with ExitStack() as stack:
        logs: list[Archive | list[dict[str, Any]]] = [
            _whole(file).get("samples") or [] if file.suffix == ".json" else stack.enter_context(_open(file))
            for file in files
        ]
        chunks = {number: _chunks(log.names) for number, log in enumerate(logs) if isinstance(log, Archive)}

        def sample_at(number: int, member: int) -> dict[str, Any]:
            log = logs[number]
            if not isinstance(log, Archive):
                return dict(log[member])
            sample: dict[str, Any] = _load(log, member, files[number])
            if log.names[member].endswith("/sample.json"):
                _add_parts(sample, log, files[number], log.names[member].removesuffix("sample.json"), chunks[number])
            return sample

        places = sorted(
            (not text.isdecimal(), len(text) * text.isdecimal(), text, epoch, number, member)
            for number, log in enumerate(logs)
            for text, epoch, member in _members(log)
        )
        # Numbers alone stay while samples are read: names of 100,000 would take as much memory as their scores.
        epochs = array("L", (len(list(of_sample)) for _, of_sample in groupby(places, key=lambda place: place[:3])))
        numbers, members = array("L", (place[4] for place in places)), array("L", (place[5] for place in places))
        del places
        order = zip(numbers, members)
        for count in epochs:
            yield [sample_at(*place) for place in islice(order, count)]


def _members(log: Archive | list[dict[str, Any]]) -> Iterator[tuple[str, int, int]]:
    """The samples of a log: id, epoch and number."""
    if isinstance(log, Archive):
        for member, name in enumerate(log.names):
            if found := _SAMPLE.fullmatch(name):
                yield found["id"], int(found["epoch"]), member
    else:
        for member, sample in enumerate(log):
            yield str(sample["id"]), int(sample["epoch"]), member


def _chunks(names: Sequence[str]) -> dict[tuple[str, str], list[tuple[int, int]]]:
    """Of samples that stand in parts: where their messages, attachments and events are, by the index of the first of each file."""
    found: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for member, name in enumerate(names):
        if match := _CHUNK.fullmatch(name):
            found[match["folder"], match["part"]].append((int(match["start"]), member))
    return found


def _add_parts(
    sample: dict[str, Any],
    log: Archive,
    file: Path,
    folder: str,
    chunks: Mapping[tuple[str, str], Sequence[tuple[int, int]]],
) -> None:
    for part in ("messages", "attachments", "events"):
        members = [member for _, member in sorted(chunks.get((folder, part), ()))]
        items = [each for member in members for each in _load(log, member, file, list)]
        sample[part] = {str(at): text for at, text in enumerate(items)} if part == "attachments" else items
