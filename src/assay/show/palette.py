"""The colours of every page, in one file: pages that stand alone carry its text, the viewer serves it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

PALETTE_FILE = Path(__file__).with_name("palette.css")
INK, SOFT = "#0f6f6b", "#98a1a6"
"""For notebooks, whose pages have their own background: an accent and a grey that show on light and dark."""


@cache
def palette_css() -> str:
    return PALETTE_FILE.read_text(encoding="utf-8")
