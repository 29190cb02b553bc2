"""Files and directories are named with formats and variants as registered names are; a comma may be part of a name."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from tests.own_files import Told, command, run, value, write_task

from assay.config import ConfigWarning
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
        ("*.yaml", ["caps", "more"]),
        ("*.yaml:cloze", ["caps:cloze", "more:cloze"]),
        ("b*.yaml:cloze", ["caps:cloze", "more:cloze"]),
    ],
)
def test_a_file_or_directory_has_variants(folder, named, tasks):
    resolved = TaskManager(include_defaults=False).resolve(f"{folder}/{named}")
    assert sorted(resolved.tasks) == tasks
    bare = TaskManager(folder, include_defaults=False).resolve(tasks[0])
    ours, theirs = resolved.tasks[tasks[0]], bare.tasks[tasks[0]]
    assert (ours.style, ours.num_fewshot, ours.formats) == (theirs.style, theirs.num_fewshot, theirs.formats)


@pytest.mark.parametrize("named", ["cap.yaml", "cap.yaml:gen", "cap.yaml@mcqa:1shot", "cap.yml"])
def test_a_file_that_is_not_there_is_told_with_those_that_are(folder, named):
    with pytest.raises(ConfigError, match=f"{named[:7]}.*no such file") as caught:
        TaskManager(include_defaults=False).resolve(f"{folder}/{named}")
    near = str(caught.value.hint).partition("Did you mean ")[2].partition(" or ")[0].rstrip("?")
    assert near == f"{folder}/caps.yaml"
    assert [*TaskManager(include_defaults=False).resolve(near).tasks] == ["caps"]
    with pytest.raises(ConfigError, match="no such file"):
        TaskManager(include_defaults=False).resolve(f"{folder}/none/:mc")


def test_a_variant_of_a_file_runs_and_is_shown_and_checked(folder, capsys):
    result = run(f"{folder}/caps.yaml:mc:1shot")
    assert [*result.tasks] == ["caps:mc:1shot"]
    assert "A.·1" in command(capsys, "show", f"{folder}/caps.yaml:mc", "--doc", 0).out
    assert command(capsys, "validate", f"{folder}/caps.yaml:gen", f"{folder}/both.yaml:mc").code == 0
    wrong = command(capsys, "validate", f"{folder}/caps.yaml:gne")
    assert (wrong.code, "Did you mean gen" in wrong.out) == (2, True)


@pytest.mark.parametrize("verb", ["run", "validate", "show", "dry run"])
def test_a_group_file_named_alone_finds_its_members_beside_it(folder, verb, capsys, monkeypatch):
    """Also through groups in groups, tags and members with fields of their own."""
    monkeypatch.setenv("ASSAY_STORE", str(folder / "store.db"))
    (folder / "all.yaml").write_text("group: all\ntask: [both, {task: caps, num_fewshot: 1}, {task: more:mc}]\n")
    every = [folder / "all.yaml", folder / "both.yaml"]
    for file in every:
        args = {
            "run": ("run", "--model", "dummy", "--run_dir", folder / f"run-{file.stem}", "--tasks", file),
            "dry run": ("run", "--model", "dummy", "--dry_run", "--tasks", file),
            "validate": ("validate", file),
            "show": ("show", file),
        }[verb]
        said = command(capsys, *args)
        assert (said.code, ("tasks: 2 loaded" if verb == "validate" else "caps") in said.text) == (0, True), said.text
    resolved = TaskManager(include_defaults=False).resolve(str(every[0]))
    assert {*resolved.tasks} == {"caps", "more", "more:mc", "all::caps"}


def test_a_member_beside_goes_before_a_registered_name_for_its_group_alone(folder):
    registered = folder.parent / "registered"
    registered.mkdir()
    write_task(registered, SUMS, name="caps", **CHOICE, num_fewshot=3)
    manager = TaskManager(registered, include_defaults=False)
    with pytest.warns(ConfigWarning, match=r"caps is .*a dir/caps.yaml, not .*registered/caps.yaml"):
        resolved = manager.resolve([str(folder / "both.yaml"), "caps"])
    assert resolved.tasks["caps"].num_fewshot == 3
    (mine,) = [name for name in resolved.groups["both"].children if "caps" in name]
    assert (mine, resolved.tasks[mine].num_fewshot) == ("both::caps", None)


def test_a_member_that_is_nowhere_is_an_error_and_what_lies_further_down_is_not_read(folder):
    (folder / "more.yaml").unlink()
    (folder / "deeper").mkdir()
    write_task(folder / "deeper", SUMS, name="more", **CHOICE)
    (folder / "broken.yaml").write_text("task: [")
    with pytest.raises(ConfigError, match=r"both.yaml:2.*'more'"):
        TaskManager(include_defaults=False).resolve(str(folder / "both.yaml"))


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
    for slip in ("red, green", r"red\, green", r"red\,\ gren"):
        assert r"red\,\ green" in command(capsys, "run", "--tasks", slip, *args, "--run_dir", tmp_path / "other").text


@pytest.mark.parametrize(
    ("given", "tasks"),
    [
        ("caps.yaml:mc,more.yaml:gen", ["caps:mc", "more:gen"]),
        ("caps.yaml:mc more.yaml", ["caps:mc", "more"]),
        ("red, green.yaml:mc,caps.yaml", ["caps", "red, green:mc"]),
        (r"red\, green.yaml:mc,caps.yaml", ["caps", "red, green:mc"]),
        (r"caps.yaml,red\,\ green.yaml", ["caps", "red, green"]),
        ("both.yaml::caps", ["both::caps"]),
        ("both.yaml::caps:mc", ["both::caps:mc"]),
        ("nest.yaml::both::more,caps.yaml", ["caps", "nest::both::more"]),
    ],
)
def test_files_in_variants_stand_beside_each_other(folder, given, tasks, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("ASSAY_STORE", str(folder / "store.db"))
    write_task(folder, SUMS, name="red, green", **CHOICE)
    (folder / "nest.yaml").write_text("group: nest\ntask: [both]\n")
    said = command(capsys, "run", "--model", "dummy", "--tasks", given, "--run_dir", "run", "--format", "json")
    assert (said.code, sorted(json.loads(said.out)["assay"]["tasks"])) == (0, tasks), said.text
    if " more" not in given:  # spaces lie between names of `run` alone
        assert command(capsys, "validate", given).code == 0


@pytest.mark.parametrize("given", ["both.yaml::cups", "caps.yaml::more", ".::caps"])
def test_a_member_that_a_file_does_not_have_is_an_error(folder, given, monkeypatch):
    monkeypatch.chdir(folder)
    with pytest.raises(ConfigError, match="member"):
        TaskManager(include_defaults=False).resolve(given)


@pytest.mark.parametrize("variant", ["", ":mc", ":typo(0.1)", ":1shot:mc"])
def test_a_group_keeps_the_weights_of_its_members_in_a_variant(folder, variant):
    """Its file gives them by plain names."""
    wrong = [{**doc, "gold": 1 - doc["gold"]} for doc in SUMS]
    write_task(folder, wrong, name="more", **CHOICE)
    (folder / "both.yaml").write_text(
        "group: both\ntask: [caps, more]\naggregate_metric_list:\n"
        "  - {metric: acc, aggregation: weighted_mean, weights: {caps: 0.9, more: 0.1}}\n"
    )
    result = run(f"{folder}/both.yaml{variant}")
    parts = [value(result, "acc", task=f"{name}{variant}") for name in ("caps", "more")]
    (score,) = result.groups[f"both{variant}"].scores.values()
    assert score.estimate.value == pytest.approx(0.9 * parts[0] + 0.1 * parts[1])
