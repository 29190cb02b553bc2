"""Where the docs of a task come from, found when a split is first needed.

Whether the hub can be reached is found out once: the library finds out by retrying for half a minute, aloud, for each file.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from assay.config import FILE_FORMATS, what_failed
from assay.data.docs import Docs
from assay.data.files import SUFFIXES, read_files
from assay.data.finding import HUB_PREFIX, RENAMED, SCRIPTS, SUCCESSORS, find_dataset, need_of
from assay.data.hub import HubClient, hub_endpoint
from assay.data.mirror import file_sha256, fill_mirror, origin_of
from assay.errors import AssayError, DataError, did_you_mean
from assay.paths import assay_home

if TYPE_CHECKING:
    import datasets

_SHARD = re.compile(r"-\d+-of-\d+$")
PICKLE_BUILDERS = frozenset({"pandas"})
"""File formats of the `datasets` library that hold code. Newer versions refuse them; we do it whatever the version."""


def mirror_dir(given: str | os.PathLike[str] | None = None) -> Path | None:
    """The mirror of the hub: what is given, else `ASSAY_DATA_DIR`, else none."""
    chosen = given or os.environ.get("ASSAY_DATA_DIR")
    return Path(chosen) if chosen else None


class DataSource:
    """The splits of one dataset reference. Making one reads nothing; a split of the mirror is read by itself."""

    def __init__(
        self,
        path: str | None,
        name: str | None = None,
        kwargs: Mapping[str, Any] | None = None,
        *,
        custom: Callable[..., Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        data_dir: Path | None = None,
        as_written: bool = False,
    ) -> None:
        self.as_written = as_written
        self.path, self.name = path, name
        self.kwargs = dict(kwargs or {})
        self.custom, self.metadata, self.mirror = custom, dict(metadata or {}), data_dir
        self._files: dict[str, list[Path]] | None = None
        self._splits: dict[str, Any] = {}
        self._loaded: Mapping[str, Any] | None = None
        self._origin: dict[str, Any] = {}
        """Where the data were taken instead, and why."""

    def __getitem__(self, split: str) -> Docs:
        if split not in self._splits:
            files = self.mirror_files()
            if split in files:
                as_written = self.as_written and self.path == "json"
                self._splits[split] = read_files(files[split], as_written=as_written)
            else:
                self._splits[split] = self._from_library(split, files)
        return self._splits[split]

    def __contains__(self, split: str) -> bool:
        return split in (self.mirror_files() or self._load())

    @property
    def label(self) -> str:
        return "/".join(part for part in (self.path, self.name) if part) or "custom_dataset"

    def mirror_files(self) -> dict[str, list[Path]]:
        """Split to files, as far as they are files of this machine or the mirror has them."""
        if self._files is None:
            self._files = self._local_files() or ({} if self.mirror is None else self._find_files())
        return self._files

    def _local_files(self) -> dict[str, list[Path]]:
        """`dataset_path: json` with files that exist: read as they are, without a copy in the library's cache."""
        data_files = self.kwargs.get("data_files")
        if self.custom or self.path != "json" or data_files is None or len(self.kwargs) > 1:
            return {}
        named = data_files if isinstance(data_files, Mapping) else {"train": data_files}
        files = {split: [Path(name) for name in _listed(given)] for split, given in named.items()}
        return files if all(path.is_file() for paths in files.values() for path in paths) else {}

    def _find_files(self) -> dict[str, list[Path]]:
        assert self.mirror is not None
        if self.custom or self.path is None:
            return {}
        data_files = self.kwargs.get("data_files")
        if data_files is None:
            return _splits_in(self.mirror / self.path / (self.name or "default"))
        named = data_files if isinstance(data_files, Mapping) else {"train": data_files}
        files = {split: self._mirrored(_listed(given)) for split, given in named.items()}
        return {split: paths for split, paths in files.items() if paths}

    def _mirrored(self, given: list[str]) -> list[Path]:
        """The mirror's copies of these data files; nothing unless all are there."""
        assert self.mirror is not None
        assert self.path is not None
        paths: list[Path] = []
        for name in given:
            if name.startswith(HUB_PREFIX):
                owner, _, rest = name.removeprefix(HUB_PREFIX).partition("/")
                repo, _, file = rest.partition("/")
                base, pattern = self.mirror / owner / repo.partition("@")[0], file
            else:
                base, pattern = self.mirror / self.path, name
            matches = sorted(base.glob(pattern)) if not Path(pattern).is_absolute() and base.is_dir() else []
            if not matches:
                return []
            paths += matches
        return paths

    def _from_library(self, split: str, mirrored: dict[str, list[Path]]) -> datasets.Dataset:
        if mirrored:
            raise DataError(
                f"{self.label} has no split {split!r} in the mirror {self.mirror}", hint=_known(split, mirrored)
            )
        splits = self._load()
        if split not in splits:
            raise DataError(f"{self.label} has no split {split!r}", hint=_known(split, splits))
        dataset: datasets.Dataset = splits[split]
        return dataset

    def _load(self) -> Mapping[str, Any]:
        if self._loaded is None:
            self._loaded = self._call_custom() if self.custom else self._call_library()
        return self._loaded

    def _call_custom(self) -> Mapping[str, Any]:
        assert self.custom is not None
        try:
            loaded = self.custom(**self.metadata, **self.kwargs)
        except AssayError:
            raise
        except Exception as error:  # code of a task file may raise anything
            said, hint = what_failed(error)
            raise DataError(f"custom_dataset failed: {said}", hint=hint) from error
        if not isinstance(loaded, Mapping):
            raise DataError(
                f"custom_dataset returned {type(loaded).__name__}, expected a mapping from split to docs",
                hint='Return {"test": dataset} or a datasets.DatasetDict.',
            )
        return loaded

    def _call_library(self) -> Mapping[str, Any]:
        import datasets

        self._check_place()
        assert self.path is not None
        # Loading scripts are gone from the library; task files still ask for them.
        kwargs = {key: value for key, value in self.kwargs.items() if key != "trust_remote_code"}
        local = Path(self.path)
        if (local / "dataset_dict.json").exists():
            return dict(datasets.load_from_disk(self.path))
        if (local / "state.json").exists():
            return {"train": datasets.load_from_disk(self.path)}
        unreachable: str | None = None
        try:
            with nullcontext() if self._is_local() else hub_or_cache() as unreachable:
                loaded = datasets.load_dataset(self.path, self.name, **kwargs)
        except Exception as error:  # whatever the library raises: the reader needs dataset, config and cause
            if unreachable is None and (instead := self._stand_in(error)) is not None:
                return instead
            raise self._not_loaded(error, unreachable) from error
        return loaded if isinstance(loaded, Mapping) else {str(kwargs.get("split", "train")): loaded}

    def _not_loaded(self, error: Exception, unreachable: str | None) -> DataError:
        if unreachable is not None:
            return DataError(
                f"{self.label} cannot be loaded: the hub cannot be reached ({unreachable}), and its cache has no copy",
                hint="Check the network, or use a local copy with --data_dir.",
            )
        return DataError(
            f"{self.label} cannot be loaded: {type(error).__name__}: {error}",
            hint="Check the name and the network, or use a local copy with --data_dir.",
        )

    def _check_place(self) -> None:
        """What can be known to be wrong before the library is called."""
        if self.path is None:
            raise DataError("the task names no dataset", hint="Set dataset_path or custom_dataset.")
        if self.path in PICKLE_BUILDERS:
            raise DataError(
                f"dataset_path is {self.path}, which reads pickles, and pickles can run any code",
                hint="Convert the file to parquet or JSON lines.",
            )
        offline = os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "TRUE", "YES", "ON")
        if self.mirror is not None and offline and not self._is_local():
            where = self.mirror / self.path / (self.name or "default")
            wanted = self.kwargs.get("data_files") or f"{where}/<split>.{{jsonl,json,parquet,csv,tsv}}"
            raise DataError(
                f"{self.label} is not in the mirror: looked for {wanted} under {self.mirror}",
                hint="Put the file there, or unset HF_HUB_OFFLINE to fetch it.",
            )

    def _stand_in(self, error: Exception) -> Mapping[str, Any] | None:
        """For a dataset that was loaded by a script, or moved: its Parquet conversion on the hub, or its successor."""
        known = self.path in SCRIPTS or self.path in SUCCESSORS or self.path in RENAMED
        need = need_of(self.path, self.name, self.kwargs, ())
        if need is None or need.data_files or not (known or "script" in str(error).lower()):
            return None
        client = HubClient()
        found = find_dataset(client, need)
        folder = assay_home() / "hub"
        fill_mirror(folder, [found], client, patience=600)
        self._origin = {"repo": found.repo, "commit": found.commit, "note": found.note}
        places: dict[str, list[Path]] = {}
        for split, paths in _splits_in(folder / need.path / (need.name or "default")).items():
            if any(str(path).startswith(str(folder / file.target)) for path in paths for file in found.files):
                places[split] = paths
        return {split: read_files(paths) for split, paths in places.items()}

    def _is_local(self) -> bool:
        """Whether the reference means files of this machine: a directory, or a file format with its data files."""
        assert self.path is not None
        named = self.kwargs.get("data_files") or self.kwargs.get("data_dir")
        is_format = self.path in FILE_FORMATS and named is not None and HUB_PREFIX not in str(named)
        return is_format or Path(self.path).exists()

    def provenance(self) -> dict[str, Any]:
        """What the run records: the pinned revision, and a hash of the content of every split that was read."""
        record: dict[str, Any] = {"dataset": self.label}
        if revision := self.kwargs.get("revision"):
            record["revision"] = revision
        files = self.mirror_files()
        if self.mirror is not None and files:
            record |= origin_of(self.mirror, [path for paths in files.values() for path in paths])
        record |= {key: value for key, value in self._origin.items() if value is not None}
        record["splits"] = {
            split: {"sha256": [file_sha256(path) for path in files[split]]} if split in files else _fingerprint(data)
            for split, data in self._splits.items()
        }
        return record


def _splits_in(folder: Path) -> dict[str, list[Path]]:
    """Split to files: `test.jsonl`, or the shards `test-00000-of-00002.parquet`. The first suffix of the list wins."""
    files: dict[str, list[Path]] = {}
    for suffix in (f"{suffix}{end}" for suffix in SUFFIXES for end in ("", ".gz")):
        of_suffix: dict[str, list[Path]] = {}
        for file in sorted(folder.glob(f"*{suffix}")):
            of_suffix.setdefault(_SHARD.sub("", file.name.removesuffix(suffix)), []).append(file)
        files = {**of_suffix, **files}
    return files


def _listed(given: str | list[str]) -> list[str]:
    return [given] if isinstance(given, str) else given


def _known(split: str, splits: Mapping[str, Any]) -> str:
    return did_you_mean(split, splits) or f"There are: {', '.join(splits) or 'none'}."


def _fingerprint(data: Any) -> dict[str, Any]:
    info = getattr(data, "info", None)
    sources = sorted(getattr(info, "download_checksums", None) or {})
    return {"fingerprint": getattr(data, "_fingerprint", None), "sources": sources}


_SECONDS = 5.0
"""How long a connection may take to open."""


def why_out_of_reach() -> str | None:
    """Why no connection can be opened to the hub; None where one can, or where nobody but the library can tell."""
    from huggingface_hub import constants

    return None if constants.HF_HUB_OFFLINE else _why_out_of_reach(hub_endpoint())


@cache
def _why_out_of_reach(endpoint: str) -> str | None:
    parts = urlsplit(endpoint)
    if parts.hostname is None or parts.scheme in getproxies():
        return None
    try:
        with socket.create_connection(
            (parts.hostname, parts.port or (80 if parts.scheme == "http" else 443)), _SECONDS
        ):
            return None
    except OSError as error:
        return f"{parts.hostname}: {error.strerror or error}"


@contextmanager
def hub_or_cache() -> Iterator[str | None]:
    """Inside, the hub is reached without comments on each retry; where it is out of reach, its local cache alone is. Gives
    the reason why it is out of reach."""
    from huggingface_hub import constants

    reason = why_out_of_reach()
    logger = logging.getLogger("huggingface_hub")
    level = logger.level
    logger.setLevel(logging.ERROR)
    switches = _switches(constants) if reason else []
    for switch in switches:
        switch.HF_HUB_OFFLINE = True
    try:
        yield reason
    finally:
        logger.setLevel(level)
        for switch in switches:
            switch.HF_HUB_OFFLINE = False


def _switches(constants: Any) -> list[Any]:
    """The modules whose `HF_HUB_OFFLINE` decides, as far as it is off; `datasets` keeps one of its own."""
    modules = [constants, sys.modules.get("datasets.config")]
    return [module for module in modules if module is not None and not module.HF_HUB_OFFLINE]
