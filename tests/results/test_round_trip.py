"""`RunResult.from_json(x.to_json()) == x`, whatever names and numbers are in it."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.errors import DataError
from assay.results import (
    Chance,
    GroupResult,
    GroupScore,
    Health,
    MetricKey,
    RunResult,
    Score,
    Share,
    TaskResult,
)
from assay.stats import Estimate

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12) | st.sampled_from(
    ["acc", "a,b", "strip, then first", "acc_stderr", "pass@1", ",", "none"]
)
numbers = st.floats(allow_nan=False, width=32)
maybe = st.none() | numbers
flags = st.sampled_from([True, False, None])
count = st.integers(0, 10**9)
plain = st.dictionaries(names, st.none() | st.booleans() | count | numbers | names | st.lists(names), max_size=3)
keys = st.builds(MetricKey, names, names)
estimates = st.builds(Estimate, maybe, maybe, maybe, maybe, count, names, st.none() | names, numbers)
common = (estimates, count, st.none() | names, flags, st.none() | names)
scores = st.builds(Score, *common, lm_eval_stderr=maybe, asked=st.none() | count)
shares = st.builds(Share, names, maybe, numbers)
group_scores = st.builds(
    GroupScore,
    *common,
    children=st.lists(shares, max_size=3).map(tuple),
    missing=st.dictionaries(names, names, max_size=2),
    filtered_out=st.lists(names, max_size=2).map(tuple),
    asked=st.none() | count,
    lm_eval_value=maybe,
)
by_name = st.dictionaries(names, count, max_size=2)
healths = st.builds(
    Health,
    **{each.name: count for each in fields(Health) if each.type == "int"},
    **{each.name: by_name for each in fields(Health) if each.type == "dict[str, int]"},
    bounds=st.dictionaries(keys, st.tuples(numbers, numbers), max_size=2),
    chance=st.none()
    | st.builds(Chance, numbers, st.sampled_from(["above", "below", "equal", "nothing"]), numbers, count),
    withheld=st.none() | names,
)


@st.composite
def results(draw: st.DrawFn) -> RunResult:
    tasks = draw(st.lists(names, unique=True, max_size=4))
    groups = draw(st.lists(names.filter(lambda name: name not in tasks), unique=True, max_size=2))
    return RunResult(
        tasks={
            name: TaskResult(
                name=name,
                alias=draw(names),
                scores=draw(st.dictionaries(keys, scores, max_size=3)),
                health=draw(healths),
                version=draw(st.none() | count | names),
                num_fewshot=draw(st.none() | st.integers(0, 9)),
                output_type=draw(st.none() | names),
                config=draw(plain),
                higher_is_better=draw(st.dictionaries(names, flags, max_size=2)),
                original=draw(count),
                sample_len=draw(count),
                sample_file=draw(st.none() | names),
                task_hash=draw(names),
                data=draw(plain),
                stop_reason=draw(st.none() | names),
            )
            for name in tasks
        },
        groups={
            name: GroupResult(
                name=name,
                alias=draw(names),
                scores=draw(st.dictionaries(keys, group_scores, max_size=2)),
                children=tuple(draw(st.lists(st.sampled_from(tasks), max_size=3)) if tasks else ()),
                version=draw(names),
                has_aggregation=draw(st.booleans()),
            )
            for name in groups
        },
        roots=tuple(groups),
        model=draw(plain),
        config=draw(plain.map(lambda d: {k: v for k, v in d.items() if k not in ("seed", "system_instruction")})),
        environment=draw(plain.map(lambda d: {k: v for k, v in d.items() if k != "packages"})),
        date=draw(st.floats(0, 4e9)),
        seconds=draw(numbers),
        notes=tuple(draw(st.lists(names, max_size=2))),
        origin=draw(names),
    )


@settings(max_examples=150, deadline=None)
@given(results())
def test_a_result_survives_its_file(result: RunResult) -> None:
    assert RunResult.from_json(result.to_json()) == result


def test_evidence_is_no_part_of_what_is_written() -> None:
    score = Score(Estimate.bare(0.5, 2, "one doc"), 2, replicates=lambda: 1 / 0)  # type: ignore[arg-type,return-value]
    result = RunResult({"t": TaskResult("t", "t", {MetricKey("acc"): score})}, roots=("t",))
    assert RunResult.from_json(result.to_json())["t"]["acc"].value == 0.5


@pytest.mark.parametrize(
    "block",
    [None, [], {"format": 2}, {"format": 2, "tasks": [], "groups": {}}, {"format": 1, "tree": 3}, {"format": "x"}],
)
def test_a_block_that_is_not_ours_is_an_error_in_words(block: Any) -> None:
    with pytest.raises(DataError, match="assay"):
        RunResult.from_dict({"assay": block})


OLD = Path(__file__).parent / "format1"


def test_runs_written_before_still_open() -> None:
    """The directory was written by the version before keys were a type: groups, two filters, a comma in a name."""
    result = RunResult.load(OLD)
    assert list(result) == ["demo_capitals_en", "demo_capitals_de", "demo_capitals_fr", "strict", "demo_capitals"]
    assert [node.name for _, node in result.tree()][:2] == ["demo_capitals", "demo_capitals_en"]
    strict = result.tasks["strict"]
    assert list(strict.scores) == [("exact_match", "strip, then first"), ("exact_match", "numbers")]
    assert strict.health.unparsed == {"numbers": 1}
    assert result["demo_capitals"]["acc_norm"].value == pytest.approx(2 / 15)
    assert result.groups["demo_capitals"].scores[MetricKey("acc_norm")].aggregation == "mean"
    assert "strip, then first" in result.table()
    again = RunResult.from_json(result.to_json())
    assert again == result


def test_a_file_of_now_says_what_the_file_of_then_said() -> None:
    """Tools of lm-evaluation-harness read the part that is not ours."""
    before = json.loads((OLD / "results.json").read_text())
    after = RunResult.load(OLD).to_dict()
    same = ("results", "groups", "group_subtasks", "configs", "versions", "n-shot", "higher_is_better", "n-samples")
    assert {key: after[key] for key in same} == {key: before[key] for key in same}
    assert set(before) == set(after)
