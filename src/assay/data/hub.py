"""The hub as far as a mirror needs it: which commit a revision is, which files it has, and the files, by `huggingface_hub`.

What the hub says of names, sizes and hashes is a claim to be checked.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from assay.errors import DataError

T = TypeVar("T")

CONVERTED = "refs/convert/parquet"
"""The branch in which the hub keeps every dataset as Parquet: `<config>/<split>/0000.parquet`."""
ATTEMPTS = 3
LONGEST_WAIT = 120.0
_BUSY = (408, 429, 500, 502, 503, 504)


@dataclass(frozen=True)
class HubFile:
    """A file of a repository as its tree lists it."""

    path: str
    size: int
    sha256: str | None
    """Known of large files; of others the hub knows the git hash."""
    git_sha1: str


class HubNotFound(DataError):
    """The hub has no such repository, revision or file, or shows it to nobody."""


def hub_endpoint() -> str:
    """The hub's address: that of `huggingface_hub`, or what `HF_ENDPOINT` says now, even if it was set after the import."""
    from huggingface_hub import constants

    return (os.environ.get("HF_ENDPOINT") or constants.ENDPOINT).rstrip("/")


class HubClient:
    """Asks the hub, again where it is busy. Without a token, `huggingface_hub` finds the one it has."""

    def __init__(
        self, endpoint: str | None = None, token: str | None = None, *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        from huggingface_hub import HfApi
        from huggingface_hub.utils import disable_progress_bars  # type: ignore[attr-defined]

        disable_progress_bars()  # one for each of the files that come at once; ours is one line for all
        self._api = HfApi(endpoint=endpoint or hub_endpoint(), token=token)
        self._sleep = sleep

    def commit(self, kind: str, repo: str, revision: str) -> str:
        """The commit that a branch, tag or commit is now."""
        found = self._ask(f"{repo} at {revision}", lambda: self._api.repo_info(repo, repo_type=kind, revision=revision))
        if not isinstance(found.sha, str) or not re.fullmatch("[0-9a-f]{40}", found.sha):
            raise DataError(f"{repo}: the hub does not say which commit {revision} is")
        return found.sha

    def tree(self, kind: str, repo: str, commit: str) -> list[HubFile]:
        """All files of a commit."""
        from huggingface_hub.hf_api import RepoFile

        def listed() -> list[Any]:
            return [*self._api.list_repo_tree(repo, repo_type=kind, revision=commit, recursive=True)]

        return [
            HubFile(safe_path(each.path), each.size, each.lfs.sha256 if each.lfs else None, each.blob_id)
            for each in self._ask(f"{repo} at {commit}", listed)
            if isinstance(each, RepoFile)
        ]

    def download(self, kind: str, repo: str, commit: str, path: str, folder: Path) -> Path:
        """The file below the folder; where a download was broken off there, it goes on."""

        def fetched() -> str:
            return self._api.hf_hub_download(repo, path, repo_type=kind, revision=commit, local_dir=folder)

        return Path(self._ask(f"{repo}/{path} at {commit}", fetched))

    def text(self, kind: str, repo: str, commit: str, path: str) -> str:
        """A small text file, such as a README."""
        with tempfile.TemporaryDirectory() as folder:
            return self.download(kind, repo, commit, path, Path(folder)).read_text(encoding="utf-8", errors="replace")

    def _ask(self, what: str, call: Callable[[], T]) -> T:
        """What the call gives; where it fails, tried again if that may help, or else said in a line."""
        for attempt in range(ATTEMPTS):
            try:
                return call()
            except Exception as error:  # of huggingface_hub, or of whichever library it uses for HTTP
                answer = getattr(error, "response", None) or getattr(error.__cause__, "response", None)
                status = None if answer is None else answer.status_code
                may_pass = _is_of_the_network(error) if answer is None else status in _BUSY
                if not may_pass or attempt == ATTEMPTS - 1:
                    raise _explained(what, status, error) from error
                wait = "" if answer is None else answer.headers.get("Retry-After") or ""
                self._sleep(min(float(wait) if wait.isdecimal() else 2.0**attempt, LONGEST_WAIT))
        raise AssertionError("unreachable")


def _is_of_the_network(error: Exception) -> bool:
    """Whether a connection failed or broke off, which may work the next time. A full disk has a number; a wrong name, and
    a hub that must not be reached, have kinds of their own."""
    from huggingface_hub.errors import OfflineModeIsEnabled

    final = (OfflineModeIsEnabled, ValueError, TypeError)
    return not (
        isinstance(error, final)
        or isinstance(error.__cause__, OfflineModeIsEnabled)
        or getattr(error, "errno", None) is not None
    )


def _explained(what: str, status: int | None, error: Exception) -> DataError:
    if status in (401, 403):
        return DataError(
            f"the hub shows {what} only to registered users ({status})",
            hint="Accept its terms on its page, and set HF_TOKEN. The hub also says this about names that do not exist.",
        )
    if status == 404:
        return HubNotFound(f"the hub has no {what}", hint="Check the name; it may have been renamed or removed.")
    if status is not None:
        return DataError(f"the hub answers {status} for {what}", hint="Run the same command again later.")
    if isinstance(error, OSError) and error.errno is not None and error.filename is not None:
        return DataError(f"cannot write {error.filename}: {error.strerror}", hint="Is the disk full?")
    reason = " ".join(str(error).split())[:300] or type(error).__name__
    return DataError(f"{what} cannot be fetched: {reason}", hint="Run the same command again; what was fetched stays.")


_SEGMENT = re.compile(r"[^\x00-\x1f\x7f/\\:*?\"<>|]+")


def safe_path(path: str) -> str:
    """A path that stays below the directory it is put in, and is one file on every system.

    >>> safe_path("data/train-00000-of-00001.parquet")
    'data/train-00000-of-00001.parquet'
    """
    parts = path.split("/") if isinstance(path, str) else [""]
    for part in parts:
        if part in (".", "..") or not _SEGMENT.fullmatch(part) or len(part.encode()) > 255:
            raise DataError(f"the name {path!r:.120} leads outside the mirror, or is empty", hint="It is not fetched.")
    return path
