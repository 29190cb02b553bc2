"""Large files are mapped, small ones held; both must look the same."""

from __future__ import annotations

import gzip
import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import datasets
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.data import as_dataset, columns_of, files, iter_docs
from assay.data import docs as docs_module
from assay.data.files import read_file, read_files
from assay.errors import DataError


@pytest.fixture(autouse=True)
def _large(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(files, "BLOCK_ROWS", 2)


def write(folder: Path, docs: list[dict[str, Any]]) -> Path:
    file = folder / "docs.jsonl"
    file.write_text("\n".join(json.dumps(doc) for doc in docs) + "\n\n", encoding="utf-8")
    return file


def both(folder: Path, docs: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """The docs through a mapped Arrow file, and held in memory."""
    small = read_file(write(folder, docs))
    monkeypatch.setattr(files, "IN_MEMORY_BYTES", 0)
    return read_file(folder / "docs.jsonl"), small


@pytest.mark.parametrize(
    "docs",
    [
        [{"a": 1}, {"a": 2}, {"a": 2.5}],
        [{"a": None}, {"a": None}, {"a": "x"}],
        [{"a": []}, {"a": []}, {"a": ["x"]}],
        [{"a": {"k": 1}}, {"a": {"k": 2}}, {"a": {"k": None, "m": "x"}}],
        [{"a": "2020-01-01"}, {"a": "2020-01-02T00:00:00"}, {"a": "not a date"}],
        [{"a": 1, "b": 2}, {"a": 1}, {"a": 3, "c": 4}],
        [{"c": 1}, {"b": 1, "a": 1}, {"a": 2, "z": "x"}, {}],
        [{}, {}, {"a": 1}],
    ],
)
def test_blocks_infer_what_the_whole_would(
    docs: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large, small = both(tmp_path, docs, monkeypatch)
    whole = datasets.Dataset.from_dict(
        {name: [doc.get(name) for doc in docs] for name in {k: 0 for doc in docs for k in doc}}
    )
    assert list(large) == list(small) == list(whole)
    assert large.features == small.features == whole.features
    names = list(dict.fromkeys(name for doc in docs for name in doc))
    assert list(small) == [dict.fromkeys(names) | doc for doc in complete(docs)]
    assert list(small.features) == names


def complete(docs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Docs whose mappings have the keys of all, as Arrow gives them back."""
    return list(datasets.Dataset.from_list(docs)) if all(doc.keys() == docs[0].keys() for doc in docs) else docs


def test_a_column_that_the_first_row_lacks_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    docs = [{"q": "a", "answer": 1}, *({"q": "b", "answer": 2} for _ in range(4)), {"q": "c", "answer": 3, "hint": "h"}]
    library = datasets.load_dataset("json", data_files=str(write(tmp_path, docs)), split="train", cache_dir=tmp_path)
    for read in both(tmp_path, docs, monkeypatch):
        assert list(read) == list(library)
        assert [doc["hint"] for doc in read] == [None] * 5 + ["h"]


def test_a_copy_that_an_older_version_made_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both(tmp_path, [{"a": 1}], monkeypatch)
    monkeypatch.setattr(files, "ARROW_FORM", files.ARROW_FORM + 1)
    read_file(tmp_path / "docs.jsonl")
    assert len(list((tmp_path / "home" / "data").iterdir())) == 2


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
    large, _ = both(tmp_path, [{"i": i, "t": f"é{i}"} for i in range(40)], monkeypatch)
    mapped = as_dataset(large)
    monkeypatch.setattr(docs_module, "MAPPED_ROWS", 3)
    opened: list[Any] = []
    loads = pickle.loads
    monkeypatch.setattr(docs_module.pickle, "loads", lambda state: (opened.append(1), loads(state))[1])
    for docs in (mapped, mapped.select(range(10, 30)), mapped.filter(lambda doc: doc["i"] % 2), mapped.shuffle(seed=3)):
        assert list(iter_docs(docs, start)) == list(docs)[start:]
        assert 2 <= len(opened) <= docs_module.MAPPINGS
        opened.clear()


@pytest.mark.parametrize("start", [0, 1, 2, 7, 39, 40, 41])
def test_a_large_file_is_read_block_by_block_and_never_mapped_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: int
) -> None:
    large, small = both(tmp_path, [{"i": i, "t": f"é{i}"} for i in range(40)], monkeypatch)
    monkeypatch.setattr("pyarrow.memory_map", None)
    assert list(iter_docs(large, start)) == list(small)[start:]


@pytest.mark.parametrize("in_memory", [2**20, 0])
def test_rows_of_a_file_are_a_dataset_to_code_that_wants_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_memory: int
) -> None:
    monkeypatch.setattr(files, "IN_MEMORY_BYTES", in_memory)
    docs = read_file(write(tmp_path, [{"i": i, "d": {"x": [i]}} for i in range(600)]))
    library = datasets.Dataset.from_list([{"i": i, "d": {"x": [i]}} for i in range(600)])
    assert list(docs) == list(iter_docs(docs)) == list(library)
    assert list(iter_docs(docs, 590)) == list(library)[590:]
    assert docs[-1] == library[-1]
    assert docs[3:5] == library[3:5]
    assert list(docs["i"]) == list(library["i"])
    assert list(docs.filter(lambda doc: doc["i"] % 2)) == list(library.filter(lambda doc: doc["i"] % 2))
    assert columns_of(pickle.loads(pickle.dumps(docs))) == ["i", "d"]
    assert isinstance(as_dataset(docs), datasets.Dataset)
    with pytest.raises(IndexError):
        docs[600]


@pytest.mark.parametrize("in_memory", [2**20, 0])
def test_a_run_on_local_json_does_not_import_the_library(tmp_path: Path, in_memory: int) -> None:
    path = write(tmp_path, [{"a": 1}])
    code = f"import sys; from assay.data import files; from assay.data.files import *; files.IN_MEMORY_BYTES = {in_memory}; print(list(read_file(Path({str(path)!r}))), 'datasets' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[{'a': 1}] False"


def test_columns_of_datasets_and_lists() -> None:
    assert columns_of(datasets.Dataset.from_list([{"b": 1, "a": 2}])) == ["b", "a"]
    assert columns_of([{"x": 1}, {"y": 2, "x": 3}]) == ["x", "y"]
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
    monkeypatch.setattr(files, "IN_MEMORY_BYTES", in_memory)
    (tmp_path / "docs.jsonl").write_text('{"q": "fine"}\n{"q": "broken \\ud800"}\n')
    with pytest.raises(DataError, match=r"docs\.jsonl, row 2: .*surrogate"):
        read_file(tmp_path / "docs.jsonl")


@pytest.mark.parametrize("in_memory", [0, 10**6])
@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b'{"q": "fine"}\n{"q": "caf\xe9"}\n', r"docs\.jsonl, line 2: not UTF-8 \(byte 0xe9\)"),
        (b'{"q": "fine"}\n{"q": \n', r"docs\.jsonl, line 2: not JSON: "),
        (b'{"q": "fine"}\n\n["q", 1]\n', r"docs\.jsonl, line 3: found list, expected an object"),
        (b'["q", "a"]\n["r", "b"]\n', r"docs\.jsonl, line 2: not a JSON array of objects: Extra data"),
        (b'["q", "a"]\n', r"docs\.jsonl, row 1: found str, expected an object"),
        (b"[" * 100_000, r"docs\.jsonl: not a JSON array of objects: "),
        (b'{"n": 1}\n{"n": 9223372036854775808}\n', r"row 2: n holds 9223372036854775808, which does not fit"),
        (b'{"n": {"m": [-9223372036854775809]}}\n', r"row 1: n holds -9223372036854775809, which does not fit"),
        (b'{"n": 1}\n{"n": "x"}\n', r"docs\.jsonl: rows do not match"),
        (b'{"n": ' + b"9" * 5000 + b"}\n", r"docs\.jsonl, line 1: not JSON: "),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_memory: int, raw: bytes, message: str
) -> None:
    monkeypatch.setattr(files, "IN_MEMORY_BYTES", in_memory)
    (tmp_path / "docs.jsonl").write_bytes(raw)
    with pytest.raises(DataError, match=message):
        read_file(tmp_path / "docs.jsonl")


def test_a_cut_off_gzip_file_is_said_so(tmp_path: Path) -> None:
    file = tmp_path / "docs.jsonl.gz"
    file.write_bytes(gzip.compress(b'{"q": 1}\n' * 1000)[:-20])
    with pytest.raises(DataError, match=r"docs\.jsonl\.gz: .*gzip"):
        read_file(file)
    file.write_bytes(b'{"q": 1}\n')
    with pytest.raises(DataError, match=r"docs\.jsonl\.gz: .*gzip"):
        read_file(file)


def test_a_byte_order_mark_is_no_part_of_the_first_row(tmp_path: Path) -> None:
    (tmp_path / "docs.jsonl").write_bytes(b'\xef\xbb\xbf{"q": "\xc3\xa9"}\n{"q": "x"}\n')
    assert list(read_file(tmp_path / "docs.jsonl")) == [{"q": "é"}, {"q": "x"}]


def test_shards_widen_numbers_and_refuse_to_mix_them_with_text(tmp_path: Path) -> None:
    def shard(name: str, text: str) -> Path:
        (tmp_path / name).write_text(text)
        return tmp_path / name

    whole, broken = shard("whole.jsonl", '{"n": 1, "h": null}\n'), shard("broken.jsonl", '{"n": 2.5, "z": 1}\n')
    assert list(read_files([whole, broken])) == [{"n": 1.0, "h": None, "z": None}, {"n": 2.5, "h": None, "z": 1}]
    text = shard("text.jsonl", '{"n": "x"}\n')
    with pytest.raises(DataError, match=r"text\.jsonl: its columns do not match those of whole\.jsonl: .*n"):
        read_files([whole, text])


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs a list of the process's mappings")
def test_counting_and_reading_a_large_file_leaves_no_mapping_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"a": i, "b": "text"} for i in range(9)]
    mapped, _ = both(tmp_path, rows, monkeypatch)
    assert (len(mapped), columns_of(mapped), list(iter_docs(mapped))) == (9, ["a", "b"], rows)
    home = str(tmp_path / "home")
    assert home not in Path("/proc/self/maps").read_text()
    assert mapped[7] == rows[7]
    assert home in Path("/proc/self/maps").read_text()


CALLS: list[dict[str, Any]] = [
    {"q": "12 + 30?", "call": {"name": "add", "arguments": {"b": 30, "a": 12}}},
    {"q": "Weather?", "call": {"name": "weather", "arguments": {"city": "Bonn", "day": None}}, "n": 1},
    {"n": 2.5, "q": "Nothing"},
]


@pytest.mark.parametrize("form", ["lines", "array", "gzip", "byte order mark", "two files"])
def test_rows_as_written_keep_their_types_their_keys_and_the_order_of_them(form: str, tmp_path: Path) -> None:
    lines = write(tmp_path, CALLS).read_bytes()
    paths = [tmp_path / ("rows.json" if form == "array" else "rows.jsonl.gz" if form == "gzip" else "rows.jsonl")]
    contents = {
        "array": json.dumps(CALLS).encode(),
        "gzip": gzip.compress(lines),
        "byte order mark": b"\xef\xbb\xbf" + lines,
    }
    paths[0].write_bytes(contents.get(form, lines))
    if form == "two files":
        paths.append(tmp_path / "docs.jsonl")
    expected = CALLS * len(paths)
    docs = read_files(paths, as_written=True)
    assert json.dumps([*iter_docs(docs)]) == json.dumps(expected)
    assert [docs[at] for at in range(-len(docs), len(docs))] == expected * 2
    assert [*iter_docs(docs, 2)] == expected[2:]
    assert columns_of(docs) == ["q", "call", "n"]
    assert docs["q"][:3] == [doc["q"] for doc in CALLS]
    assert len(as_dataset(docs)) == len(expected)


def test_a_file_that_changed_while_it_was_read_is_an_error(tmp_path: Path) -> None:
    docs = read_files([path := write(tmp_path, CALLS)], as_written=True)
    path.write_text("x" * path.stat().st_size)
    with pytest.raises(DataError, match="changed while it was being read"):
        docs[1]
