"""A doc of any harness, written as a row of ours and read again, is the same doc."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.finished import AnsweredDoc, SentRequest, export_run, open_run, run_of_docs
from assay.instance import Message

texts = st.text(max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
chats = st.lists(st.builds(Message, st.sampled_from(["system", "user"]), texts), min_size=1, max_size=3).map(tuple)
requests = st.builds(SentRequest, texts | chats, st.none() | texts) | st.builds(
    SentRequest, texts | chats, settings=st.dictionaries(texts, values, min_size=1, max_size=2)
)
numbers = st.floats(0, 1)
docs = st.builds(
    AnsweredDoc,
    doc_id=st.integers(0, 1000),
    doc_hash=texts.filter(bool),
    doc=st.dictionaries(texts, values, max_size=3),
    target=values,
    requests=st.lists(requests, max_size=3).map(tuple),
    responses=st.lists(st.lists(values, max_size=2).map(tuple), max_size=3).map(tuple),
    filtered=values,
    filter=st.sampled_from(["none", "strict"]),
    request_hash=texts.filter(bool),
    metrics=st.fixed_dictionaries({"acc": numbers}, optional={"pair": st.tuples(numbers, texts).map(list)}),
    failure=st.none() | texts.filter(bool),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(docs, min_size=1, max_size=6))
def test_docs_survive_the_run_directory(given_docs: list[AnsweredDoc]) -> None:
    def read(task: str, ids: Sequence[int] | None) -> Iterator[AnsweredDoc]:
        return iter(given_docs)

    with tempfile.TemporaryDirectory() as place:
        run = run_of_docs(["t"], read, path=Path(place), model="m", origin="theirs")
        export_run(run, "assay", Path(place) / "run")
        again = open_run(Path(place) / "run")
        assert [*again.docs("t")] == given_docs
        before, after = run.columns("t"), again.columns("t")
        for key, column in after.items():
            assert np.array_equal(column.docs, before[key].docs)
            assert np.array_equal(column.values, before[key].values)
