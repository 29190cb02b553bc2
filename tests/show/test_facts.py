"""The command that a report shows makes the run again; where none can, it says so."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click
import pytest

import assay
from assay.cli.options import RUN_OPTIONS, resolve_config, with_options
from assay.config import RunConfig
from assay.models.dummy import DummyLM
from assay.results import RunDirectory, RunResult
from assay.show import command_of, run_findings


@pytest.mark.parametrize(
    "fields",
    [
        {"model": "hf", "model_args": {"pretrained": "a b", "dtype": "float32"}, "tasks": ["x", "y:cloze"], "limit": 5},
        {"tasks": ["x"], "gen_kwargs": {"until": ["\n", "a,b"], "temperature": 0.5, "do_sample": True}},
        {"tasks": ["x"], "model_args": {"name": "12", "stop": "a,b", "none": None, "chat": {"deep": [1]}}},
        {"tasks": ["x"], "roles": {"judge": {"model": "hf", "model_args": {"pretrained": "m", "n": 3}}}},
        {"tasks": ["x"], "labels": ["one.jsonl", "two words.jsonl"], "include_path": ["here", "there"]},
        {"tasks": ["x"], "apply_chat_template": "tool_use", "fewshot_as_multiturn": False, "seed": 7},
        {"tasks": ["x"], "apply_chat_template": True, "system_instruction": "Be 'brief'.", "seed": {"fewshot": 3}},
        {"tasks": ["x"], "samples": {"x": [0, 3]}, "num_fewshot": 0, "metadata": {"size": "7b"}, "predict_only": True},
    ],
)
def test_the_command_is_read_back_as_the_config_it_was_made_of(fields: dict[str, Any]) -> None:
    config = RunConfig(output_path="runs", **fields)
    read: list[RunConfig] = []

    @click.command()
    @with_options(RUN_OPTIONS)
    def run(**given: Any) -> None:
        read.append(resolve_config(given))

    words = shlex.split(command_of(config.model_dump(mode="json")))
    assert words[:2] == ["assay", "run"]
    run.main(words[2:], standalone_mode=False)
    assert read == [config]


class Handed(DummyLM):
    """What somebody writes in a notebook."""


def test_a_model_from_python_is_not_shown_as_a_backend_that_it_is_not(tmp_path: Path) -> None:
    words: dict[str, Any] = {"tasks": ["demo_agreement"], "limit": 4, "store": str(tmp_path / "s.sqlite")}
    assay.evaluate(model=Handed(), run_dir=str(tmp_path / "run"), **words)
    about = RunDirectory(tmp_path / "run").read_json("run.json") or {}
    page = run_findings(RunResult.load(tmp_path / "run"), about).to_html()
    assert "--model hf" not in page
    assert f"Python object of the class {Handed.__module__}.Handed" in page
    assert "assay.evaluate(model=…, tasks=[&#39;demo_agreement&#39;], limit=4)" in page
