"""Flags, environment and files to one config."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest

from assay.cli import main
from assay.cli.foreign_flags import RunCommand
from assay.cli.options import RUN_OPTIONS, resolve_config, with_options
from assay.config import RunConfig
from assay.errors import ConfigError


def resolved(*words: str) -> RunConfig:
    found: list[RunConfig] = []

    @click.command(cls=RunCommand)
    @with_options(RUN_OPTIONS)
    def command(**given: Any) -> None:
        found.append(resolve_config(given))

    command.main(list(words), standalone_mode=False)
    return found[0]


@pytest.fixture
def old_run(tmp_path: Path) -> Path:
    config = RunConfig(model="dummy", tasks=["demo"], limit=3, run_dir=str(tmp_path / "old"))
    path = tmp_path / "run.json"
    path.write_text(json.dumps({"format": 1, "config": config.model_dump(mode="json")}))
    return path


def test_a_run_given_as_config_is_done_again_elsewhere(old_run: Path) -> None:
    again = resolved("--config", str(old_run))
    assert (again.tasks, again.limit) == (["demo"], 3)
    assert (again.run_dir, again.output_path) == (None, "runs")
    assert resolved("--config", str(old_run), "--output_path", "new").output_path == "new"
    assert resolved("--config", str(old_run), "--run_dir", "new").run_dir == "new"


def test_a_place_on_the_line_wins_over_one_in_the_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("run_dir: kept\n")
    assert resolved("--config", str(file)).run_dir == "kept"
    found = resolved("--config", str(file), "--output_path", "new")
    assert (found.run_dir, found.output_path) == (None, "new")
    monkeypatch.setenv("ASSAY_RUN_DIR", "from_environment")
    assert resolved().run_dir == "from_environment"
    assert resolved("--output_path", "new").run_dir is None
    assert resolved("--output_path", "new", "--run_dir", "exact").run_dir == "exact"


def test_the_environment_is_not_split_at_spaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_METADATA", '{"a": 1}')
    monkeypatch.setenv("ASSAY_INCLUDE_PATH", "/my dir:/other")
    monkeypatch.setenv("ASSAY_TASKS", "one two,three")
    monkeypatch.setenv("ASSAY_LOG_TO", "wandb:project=a b")
    found = resolved()
    assert found.metadata == {"a": 1}
    assert found.include_path == ["/my dir", "/other"]
    assert found.tasks == ["one", "two", "three"]
    assert found.loggers == {"wandb": {"project": "a b"}}


@pytest.mark.parametrize(
    "text",
    [
        "log_to: wandb:project=x",
        "log_to: ['wandb:project=x']",
        "log_to: {wandb: {project: x}}",
        "loggers: {wandb: {project: x}}",
        "wandb_args: project=x",
    ],
)
def test_trackers_may_stand_in_the_file(tmp_path: Path, text: str) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(text)
    assert resolved("--config", str(file)).loggers == {"wandb": {"project": "x"}}
    assert resolved("--config", str(file), "--wandb_args", "project=y").loggers == {"wandb": {"project": "y"}}


def test_a_former_key_in_the_file_gets_an_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("use_cache: x\nlimit: 3")
    assert resolved("--config", str(file)).limit == 3
    assert "use_cache is not needed: every answer is kept" in capsys.readouterr().err
    file.write_text("no_cache: true")
    with pytest.raises(ConfigError, match="--fresh"):
        resolved("--config", str(file))


def test_roles_are_models_with_arguments(tmp_path: Path) -> None:
    roles = resolved("--role", "judge=hf,pretrained=a/b,dtype=float32", "--role", "writer=dummy").roles
    assert (roles["judge"].model, roles["judge"].model_args) == ("hf", {"pretrained": "a/b", "dtype": "float32"})
    assert (roles["writer"].model, roles["writer"].model_args) == ("dummy", {})
    file = tmp_path / "run.yaml"
    file.write_text("roles: {judge: {model: dummy, model_args: {seed: 1}}, writer: hf}")
    roles = resolved("--config", str(file), "--role", "writer=dummy").roles
    assert (roles["judge"].model_args, roles["writer"].model) == ({"seed": 1}, "dummy")


@pytest.mark.parametrize("text", ["judge", "=hf", "model=hf", "two words=hf", "judge=", "judge=,a=1", "judge=hf,a"])
def test_roles_that_are_none(text: str) -> None:
    with pytest.raises(ConfigError, match=r"role|model_args"):
        resolved("--role", text)


@pytest.mark.parametrize(("text", "size"), [("auto", "auto"), ("auto:4", "auto"), ("auto:0.5", "auto"), ("8", 8)])
def test_batch_sizes_of_lm_evaluation_harness(text: str, size: int | str) -> None:
    assert resolved("--batch_size", text).batch_size == size


@pytest.mark.parametrize("text", ["big", "0", "auto:", "-1"])
def test_other_batch_sizes_are_wrong(text: str) -> None:
    with pytest.raises(ConfigError, match=r"(?s)batch_size is .*auto:N"):
        resolved("--batch_size", text)


def test_a_flag_that_repeats_takes_several_words() -> None:
    found = resolved("--tasks", "a", "b,c", "--model_args", "x=1", "y=2", "--limit", "3", "-t", "d")
    assert found.tasks == ["a", "b", "c", "d"]
    assert found.model_args == {"x": 1, "y": 2}
    assert resolved("--tasks=a", "b").tasks == ["a", "b"]
    with pytest.raises(click.UsageError, match="unexpected extra argument"):
        resolved("--limit", "3", "stray")


def test_a_file_as_output_path_is_refused() -> None:
    with pytest.raises(ConfigError, match="looks like a file"):
        resolved("--output_path", "out/x.json")


def test_options_of_an_analysis_may_stand_in_a_file_and_what_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["power", "--tasks", "demo_addition"]
    for content, code, said in (
        ("power: {alpha: 0.1}", 2, "--effect is missing"),
        ("power: {effect: 0.05}", 0, "from assay.yaml: effect 0.05"),
        ("power: {efect: 0.05}", 2, "Did you mean effect?"),
        ("power: [0.05]", 2, "is not a mapping"),
    ):
        (tmp_path / "assay.yaml").write_text(content)
        with pytest.raises(SystemExit) as stop:
            main(words)
        assert (stop.value.code or 0) == code
        assert said in capsys.readouterr().err
    (tmp_path / "assay.yaml").write_text("power: {effect: 0.05}")
    with pytest.raises(SystemExit):
        main([*words, "--effect", "0.02"])
    assert "docs for 0.02" in capsys.readouterr().out, "what is typed wins"
