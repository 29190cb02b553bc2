"""`assay.evaluate(model=OBJECT)`: an object gets its own answers, never those of another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.seeds.parts import run, write_task

from assay.instance import Instance
from assay.models import LM
from assay.run import Progress


class Fixed(LM):
    """Always the same answer; nothing but an attribute tells two of them apart."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.asked = 0

    def generate_until(self, requests: list[Instance]) -> list[str]:
        self.asked += len(requests)
        return [self.text for _ in requests]

    def loglikelihood(self, requests: Any) -> Any: ...
    def loglikelihood_rolling(self, requests: Any) -> Any: ...


class Plain:
    """The same, of no class of ours."""

    def __init__(self, text: str) -> None:
        self.text = text

    def generate_until(self, requests: Any) -> list[str]:
        return [self.text for _ in requests]

    def loglikelihood(self, requests: Any) -> Any: ...
    def loglikelihood_rolling(self, requests: Any) -> Any: ...


class Said(Progress):
    def __init__(self) -> None:
        self.messages: list[str] = []

    def message(self, text: str) -> None:
        self.messages.append(text)


def accuracy(folder: Path, model: Any, **words: Any) -> float | None:
    return run(folder, ["sums"], model, **words)["sums"]["exact_match"].value


@pytest.mark.parametrize("kind", [Fixed, Plain])
def test_two_objects_of_one_class_do_not_share_answers(kind: Any, tmp_path: Path) -> None:
    write_task(tmp_path, "sums", "metric_list: [{metric: exact_match}]\n")
    assert accuracy(tmp_path, kind("2")) == 0.25
    assert accuracy(tmp_path, kind("no")) == 0.0


def test_a_message_says_once_that_nothing_is_reused(tmp_path: Path) -> None:
    write_task(tmp_path, "sums", "metric_list: [{metric: exact_match}]\n")
    model, said = Fixed("2"), Said()
    accuracy(tmp_path, model, progress=said)
    accuracy(tmp_path, model)
    assert model.asked == 8
    assert [text for text in said.messages if "fingerprint" in text] == [
        "Fixed has no fingerprint, so its answers are neither kept nor reused. "
        "Give its class a fingerprint() method whose value changes whenever its answers may change."
    ]


def test_an_object_with_a_fingerprint_reuses_its_answers(tmp_path: Path) -> None:
    class Named(Fixed):
        def fingerprint(self) -> str:
            return f"named-{self.text}"

    write_task(tmp_path, "sums", "metric_list: [{metric: exact_match}]\n")
    model, other = Named("2"), Named("no")
    assert [accuracy(tmp_path, each) for each in (model, model, other)] == [0.25, 0.25, 0.0]
    assert (model.asked, other.asked) == (4, 4)


def test_weights_inside_tell_objects_apart_also_after_training(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")

    class Counts(Fixed):
        """Says the sum of its weights."""

        def __init__(self) -> None:
            super().__init__("")
            self.inner = torch.nn.Linear(2, 1, bias=False)
            torch.nn.init.ones_(self.inner.weight)

        def generate_until(self, requests: list[Instance]) -> list[str]:
            self.asked_now = len(requests)
            return [str(round(self.inner.weight.sum().item())) for _ in requests]

    write_task(tmp_path, "sums", "metric_list: [{metric: exact_match}]\n")
    first, same = Counts(), Counts()
    assert accuracy(tmp_path, first) == 0.25
    assert first.fingerprint() != ""
    assert accuracy(tmp_path, same) == 0.25
    assert not hasattr(same, "asked_now"), "equal weights, equal answers"
    with torch.no_grad():
        first.inner.weight += 1
    assert accuracy(tmp_path, first) == 0.25
    assert first.asked_now == 4
    assert first.info().num_parameters == 2
