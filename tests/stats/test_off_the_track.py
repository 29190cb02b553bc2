"""Simulations of settings in which error bars once failed: clusters, duplicates, values near 0 and 1, rare losses.

The grid is that of `benchmarks/coverage.py`. `make test` runs its every third cell that is not slow, with 500 data sets;
`make test-wide` all of them, as often as the benchmark does, and no other methods beside them.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

_PATH = Path(__file__).parents[2] / "benchmarks" / "coverage.py"
sys.path.insert(0, str(_PATH.parent))
_SPEC = importlib.util.spec_from_file_location("coverage_grid", _PATH)
assert _SPEC is not None
assert _SPEC.loader is not None
grid = importlib.util.module_from_spec(_SPEC)
sys.modules["coverage_grid"] = grid
_SPEC.loader.exec_module(grid)
measured = sys.modules["_coverage_cell"].measured


@pytest.mark.parametrize("cell", [cell for cell in grid.CELLS if not cell.slow][::3], ids=lambda cell: cell.name)
def test_error_rates_hold_off_the_beaten_track(cell: object) -> None:
    found = grid.run(cell, 500)
    assert not found.fails, found


@pytest.mark.wide
@pytest.mark.parametrize("cell", grid.CELLS, ids=lambda cell: cell.name)
def test_error_rates_hold_over_the_whole_grid(cell: Any) -> None:
    found = measured(cell, cell.one, cell.times)
    assert not found.fails, found
