"""Labels among the likeliest first tokens, and by likelihoods."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.instance import Instance
from assay.models import load_model
from assay.models.letters import letters_of, log_sum


def test_all_forms_of_a_label_count_together() -> None:
    tops = {"A": math.log(0.1), " A": math.log(0.2), "a": math.log(0.05), "▁B": math.log(0.3), "Ġb": math.log(0.1)}
    (a, a_listed), (b, b_listed) = letters_of(tops, ["A", "B"])
    assert (a_listed, b_listed) == (True, True)
    assert (math.exp(a), math.exp(b)) == pytest.approx((0.35, 0.4))


@given(st.lists(st.floats(0.001, 1.0), min_size=3, max_size=26), st.integers(1, 25))
def test_the_bound_of_an_unlisted_label_is_never_below_its_probability(weights: list[float], size: int) -> None:
    total = sum(weights)
    labels = [chr(ord("A") + i) for i in range(len(weights))]
    truth = {label: math.log(weight / total) for label, weight in zip(labels, weights)}
    listed = dict(sorted(truth.items(), key=lambda item: -item[1])[:size])
    for label, (ll, is_listed) in zip(labels, letters_of(listed, labels)):
        assert is_listed == (label in listed)
        assert ll == pytest.approx(truth[label]) if is_listed else ll >= truth[label] - 1e-9


def test_a_model_with_likelihoods_gives_letters_too() -> None:
    model = load_model("dummy", {})
    (found,) = model.letters([Instance("letters", {}, ("Question\nAnswer:", ("A", "B")), 0)])
    forms = [Instance("loglikelihood", {}, ("Question\nAnswer:", form), 0) for form in (" B", "B", " b", "b")]
    assert found[1] == (pytest.approx(log_sum([ll for ll, _ in model.loglikelihood(forms)])), True)
