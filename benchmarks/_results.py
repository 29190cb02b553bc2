"""`benchmarks/RESULTS.md`: one section a benchmark, replaced when that benchmark runs again."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

RESULTS = Path(__file__).with_name("RESULTS.md")
HEAD = "# What the benchmarks measured\n\nRatios count: both sides ran on the same machine in the same run.\n"


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def machine() -> str:
    """Processor, cores, Python and the packages that decide about speed."""
    found = [f"{name} {version(name)}" for name in ("torch", "transformers", "numpy") if find_spec(name)]
    return ", ".join([_processor(), f"{os.cpu_count()} cores", f"Python {platform.python_version()}", *found])


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    named = re.search(r"model name\s*:\s*(.+)", cpuinfo.read_text()) if cpuinfo.exists() else None
    return named[1].strip() if named else platform.processor() or platform.machine()


def write_section(title: str, body: str, path: Path = RESULTS) -> None:
    """Put `body` under `## title`, in place of what stood there."""
    text = path.read_text(encoding="utf-8") if path.exists() else HEAD
    section = f"## {title}\n\n{body.strip()}\n\n*{datetime.now(UTC):%Y-%m-%d}, {machine()}*\n"
    pattern = re.compile(rf"^## {re.escape(title)}\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
    if pattern.search(text):
        text = pattern.sub(lambda _: section + "\n", text).rstrip("\n") + "\n"
    else:
        text = f"{text.rstrip()}\n\n{section}"
    path.write_text(text, encoding="utf-8")
