"""Shards: every request once, cut where least is shared, sized for whoever takes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.cluster.lm import share_out
from assay.cluster.shards import LARGEST, SMALLEST, ShardCutter, common_prefix, shard_size
from assay.instance import Instance


def ask(*arguments: str) -> Instance:
    return Instance("loglikelihood", {}, arguments, 0)


def all_shards(instances: list[Instance], sizes: list[int]) -> list[list[int]]:
    cutter, shards = ShardCutter(instances), []
    while (shard := cutter.take(sizes[len(shards) % len(sizes)])) is not None:
        shards.append(shard.positions)
    return shards


@given(st.lists(st.text("ab", max_size=6), max_size=60), st.lists(st.integers(1, 20), min_size=1, max_size=5))
def test_every_request_is_in_exactly_one_shard(prompts: list[str], sizes: list[int]) -> None:
    shards = all_shards([ask(prompt, "x") for prompt in prompts], sizes)
    assert sorted(position for shard in shards for position in shard) == list(range(len(prompts)))
    assert all(shards)


@given(st.lists(st.text("ab", max_size=6), min_size=1, max_size=60))
def test_shards_are_stretches_of_the_walk_through_the_tree(prompts: list[str]) -> None:
    shards = all_shards([ask(prompt, "x") for prompt in prompts], [7])
    walked = [prompts[position] for shard in shards for position in shard]
    assert walked == sorted(prompts)


def test_the_choices_of_a_question_stay_together_and_so_does_a_subject() -> None:
    instances = [
        ask(f"subject {s}: question {q}", f" choice {c}") for c in range(4) for q in range(10) for s in range(3)
    ]
    shards = all_shards(instances, [36])
    assert [{instances[i].args[0][:10] for i in shard} for shard in shards] == [{f"subject {s}:"} for s in "012"]
    for shard in all_shards(instances, [9]):
        questions = [instances[i].args[0] for i in shard]
        assert all(questions.count(question) == 4 for question in questions)


def test_one_prompt_asked_a_thousand_times_is_shared_out_all_the_same() -> None:
    shards = all_shards([ask("the same", "x")] * 1000, [100])
    assert max(len(shard) for shard in shards) <= 125
    assert len(shards) >= 8


def test_nothing_to_do() -> None:
    assert all_shards([], [5]) == []


@given(st.text("ab", max_size=30), st.text("ab", max_size=30))
def test_common_prefix(one: str, two: str) -> None:
    shared = common_prefix(one, two)
    assert one[:shared] == two[:shared]
    assert shared == min(len(one), len(two)) or one[shared] != two[shared]


@given(st.integers(0, 10**6), st.integers(1, 100), st.none() | st.floats(0.001, 1e6))
def test_sizes_stay_in_bounds_and_leave_work_for_all(remaining: int, replicas: int, rate: float | None) -> None:
    size = shard_size(remaining=remaining, replicas=replicas, requests_per_second=rate)
    assert SMALLEST <= size <= LARGEST
    assert size == SMALLEST or size * replicas <= remaining // 2 + replicas


@pytest.mark.parametrize("models_", range(1, 9))
@pytest.mark.parametrize("replicas", range(1, 9))
def test_replicas_are_shared_out(models_: int, replicas: int) -> None:
    each, at_once = share_out(models_, replicas)
    assert each * at_once <= max(replicas, 1)
    assert at_once == min(models_, replicas) or each > 1
