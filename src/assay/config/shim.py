"""`lm_eval`, as far as task files import it, without lm-evaluation-harness being installed.

Task utilities import a handful of helpers and their own siblings (`lm_eval.tasks.ruler.common_utils`). While such a
file is being imported, and at no other time, a small package of that name stands in `sys.modules`; a real
lm-evaluation-harness, imported before or after, is never disturbed.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

_HELPERS = "assay.config.shim_helpers"
NAMES: dict[str, dict[str, str]] = {
    "lm_eval": {},
    "lm_eval.api": {},
    "lm_eval.filters": {},
    "lm_eval.tasks": {},
    "lm_eval.utils": {
        "weighted_f1_score": f"{_HELPERS}:weighted_f1_score",
        "general_detokenize": f"{_HELPERS}:general_detokenize",
        "eval_logger": f"{_HELPERS}:eval_logger",
    },
    "lm_eval.api.instance": {"Instance": "assay.tasks.configurable:LmEvalInstance"},
    "lm_eval.api.task": {
        "ConfigurableTask": "assay.tasks.configurable:ConfigurableTask",
        "Task": "assay.tasks.configurable:ConfigurableTask",
    },
    "lm_eval.api.filter": {"Filter": "assay.filters:Filter"},
    "lm_eval.filters.extraction": {"Filter": "assay.filters:Filter", "RegexFilter": "assay.filters:RegexFilter"},
    "lm_eval.api.registry": {
        "register_filter": f"{_HELPERS}:register_filter",
        "register_model": f"{_HELPERS}:register_model",
    },
    "lm_eval.api.metrics": {
        "mean": f"{_HELPERS}:mean",
        "metric_max_over_ground_truths": f"{_HELPERS}:metric_max_over_ground_truths",
    },
    "lm_eval.api.samplers": {"ContextSampler": "assay.tasks.configurable:ContextSampler"},
    "lm_eval.api.model": {"LM": "assay.models:LM"},
}
"""Module to name to `module:attribute`. Strings, so that this folder imports none above it."""

STOOD_IN_FOR = {"evaluate", "transformers"}
"""Packages parts of which `assay.metrics.hub` has itself, so that task files need neither them nor a hub."""

_PACKAGES = {"lm_eval", "lm_eval.api", "lm_eval.filters", "lm_eval.tasks"}
_lock = threading.RLock()
_kept: dict[tuple[Path, ...], dict[str, ModuleType]] = {}
"""What the package held when it was last put away, by the roots that its `tasks` looks into."""
_active: list[tuple[Path, ...]] = []


@contextmanager
def lm_eval_package(roots: Sequence[Path] = ()) -> Iterator[None]:
    """Let `import lm_eval` find the stand-in; `lm_eval.tasks.*` is looked for under `roots`, in this order."""
    key = tuple(roots)
    with _lock:
        if _active and _active[-1] == key:
            yield
            return
        aside = _take_out()
        sys.modules.update(_kept.get(key, {}))
        finder = _Finder(key)
        sys.meta_path.insert(0, finder)
        _active.append(key)
        try:
            yield
        finally:
            _active.pop()
            sys.meta_path.remove(finder)
            _kept[key] = _take_out()
            sys.modules.update(aside)


def _take_out() -> dict[str, ModuleType]:
    names = [name for name in sys.modules if name == "lm_eval" or name.startswith("lm_eval.")]
    return {name: sys.modules.pop(name) for name in names}


class _Finder(MetaPathFinder):
    """Answers for `lm_eval` and below, and for nothing else."""

    def __init__(self, roots: tuple[Path, ...]) -> None:
        self.roots = roots

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if fullname in NAMES:
            return ModuleSpec(fullname, _ShimLoader(), is_package=fullname in _PACKAGES)
        if fullname.startswith("lm_eval.tasks."):
            return self._find_sibling(fullname)
        if fullname.startswith("lm_eval."):
            raise ModuleNotFoundError(
                f"{fullname} is a module of lm-evaluation-harness that task files cannot import in assay", name=fullname
            )
        return None

    def _find_sibling(self, fullname: str) -> ModuleSpec | None:
        relative = fullname.removeprefix("lm_eval.tasks.").replace(".", "/")
        for root in self.roots:
            if (file := root / f"{relative}.py").is_file():
                return spec_of(fullname, file, self.roots)
            if (folder := root / relative).is_dir():
                package = folder / "__init__.py"
                if package.is_file():
                    return spec_of(fullname, package, self.roots, folder)
                spec = ModuleSpec(fullname, None, is_package=True)
                spec.submodule_search_locations = [str(folder)]
                return spec
        return None


class _ShimLoader(Loader):
    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _ShimModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        return None


class _ShimModule(ModuleType):
    """Looks a name up only when it is asked for: most task files need one of them."""

    def __getattr__(self, name: str) -> Any:
        target = NAMES[self.__name__].get(name)
        if target is None:
            # Dunders are asked for by the import system; only their absence matters.
            raise AttributeError(f"assay has no {self.__name__}.{name} for task files to import")
        module_name, _, attribute = target.partition(":")
        return getattr(importlib.import_module(module_name), attribute)


class TaskFileLoader(SourceFileLoader):
    """Runs a task's Python file with an `import` that finds the stand-in, also from inside its functions later on."""

    def __init__(self, name: str, path: str, roots: tuple[Path, ...]) -> None:
        super().__init__(name, path)
        self.roots = roots

    def exec_module(self, module: ModuleType) -> None:
        roots = self.roots

        def import_for_task(
            name: str, globals: Any = None, locals: Any = None, fromlist: Sequence[str] = (), level: int = 0
        ) -> ModuleType:
            inside = str((globals or {}).get("__package__") or "") if level else name
            if not level and inside.partition(".")[0] in STOOD_IN_FOR:
                hub = importlib.import_module("assay.metrics.hub")  # by name: it stands above this folder
                if (ours := hub.import_for_task(name, fromlist)) is not None:
                    return ours  # type: ignore[no-any-return]
            if inside.partition(".")[0] != "lm_eval":
                return builtins.__import__(name, globals, locals, fromlist, level)
            with lm_eval_package(roots):
                return builtins.__import__(name, globals, locals, fromlist, level)

        module.__dict__["__builtins__"] = {**vars(builtins), "__import__": import_for_task}
        super().exec_module(module)

    def set_data(self, path: str, data: Any, *, _mode: int = 0o666) -> None:
        """Write no bytecode beside somebody else's task files."""


def spec_of(name: str, file: Path, roots: tuple[Path, ...], folder: Path | None = None) -> ModuleSpec:
    spec = importlib.util.spec_from_file_location(
        name,
        file,
        loader=TaskFileLoader(name, str(file), roots),
        submodule_search_locations=[str(folder)] if folder else None,
    )
    assert spec is not None
    return spec
