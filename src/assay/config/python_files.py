"""Python files of tasks: those below one directory are the modules of one package, so that they can import their siblings; and
what a file defines is read off its syntax where nothing of it may run.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

from assay.errors import ConfigError
from assay.paths import read_regular
from assay.registry import Registry

StandIn: TypeAlias = Callable[[str, Sequence[str], str], ModuleType | None]
"""`(name, fromlist, package of the importing file)` to what the import gives, or None where the real module will do."""

STAND_INS: Registry[StandIn] = Registry(
    "stand-in package",
    lazy={
        "evaluate": "assay.metrics.hub:import_for_task",
        "transformers": "assay.metrics.hub:import_for_task",
        "lm_eval": "assay.compat.lm_eval.shim:import_for_task",
    },
)
"""Packages that task files import although they need not be installed. Only task files see a stand-in."""

_task_roots: set[Path] = set()
_packages: dict[str, tuple[Path, ...]] = {}
"""Package of task files to the directories that its modules are looked for in."""


def add_task_root(root: Path) -> None:
    """Remember a directory of task files: Python files below it are modules of one package."""
    _task_roots.add(root.resolve())


def _roots_for(file: Path) -> tuple[Path, ...]:
    """Where siblings of the file are looked for: an `lm_eval/tasks` above it, then known roots, outermost first."""
    above = list(file.parents)
    original = [folder for folder in above if folder.name == "tasks" and folder.parent.name == "lm_eval"]
    known = [folder for folder in reversed(above) if folder in _task_roots]
    return tuple(dict.fromkeys([*original, *known])) or (file.parent,)


def package_for(file: Path) -> str:
    """The package that a Python file belongs to."""
    roots = _roots_for(file)
    name = f"assay_task_files_{_digest(*roots)}"
    if not _packages:
        sys.meta_path.insert(0, _SiblingFinder())
    _packages[name] = roots
    return name


def path_in_package(name: str) -> str | None:
    """The part of a module's name that its author knows, if it is a module of such a package."""
    package, _, inside = name.partition(".")
    return inside if package in _packages else None


def module_name(file: Path) -> str:
    """The name by which a sibling would import the file, so that both ways to it give the same module."""
    package = package_for(file)
    parts = file.relative_to(_packages[package][0]).with_suffix("").parts
    return ".".join((package, *parts)) if all(map(str.isidentifier, parts)) else f"{package}.file_{_digest(file)}"


def _digest(*paths: Path) -> str:
    return hashlib.sha256("\0".join(map(str, paths)).encode()).hexdigest()[:12]


class _SiblingFinder(MetaPathFinder):
    """Finds `PACKAGE.a.b` as `a/b.py` below the roots of a package of task files, and answers for nothing else."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        package, _, inside = fullname.partition(".")
        if package not in _packages:
            return None
        roots = _packages[package]
        if not inside:
            return _folder_spec(fullname, *roots)
        relative = inside.replace(".", "/")
        for root in roots:
            if (file := root / f"{relative}.py").is_file():
                return spec_of(fullname, file)
            if (folder := root / relative).is_dir():
                init = folder / "__init__.py"
                return spec_of(fullname, init, folder) if init.is_file() else _folder_spec(fullname, folder)
        return None


def _folder_spec(name: str, *folders: Path) -> ModuleSpec:
    spec = ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = [str(folder) for folder in folders]
    return spec


def spec_of(name: str, file: Path, folder: Path | None = None) -> ModuleSpec:
    spec = importlib.util.spec_from_file_location(
        name,
        file,
        loader=_TaskFileLoader(name, str(file)),
        submodule_search_locations=[str(folder)] if folder else None,
    )
    assert spec is not None
    return spec


class _TaskFileLoader(SourceFileLoader):
    """Runs a task's Python file with an `import` that knows the stand-ins, also from inside its functions later on."""

    def exec_module(self, module: ModuleType) -> None:
        package = module.__name__.partition(".")[0]

        def import_for_task(
            name: str, globals: Any = None, locals: Any = None, fromlist: Sequence[str] | None = (), level: int = 0
        ) -> ModuleType:
            stand_in = None if level else import_stand_in(name, fromlist or (), package)
            return stand_in or builtins.__import__(name, globals, locals, fromlist or (), level)

        changed = {"__import__": import_for_task, "print": _print}
        module.__dict__["__builtins__"] = {**vars(builtins), **changed}
        module.__dict__["__assay_version__"] = Path(self.path).stat().st_mtime_ns
        super().exec_module(module)

    def set_data(self, path: str, data: Any, *, _mode: int = 0o666) -> None:
        """Write no bytecode beside somebody else's task files."""


def _print(*values: Any, file: Any = None, **options: Any) -> None:
    """What a task's code says is no result, and must not stand before the JSON that another program reads."""
    print(*values, file=sys.stderr if file is None else file, **options)


def import_stand_in(name: str, fromlist: Sequence[str], package: str) -> ModuleType | None:
    """What a stand-in gives for an import in a file of `package`; None where there is none."""
    top = name.partition(".")[0]
    return STAND_INS[top](name, fromlist, package) if top in STAND_INS else None


# Outlines. Only what is certain is believed. Where a file may define more than can be seen (`import *`, `globals()`, a module's
# own `__getattr__`), `is_open` says so.

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
    makers = _makers(tree)
    is_open = is_open or any(_mentions(each) & makers for each, _ in _statements(tree.body))
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
    nodes = [node for part in parts for node in ast.walk(part)]
    captured = {node.name for node in nodes if isinstance(node, ast.MatchAs | ast.MatchStar) and node.name is not None}
    return captured | {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _opens(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.ImportFrom):
        return any(alias.name == "*" for alias in statement.names)
    return bool(_mentions(statement) & _OPENING)


_MAKING = frozenset({"globals", "vars", "exec", "setattr", "modules"})
"""What a function uses that makes names of its module: `globals()[name] = …`, `setattr(sys.modules[__name__], …)`.
A `global name` counts as the first."""


def _makers(tree: ast.Module) -> set[str]:
    """Functions of a module that may make names in it when they are called, and those that call them."""
    used = {
        node.name: {
            each.id if isinstance(each, ast.Name) else each.attr if isinstance(each, ast.Attribute) else "globals"
            for each in ast.walk(node)
            if isinstance(each, ast.Name | ast.Attribute | ast.Global)
        }
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    }
    makers: set[str] = set()
    while found := {name for name, mentioned in used.items() if mentioned & (_MAKING | makers)} - makers:
        makers |= found
    return makers


def _mentions(statement: ast.stmt) -> set[str]:
    """Names and attributes that a statement uses when a module is imported: a function's decorators, not its body."""
    parts: list[ast.AST] = [statement]
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        parts = [*statement.decorator_list]
    elif isinstance(statement, ast.ClassDef):
        parts = [*statement.decorator_list, *statement.bases]
        parts += [each for each in statement.body if not isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
    nodes = [node for part in parts for node in ast.walk(part)]
    return {node.id for node in nodes if isinstance(node, ast.Name)} | {
        node.attr for node in nodes if isinstance(node, ast.Attribute)
    }


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
