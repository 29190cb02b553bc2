"""Which files of a repository are the splits of a dataset: what its card says, else the names of its files, else the hub's Parquet."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from assay.data.files import SUFFIXES
from assay.data.hub import HubFile
from assay.errors import DataError

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
