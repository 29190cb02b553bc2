"""What a run directory may hold: one run, said what became of it, and no secrets."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.run.support import command, environment
from tests.run.test_run import Echo, bench, run  # noqa: F401  `bench` is a fixture
from tests.run.test_until import Better

from assay.errors import ConfigError
from assay.results import read_samples


def status(folder: Path) -> str:
    return str(json.loads((folder / "run.json").read_text())["status"])


@pytest.mark.parametrize(
    ("model", "words", "said"),
    [
        (None, {"tasks": ["sums"]}, "tasks was ['colours'] and is now ['sums']"),
        (None, {"limit": 3}, "limit was not set and is now 3"),
        (Better(), {}, "the model was Echo and is now Better"),
    ],
)
def test_a_directory_of_another_run_is_refused(bench: Path, model: Any, words: dict[str, Any], said: str) -> None:  # noqa: F811
    run(bench, tasks=["colours"], run_dir=str(bench / "run"))
    before = (bench / "run" / "results.json").read_text()
    with pytest.raises(ConfigError) as caught:
        run(bench, model, **{"tasks": ["colours"], "run_dir": str(bench / "run"), **words})
    assert said in str(caught.value)
    assert "--run_dir" in str(caught.value)
    assert (bench / "run" / "results.json").read_text() == before


def test_settings_that_change_no_score_are_no_other_words(bench: Path) -> None:  # noqa: F811
    run(bench, tasks=["colours"], run_dir=str(bench / "run"))
    run(bench, tasks=["colours"], run_dir=str(bench / "run"), log_samples=True, batch_size=7)


def test_fresh_starts_over_and_nothing_of_the_old_run_stays(bench: Path) -> None:  # noqa: F811
    run(bench, run_dir=str(bench / "run"), log_samples=True)
    (bench / "run" / "report.html").write_text("old")
    (bench / "run" / "mine.txt").write_text("not the run's")
    run(bench, Better(), tasks=["colours"], run_dir=str(bench / "run"), fresh=True)
    left = sorted(str(path.relative_to(bench / "run")) for path in (bench / "run").rglob("*") if path.is_file())
    assert left == ["mine.txt", "results.json", "run.json", "samples/colours.parquet"]


def test_a_directory_that_is_no_run_keeps_its_files(bench: Path) -> None:  # noqa: F811
    (bench / "mine").mkdir()
    (bench / "mine" / "report.html").write_text("mine")
    run(bench, tasks=["colours"], run_dir=str(bench / "mine"))
    assert (bench / "mine" / "report.html").read_text() == "mine"


class Ends(Echo):
    """Ends with `error` after five answers."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error

    def stream(self, request_type: Any, instances: Any, draws: Any, stop: Any = None) -> Any:
        for position, answer in super().stream(request_type, instances, draws):
            if position == 5:
                raise self.error
            yield position, answer


@pytest.mark.parametrize(
    ("error", "said"), [(KeyboardInterrupt(), "interrupted"), (RuntimeError("no"), "failed"), (MemoryError(), "failed")]
)
def test_a_run_that_ended_early_says_so_and_shows_no_old_numbers(bench: Path, error: BaseException, said: str) -> None:  # noqa: F811
    run(bench, tasks=["colours"], run_dir=str(bench / "run"))
    with pytest.raises(type(error)):
        run(bench, Ends(error), tasks=["colours"], run_dir=str(bench / "run"), fresh=True)
    assert status(bench / "run") == said
    assert sorted(path.name for path in (bench / "run").iterdir()) == ["run.json", "samples"]
    assert list((bench / "run" / "samples").iterdir()) == []


def test_parts_that_a_killed_run_left_are_removed(bench: Path) -> None:  # noqa: F811
    run(bench, tasks=["colours"], run_dir=str(bench / "run"))
    for name in (".run.json.7.part", "samples/.colours.parquet.7.part", "samples/.colours.parquet.7.narrow"):
        (bench / "run" / name).write_text("half")
    run(bench, tasks=["colours"], run_dir=str(bench / "run"))
    assert not list((bench / "run").rglob(".*"))


API = """
from assay.models.dummy import DummyLM

class Api(DummyLM):
    def __init__(self, api_key, url="x"):
        super().__init__()
        assert api_key == "SECRET"
"""

CUSTOM = """
import datasets

def load(api_key, **rest):
    assert api_key == "SECRET"
    return {"test": datasets.Dataset.from_list([{"question": "a", "answer": 0}])}
"""


def test_no_file_of_a_run_holds_a_secret(bench: Path) -> None:  # noqa: F811
    (bench / "api.py").write_text(API)
    (bench / "code.py").write_text(CUSTOM)
    (bench / "own.yaml").write_text(
        "task: own\ncustom_dataset: !function code.load\ntest_split: test\noutput_type: generate_until\ndoc_to_text: question\ndoc_to_target: answer\nmetadata: {version: 1, author: someone}\n"
    )
    words = [
        sys.executable,
        "-m",
        "assay",
        "run",
        "--model",
        f"{bench}/api.py:Api",
        "--model_args",
        "api_key=SECRET,url=there",
    ]
    words += ["--include_path", str(bench), "--tasks", "colours,own", "--run_dir", str(bench / "run"), "--log_samples"]
    words += ["--metadata", '{"auth": {"token": "SECRET"}, "depth": {"hf_token": "SECRET", "n": 3}}']
    done = subprocess.run(words, env=environment(bench), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    report = [sys.executable, "-m", "assay", "report", str(bench / "run"), "--format", "html"]
    subprocess.run(report, env=environment(bench), check=True, capture_output=True)
    files = [path for path in (bench / "run").rglob("*") if path.is_file()]
    assert len(files) >= 5
    assert [path for path in files if b"SECRET" in path.read_bytes()] == []
    metadata = json.loads((bench / "run" / "results.json").read_text())["configs"]["own"]["metadata"]
    assert metadata == {"version": 1, "author": "someone", "url": "there", "depth": {"n": 3}}
    again = subprocess.run(words, env=environment(bench), capture_output=True, text=True)
    assert again.returncode == 0, "the same words: secrets are not compared"


def test_numbers_of_numpy_get_a_metric_column(bench: Path) -> None:  # noqa: F811
    (bench / "code.py").write_text(
        "import numpy as np\n\ndef score(doc, results):\n    return {'b': np.bool_(True), 'i': np.int64(2), 'f': np.float32(0.5), 'z': np.array(1.0)}\n"
    )
    task = bench / "sums.yaml"
    metrics = "".join(f"  - {{metric: {name}, aggregation: mean, higher_is_better: true}}\n" for name in "bifz")
    head = task.read_text().partition("metric_list:")[0]
    task.write_text(f"{head}metric_list:\n{metrics}process_results: !function code.score\n")
    run(bench, tasks=["sums"], run_dir=str(bench / "run"), limit=4)
    (row, *_) = read_samples(bench / "run" / "samples" / "sums.parquet")
    assert [row[f"metric:{name}"] for name in "bifz"] == [1.0, 2.0, 0.5, 1.0]


def test_tasks_that_samples_do_not_name_are_asked_in_full(bench: Path) -> None:  # noqa: F811
    results = run(bench, samples={"colours": [4, 1]})
    assert results["colours"]["acc"].n == 2
    assert results["sums"]["exact_match,raw"].n == 30


@pytest.mark.parametrize("limit", ["nan", "inf", "-inf"])
def test_a_limit_is_a_number_of_docs(bench: Path, limit: str) -> None:  # noqa: F811
    done = subprocess.run(command(bench, "--limit", limit), env=environment(bench), capture_output=True, text=True)
    assert done.returncode == 2
    assert f"limit is {limit}" in done.stderr


def test_half_of_a_character_ends_no_run(bench: Path) -> None:  # noqa: F811
    class Odd(Echo):
        def stream(self, request_type: Any, instances: Any, draws: Any, stop: Any = None) -> Any:
            for position, answer in super().stream(request_type, instances, draws):
                yield position, answer._replace(answer="7 é\ud800", stop_reason="stop\udfff")

    first = run(bench, Odd(), tasks=["sums"], run_dir=str(bench / "run"), log_samples=True)
    assert first["sums"]["exact_match,raw"].n == 30
    (row, *_) = read_samples(bench / "run" / "samples" / "sums.parquet")
    assert json.loads(row["resps"]) == [["7 é\ud800"] * 2]
