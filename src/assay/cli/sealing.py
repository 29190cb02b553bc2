"""The way to `assay.sealing`, which may be missing: what `seal` and `verify` need of it, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from assay.errors import MissingPackage
from assay.registry import Registry

NAMES = ("ModelChoice", "Sources", "reask_bundle", "reasked_lines", "seal_run", "verification_lines", "verify_bundle")
SEALING: Registry[Callable[..., Any]] = Registry(
    "part of sealing", lazy={name: f"assay.sealing:{name}" for name in NAMES}
)


def sealing(name: str) -> Callable[..., Any]:
    found = SEALING.get_installed(name)
    if found is None:
        raise MissingPackage(
            "`assay seal` and `assay verify` need assay.sealing, which is not installed",
            hint="Install Assay with all of its folders.",
        )
    return found
