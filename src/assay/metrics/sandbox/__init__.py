"""Run programs that a model wrote, each in a process made for it that can hurt nothing but its own sample."""

from assay.metrics.sandbox.host import (
    Limits,
    ProgramOutcome,
    allow_unsafe_code,
    require_permission,
    run_program,
    run_programs,
    unsafe_code_allowed,
)

__all__ = [
    "Limits",
    "ProgramOutcome",
    "allow_unsafe_code",
    "require_permission",
    "run_program",
    "run_programs",
    "unsafe_code_allowed",
]
