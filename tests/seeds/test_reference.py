"""The Python reference lists every public name with its signature."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_every_public_name_is_in_the_reference() -> None:
    spec = importlib.util.spec_from_file_location("_reference", DOCS / "_reference.py")
    assert spec is not None
    assert spec.loader is not None
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)
    text = reference.python()
    for folder in reference.PUBLIC:
        for name in getattr(importlib.import_module(f"assay.{folder}"), "__all__", ()):
            assert f"| `{name}" in text, f"assay.{folder}.{name}"
    assert "`Group(name, alias=None, aggregate_metric_list=None, metadata=None" in text


def test_pages_are_in_the_navigation() -> None:
    nav = (DOCS.parent / "mkdocs.yml").read_text()
    for page in ("python-tasks.md", "group-classes.md", "names.md"):
        assert page in nav
