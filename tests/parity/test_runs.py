"""Every golden of lm-evaluation-harness through the whole house: requests, responses, scores, results, standard errors."""

from __future__ import annotations

import importlib.util
import json
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.parity.fake_model import FakeModel, recorded_responses
from tests.parity.goldens import PARITY, golden_paths, load_golden, manager, require_parity_data

import assay
from assay.config import RunConfig
from assay.store import ResponseStore
from assay.tasks import TaskManager

pytestmark = [pytest.mark.parity]

LEAKS = {"lambada_openai__fs5-limit12-seed42"}
"""Here lm-evaluation-harness puts a doc, solved, among its own shots. We draw another shot for that doc: see docs."""

RANDOM = {"ifeval__sys-limit20"}
"""The task's own code draws a letter at random where a doc names none, and how many draws lm-evaluation-harness has made
before that differs from run to run."""


@cache
def compare() -> ModuleType:
    """`compare.py`, which lies beside the goldens and decides what counts as identical."""
    spec = importlib.util.spec_from_file_location("parity_compare", PARITY / "compare.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def config_of(golden: dict[str, Any], folder: Path, of: TaskManager | None = None) -> RunConfig:
    settings = golden["settings"]
    task = golden["name"]
    if settings["override"]:
        base = (of or manager()).entries[task].path
        path = folder / f"{task}.yaml"
        path.write_text(json.dumps({"include": str(base), "task": task, **settings["override"]}))
        task = str(path)
    return RunConfig(
        tasks=[task],
        num_fewshot=settings["num_fewshot"],
        limit=settings["limit"],
        apply_chat_template=settings["apply_chat_template"],
        fewshot_as_multiturn=settings["fewshot_as_multiturn"],
        system_instruction=settings["system_instruction"],
        gen_kwargs=settings["gen_kwargs"],
        bootstrap_iters=settings["bootstrap_iters"],
        seed={"fewshot": settings["seeds"]["fewshot"]},
        run_dir=str(folder / "run"),
        log_samples=True,
        data_dir=str(PARITY / "hub"),
        confirm_run_unsafe_code=True,
    )


@pytest.fixture
def quick_rouge(monkeypatch: pytest.MonkeyPatch) -> None:
    """truthfulqa resamples one score a thousand times to get the same score back; ten times will do."""
    from rouge_score.scoring import BootstrapAggregator

    monkeypatch.setattr(BootstrapAggregator.__init__, "__defaults__", (0.95, 10))


def slice_of(paths: list[Path]) -> set[Path]:
    """What `make test` runs: one golden of each task, and of each kind of settings.

    Tasks take turns: the first one's golden is its first, the second one's its second, so that settings and tasks mix.
    cruxeval's are left out, which run hundreds of programs each; those of humaneval and mbpp run some.
    """
    of_task: dict[str, list[Path]] = {}
    of_settings: dict[str, Path] = {}
    for path in paths:
        task, settings = path.name.split("__", 1)
        if not task.startswith("cruxeval"):
            of_task.setdefault(task, []).append(path)
            of_settings.setdefault(settings, path)
    turns = {goldens[i % len(goldens)] for i, goldens in enumerate(of_task.values())}
    asked = {path.name.split("__", 1)[1] for path in turns}
    return turns | {path for settings, path in of_settings.items() if settings not in asked}


PATHS = golden_paths()
SLICE = slice_of(PATHS)


@pytest.mark.usefixtures("quick_rouge")
@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=() if path in SLICE else pytest.mark.wide) for path in PATHS],
    ids=lambda path: path.name.removesuffix(".json.gz"),
)
def test_run_gives_what_lm_evaluation_harness_gave(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    require_parity_data()
    name = path.name.removesuffix(".json.gz")
    if name.startswith(("humaneval", "mbpp")):
        pytest.importorskip("assay.sandbox")
    golden = load_golden(path)
    model = FakeModel(recorded_responses(golden) if golden["settings"]["hints"] else None)
    with ResponseStore(tmp_path / "store.sqlite") as store:
        assay.evaluate(config_of(golden, tmp_path), model=model, manager=manager(), store=store)
    output, samples = compare().load_output(tmp_path / "run", golden["samples"])
    capsys.readouterr()
    bad = sum(compare().compare_samples(task, rows, samples.get(task)) for task, rows in golden["samples"].items())
    bad += compare().compare_results(golden, output, compare().SECTIONS)
    report = capsys.readouterr().out
    if name in LEAKS:
        assert "prompts 11/12" in report
        return
    if name in RANDOM:
        assert "prompts 20/20" in report
        assert "filtered_resps 20/20" in report
        return
    assert bad == 0, report
