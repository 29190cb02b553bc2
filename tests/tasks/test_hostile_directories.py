"""Directories of strangers: what is not a regular file of a reasonable size is not read, and nothing hangs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from assay.config import load_yaml
from assay.errors import ConfigError
from assay.tasks import TaskManager

GOOD = "task: good\ndataset_path: json\noutput_type: generate_until\ndoc_to_text: x\ndoc_to_target: y\n"


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def pipe(path: Path) -> None:
    os.mkfifo(path)


def endless(path: Path) -> None:
    with open(path, "wb") as file:
        file.truncate(1 << 40)  # sparse


def folder(path: Path) -> None:
    path.mkdir()


def loop(path: Path) -> None:
    path.symlink_to(path)


def closed(path: Path) -> None:
    path.write_text(GOOD)
    path.chmod(0)


HOSTILE = [device, pipe, endless, folder, loop, closed]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    tasks = tmp_path / "tasks"
    tasks.mkdir()
    (tasks / "good.yaml").write_text(GOOD)
    return tasks


@pytest.mark.parametrize("make", HOSTILE)
def test_listing_goes_around_a_hostile_file(home: Path, make):
    make(home / "bad.yaml")
    assert "good" in TaskManager(include_path=[str(home)], include_defaults=False).index.entries


@pytest.mark.parametrize("make", [device, pipe, endless, folder, loop])
def test_a_hostile_include_is_an_error_that_names_it(home: Path, make):
    make(home / "base")
    (home / "bad.yaml").write_text("include: base\ntask: bad\n")
    with pytest.raises(ConfigError, match="base"):
        load_yaml(home / "bad.yaml")


@pytest.mark.parametrize("target", ["/dev/zero", "/dev/stdin", "/proc/self/mem", "/dev/tty"])
def test_an_include_of_a_device_is_refused(home: Path, target: str):
    (home / "bad.yaml").write_text(f"include: {target}\ntask: bad\n")
    with pytest.raises(ConfigError):
        load_yaml(home / "bad.yaml")


def test_a_link_that_leads_to_a_huge_tree_is_an_error(home: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("assay.tasks.index._MOST_FOLDERS", 50)
    (home / "everything").symlink_to("/")
    with pytest.raises(ConfigError, match="more than 50 directories"):
        _ = TaskManager(include_path=[str(home)], include_defaults=False).index
