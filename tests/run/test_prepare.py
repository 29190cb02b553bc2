"""One preparation for all runs: what a run refuses before its first request, a dry run refuses in the same words."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.run.support import computed
from tests.run.test_run import bench  # noqa: F401  `bench` is a fixture

from assay.cli import main
from assay.config import RunConfig
from assay.errors import AssayError, ConfigError
from assay.models import load_model
from assay.results import RunDirectory
from assay.run import execute, forecast, rescore
from assay.run.prepare import Earlier, prepare
from assay.run.progress import Quiet

DOCS = '{"question": "2 + 2", "answer": "4"}\n{"question": "2 + 3", "answer": "5"}\n'
TASK = """
task: sums
dataset_path: json
dataset_kwargs: {data_files: {test: FOLDER/sums.jsonl}}
test_split: test
doc_to_text: "{{question}} ="
doc_to_target: answer
"""
REFUSED = {
    "a judge that nobody names": "scorer: {type: judge, kind: correct}\n",
    "a metric that does not exist": "metric_list: [exactly]\n",
    "a package that is missing": "process_results: !function utils.score\n",
    "programs without permission": "unsafe_code: true\n",
    "sound": "doc_to_audio: [question]\n",
    "likelihoods that the model does not give": (
        "output_type: multiple_choice\ndoc_to_choice: ['4', '5']\ndoc_to_target: 0\n"
    ),
    "no such split": "test_split: tset\n",
}
MODEL = """
from assay.models import LM, Capabilities

class Writer(LM):
    def loglikelihood(self, requests):
        raise AssertionError("asked")
    def loglikelihood_rolling(self, requests):
        raise AssertionError("asked")
    def generate_until(self, requests):
        raise AssertionError("asked")
    def capabilities(self, wanted=(), known=()):
        return Capabilities(likelihoods=False, top_logprobs=False)
"""


def settings(folder: Path, more: str) -> dict[str, Any]:
    (folder / "sums.jsonl").write_text(DOCS)
    (folder / "sums.yaml").write_text(TASK.replace("FOLDER", str(folder)) + more)
    (folder / "utils.py").write_text("import no_such_package\ndef score(doc, results): return {}\n")
    (folder / "writer.py").write_text(MODEL)
    return {
        "model": f"{folder}/writer.py:Writer",
        "tasks": ["sums"],
        "include_path": [str(folder)],
        "store": str(folder / "store.sqlite"),
    }


@pytest.mark.parametrize("more", REFUSED.values(), ids=REFUSED.keys())
def test_a_dry_run_refuses_what_a_run_refuses(more: str, tmp_path: Path) -> None:
    config = RunConfig(**settings(tmp_path, more))
    said: list[AssayError] = []
    for way in (execute, forecast):
        with pytest.raises(AssayError) as refusal:
            way(config)
        said.append(refusal.value)
    assert [type(each) for each in said[:1]] == [type(each) for each in said[1:]]
    assert said[0].message == said[1].message
    assert said[0].exit_code == said[1].exit_code


@pytest.mark.parametrize("flags", [[], ["--dry_run"]], ids=["run", "dry run"])
def test_a_judged_task_without_a_judge_ends_with_2(flags: list[str], tmp_path: Path) -> None:
    given = settings(tmp_path, REFUSED["a judge that nobody names"])
    command = ["run", "--model", given["model"], "--tasks", "sums", "--include_path", str(tmp_path)]
    with pytest.raises(SystemExit) as end:
        main([*command, "--store", given["store"], *flags])
    assert end.value.code == 2


def test_what_it_settles(bench: Path) -> None:  # noqa: F811
    config = RunConfig(model="dummy", tasks=["both"], include_path=[str(bench)], store=str(bench / "s.sqlite"), limit=5)
    laps: list[str] = []
    with ExitStack() as stack:
        prepared = prepare(config, stack, Quiet(), load=lambda: load_model("dummy"), lap=laps.append)
        assert prepared.model.info().name
        assert prepared.store is not None
        assert {name: list(task.doc_ids) for name, task in prepared.plan.tasks.items()} == {
            "colours": [0, 1, 2, 3, 4],
            "sums": [0, 1, 2, 3, 4],
        }
    assert laps == ["load_model", "load_tasks"]


def test_without_a_model_nothing_is_loaded_and_the_earlier_docs_are_taken(bench: Path) -> None:  # noqa: F811
    common = {"model": f"{bench}/noted.py:Noted", "model_args": {"log": str(bench / "log.txt")}, "tasks": ["colours"]}
    config = RunConfig(**common, include_path=[str(bench)], store=str(bench / "s.sqlite"), run_dir=str(bench / "run"))
    execute(config.model_copy(update={"samples": {"colours": [3, 1]}}))
    asked = len(computed(bench))
    source = RunDirectory(bench / "run")
    with ExitStack() as stack:
        prepared = prepare(config, stack, Quiet(), earlier=Earlier(source))
        assert (prepared.lm, prepared.store) == (None, None)
        assert list(prepared.plan.tasks["colours"].doc_ids) == [1, 3]
        assert "28 docs" in prepared.notes[0]
    result, _ = rescore(source, config)
    assert result["colours"].health.docs == 2
    assert len(computed(bench)) == asked


def test_a_sealed_run_is_not_refused_for_what_lies_elsewhere(bench: Path) -> None:  # noqa: F811
    config = RunConfig(model="dummy", tasks=["colours"], include_path=[str(bench)], store=str(bench / "s.sqlite"))
    execute(config.model_copy(update={"run_dir": str(bench / "run")}))
    (bench / "train.jsonl").unlink()
    source = RunDirectory(bench / "run")
    with ExitStack() as stack, pytest.raises(ConfigError):
        prepare(config, stack, Quiet(), earlier=Earlier(source))
    docs = {"colours": [{"question": "?", "answer": 0}] * 30}
    with ExitStack() as stack:
        sealed = Earlier(source, docs, is_sealed=True)
        assert len(prepare(config, stack, Quiet(), earlier=sealed).plan.tasks["colours"].doc_ids) == 30
