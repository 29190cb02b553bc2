"""What is exported opens in the packages that own the formats, in the environments that `make_genuine.py` builds.

These tests are wide: `pytest -m wide tests/finished/test_genuine_readers.py`, after `python tests/finished/make_genuine.py inspect harbor eee`.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.analyses.made import write_run
from tests.finished.make_genuine import ENVIRONMENTS
from tests.finished.test_genuine import GENUINE

from assay.finished import export_run, open_run

pytestmark = pytest.mark.wide
INSPECT = """
import json, sys
from inspect_ai.log import read_eval_log, read_eval_log_sample_summaries
found = {}
for path in sys.argv[1:]:
    log = read_eval_log(path)
    scores = [{name: score.as_float() for name, score in sample.scores.items()} for sample in log.samples]
    means = {each.name: each.metrics["mean"].value for each in log.results.scores if "mean" in each.metrics}
    found[log.eval.task] = [log.status, scores, means, len(read_eval_log_sample_summaries(path))]
print(json.dumps(found))
"""
HARBOR = """
import json, sys
from pathlib import Path
from harbor.models.job.result import JobResult, JobStats
from harbor.models.trajectories import Trajectory
from harbor.models.trial.config import TrialConfig
from harbor.models.trial.result import TrialResult
folder = Path(sys.argv[1])
trials = [TrialResult.model_validate_json(file.read_text()) for file in sorted(folder.glob("*/result.json"))]
for file in folder.glob("*/config.json"):
    TrialConfig.model_validate_json(file.read_text())
steps = [len(Trajectory.model_validate_json(file.read_text()).steps) for file in folder.glob("*/agent/trajectory.json")]
job = JobResult.model_validate_json((folder / "result.json").read_text())
told, counted = job.stats.model_dump(), JobStats.from_trial_results(trials).model_dump()
for stats in (told, counted):
    for each in stats["evals"].values():
        each.pop("metrics")
        for values in each["reward_stats"].values():
            for names in values.values():
                names.sort()
print(json.dumps([len(trials), len(steps), told == counted]))
"""
RUNS: dict[str, Path] = {
    "inspect": GENUINE / "inspect/epochs_a",
    "errors": GENUINE / "inspect/errors",
    "images": GENUINE / "inspect/looks_on",
    "harbor": GENUINE / "harbor/attempts",
    "verifiers": GENUINE / "verifiers/good",
    "choices": GENUINE / "evalframework/choices",
}


@pytest.fixture(params=["own", *RUNS])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == "own":
        return write_run(tmp_path / "own", {"t": {"acc,none": [1.0, 1.0, 0.0]}, "u/v": {"f1,strict": [0.5, 0.25]}})
    return RUNS[request.param]


def told_by(name: str, *words: Any) -> str:
    python = ENVIRONMENTS / name / "bin" / "python"
    if not python.exists():
        pytest.skip(f"`python tests/finished/make_genuine.py {name}` makes the environment of {name}")
    done = subprocess.run([python, *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_inspect_opens_what_is_exported_to_it(source: Path, tmp_path: Path) -> None:
    written = export_run(source, "inspect", tmp_path / "out")
    found = json.loads(told_by("inspect", "-c", INSPECT, *written))
    assert len(found) == len(written)
    for status, scores, means, summaries in found.values():
        assert (status, summaries) == ("success", len(scores))
        for name, mean in means.items():
            values = [each[name] for each in scores if name in each]
            assert sum(values) / len(values) == pytest.approx(mean)


def test_harbor_opens_what_is_exported_to_it_and_counts_the_same(source: Path, tmp_path: Path) -> None:
    export_run(source, "harbor", tmp_path / "out")
    trials, trajectories, is_same = json.loads(told_by("harbor", "-c", HARBOR, tmp_path / "out"))
    assert (trials > 0, trajectories, is_same) == (True, trials, True)


def test_every_eval_ever_validates_what_is_exported_to_it(source: Path, tmp_path: Path) -> None:
    named = open_run(source).result.model_name
    files = export_run(source, "eee", tmp_path / "out", developer="" if "/" in named else "us")
    told_by("eee", "-m", "every_eval_ever", "validate", *files)
