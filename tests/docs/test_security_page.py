"""Every promise of the page on security names a test that exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_promise_has_a_test() -> None:
    page = (ROOT / "docs" / "security.md").read_text()
    rows = [line for line in page.partition("## Promises and their tests")[2].splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 25
    for row in rows:
        (named,) = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", row)
        file, name = named
        assert f"def {name}(" in (ROOT / file).read_text(), row
