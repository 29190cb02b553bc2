"""Runs of lm-evaluation-harness, imported: its values, our error bars."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assay.finished import export_run, open_run, with_our_estimates
from assay.results import MetricKey, RunResult

ACC = MetricKey("acc", "none")


def import_lm_eval(source: Path, run_dir: Path) -> RunResult:
    export_run(source, "assay", run_dir)
    return RunResult.load(run_dir)


def sample(doc_id: int, value: Any, task: str = "few") -> str:
    asked = {f"gen_args_{i}": {"arg_0": f"q{doc_id}", "arg_1": f" {c}"} for i, c in enumerate("ab")}
    return json.dumps(
        {
            "doc_id": doc_id,
            "doc": {"q": f"{task} {doc_id}"},
            "target": "0",
            "arguments": asked,
            "resps": [[["-1.0", "False"]], [["-2.0", "False"]]],
            "filtered_resps": [["-1.0", "False"], ["-2.0", "False"]],
            "filter": "none",
            "metrics": ["acc"],
            "acc": value,
        }
    )


def write(folder: Path, tasks: dict[str, list[float]], *, samples: bool = True, weight_by_size: bool = True) -> Path:
    """An output directory with a group of all tasks."""
    means = {name: sum(values) / len(values) for name, values in tasks.items()}
    sizes = {name: len(values) for name, values in tasks.items()}
    weights = sizes if weight_by_size else dict.fromkeys(tasks, 1)
    whole = sum(means[name] * weights[name] for name in tasks) / sum(weights.values())
    results: dict[str, Any] = {
        name: {"alias": name, "acc,none": means[name], "acc_stderr,none": 0.25, "sample_len": sizes[name]}
        for name in tasks
    }
    results["all"] = {"alias": "all", "acc,none": whole, "acc_stderr,none": 0.1, "sample_len": sum(sizes.values())}
    folder.mkdir()
    (folder / "results_2026-01-01T00-00-00.json").write_text(
        json.dumps(
            {
                "results": results,
                "groups": {"all": results["all"]},
                "group_subtasks": {"all": [*tasks], **{name: [] for name in tasks}},
                "configs": {
                    name: {"task": name, "output_type": "multiple_choice", "metric_list": [{"metric": "acc"}]}
                    for name in tasks
                },
                "versions": {},
                "n-shot": {},
                "higher_is_better": {name: {"acc": True} for name in tasks},
                "config": {"model": "dummy"},
            }
        )
    )
    for name, values in tasks.items() if samples else ():
        lines = [sample(i, value, name) for i, value in enumerate(values)]
        (folder / f"samples_{name}_2026-01-01T00-00-00.jsonl").write_text("\n".join(lines))
    return folder


@pytest.mark.parametrize(("values", "low", "high"), [([0.0] * 6, 0.0, 0.39), ([1.0, 0.0], 0.05, 0.95)])
def test_an_interval_of_a_few_docs_is_ours_not_a_normal_one(
    tmp_path: Path, values: list[float], low: float, high: float
) -> None:
    result = import_lm_eval(write(tmp_path / "out", {"few": values}), tmp_path / "run")
    found = result.tasks["few"].scores[ACC]
    assert (found.estimate.low, found.estimate.high) == (
        pytest.approx(low, abs=0.05),
        pytest.approx(high, abs=0.05),
    )
    assert found.estimate.method.endswith("(assay, from samples)")
    assert found.lm_eval_stderr == 0.25, "what was reported is kept beside it"
    assert result.notes[-1] == "error bars were computed by Assay from the samples"


@pytest.mark.parametrize("weight_by_size", [True, False])
def test_a_group_of_such_tasks_has_the_interval_that_a_run_of_ours_would_give(
    tmp_path: Path, weight_by_size: bool
) -> None:
    tasks = {"few": [1.0, 0.0, 1.0, 1.0], "many": [float(i % 3 == 0) for i in range(40)]}
    out = write(tmp_path / "out", tasks, weight_by_size=weight_by_size)
    result = import_lm_eval(out, tmp_path / "run")
    group, (few, many) = result.groups["all"].scores[ACC], [result.tasks[name].scores[ACC].estimate for name in tasks]
    shares = (4 / 44, 40 / 44) if weight_by_size else (0.5, 0.5)
    assert few.stderr is not None
    assert many.stderr is not None
    if not weight_by_size:
        by_hand = ((shares[0] * few.stderr) ** 2 + (shares[1] * many.stderr) ** 2) ** 0.5
        assert group.estimate.stderr == pytest.approx(by_hand, rel=0.05)
    assert group.estimate.stderr != pytest.approx(0.1)
    assert group.estimate.method.endswith("(assay, from samples)")
    assert [share.weight for share in group.children] == pytest.approx(shares)


def test_samples_that_do_not_give_the_number_leave_it_as_reported(tmp_path: Path) -> None:
    out = write(tmp_path / "out", {"few": [1.0, 0.0]})
    [file] = out.glob("samples_*")
    file.write_text("\n".join([sample(0, 1.0), sample(1, 1.0)]))
    estimate = import_lm_eval(out, tmp_path / "run").tasks["few"].scores[ACC].estimate
    assert (estimate.method, estimate.stderr) == ("as reported by lm-evaluation-harness", 0.25)


def test_without_samples_the_reported_error_stands(tmp_path: Path) -> None:
    result = import_lm_eval(write(tmp_path / "out", {"few": [1.0, 0.0]}, samples=False), tmp_path / "run")
    assert result.tasks["few"].scores[ACC].estimate.method == "as reported by lm-evaluation-harness"
    assert result.groups["all"].scores[ACC].estimate.method == "as reported by lm-evaluation-harness"


def test_the_run_on_disk_says_the_same(tmp_path: Path) -> None:
    out = write(tmp_path / "out", {"few": [0.0] * 6})
    result = with_our_estimates(open_run(out))
    again = import_lm_eval(out, tmp_path / "run")
    assert again.tasks["few"].scores[ACC].estimate == result.tasks["few"].scores[ACC].estimate
