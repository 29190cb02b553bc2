"""Large files are mapped, small ones held; both must look the same."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import datasets
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.data import columns_of, iter_docs, rows
from assay.data import docs as docs_module
from assay.data.rows import read_file
from assay.errors import DataError


@pytest.fixture(autouse=True)
def _large(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(rows, "BLOCK_ROWS", 2)


def both(folder: Path, docs: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    file = folder / "docs.jsonl"
    file.write_text("\n".join(json.dumps(doc) for doc in docs) + "\n\n", encoding="utf-8")
    monkeypatch.setattr(rows, "IN_MEMORY_BYTES", 0)
    return read_file(file), datasets.Dataset.from_list(docs)


@pytest.mark.parametrize(
    "docs",
    [
        [{"a": 1}, {"a": 2}, {"a": 2.5}],
        [{"a": None}, {"a": None}, {"a": "x"}],
        [{"a": []}, {"a": []}, {"a": ["x"]}],
        [{"a": {"k": 1}}, {"a": {"k": 2}}, {"a": {"k": None, "m": "x"}}],
        [{"a": "2020-01-01"}, {"a": "2020-01-02T00:00:00"}, {"a": "not a date"}],
        [{"a": 1, "b": 2}, {"a": 1}, {"a": 3, "c": 4}],
    ],
)
def test_blocks_infer_what_the_whole_would(
    docs: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large, small = both(tmp_path, docs, monkeypatch)
    assert list(large) == list(small)
    assert large.features == small.features


def test_a_large_file_is_converted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both(tmp_path, [{"a": i} for i in range(5)], monkeypatch)
    kept = list((tmp_path / "home" / "data").iterdir())
    assert [file.suffix for file in kept] == [".arrow"]
    before = kept[0].stat().st_mtime_ns
    assert [doc["a"] for doc in read_file(tmp_path / "docs.jsonl")] == [0, 1, 2, 3, 4]
    assert kept[0].stat().st_mtime_ns == before


def test_a_changed_file_is_converted_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both(tmp_path, [{"a": 1}], monkeypatch)
    large, _ = both(tmp_path, [{"a": 1}, {"a": 2}], monkeypatch)
    assert len(large) == 2


@given(st.integers(0, 1100), st.integers(0, 1100))
def test_walking_blocks_gives_every_doc_once(count: int, start: int) -> None:
    docs = datasets.Dataset.from_dict({"i": list(range(count)), "t": [str(i) for i in range(count)]})
    assert [doc["i"] for doc in iter_docs(docs, start)] == list(range(start, count))


def test_walking_respects_selection_and_nested_values() -> None:
    docs = datasets.Dataset.from_list([{"i": i, "d": {"x": [i]}} for i in range(10)]).shuffle(seed=1).select(range(4))
    assert list(iter_docs(docs)) == list(docs)
    assert list(iter_docs([{"i": 1}, {"i": 2}])) == [{"i": 1}, {"i": 2}]


@pytest.mark.parametrize("start", [0, 5, 13])
def test_a_mapped_file_is_read_through_mappings_that_are_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: int
) -> None:
    mapped, _ = both(tmp_path, [{"i": i, "t": f"é{i}"} for i in range(40)], monkeypatch)
    monkeypatch.setattr(docs_module, "MAPPED_ROWS", 3)
    opened: list[Any] = []
    loads = pickle.loads
    monkeypatch.setattr(docs_module.pickle, "loads", lambda state: (opened.append(1), loads(state))[1])
    for docs in (mapped, mapped.select(range(10, 30)), mapped.filter(lambda doc: doc["i"] % 2), mapped.shuffle(seed=3)):
        assert list(iter_docs(docs, start)) == list(docs)[start:]
        assert 2 <= len(opened) <= docs_module.MAPPINGS
        opened.clear()


def test_columns_of_datasets_and_lists() -> None:
    assert columns_of(datasets.Dataset.from_list([{"b": 1, "a": 2}])) == ["b", "a"]
    assert columns_of([{"x": 1}, {"y": 2}]) == ["x"]
    assert columns_of([]) == []


def test_pictures_are_decoded_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    pictures = [np.full((2, 2, 3), i, dtype=np.uint8) for i in range(9)]
    docs = datasets.Dataset.from_dict({"p": pictures}, features=datasets.Features({"p": datasets.Image()}))
    asked: list[Any] = []
    original = datasets.Dataset.__getitem__
    monkeypatch.setattr(datasets.Dataset, "__getitem__", lambda self, key: (asked.append(key), original(self, key))[1])
    assert [doc["p"].getpixel((0, 0))[0] for doc in iter_docs(docs)] == list(range(9))
    assert asked == [slice(0, 4), slice(4, 8), slice(8, 9)]


@pytest.mark.parametrize("in_memory", [0, 10**6])
def test_half_a_surrogate_pair_is_named_with_its_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_memory: int
) -> None:
    monkeypatch.setattr(rows, "IN_MEMORY_BYTES", in_memory)
    (tmp_path / "docs.jsonl").write_text('{"q": "fine"}\n{"q": "broken \\ud800"}\n')
    with pytest.raises(DataError, match=r"docs\.jsonl, row 2: half of a surrogate pair"):
        read_file(tmp_path / "docs.jsonl")
