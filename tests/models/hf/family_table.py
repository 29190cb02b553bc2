"""The table of families in docs/measured/local-models.md: which way each is computed.

    python -m tests.models.hf.family_table

asks the self-check about every family in float32, and writes the table. The tests take what it says for what they expect.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from unittest import mock

from tests.models.hf.families import FAMILIES, build

from assay.models.hf.attention import Attention
from assay.models.hf.selfcheck import self_check

DOCS = Path(__file__).parents[3] / "docs" / "measured" / "local-models.md"
WAYS = ("tree", "state", "batch")
_HEAD = "| way | families | model types |\n|---|---|---|\n"
_ROW = re.compile(r"\| (tree|state|batch) \| \d+ \| (.*) \|")

Ways = dict[str, str]
"""By model type."""


def model_type(family: str) -> str:
    return str(FAMILIES[family].get("model_type", family))


def found_ways() -> Ways:
    """Of every family, with the CPU's kernel and without: all that have one model type go the same way."""
    found: dict[str, set[str]] = defaultdict(set)
    for family in FAMILIES:
        model = build(family)
        found[model_type(family)].add(self_check(model).way)
        with mock.patch.object(Attention, "_has_kernel", return_value=False):
            found[model_type(family)].add(self_check(model).way)
    for name, ways in found.items():
        assert len(ways) == 1, (name, ways)
    return {name: ways.pop() for name, ways in found.items()}


def written(ways: Ways) -> str:
    rows = {way: sorted(name for name, found in ways.items() if found == way) for way in WAYS}
    return _HEAD + "".join(f"| {way} | {len(names)} | {', '.join(names)} |\n" for way, names in rows.items())


def table() -> str:
    """As it stands in the docs."""
    text = DOCS.read_text(encoding="utf-8")
    start = text.index(_HEAD)
    return text[start : text.index("\n\n", start) + 1]


def documented_ways() -> Ways:
    return {name: way for way, names in _ROW.findall(table()) for name in names.split(", ")}


if __name__ == "__main__":
    fresh = written(found_ways())
    text = DOCS.read_text(encoding="utf-8")
    DOCS.write_text(text.replace(table(), fresh), encoding="utf-8")
    print(fresh)
