"""Kept answers are found again by the model that gave them, and by no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.models.vllm.conftest import Load, byte_tokenizer

OTHER_ANSWERS: list[dict[str, Any]] = [
    {"pretrained": "y"},
    {"revision": "v2"},
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


def test_whatever_changes_an_answer_changes_the_fingerprint(load: Load, tmp_path: Path) -> None:
    other = byte_tokenizer(tmp_path / "other")
    fingerprints = [load(max_length=64).fingerprint()]
    assert load(3, max_length=64).fingerprint() == fingerprints[0]
    for change in [*OTHER_ANSWERS, {"tokenizer": other}]:
        fingerprints.append(load(**{"max_length": 64, **change}).fingerprint())
    assert len(set(fingerprints)) == len(fingerprints)


def test_a_chat_template_changes_prompts_not_the_model(load: Load) -> None:
    templated = load(chat_template="{{ messages }}", chat_template_args={"style": "short"})
    assert templated.fingerprint() == load().fingerprint()


def test_other_files_under_the_same_name_are_another_model(load: Load, tmp_path: Path, tokenizer: str) -> None:
    place = Path(byte_tokenizer(tmp_path / "local"))
    (place / "model.safetensors").write_bytes(b"one")
    found = []
    for part in ("pretrained", "tokenizer", "lora_local_path"):
        (place / "model.safetensors").write_bytes(b"one")
        found += [load(**{part: str(place)}).fingerprint()]
        assert load(**{part: str(place)}).fingerprint() == found[-1]
        (place / "model.safetensors").write_bytes(b"two")
        found += [load(**{part: str(place)}).fingerprint()]
    assert len(set(found)) == 6
