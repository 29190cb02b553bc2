"""A run directory may be anybody's: one bad run is one bad row of the list."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from assay.errors import DataError
from assay.view.library import Library

BAD = {
    "empty": "",
    "not JSON": "{",
    "a list": "[]",
    "a number": "7",
    "null": "null",
    "deep": "[" * 100_000,
    "deep objects": '{"a":' * 100_000,
    "wrong types": '{"results": 7, "assay": {"tasks": [1, 2]}}',
    "huge number": '{"date": 1' + "0" * 400 + "}",
    "not UTF-8": "\udcff",
    "NaN": '{"date": NaN, "seconds": {"total": Infinity}}',
    "nested nulls": '{"model": null, "config": null, "counts": {"docs_done": null}}',
}


def make_run(root: Path, name: str) -> Path:
    run = root / name
    run.mkdir()
    (run / "run.json").write_text('{"status": "finished", "date": 1700000000.0}')
    return run


@pytest.mark.parametrize("file", ["run.json", "results.json", "progress.json"])
@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_a_malformed_file_spoils_one_row_only(tmp_path: Path, file: str, text: str):
    make_run(tmp_path, "good")
    (make_run(tmp_path, "bad") / file).write_bytes(text.encode("utf-8", "surrogateescape"))
    library = Library([tmp_path], tmp_path / ".scratch")
    summaries = {run.name: library.summary(run) for run in library.runs()}
    assert set(summaries) == {"good", "bad"}
    assert summaries["good"].problem is None or not summaries["good"].problem


@pytest.mark.parametrize("kind", ["pipe", "device", "endless", "folder"])
@pytest.mark.parametrize("file", ["run.json", "results.json", "progress.json"])
def test_what_is_no_regular_file_neither_hangs_nor_fills_the_memory(tmp_path: Path, file: str, kind: str):
    make_run(tmp_path, "good")
    path = make_run(tmp_path, "bad") / file
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        with open(path, "wb") as sparse:
            sparse.truncate(1 << 40)
    library = Library([tmp_path], tmp_path / ".scratch")
    assert "good" in {run.name for run in library.runs() if library.summary(run) is not None}


@pytest.mark.parametrize("kind", ["pipe", "device", "not JSON"])
@pytest.mark.parametrize(
    ("run", "part"),
    [
        ("results_2026-01-01T00-00-00.json", "samples_t_2026-01-01T00-00-00.jsonl"),
        ("log.eval", "log.eval"),
        ("details_t_2026-01-01T00-00-00.parquet", "details_t_2026-01-01T00-00-00.parquet"),
    ],
)
def test_files_of_other_harnesses_spoil_one_row_only(tmp_path: Path, run: str, part: str, kind: str):
    make_run(tmp_path, "good")
    bad = tmp_path / "bad"
    bad.mkdir()
    (bad / run).write_text('{"results": {"t": {"acc,none": 1}}, "configs": {"t": {}}}')
    (bad / part).unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(bad / part)
    elif kind == "device":
        (bad / part).symlink_to("/dev/zero")
    else:
        (bad / part).write_text("{")
    library = Library([tmp_path], tmp_path / ".scratch")
    for entry in library.runs():
        library.summary(entry)
        if entry.name != "good":
            with pytest.raises(DataError):
                library.results(entry)
