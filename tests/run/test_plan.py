"""The plan: which docs, in which order and windows, before anything is requested."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.run.test_run import bench  # noqa: F401  `bench` is a fixture

from assay.config import RunConfig
from assay.errors import ConfigError, DataError
from assay.run import draw_units, make_plan, units_of
from assay.run.plan import Plan, windows
from assay.run.settle import settle
from assay.tasks import Task, TaskManager


def plan(folder: Path, **settings: Any) -> Plan:
    config = RunConfig(**{"model": "dummy", "tasks": ["both"], "include_path": [str(folder)], **settings})
    return settle(make_plan(config, None), config)


def cut(made: Plan, size: int) -> list[list[tuple[str, int]]]:
    return [[(work.task, work.requests.doc_id) for work in window] for window in windows(made, size)]


def test_every_doc_is_in_one_window_in_order(bench: Path) -> None:  # noqa: F811
    made = plan(bench)
    everything = [(name, doc_id) for name in made.tasks for doc_id in range(30)]
    assert made.doc_total() == 60
    for size in (1, 7, 40, 10_000):
        assert [each for window in cut(made, size) for each in window] == everything


def test_windows_hold_about_so_many_requests(bench: Path) -> None:  # noqa: F811
    """Three requests a doc: a window of 12 is full with four docs; a quarter of the size is the most docs."""
    assert [len(window) for window in cut(plan(bench, tasks=["colours"], limit=10), 12)] == [3, 3, 3, 1]
    assert [len(window) for window in cut(plan(bench, tasks=["colours"], limit=10), 15)] == [3, 3, 3, 1]
    assert [len(window) for window in cut(plan(bench, tasks=["colours"], limit=10), 40)] == [10]


@pytest.mark.parametrize(
    ("settings", "ids", "size"),
    [
        ({}, range(30), None),
        ({"limit": 4}, range(4), 30),
        ({"limit": 0.1}, range(3), 30),
        ({"samples": {"colours": [5, 2, 5]}}, [2, 5], None),
        ({"samples": {"colours": []}}, [], None),
    ],
)
def test_docs_that_are_selected(bench: Path, settings: dict[str, Any], ids: Any, size: int | None) -> None:  # noqa: F811
    planned = plan(bench, tasks=["colours"], **settings).tasks["colours"]
    assert (list(planned.doc_ids), planned.size) == (list(ids), size)


def test_until_draws_docs_at_random_and_the_same_ones_again(bench: Path) -> None:  # noqa: F811
    first, second = (plan(bench, tasks=["colours"], until="ci=0.1", limit=12).tasks["colours"] for _ in range(2))
    assert list(first.doc_ids) == list(second.doc_ids) != sorted(first.doc_ids)
    assert (len(first.doc_ids), first.size) == (12, 30)


def test_a_group_whose_members_depend_on_the_model(bench: Path) -> None:  # noqa: F811
    (bench / "some.yaml").write_text('group: some\ntask: [sums, {task: colours, if: "model.params > 7e9"}]\n')
    assert set(plan(bench, tasks=["some"], metadata={"model_size": "1B"}).tasks) == {"sums"}
    assert set(plan(bench, tasks=["some"], metadata={"model_size": "8B"}).tasks) == {"sums", "colours"}


def test_samples_of_a_task_that_is_not_run_are_refused(bench: Path) -> None:  # noqa: F811
    with pytest.raises(ConfigError, match="colour"):
        plan(bench, samples={"colour": [1]})


def clustered(folder: Path, labels: list[Any]) -> Task:
    task = {
        "task": "clustered",
        "custom_dataset": lambda **_: {"test": [{"q": str(i), "c": label} for i, label in enumerate(labels)]},
        "test_split": "test",
        "doc_to_text": "q",
        "doc_to_target": "q",
        "cluster": "c",
    }
    return TaskManager(include_path=[str(folder)]).load([task]).tasks["clustered"]


def test_units_are_drawn_whole(tmp_path: Path) -> None:
    units = units_of(clustered(tmp_path, ["a", "a", "b", "b", "c", "c"]), range(6))
    assert units is not None
    for most in range(1, 7):
        drawn = draw_units(range(6), units, most, "seed")
        assert all((doc_id ^ 1) in drawn for doc_id in drawn)
        assert len(drawn) <= max(most, 2)


def test_a_doc_without_the_label_of_its_cluster_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="doc 1"):
        units_of(clustered(tmp_path, ["a", None]), range(2))
