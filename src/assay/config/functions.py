"""References to Python code in task files: `!function utils.process_docs`.

A reference is a value: it names code and where to look for it, and imports nothing until it is called.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias


@dataclass(frozen=True)
class FunctionRef:
    """`module.attribute`, first looked for as a file beside the YAML, then as an importable module."""

    path: str
    directory: Path | None = None

    @property
    def __name__(self) -> str:
        return self.path.rpartition(".")[2]

    def load(self) -> Any:
        """The object itself, a function or a class. The module is imported once, when first needed."""
        from assay.config.modules import load_function

        return load_function(self.path, self.directory)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.load()(*args, **kwargs)

    def __str__(self) -> str:
        return f"!function {self.path}"


Function: TypeAlias = FunctionRef | Callable[..., Any]
"""What a config field holds where code may be given: a reference from YAML, or a callable from Python."""
