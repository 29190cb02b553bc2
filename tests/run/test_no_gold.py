"""Docs whose right answer is none of their choices: counted, shown, and scored by the rules of the file's harness."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assay import evaluate
from assay.config import TaskConfig, lm_eval_version_of
from assay.errors import ConfigError
from assay.results import MetricKey, RunResult
from assay.show import result_text
from assay.tasks import TaskManager

TASK = """task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: docs.jsonl}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{q}}}}"
doc_to_choice: c
doc_to_target: a
metric_list: [{{metric: acc}}, {{metric: acc_norm}}]
"""
ACC = MetricKey("acc", "none")


def write(folder: Path, name: str = "colours", more: str = "") -> Path:
    """Sixty docs, every fifth of which names a colour that it does not offer."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [{"q": f"{i}?", "c": ["red", "blue"], "a": "green" if i % 5 == 0 else "red"} for i in range(60)]
    (folder / "docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / f"{name}.yaml").write_text(TASK.format(name=name) + more)
    return folder


def result_of(folder: Path, name: str = "colours", **settings: object) -> RunResult:
    return evaluate(model="dummy", tasks=[name], include_path=[str(folder)], **settings)


def test_our_own_tasks_leave_them_out(tmp_path: Path) -> None:
    result = result_of(write(tmp_path))
    task = result.tasks["colours"]
    assert (task.health.no_gold, task.health.docs, task.scores[ACC].estimate.n) == (12, 60, 48)
    assert not task.health.without_no_gold
    assert "20% no gold, left out" in result_text(result, width=200)


@pytest.mark.parametrize("written", ['lm_eval_version: "0.4"', "lm_eval_version: 0.4", "lm_eval_version: 0.4.13"])
def test_files_for_0_4_count_them_as_wrong_with_the_score_without_them_beside_it(tmp_path: Path, written: str) -> None:
    left_out = result_of(write(tmp_path / "ours")).tasks["colours"].scores[ACC].estimate
    result = result_of(write(tmp_path / "theirs", more=f"{written}\n"))
    task = result.tasks["colours"]
    counted = task.scores[ACC].estimate
    assert (counted.n, task.health.without_no_gold[ACC]) == (60, left_out.value)
    assert counted.value == pytest.approx((left_out.value or 0) * 48 / 60)
    text = result_text(result, width=200)
    assert "20% no gold" in text
    assert f"{left_out.value:.4f} without them" in text
    assert RunResult.from_json(result.to_json()).tasks["colours"].health == task.health


def test_guessing_is_tested_on_the_docs_that_can_be_right(tmp_path: Path) -> None:
    chance = result_of(write(tmp_path, more="lm_eval_version: 0.4\n")).tasks["colours"].health.chance
    assert chance is not None
    assert chance.accuracy == 0.5


def test_a_file_of_0_5_leaves_them_out(tmp_path: Path) -> None:
    assert result_of(write(tmp_path, more="lm_eval_version: '0.5'\n")).tasks["colours"].scores[ACC].estimate.n == 48


def test_the_line_of_a_directory_is_that_of_the_installation(tmp_path: Path) -> None:
    for site, version in (("old", "0.4.13"), ("new", "0.5.0.dev1")):
        write(tmp_path / site / "lm_eval" / "tasks" / "colours")
        (tmp_path / site / f"lm_eval-{version}.dist-info").mkdir()
    write(tmp_path / "copied" / "colours", "copied")
    copied = TaskManager(include_defaults=False, lm_eval=tmp_path / "copied")
    assert copied.resolve("copied").tasks["copied"].lm_eval_version == "0.4"
    assert lm_eval_version_of(tmp_path / "old" / "lm_eval" / "tasks" / "colours" / "colours.yaml") == "0.4"
    manager = TaskManager(include_defaults=False, lm_eval=tmp_path / "new")
    assert manager.resolve("colours").tasks["colours"].lm_eval_version == "0.5"
    write(tmp_path / "own")
    own = TaskManager(tmp_path / "own", include_defaults=False, lm_eval=False)
    assert own.resolve("colours").tasks["colours"].lm_eval_version is None


def test_a_group_says_it_for_all_its_members(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "g.yaml").write_text("group: g\ntask: [colours]\nlm_eval_version: 0.4\n")
    resolved = TaskManager(tmp_path, include_defaults=False, lm_eval=False).resolve("g")
    assert [config.lm_eval_version for config in resolved.tasks.values()] == ["0.4"]


def test_another_version_is_an_error() -> None:
    with pytest.raises(ValueError, match="lm_eval_version"):
        TaskConfig(task="x", lm_eval_version="0.3")  # type: ignore[arg-type]


@pytest.mark.parametrize("style", ["mc", "cloze", "gen", "cot", "letters", "mc_completion"])
def test_every_style_leaves_them_out(tmp_path: Path, style: str) -> None:
    metrics = "metric_list: [{metric: acc}, {metric: acc_norm}]\n"
    write(tmp_path)
    file = tmp_path / "colours.yaml"
    file.write_text(file.read_text().replace(metrics, "") + f"style: {style}\n")
    task = result_of(tmp_path).tasks["colours"]
    assert (task.health.no_gold, task.health.docs) == (12, 60)
    assert {score.estimate.n for score in task.scores.values()} == {48}


def test_a_style_that_needs_the_right_answer_says_so_before_anything_is_asked(tmp_path: Path) -> None:
    write(tmp_path, more="style: bpb\n")
    file = tmp_path / "colours.yaml"
    file.write_text(file.read_text().replace("metric_list: [{metric: acc}, {metric: acc_norm}]\n", ""))
    with pytest.raises(ConfigError, match="right"):
        result_of(tmp_path)


def test_a_generation_style_in_which_no_doc_has_its_gold_is_refused(tmp_path: Path) -> None:
    write(tmp_path, more="style: gen\n")
    rows = [{"q": f"{i}?", "c": ["red", "blue"], "a": "green"} for i in range(6)]
    (tmp_path / "docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    file = tmp_path / "colours.yaml"
    file.write_text(file.read_text().replace("metric_list: [{metric: acc}, {metric: acc_norm}]\n", ""))
    with pytest.raises(ConfigError, match="no doc"):
        result_of(tmp_path)


@pytest.mark.parametrize("wrong", [2, 7, -1])
def test_an_index_beyond_the_choices_is_no_gold_either(tmp_path: Path, wrong: int) -> None:
    write(tmp_path)
    rows = [{"q": f"{i}?", "c": ["red", "blue"], "a": wrong if i == 3 else 0} for i in range(20)]
    (tmp_path / "docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = result_of(tmp_path).tasks["colours"]
    assert (task.health.no_gold, task.health.failed, task.scores[ACC].estimate.n) == (1, 0, 19)
