"""Kept docs are found whatever the order they are asked in, and held only as long as they wait."""

from __future__ import annotations

import json
import os
import tracemalloc
from pathlib import Path

import pytest

from assay.instance import Instance
from assay.results import SampleRow, SampleWriter, read_samples
from assay.run.stored import StoredDocs


def write(path: Path, ids: list[int], filters: tuple[str, ...] = ("none",), text: str = "") -> Path:
    writer = SampleWriter(path)
    for i in ids:
        for name in filters:
            row = SampleRow(
                i,
                f"h{i}",
                f"r{i}",
                name,
                "{}",
                "0",
                f'[["{text}{i}","a"],[null,"b"]]',
                "[[[-1.5,true]],[[-2,false]]]",
                "[]",
            )
            writer.add(row)
    writer.close()
    return path


@pytest.mark.parametrize("asked", [[0, 1, 2, 3, 4], [4, 0, 2], [3, 2, 1, 0]])
def test_docs_are_found_in_any_order(tmp_path: Path, asked: list[int]) -> None:
    docs = StoredDocs(write(tmp_path / "t.parquet", [0, 1, 2, 3, 4], ("strict", "loose")))
    taken = [docs.take(i) for i in asked]
    assert [kept and kept.doc_hash for kept in taken] == [f"h{i}" for i in asked]
    assert docs.take(99) is None
    assert docs.take(asked[0]) is None


def test_answers_and_arguments_come_back_as_they_were(tmp_path: Path) -> None:
    kept = StoredDocs(write(tmp_path / "t.parquet", [7])).take(7)
    assert kept is not None
    instances = [Instance("loglikelihood", {}, (), i) for i in range(2)]
    assert not kept.give_answers([Instance("loglikelihood", {}, (), 2)]), "it had two requests"
    assert instances[0].resps == []
    assert kept.give_answers(instances)
    kept.give_arguments(instances)
    assert [instance.resps for instance in instances] == [[(-1.5, True)], [(-2, False)]]
    assert [instance.arguments for instance in instances] == [("7", "a"), ("7", "b")]


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    docs = StoredDocs(write(tmp_path / "t.parquet", list(range(20_000)), text="x" * 2000))
    docs.take(0)
    tracemalloc.start()
    try:
        for i in range(1, 20_000):
            docs.take(i)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 10 * 2**20  # the texts together are 40 MB


def test_lone_surrogates_are_kept_as_escapes(tmp_path: Path) -> None:
    writer = SampleWriter(tmp_path / "t.parquet")
    writer.add(SampleRow(0, "h", "r", "none", "{}", "0", "[]", '[["é\ud800"]]', "[]"))
    writer.close()
    [row] = read_samples(tmp_path / "t.parquet")
    assert json.loads(row["resps"]) == [["é\ud800"]]


def test_a_sample_file_is_on_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    real = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda file: steps.append("fsync") or real[0](file))
    monkeypatch.setattr(os, "replace", lambda a, b: steps.append("rename") or real[1](a, b))
    write(tmp_path / "t.parquet", [1])
    assert steps == ["fsync", "rename"]
