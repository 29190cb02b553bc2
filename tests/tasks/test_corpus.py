"""The task files of lm-evaluation-harness, all of them: they are our task files."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import pytest
from tests.parity.goldens import tasks_directory

from assay.config import ConfigWarning
from assay.errors import ConfigError
from assay.tasks.manager import LM_EVAL_VARIABLE, TaskManager, lm_eval_roots
from assay.tasks.scan import _parse, scan

pytestmark = [pytest.mark.parity, pytest.mark.slow]


@pytest.fixture(scope="module")
def root() -> Path:
    directory = tasks_directory()
    found = lm_eval_roots(directory) if directory is not None else []
    if not found:
        reason = f"{LM_EVAL_VARIABLE} does not name the task files of lm-evaluation-harness; `make test` fetches them"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    return found[0]


@pytest.fixture(scope="module")
def manager(root: Path, tmp_path_factory: pytest.TempPathFactory) -> TaskManager:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAY_HOME", str(tmp_path_factory.mktemp("home")))
        manager = TaskManager(include_path=root, include_defaults=False, lm_eval=False)
        assert manager.index.entries
    return manager


def test_the_index_holds_every_name(manager: TaskManager) -> None:
    index = manager.index
    assert len(index.names("task")) > 13_000
    assert sum(entry.is_class for entry in index.entries.values()) == 30
    assert len(index.names("group")) > 840
    assert len(index.names("tag")) > 690
    assert not index.broken
    assert not [entry for entry in index.entries.values() if entry.rivals]


def test_what_is_read_off_the_lines_is_what_the_parser_says(root: Path) -> None:
    """A tenth of the files: every tenth, and every base without the usual suffix."""
    files = sorted(root.rglob("*.yaml"))[::10] + sorted(root.rglob("*_yaml"))
    scanned = {file: scan(file.read_bytes()) for file in files}
    assert sum(facts is None for facts in scanned.values()) < len(files) / 50
    assert [file for file, facts in scanned.items() if facts is not None and facts != _parse(file)] == []


def test_every_task_and_group_becomes_a_config(manager: TaskManager) -> None:
    failures: dict[str, str] = {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        # All groups with all that is in them, and of the other tasks every third.
        for name in [*manager.index.names("group"), *manager.index.names("task")[::3]]:
            try:
                assert manager.resolve(name).roots == [name]
            except ConfigError as error:
                failures[name] = error.message
    # This one lists members without a name, which lm-evaluation-harness refuses as well.
    assert set(failures) == {"t0_eval"}
    slips = {str(item.message).rpartition(": ")[2] for item in caught if issubclass(item.category, ConfigWarning)}
    twice = {slip for slip in slips if "stands here and on line" in slip}  # of two values the last counts, as there
    assert twice
    slips -= twice
    assert slips <= {
        "high_is_better is treated as higher_is_better",
        "weight_by_size belongs in a group's aggregate_metric_list; ignored",
        "truez is treated as true",
    }
    assert slips


def test_mmlu_is_the_tree_it_is_known_as(manager: TaskManager) -> None:
    found = manager.resolve("mmlu")
    assert len(found.tasks) == 57
    assert set(found.groups["mmlu"].children) == {"mmlu_stem", "mmlu_other", "mmlu_social_sciences", "mmlu_humanities"}
    assert {config.eval_split for config in found.tasks.values()} == {"test"}


@pytest.mark.parametrize(
    ("task", "field"),
    [
        ("ifeval", "process_results"),  # siblings by their full name
        ("leaderboard_ifeval", "process_results"),  # … where a nearer folder has the same one
        ("mmlu_flan_cot_zeroshot_anatomy", "filter_list"),  # a filter built on RegexFilter
        ("gpqa_main_zeroshot", "process_docs"),
        ("squadv2", "class_"),
    ],
)
def test_modules_of_task_files_import(manager: TaskManager, task: str, field: str) -> None:
    from assay.tasks.check import functions_in

    if task not in manager.entries:
        pytest.skip(f"this version has no {task}")
    config = manager.resolve(task).tasks[task]
    assert field in config.model_fields_set
    for _, ref in functions_in(config):
        assert callable(ref.load())
