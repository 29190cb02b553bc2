"""Which line of lm-evaluation-harness a task file was written for: the two score some docs differently.

A file says it itself (`lm_eval_version: "0.5"`, also through an include or its group); else its directory does: that of
an installation has the installed version's line, any other copy of its task files the older one. Files that belong to
no lm-evaluation-harness have no line, and our own rules.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

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
