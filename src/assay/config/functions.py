"""Python code that task files refer to: `!function utils.process_docs`.

A reference is a value: it names code and where to look for it, and imports nothing until it is called. The file beside
the YAML comes first, then an importable module.

A run implies trust. A verb that only looks (`ls`, `show`, `validate`) does its work inside `reading_only`: code outside
this package is then read (`assay.config.python_files`) and never run, whichever way it is reached.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

from assay.config.python_files import (
    STAND_INS,
    ModuleOutline,
    import_stand_in,
    module_name,
    outline,
    package_for,
    path_in_package,
    spec_of,
)
from assay.errors import ConfigError, MissingPackage, UntrustedCode, did_you_mean


@dataclass(frozen=True)
class FunctionRef:
    """`module.attribute`, searched first in a file next to the YAML, then in an importable module."""

    path: str
    directory: Path | None = None

    @property
    def __name__(self) -> str:
        return self.path.rpartition(".")[2]

    def load(self) -> Any:
        """The object itself, a function or a class. The module is imported once, when first needed."""
        return load_function(self.path, self.directory)

    def require_trust(self) -> None:
        """Raise `UntrustedCode`, or what is wrong with the reference, where loading it may not run its code."""
        module_path, name = _split(self.path)
        file = _beside(module_path, self.directory)
        if not may_run(file or self.directory):
            _read(self, module_path, name, file)
            raise untrusted(str(self))

    def outline(self) -> ModuleOutline | None:
        """What the source of the module says; None where there is no source that can be read."""
        module_path, _ = _split(self.path)
        file = _beside(module_path, self.directory) or _source_of(module_path)
        return None if file is None else outline(file)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.load()(*args, **kwargs)

    def __str__(self) -> str:
        return f"!function {self.path}"


Function: TypeAlias = FunctionRef | Callable[..., Any]
"""What a config field holds where code may be given: a reference from YAML, or a callable from Python."""

_PACKAGE_OF_MODULE = {
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
    "PIL": "pillow",
    "cv2": "opencv-python",
    "bert_score": "bert-score",
}
"""Modules whose package is installed under another name."""

_lock = threading.RLock()


def load_function(path: str, directory: Path | None = None) -> Any:
    """The function or class that `path` names, as seen from a YAML file in `directory`."""
    FunctionRef(path, directory).require_trust()
    module_path, name = _split(path)
    file = _beside(module_path, directory)
    if file is not None:
        module = _load_file(file.resolve(), file.stat().st_mtime_ns)
    else:
        module = _load_importable(module_path, path, _place_beside(module_path, directory))
    try:
        return getattr(module, name)
    except AttributeError:
        raise _no_name(path, module.__file__ or module_path, name, vars(module)) from None


def _split(path: str) -> tuple[str, str]:
    module_path, _, name = path.rpartition(".")
    if not module_path:
        raise ConfigError(
            f"!function {path}: no module", hint=f"Write module.function, e.g. utils.{path or 'process_docs'}."
        )
    return module_path, name


def _place_beside(module_path: str, directory: Path | None) -> Path | None:
    """Also above: some published files say `../utils.process_docs`."""
    above, dots, module = module_path.rpartition("../")
    return None if directory is None else directory / f"{above}{dots}" / f"{module.replace('.', '/')}.py"


def _beside(module_path: str, directory: Path | None) -> Path | None:
    file = _place_beside(module_path, directory)
    return file if file is not None and file.is_file() else None


def _no_name(path: str, where: object, name: str, known: Iterable[str]) -> ConfigError:
    return ConfigError(
        f"!function {path}: {where} has no {name!r}",
        hint=did_you_mean(name, known) or "Define it there, or correct the name.",
    )


def _read(ref: FunctionRef, module_path: str, name: str, file: Path | None) -> None:
    """Raise what can be seen to be wrong with a reference without importing its module."""
    found = ref.outline()
    if file is None and module_path.partition(".")[0] not in STAND_INS and not _is_importable(module_path):
        raise _not_importable(ref.path, module_path, _place_beside(module_path, ref.directory))
    if found is None:
        return
    for package in found.packages:
        if package not in STAND_INS and not _is_importable(package):
            raise _missing(ModuleNotFoundError(name=package), str(file or module_path))
    if name in found.names:
        return
    if not found.is_open:
        raise _no_name(ref.path, file or module_path, name, found.names)
    raise UntrustedCode(
        f"{ref}: not known without --trust: {file or module_path} makes names when it is imported",
        hint="Read it, then run it with --trust.",
    )


def _is_importable(module_path: str) -> bool:
    """Whether the top of the path is there; looking for what lies inside a package would run the package."""
    try:
        return find_spec(module_path.partition(".")[0]) is not None
    except (ImportError, ValueError):
        return False


def _source_of(module_path: str) -> Path | None:
    """The source of an importable module, where it can be found without running the packages above it."""
    top, *inside = module_path.split(".")
    spec = find_spec(top) if _is_importable(top) and top not in STAND_INS else None
    if spec is None:
        return None
    if not inside:
        return Path(spec.origin) if spec.origin and spec.origin.endswith(".py") else None
    for folder in spec.submodule_search_locations or []:
        for file in (Path(folder, *inside).with_suffix(".py"), Path(folder, *inside, "__init__.py")):
            if file.is_file():
                return file
    return None


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
    name = module_name(file)
    with _lock:
        loaded = sys.modules.get(name)
        if loaded is not None and getattr(loaded, "__assay_version__", None) == mtime_ns:
            return loaded
        module = module_from_spec(spec_of(name, file))
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
    except (Exception, SystemExit) as error:  # a task module may do anything at all, also exit
        raise import_failure(error, file) from error
    _seed_langdetect()


def _seed_langdetect() -> None:
    """It draws at random unless it is given a seed: the same answers would be scored otherwise each time."""
    langdetect = sys.modules.get("langdetect")
    if langdetect is not None and langdetect.DetectorFactory.seed is None:
        langdetect.DetectorFactory.seed = 0


def import_failure(error: BaseException, file: Path, doing: str = "importing it") -> ConfigError:
    """Why code in a user's Python file failed, with the line that failed."""
    if isinstance(error, SyntaxError):
        return ConfigError(
            f"{error.filename}:{error.lineno}: not valid Python: {error.msg}",
            hint="Correct that line or the one before it.",
        )
    chain = _chain(error)
    if isinstance(error, ImportError | SystemExit):
        # Many modules catch a missing package and raise an error in their own words.
        for cause in chain:
            if isinstance(cause, ModuleNotFoundError) and cause.name:
                return _missing(cause, _line_in(error, file))
    reason = str(error).strip().partition("\n")[0]
    fetches = any(sign in type(cause).__name__ for cause in chain for sign in ("Connect", "HTTP", "Timeout", "Offline"))
    return ConfigError(
        f"{_line_in(error, file)}: {doing} failed: {type(error).__name__}: {reason}",
        hint="It downloads something on import; check the network."
        if fetches
        else "Correct that line; --debug shows the traceback.",
    )


def _chain(error: BaseException | None) -> list[BaseException]:
    chain: list[BaseException] = []
    while error is not None and error not in chain:
        chain.append(error)
        error = error.__cause__ or error.__context__
    return chain


def _load_importable(module_path: str, path: str, beside: Path | None) -> ModuleType:
    package = package_for(beside or Path.cwd() / "file.py")
    if "/" in module_path:
        raise _not_importable(path, module_path, beside)
    try:
        # A name in `fromlist` makes an import give the last module of the path, not the first.
        return import_stand_in(module_path, ("__name__",), package) or importlib.import_module(module_path)
    except ModuleNotFoundError as error:
        top = module_path.partition(".")[0]
        if error.name == top or module_path.startswith(f"{error.name}."):
            raise _not_importable(path, module_path, beside) from None
        raise _missing(error, module_path) from error
    except ImportError as error:
        raise ConfigError(f"!function {path}: importing {module_path!r} failed: {error}") from error


def _not_importable(path: str, module_path: str, beside: Path | None) -> ConfigError:
    looked = f"there is no file {beside} and " if beside is not None else ""
    elsewhere = "no such module" if "/" in module_path else f"no module {module_path!r}"
    return ConfigError(
        f"!function {path}: {looked}{elsewhere} can be imported",
        hint=_near_modules(module_path, beside),
    )


def _missing(error: ModuleNotFoundError, who: str) -> ConfigError:
    if (sibling := path_in_package(error.name or "")) is not None:
        return ConfigError(f"{who}: there is no module {sibling!r} among the task files", hint="Check the import.")
    package = (error.name or "").partition(".")[0]
    if package == "lm_eval" or not package:
        return ConfigError(f"{who}: {error}", hint="Copy the helper into the task's own module.")
    return MissingPackage(
        f"{who} needs the package {package!r}, which is not installed",
        hint=f"pip install {_PACKAGE_OF_MODULE.get(package, package)}",
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


def code_place(error: BaseException) -> str | None:
    """`file:line` of the innermost code in a traceback that is neither ours nor an installed package's."""
    place, step = None, error.__traceback__
    while step is not None:
        file = step.tb_frame.f_code.co_filename
        path = Path(file)
        if path.suffix == ".py" and not path.is_relative_to(_PACKAGE) and not _is_installed(path):
            place = f"{file}:{step.tb_lineno}"
        step = step.tb_next
    return place


def _is_installed(path: Path) -> bool:
    return bool({"site-packages", "dist-packages"} & {*path.parts}) or path.is_relative_to(Path(os.__file__).parent)


def what_failed(error: BaseException) -> tuple[str, str | None]:
    """What an error in somebody's code is, with its place, and where to see more."""
    place = code_place(error)
    said = f"{type(error).__name__}: {error}".removesuffix(": ")
    return (said, None) if place is None else (f"{place}: {said}", "Correct that line; --debug shows the traceback.")


def short_failure(error: BaseException) -> str:
    """The kind of an error in somebody's code and its line, the same for all docs: `u.py:3: KeyError`."""
    place = code_place(error)
    return f"{'' if place is None else f'{Path(place).name}: '}{type(error).__name__}"


_PACKAGE = Path(__file__).resolve().parent.parent
_reading_only: ContextVar[bool] = ContextVar("reading_only", default=False)


@contextmanager
def reading_only(on: bool = True) -> Iterator[None]:
    """Inside, asking for code that is not part of this package is `UntrustedCode`."""
    token = _reading_only.set(on)
    try:
        yield
    finally:
        _reading_only.reset(token)


def may_run(place: Path | None) -> bool:
    """Whether code in this file, or named by a file in this directory, may run now."""
    return not _reading_only.get() or (place is not None and place.resolve().is_relative_to(_PACKAGE))


def untrusted(what: str) -> UntrustedCode:
    return UntrustedCode(
        f"{what} is Python code, which was read but not run", hint="Read it, then run it with --trust."
    )
