"""The check at load is made once for the same weights, code and machine, and again when any of them changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.models.hf.conftest import make_network, make_tokenizer

from assay.models.hf import HFLM
from assay.models.hf.selfcheck import SelfCheck, self_check


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[SelfCheck]:
    """Those that were made."""
    made: list[SelfCheck] = []

    def counted(model: Any) -> SelfCheck:
        made.append(self_check(model))
        return made[-1]

    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("assay.models.hf.checks.self_check", counted)
    return made


def save(folder: Path) -> str:
    make_network("llama").save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    return str(folder)


def test_the_second_start_takes_the_outcome_of_the_first(tmp_path: Path, checks: list[SelfCheck]) -> None:
    place = save(tmp_path / "model")
    found = [HFLM(place, device="cpu").check for _ in range(2)]
    assert found == [checks[0]] * 2
    assert len(checks) == 1


def test_other_settings_and_other_weights_are_checked_anew(tmp_path: Path, checks: list[SelfCheck]) -> None:
    place = save(tmp_path / "model")
    HFLM(place, device="cpu")
    HFLM(place, device="cpu", dtype="float64")
    assert len(checks) == 2
    network = make_network("llama")
    network.lm_head.weight.data.add_(0.01)
    network.save_pretrained(place)
    HFLM(place, device="cpu")
    assert len(checks) == 3


def test_selftest_makes_it_again_and_keeps_what_it_finds(tmp_path: Path, checks: list[SelfCheck]) -> None:
    model = HFLM(save(tmp_path / "model"), device="cpu")
    list(model.own_checks(1e-3))
    assert len(checks) == 2
    HFLM(str(tmp_path / "model"), device="cpu")
    assert len(checks) == 2


def test_a_spoiled_outcome_is_made_anew(tmp_path: Path, checks: list[SelfCheck]) -> None:
    place = save(tmp_path / "model")
    HFLM(place, device="cpu")
    (kept,) = (tmp_path / "home" / "self-checks").iterdir()
    for text in ("", "[]", '{"unknown": 1}', '{"way": 1}'):
        kept.write_text(text)
        assert HFLM(place, device="cpu").check == checks[0]
    assert len(checks) == 5


def test_a_model_object_is_checked_every_time(checks: list[SelfCheck], tmp_path: Path) -> None:
    model = HFLM(make_network("llama"), tokenizer=make_tokenizer())
    assert model.check.difference is not None
    assert not (tmp_path / "home" / "self-checks").exists()
