"""Docs side by side: by content, whatever their order, with copies, gaps and other prompts."""

from __future__ import annotations

from collections import defaultdict
from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from assay.finished import Alignment, DocColumn, align
from assay.results import MetricKey

KEY = MetricKey("acc", "none")
Doc = tuple[int, int]
"""Content and prompt."""

docs = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), max_size=12)
several = st.lists(docs, min_size=1, max_size=4)


def column(rows: list[Doc], *, prompts: bool = True, clusters: list[int] | None = None) -> DocColumn:
    contents, requests = np.array(rows, dtype=np.uint64).reshape(-1, 2).T
    return DocColumn(
        KEY,
        contents,
        requests if prompts else None,
        np.arange(len(rows), dtype=np.float64),
        np.arange(len(rows), dtype=np.int64),
        None if clusters is None else np.array(clusters, dtype=np.uint64),
    )


def copies(rows: list[Doc]) -> dict[tuple[int, int], int]:
    """Content and number of the copy, in the order of prompts and then of places, to the place."""
    by_content: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for place, (content, prompt) in enumerate(rows):
        by_content[content].append((prompt, place))
    return {
        (content, number): place
        for content, found in by_content.items()
        for number, (_, place) in enumerate(sorted(found))
    }


@given(several)
def test_every_copy_of_every_doc_meets_its_counterparts(runs: list[list[Doc]]) -> None:
    expected = [copies(rows) for rows in runs]
    wanted = {tuple(each.get(doc, -1) for each in expected) for doc in {doc for each in expected for doc in each}}
    found = align(*map(column, runs))
    assert found.places.shape == (len(runs), len(wanted))
    assert {tuple(places) for places in found.places.T.tolist()} == wanted
    assert found.duplicates == tuple(sum(number == 1 for _, number in each) for each in expected)


@given(several)
def test_shared_docs_stand_in_the_order_of_the_first_column_and_table_has_gaps(runs: list[list[Doc]]) -> None:
    columns = [column(rows) for rows in runs]
    found = align(*columns)
    shared = found.shared
    assert (np.diff(shared[0]) > 0).all()
    assert len(found) == shared.shape[1]
    for number, each in enumerate(columns):
        assert (each.docs[shared[number]] == columns[0].docs[shared[0]]).all()
        assert found.missing_elsewhere(number) == len(each) - len(found)
    table = found.table()
    assert ((found.places < 0) == np.isnan(table)).all()
    assert (table[~np.isnan(table)] == found.places[found.places >= 0]).all(), "values are places here"


@given(several)
def test_docs_whose_prompts_differ_are_counted_where_prompts_are_known(runs: list[list[Doc]]) -> None:
    expected = [copies(rows) for rows in runs]
    differing = 0
    for doc in {doc for each in expected for doc in each}:
        prompts = {rows[each[doc]][1] for rows, each in zip(runs, expected, strict=True) if doc in each}
        differing += len(prompts) > 1
    assert align(*map(column, runs)).differing == differing
    assert align(*[column(rows, prompts=False) for rows in runs]).differing == 0


@given(docs, st.randoms())
def test_the_order_of_docs_does_not_matter(rows: list[Doc], random: Random) -> None:
    """Copies with equal prompts may change places; docs, prompts and their pairs do not."""
    mixed = list(rows)
    random.shuffle(mixed)
    found = align(column(rows), column(mixed))
    assert (len(found), found.differing) == (len(rows), 0)
    assert [rows[i] for i in found.shared[0]] == [mixed[i] for i in found.shared[1]]


def test_units_join_copies_and_clusters_of_any_column() -> None:
    first = column([(1, 0), (2, 0), (3, 0)])
    second = column([(3, 0), (4, 0), (4, 1)], clusters=[7, 7, 8])
    found = align(first, second)
    unit = {int(content): int(key) for content, key in zip([1, 2, 3, 4, 4], units_by_content(found), strict=True)}
    assert len({unit[1], unit[2], unit[3]}) == 3
    assert unit[3] == unit[4], "copies of a doc join the clusters that they are in"


def units_by_content(found: Alignment) -> list[int]:
    contents = [
        max(int(column.docs[at]) for column, at in zip(found.columns, places, strict=True) if at >= 0)
        for places in found.places.T.tolist()
    ]
    order = np.argsort(contents, kind="stable")
    return [int(found.units[i]) for i in order]


def test_an_empty_column_shares_nothing() -> None:
    found = align(column([]), column([(1, 0)]))
    assert (len(found), found.places.tolist(), found.missing_elsewhere(1)) == (0, [[-1], [0]], 1)
