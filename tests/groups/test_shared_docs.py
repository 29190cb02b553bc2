"""Children that rest on the same docs are not independent, however far below the docs are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from parts import ACC, Leaf, fresh_keys, group_score, manager_of, mean_score

from assay.groups import Group
from assay.metrics import AGGREGATIONS
from assay.results import GroupScore, Score
from assay.scoring import estimate
from assay.stats import Estimate, doc_keys

OVER = {"aggregate_metric_list": [{"metric": "acc", "over": "subgroups"}]}
PLAIN = {"aggregate_metric_list": ["acc"]}


def hundred(seed: int, share: float = 0.5) -> Score:
    rng = np.random.default_rng(seed)
    return mean_score((rng.random(100) < share).astype(float), fresh_keys(rng, 100), replicates=1000)


def root(groups: dict[str, list[str]], scores: dict[str, Score], **levels: list[str]) -> GroupScore:
    configs = {name: {"task": members, **PLAIN} for name, members in groups.items()}
    configs |= {name: {"task": members, **OVER} for name, members in levels.items()}
    manager = manager_of(configs, list(scores))
    return manager.score_groups({name: {ACC: score} for name, score in scores.items()})[list(levels)[-1]][ACC]


def test_two_subgroups_of_the_same_task_know_no_more_than_the_task() -> None:
    task = hundred(0)
    twice = root({"A": ["t1"], "B": ["t1"]}, {"t1": task}, P=["A", "B"])
    assert twice.estimate.stderr == pytest.approx(task.estimate.stderr, rel=0.1)
    deep = root({"A": ["t1"], "B": ["t1"]}, {"t1": task}, C=["A"], D=["B"], P=["C", "D"])
    assert deep.estimate.stderr == pytest.approx(task.estimate.stderr, rel=0.1)


def test_subgroups_of_different_tasks_are_independent() -> None:
    scores = {"t1": hundred(0), "t2": hundred(1)}
    apart = root({"A": ["t1"], "B": ["t2"]}, scores, P=["A", "B"])
    assert apart.estimate.method == "combined score"
    errors = [scores[name].estimate.stderr for name in scores]
    assert apart.estimate.stderr == pytest.approx(np.hypot(*errors) / 2, rel=0.01)


def test_numbers_that_no_doc_has_alone_share_docs_too() -> None:
    rng = np.random.default_rng(0)
    keys = fresh_keys(rng, 200)
    pairs = [(int(g), int(g) if rng.random() < 0.7 else 1 - int(g)) for g in rng.random(200) < 0.5]
    score = estimate(pairs, AGGREGATIONS["f1"], keys)
    manager = manager_of({"g": {"task": ["a", "b"], **PLAIN}}, ["a", "b"])
    found = manager.score_groups({"a": {ACC: score}, "b": {ACC: score}})["g"][ACC]
    assert found.estimate.stderr == pytest.approx(score.estimate.stderr, rel=0.1)


def test_translations_of_the_same_docs_have_the_standard_error_of_lm_eval_in_its_files_alone() -> None:
    rng = np.random.default_rng(0)
    words = [[str(w) for w in rng.integers(0, 9, 12)] for _ in range(40)]
    pairs = [(" ".join(w), " ".join(w[: 4 + i % 8])) for i, w in enumerate(words)]
    score = estimate(pairs, AGGREGATIONS["bleu"], fresh_keys(rng, 40))
    manager = manager_of({"g": {"task": ["a", "b"], **PLAIN}}, ["a", "b"])
    group = manager.score_groups({"a": {ACC: score}, "b": {ACC: score}})["g"][ACC]
    assert group.lm_eval_stderr == pytest.approx(score.lm_eval_stderr / math.sqrt(2), rel=0.02)
    found = group.estimate
    assert found.stderr == pytest.approx(score.estimate.stderr, rel=0.02)
    assert (found.low, found.high) == pytest.approx((score.estimate.low, score.estimate.high), rel=0.02)


def test_where_docs_are_unknown_the_replicates_decide() -> None:
    draws = 0.5 + 0.05 * np.random.default_rng(0).standard_normal(1000)
    score = Score(Estimate(0.5, 0.05, 0.4, 0.6, 100, "wilson"), 100, replicates=lambda: draws)
    manager = manager_of({"g": {"task": ["a", "b"], **PLAIN}}, ["a", "b"])
    found = manager.score_groups({"a": {ACC: score}, "b": {ACC: score}})["g"][ACC]
    assert found.estimate.stderr == pytest.approx(0.05, rel=0.1)


def test_perfect_subgroups_of_one_task_keep_the_width_of_its_interval() -> None:
    task = hundred(0, share=1.1)
    twice = root({"A": ["t1"], "B": ["t1"]}, {"t1": task}, P=["A", "B"])
    assert twice.estimate.low == pytest.approx(task.estimate.low, abs=1e-3)


def test_plain_dictionaries_tell_shared_tasks_by_their_names() -> None:
    leaf, parent = Leaf("t1"), Group("P", aggregate_metric_list=[{"metric": "acc", "over": "subgroups"}])
    for name in "AB":
        below = Group(name, aggregate_metric_list=["acc"])
        below.add(leaf)
        parent.add(below)
    found = parent.aggregate({"t1": {"acc,none": 0.5, "acc_stderr,none": 0.05, "sample_len": 100}})
    assert found["acc_stderr,none"] == pytest.approx(0.05)


def test_tasks_that_share_docs_are_not_taken_for_independent() -> None:
    """One task at two variants: the mean of two equal columns has the error of one, not of two independent ones."""
    rng = np.random.default_rng(5)
    x, keys = rng.random(300), fresh_keys(rng, 300)
    both = {"t": {ACC: mean_score(x, keys, replicates=1000)}, "t:cloze": {ACC: mean_score(x, keys, replicates=1000)}}
    score = group_score(both)
    alone = both["t"][ACC].estimate.stderr
    assert score.estimate.stderr == pytest.approx(alone, rel=0.1)
    apart = group_score({"t": both["t"], "u": {ACC: mean_score(x, fresh_keys(rng, 300))}})
    assert apart.estimate.stderr == pytest.approx((alone or 0) / math.sqrt(2), rel=1e-2)


def test_nothing_is_drawn_for_means() -> None:
    def never() -> Any:
        raise AssertionError("a mean has a closed form")

    scores = {
        n: {ACC: Score(Estimate(0.5, 0.1, 0.3, 0.7, 25, "t"), 25, replicates=never, keys=lambda n=n: doc_keys([n]))}
        for n in "ab"
    }
    assert group_score(scores).estimate.stderr == pytest.approx(0.1 / math.sqrt(2))


def test_a_group_counts_each_doc_once() -> None:
    keys = fresh_keys(np.random.default_rng(0), 300)
    values = np.resize([0.0, 1.0, 1.0], 300)

    def some(chosen: slice, clusters: Any = None) -> Score:
        return estimate(list(values[chosen]), AGGREGATIONS["mean"], keys[chosen], clusters)

    passages = np.arange(100, dtype=np.uint64) // 10
    scores = {"a": some(slice(0, 100), passages), "b": some(slice(50, 200)), "c": some(slice(200, 300))}
    assert root({"A": ["a", "b"], "B": ["b", "c"]}, scores, P=["A", "B"]).estimate.n == 300
    assert root({"A": ["a"], "B": ["c"]}, scores, P=["A", "B"]).estimate.n == 200
    plain = {"clustered": some(slice(0, 100), passages), "bare": some(slice(0, 100))}
    assert root({"A": ["clustered"], "B": ["bare"]}, plain, P=["A", "B"]).estimate.n == 100


def test_two_rows_of_one_task_stay_two_docs() -> None:
    keys = np.repeat(fresh_keys(np.random.default_rng(0), 50), 2)
    twice = estimate([0.0, 1.0] * 50, AGGREGATIONS["mean"], keys)
    assert root({"A": ["a"], "B": ["a"]}, {"a": twice}, P=["A", "B"]).estimate.n == 100


def test_a_group_of_one_member_has_its_members_interval() -> None:
    task = hundred(3, 0.97)
    alone = root({"A": ["t1"]}, {"t1": task}, P=["A"])
    assert (alone.estimate.low, alone.estimate.high) == (task.estimate.low, task.estimate.high)
    assert alone.bounds(0.8) == task.bounds(0.8)


def test_what_to_know_of_a_member_is_said_of_its_group() -> None:
    heavy = np.exp(2 * np.random.default_rng(3).standard_normal(50))
    rng = np.random.default_rng(0)
    scores = {"t1": mean_score(heavy, fresh_keys(rng, 50)), "t2": mean_score(heavy / 1e6, fresh_keys(rng, 50))}
    said = root({"A": ["t1", "t2"]}, scores, P=["A"]).estimate.caution
    assert said == f"t1: {scores['t1'].estimate.caution}"


def test_clusters_are_the_units_of_numbers_that_only_replicates_give() -> None:
    """A harmonic mean of two tasks on the same eight passages: Student's t has seven degrees of freedom, not 79."""
    rng = np.random.default_rng(0)
    passages = np.repeat(fresh_keys(rng, 8), 5)
    scores = {
        name: estimate(
            (rng.random(40) < 0.6).astype(float).tolist(), AGGREGATIONS["mean"], fresh_keys(rng, 40), passages
        )
        for name in ("t1", "t2")
    }
    entry = {"metric": "acc", "aggregation": "harmonic_mean"}
    manager = manager_of({"g": {"task": ["t1", "t2"], "aggregate_metric_list": [entry]}}, list(scores))
    found = manager.score_groups({name: {ACC: score} for name, score in scores.items()})["g"][ACC].estimate
    assert found.df == 7


def test_one_shared_doc_does_not_hide_what_a_small_task_may_do() -> None:
    """Half of 1,000 docs and ten of ten, of which one is among the 1,000: nearly as if there were none in common."""
    rng = np.random.default_rng(0)
    large, small = fresh_keys(rng, 1000), fresh_keys(rng, 10)
    entry = {"metric": "acc", "weight_by_size": False}
    manager = manager_of({"g": {"task": ["t1", "t2"], "aggregate_metric_list": [entry]}}, ["t1", "t2"])
    for shared in (False, True):
        keys = np.concatenate([large[:1], small[1:]]) if shared else small
        scores = {"t1": mean_score(np.repeat([1.0, 0.0], 500), large), "t2": mean_score(np.ones(10), keys)}
        found = manager.score_groups({name: {ACC: score} for name, score in scores.items()})["g"][ACC].estimate
        assert (found.method == "shared docs") == shared
        assert found.low == pytest.approx(0.61, abs=0.01)
