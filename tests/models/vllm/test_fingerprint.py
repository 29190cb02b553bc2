"""Kept answers are found again by the model that gave them, and by no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assay.models import load_model

OTHER_ANSWERS: list[dict[str, Any]] = [
    {"pretrained": "y"},
    {"revision": "v2"},
    {"tokenizer": "z"},
    {"dtype": "float16"},
    {"max_length": 32},
    {"max_gen_toks": 7},
    {"add_bos_token": True},
    {"prefix_token_id": 10},
    {"lora_local_path": "adapter"},
    {"think_end_token": "</think>"},
    {"seed": 5},
    {"gpu_memory_utilization": 0.5},
]


@pytest.mark.parametrize("change", OTHER_ANSWERS, ids=lambda change: next(iter(change)))
def test_whatever_changes_an_answer_changes_the_fingerprint(stand_in: None, change: dict[str, Any]) -> None:
    plain = {"pretrained": "x", "max_length": 64}
    first = load_model("vllm", plain).fingerprint()
    assert first == load_model("vllm", plain, batch_size=3).fingerprint()
    assert load_model("vllm", {**plain, **change}).fingerprint() != first


def test_a_chat_template_changes_prompts_not_the_model(stand_in: None) -> None:
    plain = {"pretrained": "x", "max_length": 64}
    templated = {**plain, "chat_template": "{{ messages }}", "chat_template_args": {"style": "short"}}
    assert load_model("vllm", templated).fingerprint() == load_model("vllm", plain).fingerprint()


@pytest.mark.parametrize("part", ["pretrained", "tokenizer", "lora_local_path"])
def test_other_files_under_the_same_name_are_another_model(stand_in: None, tmp_path: Path, part: str) -> None:
    place = tmp_path / "local"
    place.mkdir()
    (place / "model.safetensors").write_bytes(b"one")
    arguments = {"pretrained": "x", part: str(place)}
    first = load_model("vllm", arguments).fingerprint()
    assert first == load_model("vllm", arguments).fingerprint()
    (place / "model.safetensors").write_bytes(b"two")
    assert load_model("vllm", arguments).fingerprint() != first
