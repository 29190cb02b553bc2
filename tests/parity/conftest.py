"""What was compared, said at the end of a run."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line for each version of lm-evaluation-harness that was run beside ours (see `test_live.py`)."""
    runs: Counter[str] = Counter()
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for report in terminalreporter.stats.get("passed", []):
        for version, compared in (value for key, value in report.user_properties if key == "parity"):
            runs[version] += 1
            counts[version].update(compared)
    for version, found in sorted(counts.items()):
        terminalreporter.write_line(
            f"The same as lm-evaluation-harness {version}: {found['requests']:,} requests, {found['scores']:,} scores of "
            f"docs and {found['results']:,} results in {runs[version]} runs."
        )
