"""`benchmarks/RESULTS.md`: one section a benchmark, replaced when that benchmark runs again."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

RESULTS = Path(__file__).with_name("RESULTS.md")
HEAD = "# What the benchmarks measured\n\nRatios count: both sides ran on the same machine in the same run.\n"


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def write_section(title: str, body: str, path: Path = RESULTS) -> None:
    """Put `body` under `## title`, in place of what stood there."""
    text = path.read_text(encoding="utf-8") if path.exists() else HEAD
    stamp = f"{datetime.now(UTC):%Y-%m-%d}, Python {platform.python_version()}, {os.cpu_count()} cores"
    section = f"## {title}\n\n{body.strip()}\n\n*{stamp}*\n"
    pattern = re.compile(rf"^## {re.escape(title)}\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
    if pattern.search(text):
        text = pattern.sub(lambda _: section + "\n", text).rstrip("\n") + "\n"
    else:
        text = f"{text.rstrip()}\n\n{section}"
    path.write_text(text, encoding="utf-8")
