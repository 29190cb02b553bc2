"""The hub as far as a mirror needs it: which commit a revision is, which files it has, the files, by `huggingface_hub`, and
which of them are the splits of a dataset.

What the hub says of names, sizes and hashes is a claim to be checked.
"""

from __future__ import annotations

import fnmatch
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from assay.data.files import SUFFIXES
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

    def propose(self, repo: str, files: Mapping[str, bytes], title: str) -> str:
        """A pull request to a model's repository with these files; its address. Never sent twice: there would be two."""
        from huggingface_hub import CommitOperationAdd

        added = [CommitOperationAdd(path, content) for path, content in files.items()]
        try:
            found = self._api.create_commit(repo, added, commit_message=title, create_pr=True)
        except Exception as error:  # of huggingface_hub, or of whichever library it uses for HTTP
            answer = getattr(error, "response", None)
            why = " ".join(str(error).split())[:300] if answer is None else f"it answers {answer.status_code}"
            raise DataError(
                f"the hub did not take a pull request to {repo}: {why}",
                hint="It takes the name of a model's repository, and a token with which you may write, in HF_TOKEN.",
            ) from error
        return str(found.pr_url)

    def text(self, kind: str, repo: str, commit: str, path: str) -> str:
        """A small text file, such as a README."""
        with tempfile.TemporaryDirectory() as folder:
            return self.download(kind, repo, commit, path, Path(folder)).read_text(encoding="utf-8", errors="replace")

    def readme(self, repo: str) -> str:
        """The card of a model; empty where there is none yet."""
        try:
            return self.text("model", repo, "main", "README.md")
        except HubNotFound:
            return ""

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


# Splits: by what a repository's card says, else by the names of its files, else by the hub's Parquet.

SPLIT_WORDS = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "val", "dev"),
    "test": ("test", "testing", "eval", "evaluation"),
}
READABLE = tuple(f"{suffix}{end}" for suffix in SUFFIXES for end in ("", ".gz"))


def card_splits(card: str, name: str | None, files: Sequence[HubFile]) -> dict[str, list[HubFile]]:
    """Split to files as the `configs` of a README say; nothing where it says nothing of this config."""
    import yaml

    found = re.match(r"---\s*\n(.*?)\n---\s*(\n|$)", card, re.DOTALL)
    try:
        about = yaml.safe_load(found[1]) if found else None
    except (yaml.YAMLError, RecursionError, ValueError):
        return {}
    configs = about.get("configs") if isinstance(about, dict) else None
    chosen = _chosen(configs if isinstance(configs, list) else [], name)
    folder = str(chosen.get("data_dir") or "").strip("/")
    named = _patterns_by_split(chosen.get("data_files"))
    splits = {split: matching(patterns, files, folder) for split, patterns in named.items()}
    return {split: paths for split, paths in splits.items() if paths}


def _patterns_by_split(data_files: Any) -> dict[str, Any]:
    """`data_files` of a README: one pattern, a mapping, or a list of either; without a split they are `train`."""
    if isinstance(data_files, str):
        return {"train": data_files}
    if isinstance(data_files, Mapping):
        return dict(data_files)
    named: dict[str, Any] = {}
    for each in data_files if isinstance(data_files, list) else []:
        if isinstance(each, Mapping) and "split" in each and "path" in each:
            named[str(each["split"])] = each["path"]
        elif isinstance(each, str):
            named.setdefault("train", []).append(each)
    return named


def _chosen(configs: list[Any], name: str | None) -> Mapping[str, Any]:
    listed = [each for each in configs if isinstance(each, Mapping)]
    wanted = [each for each in listed if each.get("config_name") == (name or "default")]
    if not wanted and name is None:
        wanted = [each for each in listed if each.get("default")] or (listed if len(listed) == 1 else [])
    return wanted[0] if wanted else {}


def matching(patterns: Any, files: Sequence[HubFile], folder: str = "") -> list[HubFile]:
    """Files that fit one of the patterns, by path: `*` stays inside a folder, `**` does not."""
    listed = patterns if isinstance(patterns, list) else [patterns]
    rules = [_as_rule("/".join(part for part in (folder, str(each).removeprefix("./")) if part)) for each in listed]
    return [file for file in files if any(rule.fullmatch(file.path) for rule in rules)]


def _as_rule(pattern: str) -> re.Pattern[str]:
    """
    >>> bool(_as_rule("data/*.csv").fullmatch("data/a/b.csv")), bool(_as_rule("**/b.csv").fullmatch("data/a/b.csv"))
    (False, True)
    """
    if len(pattern) > 500:
        raise DataError(f"the pattern {pattern[:80]!r}… is too long")
    pieces = []
    for part in re.split(r"(\*\*/?|\*|\?)", pattern):
        pieces.append({"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(part, re.escape(part)))
    return re.compile("".join(pieces))


def named_splits(name: str | None, files: Sequence[HubFile]) -> dict[str, list[HubFile]]:
    """Split to files by their names: `data/test-00000-of-00002.parquet`, `main/test.jsonl`, `test/0.csv`.

    With the name of a config, only files below a folder of that name; without, only files of one folder and suffix each.
    """
    readable = [file for file in files if file.path.endswith(READABLE) and not file.path.startswith(".")]
    if name is not None:
        readable = [file for file in readable if name in file.path.split("/")[:-1]]
    splits: dict[str, list[HubFile]] = {}
    for file in readable:
        if (split := _split_of(file.path, name)) is not None:
            splits.setdefault(split, []).append(file)
    for split, chosen in splits.items():
        kinds = {(file.path.rpartition("/")[0], _suffix(file.path)) for file in chosen}
        if len(kinds) > 1:  # which of them is meant, only the library or a person can say
            return {}
        splits[split] = sorted(chosen, key=lambda file: file.path)
    return splits


def _split_of(path: str, name: str | None) -> str | None:
    parts = path.split("/")
    folder, file = (parts[-2] if len(parts) > 1 and parts[-2] != name else ""), parts[-1]
    words = re.split(r"[-_. ]", file)[0:1] + ([folder] if folder else [])
    for split, known in SPLIT_WORDS.items():
        if any(word.lower() in known for word in words):
            return split
    return None


def _suffix(path: str) -> str:
    return next(suffix for suffix in sorted(READABLE, key=len, reverse=True) if path.endswith(suffix))


def converted_splits(name: str | None, files: Sequence[HubFile]) -> tuple[str, dict[str, list[HubFile]]]:
    """The config and its splits in the hub's Parquet branch."""
    configs: dict[str, dict[str, list[HubFile]]] = {}
    for file in files:
        parts = file.path.split("/")
        if len(parts) == 3 and parts[2].endswith(".parquet"):
            configs.setdefault(parts[0], {}).setdefault(parts[1].removeprefix("partial-"), []).append(file)
    if name is None:
        name = "default" if "default" in configs or len(configs) != 1 else next(iter(configs))
    if name not in configs:
        listed = ", ".join(sorted(configs)[:12]) or "none"
        raise DataError(f"the hub's Parquet has no config {name!r}", hint=f"It has: {listed}. Set dataset_name.")
    return name, {split: sorted(found, key=lambda file: file.path) for split, found in configs[name].items()}


def is_partial(files: Iterable[HubFile]) -> bool:
    """Whether the hub converted only the first part of a large dataset."""
    return any("/partial-" in file.path for file in files)


def has_script(repo: str, files: Sequence[HubFile]) -> bool:
    """Whether a repository is loaded by a script of its own, which nothing runs any more."""
    script = f"{repo.rpartition('/')[2]}.py"
    return any(fnmatch.fnmatchcase(file.path, script) for file in files)


def shard_name(split: str, place: int, total: int, path: str) -> str:
    """The name of a split's file in the mirror."""
    suffix = _suffix(path)
    return f"{split}{suffix}" if total == 1 else f"{split}-{place:05d}-of-{total:05d}{suffix}"
