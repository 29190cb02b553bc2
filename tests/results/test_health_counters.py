"""A health counter is one registry row: one from outside is counted, flagged, written, read and shown like the others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import assay
from assay.results import HEALTH_COUNTERS, Health, HealthCounter, doc_flags, health_counters, read_samples


@pytest.fixture
def polite() -> Iterator[None]:
    before = dict(HEALTH_COUNTERS._entries)
    HEALTH_COUNTERS.add(
        "polite",
        HealthCounter(
            "polite",
            "an answer says please",
            lambda instance: any("lorem" in text or text for text in instance.resps),
            of_text=True,
            heading="polite answers",
        ),
    )
    yield
    HEALTH_COUNTERS._entries = before


def test_a_counter_from_outside_is_counted_flagged_written_and_shown(polite: None, tmp_path: Path) -> None:
    task = {
        "task": "letters",
        "output_type": "generate_until",
        "custom_dataset": lambda **_: {"test": [{"q": f"{i}?", "a": "x"} for i in range(4)]},
        "test_split": "test",
        "doc_to_text": "q",
        "doc_to_target": "a",
    }
    result = assay.evaluate(model="dummy", tasks=[task], store=str(tmp_path / "s"), run_dir=str(tmp_path / "run"))
    health = result["letters"].health
    assert health.count("polite") == 4
    assert "100% polite answers" in health.marks()
    assert "polite" in doc_flags()
    written = json.loads((tmp_path / "run" / "results.json").read_text())["assay"]
    assert '"polite": 4' in json.dumps(written)
    samples = next((tmp_path / "run").rglob("*.parquet"))
    assert all("polite" in row["flags"] for row in read_samples(samples))
    assert Health.from_json(health.to_json()).count("polite") == 4


def test_a_counter_that_looks_at_every_request_sees_likelihoods_too(polite: None, tmp_path: Path) -> None:
    HEALTH_COUNTERS.add(
        "unlikely", HealthCounter("unlikely", "a choice is unlikely", lambda instance: instance.resps[0][0] < 0)
    )
    task = {
        "task": "choices",
        "output_type": "multiple_choice",
        "custom_dataset": lambda **_: {"test": [{"q": f"{i}?"} for i in range(3)]},
        "test_split": "test",
        "doc_to_text": "q",
        "doc_to_choice": ["a", "b"],
        "doc_to_target": 0,
    }
    health = assay.evaluate(model="dummy", tasks=[task], store=str(tmp_path / "s"))["choices"].health
    assert (health.count("unlikely"), health.count("polite")) == (3, 0)


def test_a_file_whose_counters_are_not_installed_keeps_their_counts() -> None:
    assert Health.from_json({"docs": 2, "polite": 1}).to_json()["polite"] == 1


def test_every_count_of_health_has_a_row() -> None:
    counts = {name for name, value in vars(Health()).items() if type(value) is int and name != "docs"}
    by_filter = {row.name for row in health_counters() if row.per_filter}
    of_programs = {"not_independent", "weak_sandbox"}  # in files of tasks that run programs only
    of_agents = {"begun_anew", "draws_failed", "limited", "looping", "text_protocol"}
    assert {row.name for row in health_counters()} == counts | by_filter | of_programs | of_agents
    assert all(row.description for row in health_counters())
    assert {"not_in_top", "unscored"} <= set(doc_flags())
