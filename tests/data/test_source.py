"""Docs from a mirror, from files, from the library and from code."""

from __future__ import annotations

import gzip
import json
import pickle
from pathlib import Path
from typing import Any

import datasets
import pytest

from assay.data import DataSource, mirror_dir
from assay.errors import DataError

ROWS = [{"q": "a\n", "n": 1, "list": ["x", "y"], "d": {"k": None}}, {"q": "ü", "n": 2, "list": [], "d": {"k": "v"}}]


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def test_mirror_rows_look_like_a_dataset_from_a_list(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "org/name/cfg/test.jsonl", ROWS)
    docs = DataSource("org/name", "cfg", data_dir=tmp_path)["test"]
    expected = datasets.Dataset.from_list(ROWS)
    assert docs.features == expected.features
    assert list(docs) == list(expected)


def test_default_config_and_every_file_form(tmp_path: Path) -> None:
    folder = tmp_path / "org/name/default"
    folder.mkdir(parents=True)
    plain = [{"q": "a, b", "n": 1}, {"q": "c", "n": 2}]
    (folder / "array.json").write_text(json.dumps(plain))
    datasets.Dataset.from_list(plain).to_parquet(folder / "columns.parquet")
    (folder / "commas.csv").write_text('q,n\n"a, b",1\nc,2\n')
    (folder / "tabs.tsv").write_text("q\tn\na, b\t1\nc\t2\n")
    with gzip.open(folder / "zipped.jsonl.gz", "wt") as file:
        file.writelines(json.dumps(row) + "\n" for row in plain)
    source = DataSource("org/name", data_dir=tmp_path)
    for split in ("array", "columns", "commas", "tabs", "zipped"):
        assert list(source[split]) == plain, split


def test_a_split_is_read_only_when_asked_for(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "d/default/test.jsonl", ROWS)
    (tmp_path / "d/default/train.jsonl").write_text("this is not JSON\n")
    source = DataSource("d", data_dir=tmp_path)
    assert len(source["test"]) == 2
    with pytest.raises(DataError, match=r"train\.jsonl, line 1: not JSON"):
        source["train"]


def test_data_files_of_the_hub_and_of_the_dataset(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "org/other/data/part.jsonl", ROWS[:1])
    write_jsonl(tmp_path / "org/own/a.jsonl", ROWS[:1])
    write_jsonl(tmp_path / "org/own/b.jsonl", ROWS[1:])
    hub = DataSource(
        "json", None, {"data_files": {"test": "hf://datasets/org/other@main/data/part.jsonl"}}, data_dir=tmp_path
    )
    assert len(hub["test"]) == 1
    listed = DataSource("org/own", None, {"data_files": {"test": ["a.jsonl", "b.jsonl"]}}, data_dir=tmp_path)
    assert [doc["n"] for doc in listed["test"]] == [1, 2]
    globbed = DataSource("org/own", None, {"data_files": "*.jsonl"}, data_dir=tmp_path)
    assert [doc["n"] for doc in globbed["train"]] == [1, 2]


def test_shards_of_a_split_are_one(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "d/default/test-00001-of-00002.jsonl", ROWS[1:])
    write_jsonl(tmp_path / "d/default/test-00000-of-00002.jsonl", ROWS[:1])
    assert [doc["n"] for doc in DataSource("d", data_dir=tmp_path)["test"]] == [1, 2]


def test_offline_and_not_in_the_mirror_names_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(DataError) as caught:
        DataSource("org/absent", "cfg", data_dir=tmp_path)["test"]
    assert str(tmp_path / "org/absent/cfg") in caught.value.message


def test_a_missing_split_lists_those_there_are(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "d/default/validation.jsonl", ROWS)
    with pytest.raises(DataError, match="no split 'validatoin'") as caught:
        DataSource("d", data_dir=tmp_path)["validatoin"]
    assert "validation" in str(caught.value.hint)


def test_local_files_need_no_mirror_even_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    file = write_jsonl(tmp_path / "somewhere/docs.jsonl", ROWS)
    source = DataSource("json", None, {"data_files": {"test": str(file)}}, data_dir=tmp_path / "mirror")
    assert [doc["q"] for doc in source["test"]] == ["a\n", "ü"]


def test_saved_to_disk(tmp_path: Path) -> None:
    datasets.DatasetDict({"test": datasets.Dataset.from_list(ROWS)}).save_to_disk(tmp_path / "saved")
    assert len(DataSource(str(tmp_path / "saved"))["test"]) == 2


def test_custom_dataset_gets_metadata_and_kwargs() -> None:
    def make(length: int, **kwargs: Any) -> dict[str, datasets.Dataset]:
        return {"test": datasets.Dataset.from_list([{"length": length, **kwargs}])}

    source = DataSource(None, None, {"seed": 7}, custom=make, metadata={"length": 4096})
    assert source["test"][0] == {"length": 4096, "seed": 7}


def test_custom_dataset_that_returns_no_splits() -> None:
    with pytest.raises(DataError, match="returned list"):
        DataSource(None, custom=list)["test"]


def test_rows_that_do_not_fit_together(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "d/default/test.jsonl", [{"a": 1}, {"a": "one"}])
    with pytest.raises(DataError, match="rows do not match"):
        DataSource("d", data_dir=tmp_path)["test"]


def test_a_row_that_is_no_object(tmp_path: Path) -> None:
    (tmp_path / "d/default").mkdir(parents=True)
    (tmp_path / "d/default/test.jsonl").write_text('{"a": 1}\n[1, 2]\n')
    with pytest.raises(DataError, match="line 2: found list"):
        DataSource("d", data_dir=tmp_path)["test"]


def test_provenance_names_revision_and_content(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "d/default/test.jsonl", ROWS)
    source = DataSource("d", None, {"revision": "abc"}, data_dir=tmp_path)
    source["test"]
    record = source.provenance()
    assert record["revision"] == "abc"
    assert len(record["splits"]["test"]["sha256"][0]) == 64


def test_mirror_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_DATA_DIR", str(tmp_path))
    assert mirror_dir() == tmp_path
    assert mirror_dir("given") == Path("given")
    monkeypatch.delenv("ASSAY_DATA_DIR")
    assert mirror_dir() is None


def test_a_pickle_is_not_loaded_as_data(tmp_path: Path) -> None:
    class Bait:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (tmp_path / "RAN",)

    (tmp_path / "docs.pkl").write_bytes(pickle.dumps(Bait()))
    source = DataSource("pandas", kwargs={"data_files": {"test": str(tmp_path / "docs.pkl")}})
    with pytest.raises(DataError, match="pickles"):
        source["test"]
    assert not (tmp_path / "RAN").exists()
