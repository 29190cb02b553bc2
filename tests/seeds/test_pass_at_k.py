"""Seed 000, the group `code_generation`: pass@1, pass@10 and compilation_rate of tasks that draw programs."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.seeds.parts import Written, run, write_task

from assay.errors import ConfigError
from assay.results import MetricKey

ENTRIES = """
aggregate_metric_list:
  - metric: pass@1
    aggregation: pass@k
    kwargs:
      k: 1
  - metric: pass@10
    aggregation: pass@k
    kwargs:
      k: 10
  - metric: compilation_rate
    aggregation: mean
    weight_by_size: false
"""

needs_sandbox = pytest.mark.skipif(find_spec("assay.sandbox") is None, reason="programs run in assay.sandbox")

SAMPLED = "generation_kwargs: {do_sample: true, temperature: 1.0}\n"


def seeds_group(folder: Path, *members: str) -> None:
    (folder / "group.yaml").write_text(f"group: code_generation\ntask: [{', '.join(members)}]\n{ENTRIES}")


def own_scores(folder: Path, scores: str, *names: str) -> None:
    (folder / "own.py").write_text(f"def results(doc, responses):\n    return {scores}\n")
    for name in names:
        write_task(folder, name, "process_results: !function own.results\n")


def test_000_045_a_group_of_tasks_that_report_all_three_has_their_numbers(tmp_path: Path) -> None:
    own_scores(tmp_path, "{'pass@1': 1/3, 'pass@10': 1.0, 'compilation_rate': 1.0}", "humaneval", "mbpp", "apps")
    seeds_group(tmp_path, "humaneval", "mbpp", "apps")
    found = run(tmp_path, ["code_generation"], Written(lambda prompt, draw: "x")).groups["code_generation"].scores
    values = {key.metric: score.estimate.value for key, score in found.items()}
    assert values == {
        "pass@1": pytest.approx(1 / 3),
        "pass@10": pytest.approx(1.0),
        "compilation_rate": pytest.approx(1.0),
    }


def test_000_046_a_rate_that_is_always_one_is_not_counted_as_a_pass(tmp_path: Path) -> None:
    own_scores(tmp_path, "{'pass@1': 1/3, 'compilation_rate': 1.0}", "humaneval", "mbpp")
    seeds_group(tmp_path, "humaneval", "mbpp")
    found = run(tmp_path, ["code_generation"], Written(lambda prompt, draw: "x")).groups["code_generation"].scores
    assert found[MetricKey("pass@1")].estimate.value == pytest.approx(1 / 3)
    assert found[MetricKey("pass@10")].estimate.value is None
    undefined = found[MetricKey("pass@10")].estimate
    assert undefined.value is None
    assert "reports pass@1" in str(undefined.undefined)


class Refuses(Written):
    """Fails if anything is asked."""

    def __init__(self) -> None:
        super().__init__(lambda prompt, draw: pytest.fail("the model was asked"))


def test_000_048_which_of_two_metrics_is_counted_is_asked_before_the_model_is(tmp_path: Path) -> None:
    scores = "{'exact_match': 1.0, 'compilation_rate': 1.0}"
    declared = (
        "process_results: !function own.results\nmetric_list: [{metric: exact_match}, {metric: compilation_rate}]\n"
    )
    (tmp_path / "own.py").write_text(f"def results(doc, responses):\n    return {scores}\n")
    write_task(tmp_path, "humaneval", declared)
    seeds_group(tmp_path, "humaneval")
    with pytest.raises(ConfigError, match="could count the right draws of exact_match or compilation_rate") as error:
        run(tmp_path, ["code_generation"], Refuses())
    assert "of: exact_match" in str(error.value.hint)


def test_000_048_naming_the_metric_settles_it(tmp_path: Path) -> None:
    declared = SAMPLED + "repeats: 4\nfilter_list: [{name: all, filter: [{function: take_first_k, k: 4}]}]\n"
    declared += "metric_list: [{metric: exact_match}, {metric: !function own.is_digit, reducer: mean}]\n"
    (tmp_path / "own.py").write_text(
        "def is_digit(references, predictions):\n    return float(predictions[0].isdigit())\n"
    )
    write_task(tmp_path, "sums", declared)
    entry = "{metric: pass@2, aggregation: pass@k, kwargs: {k: 2, of: exact_match}}"
    (tmp_path / "group.yaml").write_text(f"group: g\ntask: [sums]\naggregate_metric_list: [{entry}]\n")
    model = Written(lambda prompt, draw: str(2 * int(prompt[0])) if draw == 0 else "7")
    found = run(tmp_path, ["g"], model)
    assert found.groups["g"].scores[MetricKey("pass@2", "all")].estimate.value == pytest.approx(0.5)


def test_000_048_word_overlap_is_no_right_or_wrong_draw(tmp_path: Path) -> None:
    listed = "metric_list: [{metric: exact_match}, {metric: token_f1}]\n"
    write_task(tmp_path, "sums", listed)
    entry = "{metric: pass@1, aggregation: pass@k}"
    (tmp_path / "group.yaml").write_text(f"group: g\ntask: [sums]\naggregate_metric_list: [{entry}]\n")
    found = run(tmp_path, ["g"], Written(lambda prompt, draw: "4"))
    score = found.groups["g"].scores[MetricKey("pass@1")].estimate
    assert score.value == pytest.approx(0.25)


PROBLEMS = [
    {
        "task_id": f"t{i}",
        "prompt": f"def f{i}(x):\n",
        "test": f"def check(f):\n    assert f({i}) == {i}",
        "entry_point": f"f{i}",
    }
    for i in range(2)
]
EASY = [
    {
        "text": f"Return {i}.",
        "code": "",
        "test_list": [f"assert g() == {i}", "assert True", "assert True"],
        "task_id": i,
    }
    for i in range(2)
]


def local_code_tasks(folder: Path) -> Path:
    """A mirror of the two datasets with a few problems each, for the task files that ship."""
    for name, docs in (("openai/openai_humaneval/default", PROBLEMS), ("google-research-datasets/mbpp/full", EASY)):
        (folder / name).mkdir(parents=True)
        (folder / name / "test.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in docs))
    return folder


def programmer(prompt: str, draw: int) -> str:
    """Right on every third draw, not even Python on the draw after it."""
    if "[BEGIN]" in prompt:
        wanted = prompt.rpartition("assert g() == ")[2].split("\n")[0]
        return [f"def g():\n    return {wanted}", "def g(:", "def g():\n    return -1"][draw % 3]
    return ["    return x", "    return (", "    return -1"][draw % 3]


@needs_sandbox
def test_000_049_the_code_tasks_that_ship_meet_in_the_seeds_group(tmp_path: Path) -> None:
    seeds_group(tmp_path, "humaneval", "mbpp")
    found = run(
        tmp_path,
        ["code_generation"],
        Written(programmer),
        repeats=12,
        gen_kwargs={"do_sample": True, "temperature": 1.0},
        data_dir=str(local_code_tasks(tmp_path / "hub")),
        confirm_run_unsafe_code=True,
    )
    scores = found.groups["code_generation"].scores
    expected = {"pass@1": 1 / 3, "pass@10": 1.0, "compilation_rate": 2 / 3}
    assert {key.metric: score.estimate.value for key, score in scores.items()} == {
        metric: pytest.approx(value) for metric, value in expected.items()
    }
    assert all(score.estimate.stderr is not None for score in scores.values())
    assert {key.filter for key in scores} == {"create_test"}


@needs_sandbox
def test_000_050_a_group_of_one_task_says_what_the_task_says(tmp_path: Path) -> None:
    seeds_group(tmp_path, "humaneval")
    found = run(
        tmp_path,
        ["code_generation"],
        Written(programmer),
        repeats=10,
        gen_kwargs={"do_sample": True, "temperature": 1.0},
        data_dir=str(local_code_tasks(tmp_path / "hub")),
        confirm_run_unsafe_code=True,
    )
    task, group = found.tasks["humaneval"].scores, found.groups["code_generation"].scores
    for metric in ("pass@1", "pass@10", "compilation_rate"):
        key = MetricKey(metric, "create_test")
        assert group[key].estimate.value == pytest.approx(task[key].estimate.value)
    assert task[MetricKey("pass@1", "create_test")].estimate.value == pytest.approx(0.4)
