"""What all tests share."""

import os

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


@pytest.fixture(autouse=True)
def wide_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of the width they have in a log, whatever another test or library made of the environment."""
    monkeypatch.setenv("COLUMNS", "140")


collect_ignore = ["parity/live/rival.py"]
"""Run by an interpreter that has lm-evaluation-harness, which this one has not."""
