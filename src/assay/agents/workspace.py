"""What a doc's sandbox holds before the first step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Workspace:
    files: Mapping[str, str]
    setup: str | None = None
