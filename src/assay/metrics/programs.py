"""Programs that a model wrote: whether they may run, and where.

A sandbox is reached by its registry entry, so that everything else works where there is none.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol

from assay.config import SandboxKind
from assay.errors import MissingPackage, ScoringError
from assay.registry import Registry


class Outcome(Protocol):
    """Whether a program passed its tests, and what happened: `passed`, `timed out` or `failed: …`."""

    @property
    def passed(self) -> bool: ...

    @property
    def result(self) -> str: ...

    @property
    def independent(self) -> bool:
        """Whether the verdict came from a process that has none of the program's code."""

    @property
    def isolated(self) -> bool:
        """Whether the program ran behind every protection that is asked for by default."""


class ProgramSandbox(Protocol):
    """What a metric needs of a sandbox."""

    def require_isolation(self) -> None:
        """Refuses, before the first request, what cannot be isolated on this machine."""

    def run_programs(
        self, programs: Sequence[tuple[str, str]], *, seconds: float, workers: int | None = None
    ) -> Sequence[Outcome]:
        """Run each (program, tests) by itself; what became of each, in order."""


SANDBOXES: Registry[ProgramSandbox] = Registry(
    "sandbox",
    lazy={kind: f"assay.sandbox:{kind.upper()}" for kind in ("auto", "weak", "bwrap", "docker", "podman")},
)


@dataclass(frozen=True)
class Permission:
    """What `--confirm_run_unsafe_code` and `--sandbox` say."""

    allowed: bool = False
    sandbox: SandboxKind = "auto"


_permission = Permission()


def allow_unsafe_code(allowed: bool = True, sandbox: SandboxKind = "auto") -> None:
    """Programs written by models may be run, in that sandbox."""
    global _permission
    _permission = Permission(allowed, sandbox)


def unsafe_code_allowed() -> bool:
    return _permission.allowed or os.environ.get("HF_ALLOW_CODE_EVAL") == "1"


def find_sandbox(kind: SandboxKind) -> ProgramSandbox:
    sandbox = SANDBOXES.get_installed(kind)
    if sandbox is None:
        raise MissingPackage(
            f"programs written by the model need the sandbox {kind!r}, but {SANDBOXES.home(kind).partition(':')[0]} is not installed",
            hint="Install it, or leave out the tasks that run programs.",
        )
    return sandbox


_verdicts: ContextVar[list[Outcome] | None] = ContextVar("verdicts", default=None)


@contextmanager
def noting_verdicts() -> Iterator[list[Outcome]]:
    """Verdicts of programs that are run meanwhile, by whatever metric."""
    noted: list[Outcome] = []
    before = _verdicts.set(noted)
    try:
        yield noted
    finally:
        _verdicts.reset(before)


def run_programs(
    programs: Sequence[tuple[str, str]], *, seconds: float = 3.0, workers: int | None = None
) -> Sequence[Outcome]:
    """Run each (program, tests) in the sandbox that the run names, if programs may run at all."""
    if not unsafe_code_allowed():
        raise ScoringError(
            "this metric runs code written by the model, which was not allowed",
            hint="Add --confirm_run_unsafe_code if you accept that.",
        )
    outcomes = find_sandbox(_permission.sandbox).run_programs(programs, seconds=seconds, workers=workers)
    if (noted := _verdicts.get()) is not None:
        noted += outcomes
    return outcomes
