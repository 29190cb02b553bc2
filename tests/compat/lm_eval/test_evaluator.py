"""Scripts that call `simple_evaluate` run with another import."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import assay
from assay.compat.lm_eval import simple_evaluate
from assay.errors import ConfigError, ConfigWarning
from assay.tasks import TaskManager


def test_the_dictionary_is_the_results_file_with_samples(tmp_path: Path) -> None:
    found = simple_evaluate(
        "dummy",
        tasks=["demo_agreement", "demo_addition"],
        limit=3,
        run_dir=str(tmp_path / "r"),
        fewshot_as_multiturn=True,
    )
    file = json.loads((tmp_path / "r" / "results.json").read_text())
    for part in ("results", "configs", "versions", "n-shot", "n-samples", "higher_is_better", "group_subtasks"):
        assert found[part] == file[part]
    assert set(found["samples"]) == {"demo_agreement", "demo_addition"}
    sample = found["samples"]["demo_agreement"][0]
    assert sample["arguments"][0] == ("The nurses near the river", " are going home.")
    accuracy = sum(each["acc"] for each in found["samples"]["demo_agreement"]) / 3
    assert accuracy == pytest.approx(found["results"]["demo_agreement"]["acc,none"])
    assert {each["filter"] for each in found["samples"]["demo_addition"]} > {"strict"}
    assert "samples" not in assay.simple_evaluate("dummy", tasks=["demo_agreement"], limit=2, log_samples=False)


def write_task(folder: Path) -> None:
    (folder / "docs.jsonl").write_text('{"q": "1 + 1 =", "a": "2"}\n' * 3, encoding="utf-8")
    (folder / "mine.yaml").write_text(
        f"task: mine\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: {folder}/docs.jsonl}}}}\ntest_split: test\n"
        "doc_to_text: '{{q}}'\ndoc_to_target: '{{a}}'\n",
        encoding="utf-8",
    )


def test_seeds_settings_and_managers_are_understood(tmp_path: Path) -> None:
    write_task(tmp_path)
    ours = simple_evaluate("dummy", tasks=["mine"], limit=2, task_manager=TaskManager(include_path=tmp_path))
    theirs = SimpleNamespace(include_path=str(tmp_path), metadata=None)
    seeds = {"random_seed": 7, "fewshot_random_seed": 9, "numpy_random_seed": 8, "torch_random_seed": 6}
    same = simple_evaluate("dummy", {"seed": 0}, ["mine"], limit=2, task_manager=theirs, **seeds)
    assert [*ours["results"]] == [*same["results"]] == ["mine"]
    written = same["config"]
    assert (written["random_seed"], written["numpy_seed"], written["torch_seed"], written["fewshot_seed"]) == (
        7,
        8,
        6,
        9,
    )


def test_what_is_not_needed_is_said_and_what_is_unknown_is_refused() -> None:
    with pytest.warns(ConfigWarning, match="use_cache is not needed"):
        simple_evaluate("dummy", tasks=["demo_agreement"], limit=2, use_cache="cache", verbosity=None)
    with pytest.raises((ConfigError, TypeError), match="limitt"):
        simple_evaluate("dummy", tasks=["demo_agreement"], limitt=2)
    with pytest.raises(ConfigError, match="no tasks"):
        simple_evaluate("dummy")


def test_a_tracker_is_told_of_the_experiment() -> None:
    told: dict[str, Any] = {}
    tracker = SimpleNamespace(
        general_config_tracker=SimpleNamespace(log_experiment_args=lambda **said: told.update(said))
    )
    simple_evaluate("dummy", "seed=1", ["demo_agreement"], limit=2, evaluation_tracker=tracker)
    assert told["model_source"] == "dummy"
    assert told["model_args"] == "seed=1"


SCRIPT = """
import json
from lm_eval.tasks import TaskManager
from assay.compat.lm_eval import simple_evaluate

found = simple_evaluate(model="dummy", tasks=["mine"], limit=2, task_manager=TaskManager(include_path=FOLDER, include_defaults=False))
print(json.dumps([*found["results"]]))
"""


def test_the_manager_of_lm_evaluation_harness_itself_is_taken(tmp_path: Path) -> None:
    copy = os.environ.get("ASSAY_TEST_LM_EVAL_TASKS")
    if not copy or not (Path(copy) / "lm_eval" / "tasks" / "manager.py").is_file():
        pytest.skip("ASSAY_TEST_LM_EVAL_TASKS names no lm-evaluation-harness")
    write_task(tmp_path)
    script = SCRIPT.replace("FOLDER", repr(str(tmp_path)))
    surroundings = {**os.environ, "PYTHONPATH": os.pathsep.join([copy, *filter(None, [os.environ.get("PYTHONPATH")])])}
    ran = subprocess.run([sys.executable, "-c", script], env=surroundings, capture_output=True, text=True, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout.splitlines()[-1]) == ["mine"]
