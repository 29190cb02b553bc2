"""pass@k: over the problems of all tasks, and of the right draws that are meant."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from parts import ACC, group_score, manager_of, mean_score

from assay.errors import ConfigError
from assay.groups import pass_at_k
from assay.results import GroupScore, MetricKey, Score


def drawn(right: int) -> Score:
    """Ten problems, four draws each."""
    return mean_score(np.full(10, right / 4), counts=np.tile([4, right], (10, 1)))


def at_two(metric: str, more: dict[str, Any] | None = None, **scores: Score) -> GroupScore:
    entry = {"metric": metric, "aggregation": "pass@k", "kwargs": {"k": 2, **(more or {})}}
    manager = manager_of({"g": {"task": ["t"], "aggregate_metric_list": [entry]}}, ["t"])
    found = manager.score_groups({"t": {MetricKey(name.replace("_at_", "@")): score for name, score in scores.items()}})
    return found["g"][MetricKey(metric)]


def test_two_metrics_with_counts_are_not_told_apart_by_their_order() -> None:
    found = at_two("pass@2", compiles=drawn(4), exact=drawn(1))
    assert found.estimate.value is None
    assert found.estimate.undefined.startswith("t drew compiles or exact: name one with kwargs: {k: 2, of: compiles}")


def test_a_name_decides() -> None:
    assert at_two("exact", compiles=drawn(4), exact=drawn(1)).estimate.value == pytest.approx(0.5)
    assert at_two("pass@2", compiles=drawn(4), pass_at_1=drawn(1)).estimate.value == pytest.approx(0.5)
    assert at_two("pass@2", {"of": "exact"}, compiles=drawn(4), exact=drawn(1)).estimate.value == pytest.approx(0.5)
    assert "'absent'" in (at_two("pass@2", {"of": "absent"}, exact=drawn(1)).estimate.undefined or "")


def test_a_task_that_reports_the_pass_at_k_keeps_it() -> None:
    found = at_two("pass@2", compiles=drawn(4), pass_at_2=mean_score(np.full(10, 0.25)), pass_at_1=drawn(1))
    assert found.estimate.value == pytest.approx(0.25)


def test_another_pass_at_k_without_counts_is_no_reason_to_count_something_else() -> None:
    found = at_two("pass@2", compiles=drawn(4), pass_at_1=mean_score(np.full(10, 1 / 3)))
    assert found.estimate.value is None
    assert "reports pass@1" in (found.estimate.undefined or "")


def test_a_name_that_says_another_k_is_refused() -> None:
    with pytest.raises(ConfigError, match="metric 'pass@1': pass@k with k = 2"):
        at_two("pass@1", exact=drawn(1))


def test_the_only_metric_with_counts_needs_no_name() -> None:
    assert at_two("pass@2", exact=drawn(1), other=mean_score(np.full(10, 0.3))).estimate.value == pytest.approx(0.5)


def test_pass_at_k_pools_the_problems_of_all_tasks() -> None:
    counts = {"a": np.array([[10, 3], [10, 0]]), "b": np.array([[20, 20], [10, 5], [10, 1]])}
    scores = {n: {MetricKey("pass@1"): mean_score(c[:, 1] / c[:, 0], counts=c)} for n, c in counts.items()}
    config = [
        {"metric": "pass@1", "aggregation": "pass@k", "kwargs": {"k": 1}},
        {"metric": "pass@10", "aggregation": "pass@k"},
    ]
    manager = manager_of({"code": {"task": ["a", "b"], "aggregate_metric_list": config}}, ["a", "b"])
    found = manager.score_groups(scores)["code"]
    one, ten = found[MetricKey("pass@1")], found[MetricKey("pass@10")]
    assert one.estimate.value == pytest.approx(np.mean([0.3, 0.0, 1.0, 0.5, 0.1]))
    assert ten.estimate.value == pytest.approx(np.mean([1.0, 0.0, 1.0, 1.0, 1.0]))
    assert [c.weight for c in one.children] == pytest.approx([0.4, 0.6])
    assert one.draws.shape == (200,)


def test_pass_at_k_with_fewer_draws_than_k_is_undefined_with_the_reason() -> None:
    scores = {"a": {ACC: mean_score([1.0, 0.0], counts=np.array([[5, 5], [3, 0]]))}}
    found = manager_of(
        {
            "g": {
                "task": ["a"],
                "aggregate_metric_list": [{"metric": "acc", "aggregation": "pass@k", "kwargs": {"k": 4}}],
            }
        },
        ["a"],
    ).score_groups(scores)
    assert found["g"][ACC].estimate.undefined == "a has 1 of 2 problems with fewer than 4 draws"
    for k in (0, -1, "2", True, 1.5):
        with pytest.raises(ConfigError, match="whole number"):
            group_score(scores, aggregation="pass@k", kwargs={"k": k})


@given(st.integers(1, 30), st.data())
def test_pass_at_k_is_the_chance_of_a_hit_among_k_draws(n: int, data: st.DataObject) -> None:
    c, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    miss = 1.0
    for i in range(k):
        miss *= max(0, n - c - i) / (n - i)
    assert pass_at_k(np.array([[n, c]]), k)[0] == pytest.approx(1 - miss, abs=1e-12)
