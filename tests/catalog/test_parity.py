"""Catalog tasks against the goldens of lm-evaluation-harness's tasks of the same names: requests, then scores."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import pytest
from tests.parity.goldens import PARITY, golden_paths, load_golden, options_of, plain

from assay.metrics import allow_unsafe_code
from assay.tasks import Task, TaskManager

pytestmark = [pytest.mark.parity]
HUB = PARITY / "hub"


def counts_a_sign(doc: dict[str, Any]) -> bool:
    """IFEval docs that ask for a number of `#` or `!`: lm-evaluation-harness counts a random letter instead."""
    letters = [given.get("letter") for given in doc.get("kwargs") or [] if isinstance(given, dict)]
    return any(letter and not letter.isalpha() for letter in letters)


@pytest.fixture(autouse=True)
def code_may_run() -> Iterator[None]:
    """In the sandbox: the goldens' answers to programming tasks are run against their tests."""
    allow_unsafe_code(True)
    yield
    allow_unsafe_code(False)


@lru_cache(maxsize=1)
def manager() -> TaskManager:
    return TaskManager()


@cache
def built(name: str) -> Task:
    return manager().load([name], data_dir=HUB).tasks[name]


def task_of(name: str, golden: dict[str, Any], folder: Path) -> Task:
    """The task, or one that includes its file and replaces what the golden's settings replace."""
    override = golden["settings"]["override"]
    if not override:
        return built(name)
    path = folder / f"{name}.yaml"
    path.write_text(json.dumps({"include": str(manager().entries[name].path), "task": name, **override}))
    return manager().load([str(path)], data_dir=HUB).tasks[name]


def catalog_goldens() -> list[Path]:
    """Goldens with at least one task that the catalog has; their file names begin with the task's or group's name."""
    names = set(manager().entries)
    return [path for path in golden_paths() if path.name.partition("__")[0] in names]


def test_most_goldens_are_of_catalog_tasks() -> None:
    if not golden_paths():
        pytest.skip(f"no goldens under {PARITY}")
    assert len(catalog_goldens()) > 200


@pytest.mark.parametrize("path", catalog_goldens(), ids=lambda path: path.name.removesuffix(".json.gz"))
def test_catalog_task_asks_and_scores_the_same(path: Path, tmp_path: Path) -> None:
    golden = load_golden(path)
    for name, rows in golden["samples"].items():
        if name not in manager().entries or manager().entries[name].kind != "task":
            continue
        task = task_of(name, golden, tmp_path)
        if task.config.unsafe_code:
            pytest.importorskip("assay.sandbox")
        recorded = {row["doc_id"]: row for row in reversed(rows)}
        by_doc = {}
        for requests in task.iter_requests(options_of(golden)):
            row = recorded[requests.doc_id]
            asked = [plain(instance.arguments) for instance in requests.instances]
            assert requests.shot_replaced or asked == row["arguments"], f"{name}, doc {requests.doc_id}"
            for instance, answers in zip(requests.instances, row["resps"], strict=True):
                instance.resps = [tuple(answer) if isinstance(answer, list) else answer for answer in answers]
            by_doc[requests.doc_id] = requests.instances
        assert sorted(by_doc) == sorted(recorded), name
        compare_scores(name, task, [instance for found in by_doc.values() for instance in found], rows)


CODE_KEY = ("pass@1", "create_test")


def compare_scores(name: str, task: Task, instances: list[Any], rows: list[dict[str, Any]]) -> None:
    task.instances = instances
    task.apply_filters()
    scores = task.process_instances(instances)
    expected: dict[tuple[str, str], list[Any]] = {}
    for row in sorted(rows, key=lambda row: row["doc_id"]):
        for metric, value in row["metrics"].items():
            expected.setdefault((metric, row["filter"]), []).append(value)
    # The code tasks of the catalog agree on names, so that they can meet in one group.
    expected = {
        CODE_KEY if metric in ("pass@1", "pass_at_1") else (metric, f): v for (metric, f), v in expected.items()
    }
    added = {("compilation_rate", "create_test")} if CODE_KEY in expected else set()
    assert set(scores) == set(expected) | added, name
    docs = [instance.doc for instance in instances if instance.idx == 0]
    for key, values in expected.items():
        for doc, (ours, theirs) in enumerate(zip(scores[key], values, strict=True)):
            if doc < len(docs) and counts_a_sign(docs[doc]):
                continue
            assert agree(plain(ours), theirs), f"{name}, {key}, doc {doc}: {ours!r}, expected {theirs!r}"


def agree(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(agree, ours, theirs))
    if isinstance(ours, int | float) and isinstance(theirs, int | float):
        return math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-9) or (math.isnan(ours) and math.isnan(theirs))
    return bool(ours == theirs)
