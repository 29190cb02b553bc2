"""Where files that outlive a run are kept."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def assay_home() -> Path:
    """`ASSAY_HOME`, else `assay` below the user's cache directory. Not created here."""
    if chosen := os.environ.get("ASSAY_HOME"):
        return Path(chosen).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "assay"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "assay"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "assay"
