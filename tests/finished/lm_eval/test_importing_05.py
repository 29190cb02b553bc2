"""Runs of lm-evaluation-harness 0.5: names `group::task`, composite keys, several values a doc, rolling pairs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assay.analyses.compare import compare_runs
from assay.finished import export_run, open_run, with_our_estimates
from assay.finished.lm_eval.results import with_bare_names
from assay.results import MetricKey, RunResult

STAMP = "2026-01-01T00-00-00"


def drawn(doc_id: int, right: list[int]) -> dict[str, Any]:
    n, c = len(right), sum(right)
    values = {"pass@1(exact_match)": c / n, f"pass@{n}(exact_match)": float(c > 0)}
    return {
        "doc_id": doc_id,
        "doc": {"question": f"{doc_id}+1=?"},
        "target": "4",
        "arguments": {"gen_args_0": {"arg_0": f"{doc_id}+1=?", "arg_1": {"until": ["\n"]}}},
        "resps": [["x"] * n],
        "filtered_resps": [["x"] * n],
        "filter": "none",
        "metrics": [*values],
        "scores_per_repeat": {"exact_match": right},
        **values,
    }


def write(folder: Path, draws: list[list[int]]) -> Path:
    """A group of one task that was drawn several times, and one of whole texts."""
    rows = [drawn(i, each) for i, each in enumerate(draws)]
    text = {
        "doc_id": 0,
        "doc": {"page": "abc"},
        "target": "abc",
        "arguments": {"gen_args_0": {"arg_0": "", "arg_1": "abc"}},
        "resps": [[["-3.0", "False"]]],
        "filtered_resps": [[["-3.0", "False"]]],
        "filter": "none",
        "metrics": ["bits_per_byte"],
        "bits_per_byte": [-3.0, 3],
    }
    names = ["pass@1(exact_match)", f"pass@{len(draws[0])}(exact_match)"]
    scores = {f"{name},none": sum(row[name] for row in rows) / len(rows) for name in names}
    errors = {f"{name}_stderr,none": 0.1 for name in names}
    results = {
        "g": {"alias": "g", **scores, **errors, "sample_len": len(rows)},
        "g::sums": {"alias": "sums", **scores, **errors, "sample_len": len(rows)},
        "text": {"alias": "text", "bits_per_byte,none": 1.4427, "bits_per_byte_stderr,none": "N/A", "sample_len": 1},
    }
    folder.mkdir()
    data = {
        "results": results,
        "groups": {"g": results["g"]},
        "group_subtasks": {"g": ["g::sums"], "g::sums": [], "text": []},
        "configs": {
            "g::sums": {"task": "sums", "output_type": "generate_until", "repeats": 4},
            "text": {"task": "text", "output_type": "loglikelihood_rolling"},
        },
        "versions": {"g::sums": 1},
        "n-shot": {"g::sums": 0},
        "higher_is_better": {"g::sums": {"exact_match": True}, "g": {"exact_match": True}},
        "n-samples": {"g::sums": {"original": len(rows), "effective": len(rows)}},
        "config": {"model": "dummy"},
    }
    (folder / f"results_{STAMP}.json").write_text(json.dumps(data))
    for name, lines in (("g::sums", rows), ("text", [text])):
        (folder / f"samples_{name}_{STAMP}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


DRAWS = [[1, 0, 0, 0], [0, 0, 0, 0], [1, 1, 0, 1], [0, 1, 0, 0]]


def test_members_of_groups_have_their_own_names_again(tmp_path: Path) -> None:
    export_run(write(tmp_path / "out", DRAWS), "assay", tmp_path / "run")
    result = RunResult.load(tmp_path / "run")
    assert set(result.tasks) == {"sums", "text"}
    assert result.groups["g"].children == ("sums",)
    written = json.loads((tmp_path / "run" / "results.json").read_text())
    assert "g::sums" in written["results"], "what was written stays as it was"


def test_composite_keys_keep_value_direction_and_get_our_interval(tmp_path: Path) -> None:
    result = with_our_estimates(open_run(write(tmp_path / "out", DRAWS)))
    for holder in (result.tasks["sums"], result.groups["g"]):
        score = holder.scores[MetricKey("pass@1(exact_match)", "none")]
        assert score.estimate.value == pytest.approx(5 / 16)
        assert score.higher_is_better is True
    own = result.tasks["sums"].scores[MetricKey("pass@4(exact_match)", "none")]
    assert own.estimate.value == 0.75
    assert own.estimate.method.endswith("(assay, from samples)")


def test_two_runs_of_05_are_compared_doc_by_doc(tmp_path: Path) -> None:
    better = [[1, 1, 1, 1], *DRAWS[1:]]
    runs = [open_run(write(tmp_path / name, draws)) for name, draws in (("a", DRAWS), ("b", better))]
    (found,) = compare_runs(runs)
    rows = {(row.name, row.metric): row for row in found.rows}
    row = rows["sums", "pass@1(exact_match)"]
    assert row.paired
    assert row.difference.a == pytest.approx(5 / 16)
    assert row.difference.b == pytest.approx(8 / 16)


def test_a_task_of_two_groups_keeps_both_names() -> None:
    data = {"results": {"g::a": {}, "h::a": {}, "g::b": {}}, "configs": {"g::a": {}, "h::a": {}, "g::b": {}}}
    assert set(with_bare_names(data)["results"]) == {"g::a", "h::a", "b"}
