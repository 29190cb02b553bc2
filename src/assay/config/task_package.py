"""Python files below one directory of tasks are the modules of one package, so that they can import their siblings."""

from __future__ import annotations

import builtins
import hashlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

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

        module.__dict__["__builtins__"] = {**vars(builtins), "__import__": import_for_task}
        module.__dict__["__assay_version__"] = Path(self.path).stat().st_mtime_ns
        super().exec_module(module)

    def set_data(self, path: str, data: Any, *, _mode: int = 0o666) -> None:
        """Write no bytecode beside somebody else's task files."""


def import_stand_in(name: str, fromlist: Sequence[str], package: str) -> ModuleType | None:
    """What a stand-in gives for an import in a file of `package`; None where there is none."""
    top = name.partition(".")[0]
    return STAND_INS[top](name, fromlist, package) if top in STAND_INS else None
