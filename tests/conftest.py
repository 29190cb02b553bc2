"""What all tests share."""

import os
from collections import Counter

import pytest
from hypothesis import settings

# Machines that run tests are busy; how long an example takes says nothing.
settings.register_profile("assay", deadline=None)
settings.load_profile("assay")

# What `assay` reads from the environment must not decide tests. The parity tests look for the task files of
# lm-evaluation-harness under a name of their own, so that no other test sees them beside the catalog.
KEPT = ("ASSAY_TEST_", "ASSAY_HOME")
for name in [key for key in os.environ if key.startswith("ASSAY_") and not key.startswith(KEPT)]:
    value = os.environ.pop(name)
    if name == "ASSAY_LM_EVAL_TASKS":
        os.environ.setdefault("ASSAY_TEST_LM_EVAL_TASKS", value)


COSTLY = ("cluster", "chromium", "launcher", "heavy")
"""Fixtures that take seconds to make: tests that share one run in one process, and begin first, for they take longest."""
TOGETHER = 20
"""Tests of one file that run in one process, so that what a file makes once is seldom made twice."""


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Which tests go to one process under `--dist loadgroup`, and in which order."""
    if not config.getoption("loadgroup", False):
        return
    counts: Counter[str] = Counter()
    last = []
    for item in items:
        shared = [name for name in COSTLY if name in getattr(item, "fixturenames", ())]
        file = str(item.path)
        counts[file] += not shared
        item.add_marker(pytest.mark.xdist_group(shared[0] if shared else f"{file}:{counts[file] // TOGETHER}"))
        last.append(not shared)
    order = sorted(range(len(items)), key=last.__getitem__)
    items[:] = [items[i] for i in order]


@pytest.fixture(autouse=True)
def wide_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of the width they have in a log, whatever another test or library made of the environment."""
    monkeypatch.setenv("COLUMNS", "140")


collect_ignore = ["parity/live/rival.py"]
collect_ignore_glob = ["outside/*", "finished/genuine/makers/*", "real/serve.py", "agents/mcp_server.py"]
"""Run by an interpreter that has lm-evaluation-harness, which this one has not; and a package that no other test may know of."""
