"""Filling a mirror: files come whole or not at all, each is checked by its hash, and a second go fetches only what is missing.

`manifest.json` says of every file where it is from, at which commit, and its SHA-256.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from assay.data.finding import FoundDataset, WantedFile
from assay.data.hub import HubClient, safe_path
from assay.errors import ConfigError, DataError
from assay.paths import try_lock

MANIFEST = "manifest.json"
FORMAT = 1
WORKERS = 8
STAGING = ".fetching"
"""Where files of the hub lie until they are whole; what is there after an interruption is gone on with."""


@dataclass
class FetchProgress:
    """How far a fetch is; `show` is called from several threads, under a lock."""

    files: int = 0
    bytes: int = 0
    done: int = 0
    got: int = 0
    kept: int = 0
    """Files that were there already."""
    show: Callable[[FetchProgress], None] = lambda progress: None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, count: int = 0, *, done: int = 0, kept: int = 0) -> None:
        with self._lock:
            self.got += count
            self.done += done
            self.kept += kept
            self.show(self)


def fill_mirror(
    folder: Path,
    datasets: Sequence[FoundDataset],
    client: HubClient,
    progress: FetchProgress | None = None,
    *,
    patience: float = 0.0,
) -> FetchProgress:
    """Fetch what is missing. What was fetched stays, whatever comes between; the first failure is raised at the end.

    Another process that fills the same mirror is waited for, for as many seconds as `patience`.
    """
    progress = progress or FetchProgress()
    wanted = _by_target(datasets)
    progress.files, progress.bytes = len(wanted), sum(each.file.size for each in wanted.values())
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder, patience):
        known = read_manifest(folder)
        records = dict(known.get("files", {}))
        with ThreadPoolExecutor(WORKERS) as pool:
            jobs = {pool.submit(_fetch, folder, each, client, progress): each for each in wanted.values()}
            failures = []
            try:
                for job in as_completed(jobs):
                    try:
                        records[jobs[job].target] = job.result()
                    except DataError as error:
                        failures.append(error)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
            finally:
                _write_manifest(folder, records, known, datasets)
        if not failures:
            shutil.rmtree(folder / STAGING, ignore_errors=True)
    if failures:
        more = f" ({len(failures) - 1} more files failed)" if len(failures) > 1 else ""
        raise failures[0].reworded(f"{failures[0].message}{more}")
    return progress


def _by_target(datasets: Iterable[FoundDataset]) -> dict[str, WantedFile]:
    wanted: dict[str, WantedFile] = {}
    for each in (file for dataset in datasets for file in dataset.files):
        other = wanted.setdefault(safe_path(each.target), each)
        if (other.repo, other.file.path, other.file.git_sha1) != (each.repo, each.file.path, each.file.git_sha1):
            raise DataError(
                f"two files would be written to {each.target}: {other.repo}/{other.file.path} and {each.repo}/{each.file.path}",
                hint="Fetch the tasks into separate mirrors.",
            )
    return wanted


@contextmanager
def _alone(folder: Path, patience: float) -> Iterator[None]:
    """Two fetches into one mirror would write the same files."""
    if os.name == "nt":  # directories cannot be opened there
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        until = time.monotonic() + patience
        while not try_lock(descriptor):
            if time.monotonic() < until:
                time.sleep(0.2)
                continue
            raise ConfigError(f"another fetch is running in {folder}", hint="Wait for it, or use another directory.")
        yield
    finally:
        os.close(descriptor)


def _fetch(folder: Path, wanted: WantedFile, client: HubClient, progress: FetchProgress) -> dict[str, Any]:
    """One file, in place and checked; what the manifest says of it."""
    target = _place(folder, wanted.target)
    if target.is_file() and target.stat().st_size == wanted.file.size and _is_right(target, wanted):
        progress.add(wanted.file.size, done=1, kept=1)
        return _record(target, wanted)
    staging = _place(folder, f"{STAGING}/{wanted.target}")
    for _ in range(2):
        staged = client.download(wanted.kind, wanted.repo, wanted.commit, wanted.file.path, staging)
        if staged.stat().st_size == wanted.file.size and _is_right(staged, wanted):
            with staged.open("rb") as file:
                os.fsync(file.fileno())
            os.replace(staged, target)
            progress.add(wanted.file.size, done=1)
            return _record(target, wanted)
        staged.unlink()
    raise DataError(
        f"{wanted.repo}/{wanted.file.path} did not match the hub's hash, twice",
        hint="A proxy may be changing files in transit. Nothing of it was stored.",
    )


def _place(folder: Path, name: str) -> Path:
    """The path in the mirror, with its folder; refused where a link would lead out of it."""
    target = folder.joinpath(*safe_path(name).split("/"))
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.parent.resolve().is_relative_to(folder.resolve()) or target.is_symlink():
        raise DataError(
            f"{target} is reached through a link", hint="A mirror contains only plain files; remove the link."
        )
    return target


def _is_right(path: Path, wanted: WantedFile) -> bool:
    """Whether the file has the hash that the hub says: SHA-256 of large files, git's of others."""
    if wanted.file.sha256 is not None:
        return file_sha256(path) == wanted.file.sha256
    digest = hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest() == wanted.file.git_sha1


def file_sha256(path: Path) -> str:
    """SHA-256 (hex) of a file, read in blocks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _record(target: Path, wanted: WantedFile) -> dict[str, Any]:
    return {
        "repo": wanted.repo,
        "kind": wanted.kind,
        "revision": wanted.commit,
        "path": wanted.file.path,
        "size": wanted.file.size,
        "sha256": wanted.file.sha256 or file_sha256(target),
    }


# ---------------------------------------------------------------------- the manifest


def read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    return _parsed_manifest(path, path.stat().st_mtime_ns) if path.is_file() else {}


@lru_cache(maxsize=8)
def _parsed_manifest(path: Path, changed: int) -> dict[str, Any]:
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        assert isinstance(manifest["files"], dict)
    except (OSError, ValueError, KeyError, TypeError, AssertionError) as error:
        raise ConfigError(f"{path} cannot be read: {error}", hint="Fetch again; correct files stay.") from error
    return dict(manifest)


def _write_manifest(
    folder: Path, records: dict[str, Any], known: dict[str, Any], found: Sequence[FoundDataset]
) -> None:
    datasets = {(each["path"], each["name"]): each for each in known.get("datasets", ())}
    datasets |= {(each.need.path, each.need.name): each.to_dict() for each in found}
    listed = [datasets[key] for key in sorted(datasets, key=str)]
    data = {"format": FORMAT, "files": dict(sorted(records.items())), "datasets": listed}
    partial = folder / f".{MANIFEST}.part"
    with open(partial, "w", encoding="utf-8") as out:
        json.dump(data, out, ensure_ascii=False, indent=1)
        out.flush()
        os.fsync(out.fileno())
    os.replace(partial, folder / MANIFEST)


def check_mirror(folder: Path, step: Callable[[str], None] = lambda name: None) -> list[str]:
    """What is not as the manifest says, in words."""
    manifest = read_manifest(folder)
    if not manifest:
        raise ConfigError(f"{folder} has no {MANIFEST}", hint="`assay fetch TASKS --to DIR` writes one.")
    wrong = []
    for name, record in manifest["files"].items():
        step(name)
        path = folder.joinpath(*safe_path(name).split("/"))
        if not path.is_file():
            wrong.append(f"{name} is missing")
        elif path.stat().st_size != record.get("size") or file_sha256(path) != record.get("sha256"):
            wrong.append(f"{name} differs from the file that was fetched")
    return wrong


def origin_of(folder: Path, files: Iterable[Path]) -> dict[str, Any]:
    """Where files of a mirror came from, for a run's provenance: repository, commit, and the note on it."""
    manifest = read_manifest(folder)
    names = [path.relative_to(folder).as_posix() for path in files if path.is_relative_to(folder)]
    record = next((manifest["files"][name] for name in names if name in manifest.get("files", {})), None)
    if record is None:
        return {}
    noted = (each for each in manifest.get("datasets", ()) if each.get("revision") == record.get("revision"))
    note = next((each.get("note") for each in noted if each.get("note")), None)
    return {"repo": record.get("repo"), "commit": record.get("revision"), **({"note": note} if note else {})}
