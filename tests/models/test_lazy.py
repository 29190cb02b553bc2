"""A model that is loaded only when it is asked something."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.errors import ModelError
from assay.instance import Instance
from assay.models import LM, MODELS, LazyLM, load_when_asked
from assay.models.dummy import DummyLM
from assay.models.hf import HFLM
from assay.models.lazy import spec_key


@pytest.fixture
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"12345678")
    return folder


class Loader:
    def __init__(self, seed: int = 0) -> None:
        self.seed, self.times = seed, 0

    def __call__(self) -> LM:
        self.times += 1
        return DummyLM(seed=self.seed)


def key_of(weights: Path) -> str:
    key = spec_key(HFLM, {"pretrained": str(weights)}, {"device": None})
    assert key is not None
    return key


def test_the_second_time_only_the_fingerprint_is_needed(weights: Path) -> None:
    first, second = Loader(), Loader()
    fingerprint = LazyLM(key_of(weights), first).fingerprint()
    assert LazyLM(key_of(weights), second).fingerprint() == fingerprint
    assert (first.times, second.times) == (1, 0)


def test_a_request_loads_it_once(weights: Path) -> None:
    loader = Loader()
    lm = LazyLM(key_of(weights), loader)
    request = Instance("loglikelihood", {}, ("a", " b"), 0)
    for _ in range(2):
        assert len(list(lm.stream("loglikelihood", [request], [0]))) == 1
    assert loader.times == 1


def test_changed_files_words_or_versions_are_another_model(weights: Path) -> None:
    before = key_of(weights)
    assert spec_key(HFLM, {"pretrained": str(weights), "dtype": "float16"}, {"device": None}) != before
    (weights / "model.safetensors").write_bytes(b"123456789")
    assert key_of(weights) != before


def test_what_cannot_be_told_from_files_is_never_lazy(weights: Path) -> None:
    assert spec_key(HFLM, {"pretrained": "no/such-model"}, {}) is None
    assert spec_key(MODELS["openai-chat"], {"pretrained": str(weights)}, {}) is None


def test_a_model_that_turns_out_different_is_an_error_and_forgotten(weights: Path) -> None:
    LazyLM(key_of(weights), Loader(seed=1)).fingerprint()
    lm = LazyLM(key_of(weights), Loader(seed=2))
    lm.fingerprint()
    with pytest.raises(ModelError, match="changed"):
        _ = lm.real
    assert LazyLM(key_of(weights), Loader(seed=2)).fingerprint() == DummyLM(seed=2).fingerprint()


def test_a_damaged_record_is_made_anew(weights: Path, tmp_path: Path) -> None:
    LazyLM(key_of(weights), Loader()).fingerprint()
    record = next((tmp_path / "home" / "known-models").iterdir())
    record.write_text("{")
    loader = Loader()
    LazyLM(key_of(weights), loader).fingerprint()
    assert loader.times == 1


def test_a_class_that_names_its_files_is_loaded_when_it_is_asked(
    weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class FromFiles(DummyLM):
        FILE_ARGUMENTS = ("pretrained",)
        loaded = 0

        def __init__(self, pretrained: str) -> None:
            super().__init__()
            FromFiles.loaded += 1

    monkeypatch.setitem(MODELS._entries, "from-files", FromFiles)
    arguments = {"pretrained": str(weights)}
    first = load_when_asked("from-files", arguments).info()
    assert load_when_asked("from-files", arguments).info() == first
    assert FromFiles.loaded == 1
    assert isinstance(load_when_asked("dummy", {}), DummyLM)
