"""Errors are part of the interface: what was found, where, what was expected, what to do.

    AssayError
    ├── ConfigError (ValueError)
    │   ├── MissingPackage
    │   ├── UnknownName (KeyError)
    │   ├── UntrustedCode
    │   └── WrongKind (TypeError)
    ├── DataError
    ├── ModelError
    │   └── ModelFileError
    ├── ScoringError (ValueError)
    ├── StoreError
    └── ToolError

The command line prints an `AssayError` without a traceback and exits with its `exit_code`: 2 for wrong arguments,
config or local files, 3 for data, a model or a server that failed.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from copy import copy
from typing import Self

DISTRIBUTION = "assay-eval"
"""The name in the package's metadata; no package index has it, so no message may tell anyone to install it by name."""


def install_hint(extra: str) -> str:
    """What to type for the packages of an extra; it works however Assay itself was installed.

    >>> print(install_hint("agents"))
    pip install 'mcp>=2.3'
    """
    from importlib.metadata import PackageNotFoundError, requires

    try:
        stated = requires(DISTRIBUTION) or []
    except PackageNotFoundError:  # the source alone, on the path
        return f"In the clone that Assay runs from: pip install -e '.[{extra}]'"
    marked = re.compile(rf"""extra == ['"]{extra}['"]""")
    packages = [
        package.strip() for package, _, marker in (each.partition(";") for each in stated) if marked.search(marker)
    ]
    return "pip install " + " ".join(f"'{package}'" for package in packages)


EXTRA_OF_PACKAGE = {
    **dict.fromkeys(("torch", "transformers", "gguf", "accelerate", "safetensors"), "hf"),
    **dict.fromkeys(("aiohttp", "orjson", "tiktoken"), "api"),
    **dict.fromkeys(("starlette", "uvicorn", "duckdb", "plotly", "resvg-py"), "view"),
    "litellm": "litellm",
    "ray": "ray",
    "mcp": "agents",
    "xllamacpp": "gguf",
}
"""The extra that brings a package which Assay itself imports."""


class AssayError(Exception):
    """Something a user can act on. `hint` is the next thing to type or change."""

    exit_code = 3

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  {self.hint}" if self.hint else self.message

    def reworded(self, message: str) -> Self:
        """The same error with more to say, e.g. in which task it happened."""
        error = copy(self)
        error.message, error.args = message, (message,)
        return error

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross process borders (executors, sandboxes); keyword arguments do not survive by default.
        return (_rebuild, (type(self), self.message, self.hint))


class ConfigError(AssayError, ValueError):
    """A flag, a task file, a run config or another local file is wrong."""

    exit_code = 2


class MissingPackage(ConfigError):
    """A task file or plug-in needs a package that is not installed; `package` is what to install."""

    def __init__(self, message: str, *, hint: str | None = None, package: str = "") -> None:
        super().__init__(message, hint=hint)
        self.package = package

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild_missing, (self.message, self.hint, self.package))


class UnknownName(ConfigError, KeyError):
    """A name that is not registered."""


class UntrustedCode(ConfigError):
    """Code in a task file would have to run, but nobody has allowed it."""


class WrongKind(ConfigError, TypeError):
    """An object of the wrong kind for its place."""


class DataError(AssayError):
    """A dataset, or a doc in it, is not what the task needs."""


class ModelError(AssayError):
    """A model or server cannot be loaded or does not answer."""


class ModelFileError(ModelError):
    """A local model file is missing, cut off, or wrong."""

    exit_code = 2


class ScoringError(AssayError, ValueError):
    """A filter, metric, reducer or aggregation failed; the message names task, doc, filter and metric."""


class StoreError(AssayError):
    """The response store or a run directory cannot be read or written."""


class ToolError(AssayError):
    """A tool declines a call: the model is told why, and may call it otherwise. Anything else that a tool raises is a tool
    that is broken."""


class ConfigWarning(UserWarning):
    """A task file says something odd whose meaning is known; it is read that way, with a warning."""


def _rebuild(cls: type[AssayError], message: str, hint: str | None) -> AssayError:
    return cls(message, hint=hint)


def _rebuild_missing(message: str, hint: str | None, package: str) -> MissingPackage:
    return MissingPackage(message, hint=hint, package=package)


def did_you_mean(name: str, known: Iterable[str], *, most: int = 3) -> str | None:
    """A sentence with the closest known names, or None.

    >>> did_you_mean("high_is_better", ["higher_is_better", "metric"])
    'Did you mean higher_is_better?'
    >>> did_you_mean("ignore_cases", ["ignore_case", "ignore_case"]), did_you_mean("F1", ["f1", "bleu"])
    ('Did you mean ignore_case?', 'Did you mean f1?')
    """
    known = list(dict.fromkeys(known))
    close = [each for each in known if each.lower() == name.lower()]
    close = close or difflib.get_close_matches(name, known, n=most, cutoff=0.6)
    return f"Did you mean {' or '.join(close)}?" if close else None
