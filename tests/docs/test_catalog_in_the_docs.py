"""What the README and the reference say about the catalog is what ships."""

from __future__ import annotations

import importlib.util
import re
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

from assay.tasks import TaskManager

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_reference", ROOT / "docs" / "_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_readme_counts_what_ships() -> None:
    counts = Counter(entry.kind for entry in TaskManager(lm_eval=False).entries.values())
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"{counts['task']} tasks and {counts['group']} groups ship with Assay" in text
    assert re.findall(r"(\d+) ship", text) == [str(counts["task"])]


def test_the_reference_lists_what_ships_whatever_is_added(
    reference: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "odd.yaml").write_text("task: an_added_task\ndataset_path: json\nno_such_key: 1\n")
    monkeypatch.setenv("ASSAY_LM_EVAL_TASKS", str(tmp_path))
    listed = reference.catalog()
    assert "`arc_easy`" in listed
    assert "an_added_task" not in listed
