"""Windows over a long text, and their sums."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from assay.instance import Response
from assay.models.likelihoods import WindowSums, rolling_windows


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
