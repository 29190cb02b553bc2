"""`--dry_run` asks nothing of a model that may stand for a server, and counts the docs that the run would ask."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.run.support import computed
from tests.run.test_run import bench  # noqa: F401  `bench` is a fixture

from assay.config import RunConfig
from assay.run import forecast


def about(folder: Path, **words: Any) -> Any:
    given = {"model": f"{folder}/noted.py:Noted", "model_args": {"log": str(folder / "log.txt")}, "tasks": ["both"]}
    return forecast(RunConfig(**{**given, "include_path": [str(folder)], **words}))


def test_a_class_of_ones_own_is_asked_nothing(bench: Path) -> None:  # noqa: F811
    found = about(bench)
    assert found.to_ask == 30 * 3 + 30 * 2
    assert found.seconds is None
    assert computed(bench) == []


def test_a_backend_that_computes_here_is_measured(bench: Path) -> None:  # noqa: F811
    assert about(bench, model="dummy", model_args={}).seconds is not None


@pytest.mark.parametrize(
    ("words", "docs"), [({"limit": 5}, 5), ({"samples": {"colours": [3, 1]}}, 2), ({"until": "ci=0.1", "limit": 7}, 7)]
)
def test_docs_are_those_of_the_run(bench: Path, words: dict[str, Any], docs: int) -> None:  # noqa: F811
    assert about(bench, **words).tasks["colours"].docs == docs
