"""What a Python file defines, read off its syntax: nothing of it runs.

Only what is certain is believed. Where a file may define more than can be seen (`import *`, `globals()`, a module's own
`__getattr__`), `is_open` says so.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from assay.errors import ConfigError
from assay.paths import read_regular

_MOST = 16 << 20
"""Bytes of a Python file that is read."""

_OPENING = frozenset({"globals", "vars", "locals", "exec", "eval", "setattr"})
"""Calls at the top of a module after which it may hold any name."""


@dataclass(frozen=True)
class ClassOutline:
    """A class as written: the names that its body binds, and the values that are literals."""

    name: str
    line: int
    bases: tuple[str, ...]
    lines: dict[str, int]
    """Every name that its body binds, and the line that does."""
    literals: dict[str, Any] = field(default_factory=dict)

    @property
    def binds(self) -> frozenset[str]:
        return frozenset(self.lines)


@dataclass(frozen=True)
class ModuleOutline:
    """The names that importing a module binds, the packages that it cannot do without, and its classes."""

    names: frozenset[str] = frozenset()
    packages: tuple[str, ...] = ()
    classes: tuple[ClassOutline, ...] = ()
    is_open: bool = False
    registers: bool = False
    """Whether it may enter metrics, filters or other names into a registry."""


def outline(file: Path) -> ModuleOutline:
    """The outline of a Python file; one that cannot be read, or is no Python, is a `ConfigError`."""
    try:
        found = file.stat()
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from error
    read = _outline(file, found.st_mtime_ns, found.st_size)
    if isinstance(read, ConfigError):
        raise read
    return read


@lru_cache(maxsize=512)
def _outline(file: Path, mtime_ns: int, size: int) -> ModuleOutline | ConfigError:
    try:
        source = read_regular(file, _MOST)
        tree = ast.parse(source, filename=str(file))
        return _of_module(tree, source)
    except OSError as error:
        return ConfigError(f"{file}: cannot be read: {error.strerror}")
    except SyntaxError as error:
        return ConfigError(
            f"{file}:{error.lineno}: not valid Python: {error.msg}", hint="Correct that line or the one before it."
        )
    except (ValueError, RecursionError, MemoryError) as error:
        return ConfigError(f"{file}: not valid Python: {str(error) or 'it is nested too deeply'}")


def _of_module(tree: ast.Module, source: bytes) -> ModuleOutline:
    names: set[str] = set()
    packages: dict[str, None] = {}
    is_open = False
    for statement, is_certain in _statements(tree.body):
        names |= _bound(statement)
        if is_certain and isinstance(statement, ast.Import):
            packages |= dict.fromkeys(alias.name.partition(".")[0] for alias in statement.names)
        if is_certain and isinstance(statement, ast.ImportFrom) and not statement.level:
            packages[(statement.module or "").partition(".")[0]] = None
        is_open = is_open or _opens(statement)
    classes = tuple(_of_class(each) for each in tree.body if isinstance(each, ast.ClassDef))
    return ModuleOutline(
        frozenset(names), tuple(packages), classes, is_open or "__getattr__" in names, b"register" in source
    )


def _statements(body: list[ast.stmt], is_certain: bool = True) -> Iterator[tuple[ast.stmt, bool]]:
    """The statements that run when a module is imported; one below `if`, `try` or a loop may or may not."""
    for statement in body:
        yield statement, is_certain
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        for name in ("body", "orelse", "finalbody"):
            yield from _statements(getattr(statement, name, []), isinstance(statement, ast.With) and is_certain)
        for handler in [*getattr(statement, "handlers", []), *getattr(statement, "cases", [])]:
            yield from _statements(handler.body, False)


def _bound(statement: ast.stmt) -> set[str]:
    """The names that one statement binds, those of statements inside it left out."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {statement.name}
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return {alias.asname or alias.name.partition(".")[0] for alias in statement.names}
    parts: list[ast.AST] = []
    for child in ast.iter_child_nodes(statement):
        parts += [] if isinstance(child, ast.stmt | ast.excepthandler) else [child]
    stored = (node for part in parts for node in ast.walk(part))
    return {node.id for node in stored if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _opens(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.ImportFrom):
        return any(alias.name == "*" for alias in statement.names)
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import):
        return False
    return any(isinstance(node, ast.Name) and node.id in _OPENING for node in ast.walk(statement))


def _of_class(tree: ast.ClassDef) -> ClassOutline:
    literals: dict[str, Any] = {}
    for statement in tree.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        value = getattr(statement, "value", None)
        for target in targets:
            if isinstance(target, ast.Name) and isinstance(value, ast.expr):
                try:
                    literals[target.id] = ast.literal_eval(value)
                except (ValueError, TypeError, RecursionError, MemoryError):
                    literals.pop(target.id, None)
    lines = {name: statement.lineno for statement, _ in _statements(tree.body) for name in _bound(statement)}
    bases = tuple(ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in tree.bases)
    return ClassOutline(tree.name, tree.lineno, bases, lines, literals)
