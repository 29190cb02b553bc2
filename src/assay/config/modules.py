"""From `!function utils.process_docs` to the function: the file beside the YAML first, then an importable module."""

from __future__ import annotations

import hashlib
import importlib
import sys
from functools import cache
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from assay.config.shim import lm_eval_package, spec_of
from assay.errors import ConfigError, MissingPackage, did_you_mean

_SOLD_AS = {
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
    "PIL": "pillow",
    "cv2": "opencv-python",
    "bert_score": "bert-score",
}
"""Modules whose package has another name."""
_task_roots: set[Path] = set()


def add_task_root(root: Path) -> None:
    """Remember a directory of task files: `lm_eval.tasks.a.b` in a file under it means `a/b.py` of this directory."""
    _task_roots.add(root.resolve())


def load_function(path: str, directory: Path | None = None) -> Any:
    """The function or class that `path` names, as seen from a YAML file in `directory`."""
    module_path, _, name = path.rpartition(".")
    if not module_path:
        raise ConfigError(
            f"!function {path}: no module", hint=f"Write module.function, e.g. utils.{path or 'process_docs'}."
        )
    file = None if directory is None else directory / f"{module_path.replace('.', '/')}.py"
    if file is not None and file.is_file():
        module = _load_file(file.resolve(), file.stat().st_mtime_ns)
    else:
        module = _load_importable(module_path, path, file)
    try:
        return getattr(module, name)
    except AttributeError:
        where = module.__file__ or module_path
        raise ConfigError(
            f"!function {path}: {where} has no {name!r}",
            hint=did_you_mean(name, vars(module)) or "Define it there, or correct the name.",
        ) from None


def _load_file(file: Path, mtime_ns: int) -> ModuleType:
    """One module object per version of a file: an edited file is read again, an unchanged one never."""
    loaded = _read_file(file, mtime_ns)
    if isinstance(loaded, ConfigError):
        raise loaded.reworded(loaded.message) from loaded
    return loaded


@cache
def _read_file(file: Path, mtime_ns: int) -> ModuleType | ConfigError:
    """A failure is kept too: a hundred tasks may share a module that waits for a network there is not."""
    try:
        return _import_file(file, mtime_ns)
    except ConfigError as error:
        return error


def _import_file(file: Path, mtime_ns: int) -> ModuleType:
    roots = _roots_for(file)
    name = _module_name(file, roots)
    with lm_eval_package(roots):
        loaded = sys.modules.get(name)
        if loaded is not None and getattr(loaded, "__assay_version__", None) == mtime_ns:
            return loaded
        module = module_from_spec(spec_of(name, file, roots))
        vars(module)["__assay_version__"] = mtime_ns
        sys.modules[name] = module  # before it runs: dataclasses look their own module up while it does
        try:
            _run(module, file)
        except BaseException:
            sys.modules.pop(name, None)
            raise
    return module


def _run(module: ModuleType, file: Path) -> None:
    assert module.__spec__ is not None
    assert module.__spec__.loader is not None
    try:
        module.__spec__.loader.exec_module(module)
    except ConfigError:
        raise
    except SyntaxError as error:
        raise ConfigError(f"{error.filename}:{error.lineno}: not valid Python: {error.msg}") from error
    except (Exception, SystemExit) as error:  # a task module may do anything at all, also exit
        raise _explain(error, file) from error


def _explain(error: BaseException, file: Path) -> ConfigError:
    chain = _chain(error)
    if isinstance(error, ImportError | SystemExit):
        # Many modules catch a missing package and raise words of their own.
        for cause in chain:
            if isinstance(cause, ModuleNotFoundError) and cause.name:
                return _missing(cause, str(file))
    reason = str(error).strip().partition("\n")[0]
    fetches = any(sign in type(cause).__name__ for cause in chain for sign in ("Connect", "HTTP", "Timeout", "Offline"))
    return ConfigError(
        f"{_line_in(error, file)}: importing it failed: {type(error).__name__}: {reason}",
        hint="It fetches something while it is imported; check the network." if fetches else None,
    )


def _chain(error: BaseException | None) -> list[BaseException]:
    chain: list[BaseException] = []
    while error is not None and error not in chain:
        chain.append(error)
        error = error.__cause__ or error.__context__
    return chain


def _load_importable(module_path: str, path: str, beside: Path | None) -> ModuleType:
    try:
        if module_path.partition(".")[0] == "lm_eval":
            with lm_eval_package(_roots_for(beside or Path.cwd() / "file.py")):
                return importlib.import_module(module_path)
        return importlib.import_module(module_path)
    except ModuleNotFoundError as error:
        top = module_path.partition(".")[0]
        if error.name == top or module_path.startswith(f"{error.name}."):
            looked = f"there is no file {beside} and " if beside is not None else ""
            raise ConfigError(
                f"!function {path}: {looked}no module {module_path!r} can be imported",
                hint=_near_modules(module_path, beside),
            ) from None
        raise _missing(error, module_path) from error
    except ImportError as error:
        raise ConfigError(f"!function {path}: importing {module_path!r} failed: {error}") from error


def _missing(error: ModuleNotFoundError, who: str) -> ConfigError:
    package = (error.name or "").partition(".")[0]
    if package == "lm_eval" or not package:
        return ConfigError(f"{who}: {error}", hint="Copy the helper into the task's own module.")
    return MissingPackage(
        f"{who} needs the package {package!r}, which is not installed",
        hint=f"pip install {_SOLD_AS.get(package, package)}",
        package=package,
    )


def _near_modules(module_path: str, beside: Path | None) -> str | None:
    if beside is None or not beside.parent.is_dir():
        return None
    return did_you_mean(module_path.rpartition(".")[2], [file.stem for file in beside.parent.glob("*.py")])


def _line_in(error: BaseException, file: Path) -> str:
    """The last place of the traceback that lies in the task's own file."""
    line, step = None, error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename == str(file):
            line = step.tb_lineno
        step = step.tb_next
    return f"{file}:{line}" if line else str(file)


def _roots_for(file: Path) -> tuple[Path, ...]:
    """Where `lm_eval.tasks.*` is looked for: an `lm_eval/tasks` above the file, then known roots, outermost first."""
    above = list(file.parents)
    original = [folder for folder in above if folder.name == "tasks" and folder.parent.name == "lm_eval"]
    known = [folder for folder in reversed(above) if folder in _task_roots]
    return tuple(dict.fromkeys([*original, *known])) or (file.parent,)


def _module_name(file: Path, roots: tuple[Path, ...]) -> str:
    """Files under a root are its siblings' siblings, so both ways of importing one give the same module."""
    parts = file.relative_to(roots[0]).with_suffix("").parts
    if all(part.isidentifier() for part in parts):
        return ".".join(("lm_eval", "tasks", *parts))
    digest = hashlib.sha256(str(file).encode()).hexdigest()[:12]
    return f"lm_eval.tasks.file_{digest}"
