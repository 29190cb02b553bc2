"""Files and directories are named with formats and variants as registered names are; a comma may be part of a name."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from tests.own_files import Told, command, run, write_task

from assay.errors import ConfigError
from assay.models.info import Capabilities, ModelInfo
from assay.tasks import TaskManager

SUMS = [{"q": f"{i}+1?", "choices": [str(i + 1), str(i + 2)], "gold": i % 2} for i in range(4)]
CHOICE: dict[str, Any] = {
    "output_type": "multiple_choice",
    "doc_to_text": "q",
    "doc_to_choice": "choices",
    "doc_to_target": "gold",
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a dir").mkdir()
    place = tmp_path / "a dir"
    write_task(place, SUMS, name="caps", **CHOICE)
    write_task(place, SUMS, name="more", **CHOICE)
    (place / "both.yaml").write_text("group: both\ntask: [caps, more]\n")
    return place


@pytest.mark.parametrize(
    ("named", "tasks"),
    [
        ("caps.yaml:gen", ["caps:gen"]),
        ("caps.yaml:mc:2shot", ["caps:mc:2shot"]),
        ("caps.yaml@mcqa", ["caps@mcqa"]),
        ("caps.yaml@mcqa:3shot", ["caps@mcqa:3shot"]),
        ("", ["caps", "more"]),
        (":2shot", ["caps:2shot", "more:2shot"]),
        ("*.yaml:cloze", ["caps:cloze", "more:cloze"]),
    ],
)
def test_a_file_or_directory_has_variants(folder, named, tasks):
    if "*" in named:
        (folder / "both.yaml").unlink()
    resolved = TaskManager(include_defaults=False).resolve(f"{folder}/{named}")
    assert sorted(resolved.tasks) == tasks
    bare = TaskManager(folder, include_defaults=False).resolve(tasks[0])
    ours, theirs = resolved.tasks[tasks[0]], bare.tasks[tasks[0]]
    assert (ours.style, ours.num_fewshot, ours.formats) == (theirs.style, theirs.num_fewshot, theirs.formats)


def test_a_variant_of_a_file_runs_and_is_shown_and_checked(folder, capsys):
    result = run(f"{folder}/caps.yaml:mc:1shot")
    assert [*result.tasks] == ["caps:mc:1shot"]
    assert "A.·1" in command(capsys, "show", f"{folder}/caps.yaml:mc", "--doc", 0).out
    assert command(capsys, "validate", f"{folder}/caps.yaml:gen", f"{folder}/both.yaml:mc").code == 0
    wrong = command(capsys, "validate", f"{folder}/caps.yaml:gne")
    assert (wrong.code, "Did you mean gen" in wrong.out) == (2, True)


class Writing(Told):
    """Gives no likelihoods."""

    def info(self) -> ModelInfo:
        return replace(super().info(), capabilities=Capabilities(likelihoods=False, top_logprobs=False))


def test_what_a_message_proposes_works(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    with pytest.raises(ConfigError) as caught:
        run(folder / "caps.yaml", Writing())
    for proposed in re.findall(r"Try (.*) or (.*);", str(caught.value.hint))[0]:
        assert [*run(proposed, Writing()).tasks] == [f"caps:{proposed.rpartition(':')[2]}"]
    assert "--style auto" in str(caught.value.hint)
    assert [*run(folder / "caps.yaml", Writing(), style="auto").tasks] == ["caps:gen"]
    assert [*run(folder, Writing(), style="auto").tasks] == ["caps:gen", "more:gen"]


@pytest.mark.parametrize("pattern", ["arc_*@mcqa", "arc_*:mc:5shot"])
def test_a_pattern_lists_what_it_runs(pattern, capsys):
    listed = [row["name"] for row in json.loads(command(capsys, "ls", pattern, "--json").out)]
    assert listed == sorted(TaskManager().resolve(pattern).tasks) != []
    assert command(capsys, "ls", "gsm8k*@mcqa", "--json").out.strip() == "[]"


def test_a_comma_may_be_part_of_a_name(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("ASSAY_STORE", str(tmp_path / "store.db"))
    write_task(tmp_path, SUMS, name="red, green", **CHOICE)
    args = ("--model", "dummy", "--include_path", tmp_path, "--run_dir", tmp_path / "run", "--json")
    said = command(capsys, "run", "--tasks", r"red\,\ green:mc,demo_agreement", "--limit", 2, *args)
    names = ["demo_agreement", "red, green:mc"]
    assert (said.code, sorted(json.loads(said.out)["assay"]["tasks"])) == (0, names)
    again = command(capsys, "score", tmp_path / "run", "--json")
    assert sorted(json.loads(again.out)["assay"]["tasks"]) == names
