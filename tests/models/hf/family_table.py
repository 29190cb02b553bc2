"""The table of families in docs/models.md: which way each is computed in each precision.

    python -m tests.models.hf.family_table

asks the self-check about every family, and writes the table. The tests take what it says for what they expect.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from unittest import mock

import torch
from tests.models.hf.families import FAMILIES, build

from assay.models.hf.attention import Attention
from assay.models.hf.selfcheck import self_check

DOCS = Path(__file__).parents[3] / "docs" / "models.md"
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
WAYS = ("tree", "state", "batch")
_HEAD = f"| way | {' | '.join(DTYPES)} | model types |\n|---|{'---|' * len(DTYPES)}---|\n"
_ROW = re.compile(r"\| (tree|state|batch) \| (.*) \| (.*) \|")
_TYPE = re.compile(r"([^,(\s]+)(?: \(([^)]*)\))?")

Ways = dict[tuple[str, str], str]
"""By model type and precision."""


def model_type(family: str) -> str:
    return str(FAMILIES[family].get("model_type", family))


def found_ways() -> Ways:
    """Of every family, with the CPU's kernel and without: all that have one model type go the same way."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for family in FAMILIES:
        for name, dtype in DTYPES.items():
            model = build(family, dtype)
            found[model_type(family), name].add(self_check(model).way)
            with mock.patch.object(Attention, "_has_kernel", return_value=False):
                found[model_type(family), name].add(self_check(model).way)
    for place, ways in found.items():
        assert len(ways) == 1, (place, ways)
    return {place: ways.pop() for place, ways in found.items()}


def written(ways: Ways) -> str:
    """Each model type in the row of its float32 way, with what differs in brackets."""
    lines = []
    for way in WAYS:
        counts = [sum(found == way for (_, dtype), found in ways.items() if dtype == each) for each in DTYPES]
        types = []
        for name in sorted(name for (name, dtype), found in ways.items() if dtype == "float32" and found == way):
            others = [f"{dtype} {ways[name, dtype]}" for dtype in DTYPES if ways[name, dtype] != way]
            types.append(f"{name} ({'; '.join(others)})" if others else name)
        lines.append(f"| {way} | {' | '.join(map(str, counts))} | {', '.join(types)} |\n")
    return _HEAD + "".join(lines)


def table() -> str:
    """As it stands in the docs."""
    text = DOCS.read_text(encoding="utf-8")
    start = text.index(_HEAD)
    return text[start : text.index("\n\n", start) + 1]


def documented_ways() -> Ways:
    ways: Ways = {}
    for way, _, types in _ROW.findall(table()):
        for name, others in _TYPE.findall(types):
            own = dict(part.split() for part in others.split("; ") if part)
            ways |= {(name, dtype): own.get(dtype, way) for dtype in DTYPES}
    return ways


if __name__ == "__main__":
    fresh = written(found_ways())
    text = DOCS.read_text(encoding="utf-8")
    DOCS.write_text(text.replace(table(), fresh), encoding="utf-8")
    print(fresh)
