"""Run programs that a model wrote, each in a process made for it that can hurt nothing but its own sample."""

from assay.metrics.sandbox.enclosures import Sandbox
from assay.metrics.sandbox.host import (
    Limits,
    ProgramOutcome,
    allow_unsafe_code,
    close_wardens,
    missing_walls,
    require_permission,
    require_walls,
    run_program,
    run_programs,
    unsafe_code_allowed,
)

__all__ = [
    "Limits",
    "ProgramOutcome",
    "Sandbox",
    "allow_unsafe_code",
    "close_wardens",
    "missing_walls",
    "require_permission",
    "require_walls",
    "run_program",
    "run_programs",
    "unsafe_code_allowed",
]
