"""The tree and its schedule: every request sees exactly its own ancestors, every distinct token is computed once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.models.prefix_tree import PrefixTree, Step, count_distinct, prefix_order

sequences = st.lists(st.lists(st.integers(0, 3), max_size=12), max_size=12)
beginnings = st.lists(st.integers(0, 3), max_size=4)
budgets = st.integers(1, 40)


def distinct_prefixes(rows: list[list[int]]) -> set[tuple[int, ...]]:
    return {tuple(row[:length]) for row in rows for length in range(1, len(row) + 1)}


def replay(tree: PrefixTree, budget: int, first: int | None = None) -> tuple[list[tuple[int, ...]], list[Step]]:
    """Run a schedule as a backend would, and write down for each computed token everything it could see."""
    path: list[int] = []
    seen: list[tuple[int, ...]] = []
    steps = list(tree.schedule(budget, first))
    for step in steps:
        assert step.depth <= len(path), "a step may only build on what was kept"
        path = path[: step.depth]
        for place in range(len(step)):
            seen.append((*path, *step.tokens[step.line(place)].tolist()))
            assert step.positions[place] == len(seen[-1]) - 1
        path.extend(step.tokens[: step.keep].tolist())
    return seen, steps


@given(beginnings, sequences, budgets, st.none() | st.integers(0, 20))
@settings(max_examples=500, deadline=None)
def test_each_distinct_prefix_is_computed_once_and_sees_only_itself(
    beginning: list[int], rows: list[list[int]], budget: int, first: int | None
) -> None:
    rows = [beginning + row for row in rows]
    tree = PrefixTree(rows)
    seen, _ = replay(tree, budget, first)
    assert len(seen) == len(set(seen)) == tree.size
    assert set(seen) == distinct_prefixes(rows)


@given(sequences, budgets, st.none() | st.integers(0, 20))
@settings(deadline=None)
def test_no_step_passes_the_budget(rows: list[list[int]], budget: int, first: int | None) -> None:
    assert all(0 < len(step) <= budget for step in PrefixTree(rows).schedule(budget, first))


@pytest.mark.parametrize("beginning", [[], [9] * 30], ids=["nothing shared", "a shared beginning"])
def test_a_small_first_step_answers_something_and_delays_no_other(beginning: list[int]) -> None:
    rows = [[*beginning, *([question] * 10)] for question in range(100, 140)]
    sizes = [len(step) for step in PrefixTree(rows).schedule(100, first=25)]
    assert sizes[0] == len(beginning) + 20
    assert len(sizes) == len(list(PrefixTree(rows).schedule(100))) + 1


@given(beginnings, sequences, budgets, st.integers(1, 40))
@settings(max_examples=500, deadline=None)
def test_groups_of_any_size_see_what_their_tokens_see(
    beginning: list[int], rows: list[list[int]], budget: int, limit: int
) -> None:
    for step in PrefixTree([beginning + row for row in rows]).schedule(budget):
        groups = step.groups(limit)
        assert [place for group in groups for place in range(group.first, group.last)] == list(range(len(step)))
        for group in groups:
            assert len(group) <= limit or len(group.pieces) == 1
            sees = group.sees()
            for row, place in enumerate(range(group.first, group.last)):
                own = np.flatnonzero(sees[row]) + group.first
                chain = range(step.keep if place >= step.below else 0)
                assert step.line(place).tolist() == [*chain, *group.above.tolist(), *own.tolist()]
            assert group.is_path == bool((sees == np.tri(len(group), dtype=np.bool_)).all())


@given(sequences)
@settings(deadline=None)
def test_the_path_to_the_end_of_a_sequence_spells_it(rows: list[list[int]]) -> None:
    tree = PrefixTree(rows)
    for row, end in zip(rows, tree.ends):
        spelled = [token for node in tree.path(end) for token in tree.nodes[node].tokens.tolist()]
        assert spelled == row
        assert tree.nodes[end].stop == len(row)


@given(sequences)
@settings(deadline=None)
def test_counting_needs_no_tree(rows: list[list[int]]) -> None:
    assert count_distinct(rows) == PrefixTree(rows).size == len(distinct_prefixes(rows))


@given(sequences, budgets)
@settings(deadline=None)
def test_pieces_name_the_tokens_they_place(rows: list[list[int]], budget: int) -> None:
    tree = PrefixTree(rows)
    for step in tree.schedule(budget):
        for piece in step.pieces:
            placed = step.tokens[piece.at : piece.at + piece.length]
            assert placed.tolist() == tree.nodes[piece.node].tokens[piece.offset : piece.offset + piece.length].tolist()


def test_nothing_gives_nothing() -> None:
    tree = PrefixTree([])
    assert tree.size == 0
    assert list(tree.schedule(10)) == []
    assert list(PrefixTree([[], []]).schedule(10)) == []


def test_duplicates_cost_nothing() -> None:
    tree = PrefixTree([[5, 6, 7]] * 100)
    assert tree.size == 3
    assert len(set(tree.ends)) == 1


def test_five_shot_four_choice_questions_share_their_examples() -> None:
    shots = list(range(500))
    rows = [shots + [1000 + question] * 20 + [choice] * 3 for question in range(40) for choice in range(4)]
    tree = PrefixTree(rows)
    steps = list(tree.schedule(512))
    assert tree.size == 500 + 40 * (20 + 4 * 3)
    assert steps[0].keep == 500
    assert all(step.depth == 500 and not step.keep for step in steps[1:])


def test_the_first_questions_are_computed_beside_the_examples_that_they_follow() -> None:
    rows = [[*range(50), *[1000 + question] * 20] for question in range(6)]
    steps = list(PrefixTree(rows).schedule(100))
    assert [(step.depth, step.keep, step.below, len(step)) for step in steps] == [(0, 50, 50, 90), (50, 0, 80, 80)]
    assert steps[0].line(60).tolist() == [*range(50), *range(50, 61)]


def test_the_first_tokens_of_a_heavy_subtree_ride_with_its_light_siblings() -> None:
    """A pass over a single token costs nearly as much as one over fifty."""
    heavy = [[7] + [100 + question] * 20 for question in range(5)]
    light = [[8 + question] * 10 for question in range(4)]
    steps = list(PrefixTree(heavy + light).schedule(60))
    assert [(step.depth, step.keep, len(step)) for step in steps] == [(0, 1, 41), (1, 0, 60), (1, 0, 40)]


def test_packs_are_of_like_size() -> None:
    steps = list(PrefixTree([[question] * 10 for question in range(7)]).schedule(60))
    assert [len(step) for step in steps] == [40, 30]


def test_a_long_sequence_is_cut_into_kept_chunks() -> None:
    steps = list(PrefixTree([list(range(100))]).schedule(30))
    assert [len(step) for step in steps] == [30, 30, 30, 10]
    assert [step.depth for step in steps] == [0, 30, 60, 90]


def test_large_token_ids_keep_their_order() -> None:
    assert PrefixTree([[2**31 - 1, 1], [255, 256], [256]]).size == 5


@pytest.mark.parametrize("texts", [[], ["one"], ["b", "a", "ab", "a"], ["日本", "日", ""]])
def test_prefix_order_is_a_permutation_with_shared_prefixes_adjacent(texts: list[str]) -> None:
    order = prefix_order(texts)
    assert sorted(order) == list(range(len(texts)))
    assert [texts[index] for index in order] == sorted(texts)
