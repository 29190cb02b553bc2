"""Labels among the likeliest first tokens, and by likelihoods; windows over a long text, and their sums."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay import RunResult, evaluate
from assay.cli import main
from assay.instance import Instance, Response
from assay.models import load_model
from assay.models.likelihoods import WindowSums, label_logprobs_of, log_sum, rolling_windows
from assay.store import request_key


def test_all_forms_of_a_label_count_together() -> None:
    tops = {"A": math.log(0.1), " A": math.log(0.2), "a": math.log(0.05), "▁B": math.log(0.3), "Ġb": math.log(0.1)}
    (a, a_listed), (b, b_listed) = label_logprobs_of(tops, ["A", "B"])
    assert (a_listed, b_listed) == (True, True)
    assert (math.exp(a), math.exp(b)) == pytest.approx((0.35, 0.4))


@given(st.lists(st.floats(0.001, 1.0), min_size=3, max_size=26), st.integers(1, 25))
def test_the_bound_of_an_unlisted_label_is_never_below_its_probability(weights: list[float], size: int) -> None:
    total = sum(weights)
    labels = [chr(ord("A") + i) for i in range(len(weights))]
    truth = {label: math.log(weight / total) for label, weight in zip(labels, weights)}
    listed = dict(sorted(truth.items(), key=lambda item: -item[1])[:size])
    for label, (ll, is_listed) in zip(labels, label_logprobs_of(listed, labels)):
        assert is_listed == (label in listed)
        assert ll == pytest.approx(truth[label]) if is_listed else ll >= truth[label] - 1e-9


def test_a_model_with_likelihoods_gives_them_too() -> None:
    model = load_model("dummy", {})
    (found,) = model.letters([Instance("letters", {}, ("Question\nAnswer:", ("A", "B")), 0)])
    forms = [Instance("loglikelihood", {}, ("Question\nAnswer:", form), 0) for form in (" B", "B", " b", "b")]
    assert found[1] == (pytest.approx(log_sum([ll for ll, _ in model.loglikelihood(forms)])), True)


BEFORE = Path(__file__).parent / "stored_letters"
"""A run of a task of this kind, its answers in a store and its seal, from when the class was still called `letters`."""


def test_the_stored_name_is_letters() -> None:
    key = request_key("dummy-1:0", "letters", ("What is it?", ["A", "B"]))
    assert key.hex() == "2a340cd242cfc5a9f45d918705eab8bc099ab7c1fe996e8e36beb2e6fc67bf40"


def test_answers_from_before_are_used_and_the_run_from_before_opens(tmp_path: Path) -> None:
    shutil.copytree(BEFORE, tmp_path, dirs_exist_ok=True)
    old = RunResult.load(tmp_path / "run")
    new = evaluate(
        model="dummy",
        tasks=["capital"],
        include_path=[str(tmp_path)],
        store=str(tmp_path / "answers.sqlite"),
        run_dir=str(tmp_path / "new"),
    )
    counts = json.loads((tmp_path / "new" / "run.json").read_text())["counts"]
    assert (counts["computed"], counts["reused"]) == (0, 3)
    columns = ["doc_id", "doc_hash", "request_hash", "arguments", "resps", "metric:acc"]
    assert new.samples("capital", arrow=True).select(columns) == old.samples("capital", arrow=True).select(columns)
    assert code_of("score", str(tmp_path / "run"), "--run_dir", str(tmp_path / "scored")) == 0
    scored = RunResult.load(tmp_path / "scored").samples("capital", arrow=True)
    assert scored.select(columns) == old.samples("capital", arrow=True).select(columns)


def code_of(*words: str) -> int:
    with pytest.raises(SystemExit) as left:
        main(words)
    return int(left.value.code or 0)


def test_a_seal_from_before_is_verified(capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of("verify", str(BEFORE / "bundle.zip")) == 0
    assert "seal cda7053db111b44f8aabe910a9af08fe0634e02cc4e6d5c361e4fa0129e1efde" in capsys.readouterr().out


@given(st.integers(0, 40), st.integers(1, 12))
def test_windows_predict_each_token_once(count: int, length: int) -> None:
    tokens = list(range(count))
    windows = rolling_windows(tokens, -1, length)
    assert [token for _, targets in windows for token in targets] == tokens
    text = [-1, *tokens]
    for context, targets in windows:
        read = (context + targets)[:-1]
        assert len(read) <= length
        end = targets[-1] + 1
        assert read == text[end - len(read) : end], "each window reads what comes right before"


@given(st.permutations(range(6)))
def test_the_order_of_arrival_changes_no_digit(order: list[int]) -> None:
    values = [0.1, 1e16, -1e16, 0.3, 7.0, 0.2]
    sums = WindowSums([0, 0, 0, 0, 1, 1])
    found = [sums.add(window, Response((values[window], True), tokens=(0, 2))) for window in order]
    whole = dict(answer for answer in found if answer is not None)
    assert {text: (answer.answer, answer.tokens) for text, answer in whole.items()} == {
        0: (sum(values[:4]), (0, 8)),
        1: (7.2, (0, 4)),
    }


def test_a_text_with_a_lost_window_is_lost_with_the_reason_of_the_first() -> None:
    sums = WindowSums([7, 7, 7])
    assert sums.add(2, Response(None, failure="later")) is None
    assert sums.add(0, Response((1.0, True))) is None
    assert sums.add(1, Response(None, failure="earlier")) == (7, Response(None, failure="earlier"))
