"""The bundled data: right, distinct, enough; and the group over them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import assay

DATA = Path(assay.__file__).parent / "catalog" / "demo" / "data"
FILES = sorted(DATA.glob("*.jsonl"))


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_enough_docs_and_none_twice(path: Path) -> None:
    docs = rows(path.stem)
    assert len(docs) >= 100
    assert len({json.dumps(doc, sort_keys=True) for doc in docs}) == len(docs)


def test_capitals_are_the_same_questions_in_three_languages() -> None:
    english, german, french = rows("capitals_en"), rows("capitals_de"), rows("capitals_fr")
    for docs in zip(english, german, french, strict=True):
        assert len({doc["answer"] for doc in docs}) == 1
        assert all(len(set(doc["choices"])) == 4 for doc in docs)
    paris = next(doc for doc in english if doc["country"] == "France")
    assert paris["choices"][paris["answer"]] == "Paris"
    positions = [sum(doc["answer"] == place for doc in english) for place in range(4)]
    assert min(positions) > 20  # no place is right so seldom that a habit would pay


def test_arithmetic_is_right() -> None:
    for name, sign in (("addition", 1), ("subtraction", -1)):
        assert all(doc["a"] + sign * doc["b"] == int(doc["answer"]) for doc in rows(name))


def test_minimal_pairs_differ_in_one_word() -> None:
    for name in ("agreement", "reflexives"):
        for doc in rows(name):
            good, bad = doc["good"].split(), doc["bad"].split()
            assert sum(a != b for a, b in zip(good, bad, strict=True)) == 1


def test_group_gives_numbers_with_intervals_from_leaf_to_root(tmp_path: Path) -> None:
    results = assay.evaluate(model="dummy", tasks=["demo"], limit=30, store=str(tmp_path / "store.sqlite"))
    expected = {
        ("demo", "acc"): "mean over subgroups",
        ("demo_capitals", "acc"): "harmonic mean",
        ("demo_english", "acc"): "weighted mean",
        ("demo_arithmetic", "exact_match,strict"): "mean",
        ("demo_arithmetic", "pass@3"): "pass@k of three draws",
        ("demo_facts", "gold_bits_per_byte"): "bits per byte",
        ("demo_prose", "bits_per_byte"): "bits per byte",
    }
    for (name, metric), what in expected.items():
        score = results[name][metric]
        assert score.undefined is None, f"{name} {metric} ({what}): {score.undefined}"
        assert score.low is not None
        assert score.low <= score.value <= score.high, f"{name} {metric}"
    capitals = [results[f"demo_capitals_{language}"]["acc"].value for language in ("en", "de", "fr")]
    if all(capitals):
        assert results["demo_capitals"]["acc"].value == pytest.approx(3 / sum(1 / value for value in capitals))


def test_shots_are_never_among_the_questions() -> None:
    loaded = assay.TaskManager().load(["demo"])
    for task in loaded.tasks.values():
        samples = task.config.fewshot_config.samples
        if isinstance(samples, list):
            asked = [tuple(doc.get(key) for key in samples[0]) for doc in task.eval_docs]
            assert not set(map(repr, (tuple(shot.values()) for shot in samples))) & set(map(repr, asked)), (
                task.task_name
            )
