"""Pipes and devices in place of the files of a run: whoever reads it ends in time, with a run or an error that names a file."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from tests.finished.test_damaged import read
from tests.finished.test_verbs_and_formats import GOOD, MAKERS

from assay.timelimit import within


def put(path: Path, kind: str) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path) if kind == "pipe" else path.symlink_to("/dev/zero")


@pytest.mark.parametrize("harness", MAKERS)
def test_a_pipe_in_place_of_a_file_is_not_waited_for(harness: str, tmp_path: Path) -> None:
    """Each kind of file, by its place and ending, of each format."""
    whole = MAKERS[harness][0](tmp_path / "whole", GOOD)
    files = sorted(file.relative_to(whole) for file in whole.rglob("*") if file.is_file())
    kinds = {(len(file.parts), file.name.rpartition("_")[2]): file for file in files}
    for number, (file, kind) in enumerate((file, kind) for file in kinds.values() for kind in ("pipe", "device")):
        run = tmp_path / str(number)
        shutil.copytree(whole, run)
        put(run / file, kind)
        said = within(5, lambda run=run: read(run))  # type: ignore[misc]
        assert said is None or str(run) in said, (file, kind)
        said = within(5, lambda run=run, file=file: read(run / file))  # type: ignore[misc]
        assert str(run) in str(said), (file, kind)


@pytest.mark.parametrize(
    "name", ["a.eval", "a.csv", "a.jsonl", "a.json", "a.parquet", "a.npz", "results_1.json", "a.assay", "a"]
)
def test_a_pipe_that_is_handed_over_is_not_waited_for(name: str, tmp_path: Path) -> None:
    for kind in ("pipe", "device"):
        put(tmp_path / name, kind)
        said = within(5, lambda: read(tmp_path / name))
        assert name in str(said)
