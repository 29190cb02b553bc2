"""The bundle as a file: a zip of plain members whose bytes depend on their content alone.

A bundle comes from a stranger. Members are read by the names that `seal.json` lists and written under names of our own, so
that nothing in the archive says where a file goes; sizes are counted while they are unpacked, whatever the archive declares.
"""

from __future__ import annotations

import hashlib
import json
import re
import stat
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from assay.errors import ConfigError
from assay.paths import regular
from assay.scratch import partial_file

SEAL = "seal.json"
MOST_MEMBERS = 20_000
MOST_BYTES = 8 * 2**30
MOST_RATIO = 400
FREE_BYTES = 64 * 2**20
"""A bundle may unpack to so much whatever its size; above that, to `MOST_RATIO` times its size, and never to more than
`MOST_BYTES`. Samples of several filters repeat themselves and shrink to a hundredth; a bomb shrinks to a thousandth."""
_NAME = re.compile(r"(?:[\w.+@=%~ ()\[\],-]+/)*[\w.+@=%~ ()\[\],-]+")
_BLOCK = 1 << 20


@dataclass(frozen=True)
class BundleMember:
    """One file of a bundle, as `seal.json` lists it."""

    sha256: str
    size: int


def write_archive(path: Path, members: Mapping[str, Path | bytes]) -> None:
    """Write the members, sorted by name, without times or owners; the file gets its name when it is complete."""
    try:
        with partial_file(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for name in sorted(members):
                about = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
                about.compress_type, about.create_system = zipfile.ZIP_DEFLATED, 3
                about.external_attr = (stat.S_IFREG | 0o644) << 16
                content = members[name]
                with archive.open(about, "w", force_zip64=True) as out:
                    for block in [content] if isinstance(content, bytes) else _blocks(content):
                        out.write(block)
    except OSError as error:
        raise ConfigError(
            f"cannot write {path}: {error.strerror or error}", hint="Choose another file with -o."
        ) from error


def describe(members: Mapping[str, Path | bytes]) -> dict[str, dict[str, Any]]:
    """What `seal.json` says of each member."""
    listed = {}
    for name in sorted(members):
        content = members[name]
        blocks = [content] if isinstance(content, bytes) else _blocks(content)
        digest, size = hashlib.sha256(), 0
        for block in blocks:
            digest.update(block)
            size += len(block)
        listed[name] = {"sha256": digest.hexdigest(), "size": size}
    return listed


def _blocks(path: Path) -> Iterable[bytes]:
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            yield block


def canonical(data: Any) -> bytes:
    """JSON with sorted keys and no blanks, for hashing."""
    return json.dumps(data, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


@dataclass(frozen=True)
class OpenBundle:
    """A bundle on disk whose members were unpacked to a directory of ours."""

    about: dict[str, Any]
    """`seal.json`."""
    files: dict[str, Path]
    """Member to where it was unpacked."""
    changed: list[str]
    """What is not as `seal.json` says."""

    def json(self, name: str) -> dict[str, Any]:
        return _read_json(name, self.files[name].read_bytes()) if name in self.files else {}


def open_bundle(path: Path, folder: Path) -> OpenBundle:
    """Unpack a bundle below `folder`, under names of our own. An archive that is none, or is hostile, is refused."""
    try:
        with zipfile.ZipFile(regular(path)) as archive:
            members = _checked(path, archive.infolist())
            return _unpack(path, archive, members, folder)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise ConfigError(
            f"{path} is not a complete bundle: {error}", hint="Download it again; `assay seal` writes such files."
        ) from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error


def _checked(path: Path, infos: list[zipfile.ZipInfo]) -> dict[str, zipfile.ZipInfo]:
    """Members by name; refused are names that lead elsewhere, links, duplicates and encrypted members."""
    if len(infos) > MOST_MEMBERS:
        raise _hostile(path, f"{len(infos):,} members")
    members: dict[str, zipfile.ZipInfo] = {}
    for info in infos:
        parts = info.filename.split("/")
        if not _NAME.fullmatch(info.filename) or any(part in ("", ".", "..") for part in parts):
            raise _hostile(path, f"a member named {info.filename[:80]!r}")
        if info.filename in members:
            raise _hostile(path, f"two members named {info.filename!r}")
        kind = stat.S_IFMT(info.external_attr >> 16)
        if kind not in (0, stat.S_IFREG) or info.flag_bits & 1:
            raise _hostile(path, f"{info.filename!r}, which is not a plain file")
        members[info.filename] = info
    if SEAL not in members:
        raise ConfigError(f"{path} is not a bundle: it has no {SEAL}", hint="`assay seal RUN` writes one.")
    return members


def _unpack(path: Path, archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo], folder: Path) -> OpenBundle:
    budget = _Budget(path)
    about = _read_json(SEAL, b"".join(_member_blocks(archive, members[SEAL], budget)))
    listed = _listed(path, about)
    changed = [f"{name} is not among the sealed files" for name in sorted(members.keys() - listed.keys() - {SEAL})]
    changed += [f"{name} is missing" for name in sorted(listed.keys() - members.keys())]
    files: dict[str, Path] = {}
    for number, name in enumerate(sorted(listed.keys() & members.keys())):
        target = files[name] = folder / f"member-{number:05d}{_ending(name)}"
        with target.open("xb") as out:
            digest = _copy(archive, members[name], budget, out)
        if (digest, target.stat().st_size) != (listed[name].sha256, listed[name].size):
            changed.append(f"{name} was changed after it was sealed")
    stated, found = about.get("seal"), seal_id(about)
    if stated != found:
        changed.append(
            f"{SEAL} was changed after it was written: it states the seal {str(stated)[:16]}, but its seal is {found[:16]}"
        )
    return OpenBundle(about, files, changed)


def _ending(name: str) -> str:
    """By which readers tell formats apart."""
    return ending[0] if (ending := re.search(r"\.\w{1,9}$", name)) else ""


def seal_id(about: Mapping[str, Any]) -> str:
    """SHA-256 (hex) over all that `seal.json` says, and so over every member."""
    return hashlib.sha256(canonical({key: value for key, value in about.items() if key != "seal"})).hexdigest()


class _Budget:
    """How many bytes may still be unpacked."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.left = min(MOST_BYTES, max(FREE_BYTES, MOST_RATIO * path.stat().st_size))

    def spend(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise _hostile(self.path, "members that unpack to far more than their compressed size")


def _member_blocks(archive: zipfile.ZipFile, info: zipfile.ZipInfo, budget: _Budget) -> Iterable[bytes]:
    with archive.open(info) as file:
        while block := file.read(_BLOCK):
            budget.spend(len(block))
            yield block


def _copy(archive: zipfile.ZipFile, info: zipfile.ZipInfo, budget: _Budget, out: IO[bytes]) -> str:
    digest = hashlib.sha256()
    for block in _member_blocks(archive, info, budget):
        digest.update(block)
        out.write(block)
    return digest.hexdigest()


def _listed(path: Path, about: Mapping[str, Any]) -> dict[str, BundleMember]:
    members = about.get("members")
    try:
        assert isinstance(members, dict)
        assert all(each.keys() == {"sha256", "size"} for each in members.values())
        return {name: BundleMember(str(each["sha256"]), int(each["size"])) for name, each in members.items()}
    except (AssertionError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"{path}: {SEAL} does not list its members", hint="`assay seal RUN` writes one.") from error


def loads(data: str | bytes) -> Any:
    """JSON in which no key stands twice: of two values a reader might see one and a verifier the other."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError(f"a key stands twice among {sorted(found)[:5]}")
        return found

    return json.loads(data, object_pairs_hook=unique)


def _read_json(name: str, data: bytes) -> dict[str, Any]:
    try:
        found = loads(data)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"the bundle's {name} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise ConfigError(f"the bundle's {name} is not a JSON object")
    return found


def _hostile(path: Path, what: str) -> ConfigError:
    return ConfigError(f"{path} is refused: it contains {what}", hint="Nothing was unpacked except what was checked.")
