"""Task files on disk: `include` resolved, every field with the file and line that set it, and the harness they were written for."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

import yaml

from assay.config.parse import Parsed, Repeated, compose_file, parse_file
from assay.errors import ConfigError, ConfigWarning


@dataclass(frozen=True)
class Origin:
    """Where a field was set."""

    path: Path
    line: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


@dataclass(frozen=True)
class LoadedFile:
    """The merged mapping and, for each top-level key, where it was set."""

    data: dict[str, Any]
    origins: dict[str, Origin]


MAX_INCLUDES = 50
"""Files that may stand below each other by `include`."""
Done: TypeAlias = dict[Path, LoadedFile]
"""Files that were resolved already: two bases may share a third, at every level."""


def load_yaml(path: str | Path) -> LoadedFile:
    """Read a task or group file with everything it includes.

    Includes merge key by key at top level only: a later include wins over an earlier one, the file itself over all.
    The same base reached twice is fine; a file that includes itself is an error that prints the circle.
    """
    return _load(Path(path).expanduser().absolute(), (), {})


def load_file_only(path: Path) -> dict[str, Any]:
    """The mapping of one file as it is written, `include` unresolved."""
    return parse_file(path).data


def _load(path: Path, above: tuple[Path, ...], done: Done) -> LoadedFile:
    path = _real_path(path)
    if path in above:
        circle = " → ".join(file.name for file in (*above[above.index(path) :], path))
        raise ConfigError(f"{above[-1]}: circular include: {circle}", hint="Remove one of these includes.")
    if len(above) > MAX_INCLUDES:
        raise ConfigError(
            f"{above[0]}: more than {MAX_INCLUDES} files include each other, down to {path}",
            hint="Include the last ones directly.",
        )
    if path not in done:
        done[path] = _resolved(path, above, done)
    return done[path]


def _resolved(path: Path, above: tuple[Path, ...], done: Done) -> LoadedFile:
    parsed = _parse_cached(path)
    for twice in parsed.repeated:
        _refuse_or_warn(twice, path)
    own = {key: value for key, value in parsed.data.items() if key != "include"}
    origins = {key: Origin(path, parsed.lines.get(key, 1)) for key in own}
    if "include" not in parsed.data:
        return LoadedFile(own, origins)
    if isinstance(parsed.data["include"], dict) and "group" in own:
        # Fields of all members, written on the spot.
        return LoadedFile({**own, "include": parsed.data["include"]}, origins)
    merged = resolve_includes(
        parsed.data["include"], Origin(path, parsed.lines.get("include", 1)), (*above, path), done
    )
    return LoadedFile({**merged.data, **own}, {**merged.origins, **origins})


def _refuse_or_warn(twice: Repeated, path: Path) -> None:
    """One of two values would be passed over. Files of lm-evaluation-harness have such keys, and mean the last."""
    what = f"{path}:{twice.second}: the key {twice.key!r} stands here and on line {twice.first}"
    if lm_eval_version_of(path) is None and not twice.is_same:
        raise ConfigError(what, hint="Remove one of them.")
    warnings.warn(f"{what}; the last counts", ConfigWarning, stacklevel=2)


def _real_path(path: Path) -> Path:
    """`path.resolve()`, with the directory looked up once for the hundreds of files in it."""
    folder, name = os.path.split(path)
    if os.path.islink(path) or name in ("", ".", ".."):
        return path.resolve()
    return _real_folder(folder) / name


@lru_cache(maxsize=4096)
def _real_folder(folder: str) -> Path:
    return Path(folder).resolve()


def resolve_includes(
    include: Any, origin: Origin, above: tuple[Path, ...] = (), done: Done | None = None
) -> LoadedFile:
    """Merge the files that an `include:` names; `origin` is where it is written."""
    done = {} if done is None else done
    data: dict[str, Any] = {}
    origins: dict[str, Origin] = {}
    for name in include if isinstance(include, list) else [include]:
        if not isinstance(name, str) or not name.strip():
            raise ConfigError(f"{origin}: include is {name!r}", hint="Write a path or a list of paths.")
        base = origin.path.parent / Path(name).expanduser()
        if not base.is_file():
            raise ConfigError(f"{origin}: include names {name}, but there is no file {base}", hint=_suggest_file(base))
        included = _load(base, above or (origin.path,), done)
        # `task_list` names the tasks of the included file itself, not of those that build on it.
        data.update({key: value for key, value in included.data.items() if key != "task_list"})
        origins.update(included.origins)
    return LoadedFile(data, origins)


def locate(origin: Origin | None, location: Sequence[str | int]) -> Origin | None:
    """The line of something inside a field, e.g. `("metric_list", 1, "metric")`; the field's own line where that ends.

    The file is composed again for this: only errors ask, and they ask once.
    """
    if origin is None or len(location) < 2 or origin.path.suffix == ".py":
        return origin
    node = compose_file(origin.path)
    line = origin.line
    for part in location:
        child = _child(node, part)
        if child is None:
            break
        key, node = child
        line = key.start_mark.line + 1
    return Origin(origin.path, line)


def _child(node: yaml.Node | None, part: str | int) -> tuple[yaml.Node, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        return next(((key, value) for key, value in node.value if key.value == part), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        return node.value[part], node.value[part]
    return None


def _suggest_file(missing: Path) -> str:
    from assay.errors import did_you_mean

    if not missing.parent.is_dir():
        return f"The directory {missing.parent} does not exist."
    near = did_you_mean(missing.name, [entry.name for entry in missing.parent.iterdir() if entry.is_file()])
    return near or "A relative path is relative to the including file."


def _parse_cached(path: Path) -> Parsed:
    """Bases are shared by thousands of tasks; a file is parsed again only when it has changed."""
    try:
        status = path.stat()
    except OSError:
        return parse_file(path)  # says what is wrong
    return _parse_version(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=4096)
def _parse_version(path: Path, mtime_ns: int, size: int) -> Parsed:
    return parse_file(path)


# Which line of lm-evaluation-harness a task file was written for: the two score some docs differently. A file says it itself
# (`lm_eval_version: "0.5"`, also through an include or its group); else its directory does: that of an installation has the
# installed version's line, any other copy of its task files the older one. Files that belong to no lm-evaluation-harness have
# no line, and our own rules.

LmEvalVersion: TypeAlias = Literal["0.4", "0.5"]

_roots: dict[Path, LmEvalVersion] = {}


def read_line(given: Any) -> Any:
    """A version as its line: YAML makes a number of 0.4, and people write all of `0.4.13`.

    >>> read_line(0.4), read_line("0.5.0.dev1"), read_line("1.0")
    ('0.4', '0.5', '1.0')
    """
    found = re.match(r"0\.[45](?![0-9])", str(given))
    return given if found is None else found[0]


def add_lm_eval_root(root: Path) -> None:
    """Remember a directory of lm-evaluation-harness task files."""
    _roots[root.resolve()] = _line_of(root.resolve())
    _version_in.cache_clear()


def lm_eval_version_of(file: Path) -> LmEvalVersion | None:
    """The line of the directory that a task file lies in; None for one that is no lm-evaluation-harness's."""
    return _version_in(file.parent)


@lru_cache(maxsize=4096)
def _version_in(folder: Path) -> LmEvalVersion | None:
    folder = folder.resolve()
    for above in (folder, *folder.parents):
        if above in _roots:
            return _roots[above]
        if above.name == "tasks" and above.parent.name == "lm_eval":
            return _line_of(above)
    return None


def _line_of(root: Path) -> LmEvalVersion:
    """From what lies beside the package: the metadata of an installation, or the `pyproject.toml` of a checkout."""
    beside = root.parent.parent
    versions = [path.name.split("-")[1] for path in beside.glob("lm_eval-*.dist-info")]
    if not versions and (project := beside / "pyproject.toml").is_file():
        versions = re.findall(r'(?m)^version *= *"([^"]+)"', project.read_text(encoding="utf-8", errors="replace"))
    return "0.5" if [read_line(version) for version in versions] == ["0.5"] else "0.4"
