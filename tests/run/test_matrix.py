"""Several models on many tasks: each loaded once, each cell once, failures beside results."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from assay.cli.run import command
from assay.config import RunConfig
from assay.errors import ConfigError
from assay.run.matrix import missing_by_model, plan_cells, read_models

MODEL = """
from pathlib import Path
from assay.models.dummy import DummyLM


class Counted(DummyLM):
    def __init__(self, log: str, seed: int = 0) -> None:
        super().__init__(seed)
        with open(log, "a") as file:
            file.write("loaded\\n")
"""


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two models of a file that notes every load, and one that does not load."""
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("ASSAY_STORE", raising=False)
    (tmp_path / "model.py").write_text(MODEL)
    spec = {"model": f"{tmp_path}/model.py:Counted"}
    entries: list[Any] = [
        {"name": "one", **spec, "model_args": {"log": str(tmp_path / "log")}},
        {"name": "two", **spec, "model_args": {"log": str(tmp_path / "log"), "seed": 7}, "num_fewshot": 1},
    ]
    (tmp_path / "models.yaml").write_text(json.dumps({"models": entries}))
    return tmp_path / "models.yaml"


def matrix(models: Path, *words: str) -> Result:
    tasks = [] if "--tasks" in words else ["--tasks", "demo_grammar,demo_arithmetic"]
    return CliRunner().invoke(
        command, ["--models", str(models), *tasks, "--output_path", str(models.parent / "out"), "--limit", "8", *words]
    )


def cells_to_do(result: Result) -> tuple[int, ...]:
    """How many cells there are, and how many of them are not done yet."""
    return tuple(int(number) for number in re.findall(r"\d+", result.output.splitlines()[0])[:2])


def loads(models: Path) -> int:
    return (models.parent / "log").read_text().count("loaded")


def test_each_model_is_loaded_once_and_the_same_command_again_does_nothing(models: Path) -> None:
    first = matrix(models)
    assert first.exit_code == 0, first.output
    assert loads(models) == 2
    assert all(name in first.output for name in ("one", "two", "demo_grammar", "demo_arithmetic"))
    assert (models.parent / "out" / "two" / "demo_grammar" / "results.json").exists()
    again = matrix(models)
    assert loads(models) == 2
    assert cells_to_do(again) == (4, 0)


def test_a_new_task_or_other_words_are_done_and_nothing_else(models: Path) -> None:
    matrix(models, "--tasks", "demo_grammar")
    assert cells_to_do(matrix(models)) == (4, 2)
    assert cells_to_do(matrix(models, "--limit", "9")) == (4, 4)


def test_a_cell_in_other_words_is_done_anew_and_said_so(models: Path) -> None:
    matrix(models, "--tasks", "demo_grammar")
    other = matrix(models, "--tasks", "demo_grammar", "--limit", "9")
    assert other.exit_code == 0, other.output
    assert "one on demo_grammar is run again: limit was 8 and is now 9" in other.output


def test_fresh_does_finished_cells_again(models: Path) -> None:
    matrix(models, "--tasks", "demo_grammar")
    again = matrix(models, "--tasks", "demo_grammar", "--fresh")
    assert cells_to_do(again) == (2, 2)
    assert loads(models) == 4


def test_an_unfinished_cell_is_done_again(models: Path) -> None:
    matrix(models)
    path = models.parent / "out" / "one" / "demo_grammar" / "run.json"
    run = json.loads(path.read_text())
    path.write_text(json.dumps({**run, "status": "running"}))
    assert cells_to_do(matrix(models)) == (4, 1)


def test_one_model_that_does_not_load_leaves_the_others_alone(models: Path) -> None:
    found = json.loads(models.read_text())
    found["models"].insert(0, {"name": "bad", "model": "ngram", "model_args": {"order": 99}})
    models.write_text(json.dumps(found))
    result = matrix(models)
    assert result.exit_code == 3
    assert "bad on demo_grammar: ngram: order is 99" in result.output
    assert (models.parent / "out" / "two" / "demo_arithmetic" / "results.json").exists()


def test_one_task_that_fails_leaves_the_others_alone(models: Path) -> None:
    (models.parent / "more").mkdir()
    (models.parent / "more" / "broken.yaml").write_text(
        "task: broken\ndataset_path: json\ndataset_kwargs: {data_files: none.jsonl}\ntest_split: train\noutput_type: generate_until\ndoc_to_text: x\ndoc_to_target: y\n"
    )
    result = matrix(models, "--tasks", "broken,demo_grammar", "--include_path", str(models.parent / "more"))
    assert result.exit_code == 3
    assert "one on broken" in result.output, result.output
    assert (models.parent / "out" / "one" / "demo_grammar" / "results.json").exists()
    assert loads(models) == 2


def test_every_number_as_json(models: Path) -> None:
    result = matrix(models, "--json", "--only", "two")
    rows = json.loads(result.stdout)
    assert {row["model"] for row in rows} == {"two"}
    assert {row["cell"] for row in rows} == {"demo_grammar", "demo_arithmetic"}
    assert all(row["n"] for row in rows)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "lists no models"),
        ("models: []", "lists no models"),
        ("models: [3]", "is not a model"),
        ("models: [dummy, dummy]", "twice"),
        ("models: [{modle: dummy}]", "Did you mean model"),
        ("models: [", "cannot be read"),
        ("models: [{name: big, model: dummy, num_fewshot: many}]", "big: num_fewshot: .*'many'"),
        ("models: [{model: dummy, limit: -1}]", "limit is -1"),
    ],
)
def test_a_bad_list_of_models(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "models.yaml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_models(tmp_path / "models.yaml", RunConfig())


def test_models_and_tasks_that_are_not_there(models: Path) -> None:
    assert isinstance(matrix(models, "--only", "tow").exception, ConfigError)
    assert isinstance(CliRunner().invoke(command, ["--models", str(models)]).exception, ConfigError)


def test_flags_of_the_list_win_over_those_of_the_command(models: Path, tmp_path: Path) -> None:
    one, two = read_models(models, RunConfig(num_fewshot=5, limit=3))
    assert (one.config.num_fewshot, two.config.num_fewshot) == (5, 1)
    cells = plan_cells([one, two], ["a/b", "c"], tmp_path)
    assert len({cell.directory for cell in cells}) == 4
    assert all(cell.directory.parent.parent == tmp_path for cell in cells)
    assert list(missing_by_model(cells)) == ["one", "two"]
