"""What a doc's sandbox holds before the first step, and what is run in it after the last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class SandboxCheck:
    """A command that runs in the sandbox when the trajectory is over, with files that the agent never saw.

    It decides in the place that the agent worked in, as tests of other harnesses do: what it says is part of the end state.
    """

    command: str
    files: Mapping[str, str | bytes]
    """By absolute path, below `/tests` or `/logs`."""
    reads: tuple[str, ...] = ()
    """Files that it writes, of which at least one is there when it has decided."""
    seconds: float = 600.0


@dataclass(frozen=True)
class Workspace:
    files: Mapping[str, str | bytes]
    setup: str | None = None
    image: str | None = None
    """A container image; one that is built is named after what it is built from."""
    place: str = ""
    """What the directory is called, if not `/workspace`."""
    check: SandboxCheck | None = None
    build: str = ""
    """The directory with the image's Dockerfile, where it is to be built."""
    network: Literal["", "may", "must"] = ""
    """Whether the doc has the network where the user allows it, or cannot do without."""
