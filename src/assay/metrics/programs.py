"""Programs that a model wrote: whether they may run, and where.

A sandbox is reached by its registry entry, so that everything else works where there is none.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
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


class CommandResult(Protocol):
    """What a command printed, its exit code, and how it ended: `exited`, `timed out`, or what it used too much of."""

    @property
    def output(self) -> str: ...

    @property
    def code(self) -> int: ...

    @property
    def ended(self) -> str: ...


class CommandShell(Protocol):
    """A directory of one trajectory, and commands that run in it one after the other."""

    def write(self, files: Mapping[str, bytes]) -> None: ...

    def run_command(self, words: Sequence[str], seconds: float) -> CommandResult: ...

    def read(self) -> tuple[dict[str, bytes], dict[str, str]]:
        """The files that are left, and the hashes of those that are too large."""

    def check(
        self, words: Sequence[str], files: Mapping[str, bytes], reads: Sequence[str], seconds: float
    ) -> tuple[CommandResult, dict[str, bytes]]:
        """Run a last command with files that no other saw; what it printed, and those of `reads` that it wrote."""

    def close(self) -> None: ...


class ProgramSandbox(Protocol):
    """What a metric or an agent needs of a sandbox."""

    def require_isolation(self) -> None:
        """Refuses, before the first request, what cannot be isolated on this machine."""

    def run_programs(
        self, programs: Sequence[tuple[str, str]], *, seconds: float, workers: int | None = None
    ) -> Sequence[Outcome]:
        """Run each (program, tests) by itself; what became of each, in order."""

    def require_shells(self, image: str | None) -> None:
        """Refuses, before the first request, what a shell needs and this machine lacks."""

    def open_shell(
        self,
        *,
        seconds: float,
        memory: int,
        disk: int,
        image: str | None,
        build: str,
        place: str,
        network: bool,
        hidden: Sequence[str],
    ) -> CommandShell:
        """A shell for one trajectory, in a directory that is called `place`; commands see nothing of `hidden`."""


SANDBOXES: Registry[ProgramSandbox] = Registry(
    "sandbox",
    lazy={kind: f"assay.sandbox:{kind.upper()}" for kind in ("auto", "weak", "bwrap", "docker", "podman")},
)


@dataclass(frozen=True)
class Permission:
    """What `--confirm_run_unsafe_code` and `--sandbox` say."""

    allowed: bool = False
    sandbox: SandboxKind = "auto"
    network: bool = False


_permission = Permission()


def allow_unsafe_code(allowed: bool = True, sandbox: SandboxKind = "auto", network: bool = False) -> None:
    """Programs written by models may be run, in that sandbox, and commands of agents may use the network if their task says so."""
    global _permission
    _permission = Permission(allowed, sandbox, network)


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


def open_shell(
    *,
    seconds: float,
    memory: int,
    disk: int,
    image: str | None,
    build: str,
    place: str,
    network: bool,
    hidden: Sequence[str],
) -> CommandShell:
    """A shell for one trajectory of an agent, in the sandbox that the run names, if commands of models may run at all."""
    if not unsafe_code_allowed():
        raise ScoringError(
            "commands of the model were not allowed", hint="Add --confirm_run_unsafe_code if you accept that."
        )
    allowed = network and _permission.network
    sandbox = find_sandbox(_permission.sandbox)
    return sandbox.open_shell(
        seconds=seconds,
        memory=memory,
        disk=disk,
        image=image,
        build=build,
        place=place,
        network=allowed,
        hidden=hidden,
    )


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
