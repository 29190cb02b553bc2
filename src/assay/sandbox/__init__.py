"""Run programs that a model wrote, each in a process made for it that can hurt nothing but its own sample.

Reached by the registry `assay.metrics.SANDBOXES` only: without this folder everything else works, and tasks that run programs are refused.
"""

from assay.sandbox.container_shell import CommandOutcome
from assay.sandbox.host import Limits, ProgramOutcome, Sandbox, Shell, close_supervisors

AUTO, WEAK, BWRAP = Sandbox("auto"), Sandbox("weak"), Sandbox("bwrap")
DOCKER, PODMAN = Sandbox("docker"), Sandbox("podman")

__all__ = [
    "AUTO",
    "BWRAP",
    "DOCKER",
    "PODMAN",
    "WEAK",
    "CommandOutcome",
    "Limits",
    "ProgramOutcome",
    "Sandbox",
    "Shell",
    "close_supervisors",
]
