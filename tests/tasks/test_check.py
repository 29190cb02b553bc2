"""What `assay validate` finds wrong, and what it must not."""

from __future__ import annotations

import importlib.util

import pytest

from assay.config import TaskConfig
from assay.metrics.hub import OFFLINE
from assay.tasks import check_task


def errors_of(metric: dict[str, object]) -> list[str]:
    config = TaskConfig(
        task="t", dataset_path="nobody/has_this", test_split="test", doc_to_text="q", metric_list=[metric]
    )
    return [error.message for error in check_task(config)]


def test_a_metric_of_evaluate_that_we_compute_ourselves_needs_no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "evaluate" else find_spec(name))
    for name in OFFLINE:
        assert errors_of({"metric": name}) == []
        assert errors_of({"metric": name, "hf_evaluate": True}) == []
    assert "needs the package 'evaluate'" in errors_of({"metric": "meteor"})[0]
    assert "unknown metric 'accuracyy'" in errors_of({"metric": "accuracyy"})[0]


def test_a_turn_of_a_conversation_that_is_no_template() -> None:
    config = TaskConfig(
        task="t", dataset_path="nobody/has_this", test_split="test", doc_to_text="q", turns=["Sure?", "{{answers[-1}}"]
    )
    (error,) = check_task(config)
    assert "task 't': turns.1: the template" in error.message
