"""Choice metrics: the preferred choice, and confidence in it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import pytest

from assay.errors import ScoringError
from assay.metrics import AGGREGATIONS, METRICS, Normalisation, normalise


@dataclass
class Doc:
    """A choice result made by hand."""

    lls: list[float]
    target: int | list[int]
    choices: list[str] = field(default_factory=list)
    is_greedy: list[bool] = field(default_factory=list)
    token_lens: list[int] = field(default_factory=list)
    lls_mutual_info: list[float] = field(default_factory=list)

    def __post_init__(self):
        self.choices = self.choices or [f"c{i}" for i in range(len(self.lls))]
        self.is_greedy = self.is_greedy or [False] * len(self.lls)
        self.char_lens = [len(c) for c in self.choices]
        self.byte_lens = [len(c.encode()) for c in self.choices]
        self.scored_bytes: list[int] = []


def score(name, doc, **kwargs):
    return METRICS[name].form("choice")(doc, **kwargs)


def test_accuracy_compares_what_it_normalises():
    doc = Doc([-4.0, -6.0], 1, ["no", "certainly"], token_lens=[1, 3], lls_mutual_info=[-1.0, -2.0])
    assert score("acc", doc) == 0.0
    assert score("acc_norm", doc) == 1.0
    assert score("acc_bytes", doc) == 1.0
    assert score("acc_tokens", doc) == 1.0
    assert score("acc_mutual_info", doc) == 0.0


def test_characters_are_not_bytes():
    doc = Doc([-6.0, -4.0], 0, ["日本語", "abc"])
    assert score("acc_norm", doc) == 0.0
    assert score("acc_bytes", doc) == 1.0


def test_ties_go_to_the_first_choice():
    assert score("acc", Doc([-1.0, -1.0], 0)) == 1.0
    assert score("acc", Doc([-1.0, -1.0], 1)) == 0.0


def test_any_of_several_right_choices_will_do():
    doc = Doc([-3.0, -1.0, -2.0], [1, 2], is_greedy=[False, False, True])
    assert score("acc", doc) == 1.0
    assert score("exact_match", doc) == 1


def test_a_target_that_does_not_exist_is_never_right():
    doc = Doc([-3.0, -1.0], -1, is_greedy=[True, True])
    assert score("acc", doc) == score("exact_match", doc) == score("prob_mass", doc) == 0.0


def test_an_empty_choice_is_not_preferred_by_its_length():
    assert score("acc_norm", Doc([-1.0, -8.0], 1, ["", "long"])) == 1.0


def test_token_lengths_must_be_known():
    with pytest.raises(ScoringError, match="number of tokens"):
        score("acc_tokens", Doc([-1.0], 0))
    with pytest.raises(ScoringError, match="without context"):
        normalise(Doc([-1.0], 0), Normalisation.MUTUAL_INFORMATION)


def test_confusion_metrics_need_one_right_choice():
    assert score("f1", Doc([-2.0, -1.0], 0)) == (0, 1)
    for name in ("f1", "mcc", "brier_score"):
        with pytest.raises(ScoringError, match="one right choice"):
            score(name, Doc([-2.0, -1.0], [0, 1]))


def from_probabilities(p, target, **more):
    return Doc([math.log(x) for x in p], target, **more)


def test_confidence_with_i_dont_know():
    """The case of eval-framework's defect: p("I don't know") must count under any wording of that choice."""
    doc = from_probabilities([0.6, 0.2, 0.2], 0, choices=["ab", "cd", " ?"])
    assert score("prob_mass", doc) == pytest.approx(0.6)
    assert score("distributional_correctness", doc, normalisation="none") == pytest.approx((0.6 - 0.2) * 0.8)
    assert score("ternary_score", doc) == 1.0
    assert score("ternary_score", from_probabilities([0.2, 0.2, 0.6], 0)) == 0.0
    assert score("ternary_score", from_probabilities([0.2, 0.6, 0.2], 0), penalty=0.5) == -0.5
    assert score("confidence_weighted_acc", doc, normalisation="none") == pytest.approx(0.6)
    assert score("confidence_weighted_acc", from_probabilities([0.2, 0.8], 0, choices=["a", "b"])) == 0.0


def test_choices_with_i_dont_know_are_compared_by_loglikelihood_per_character():
    """As the definitions say that they cite: a long right answer is not beaten by a short wrong one."""
    doc = Doc([-4.0, -3.0, -9.0], 0, choices=["four", "a", "unknown.."])  # per character −1, −3, −1
    assert score("acc", doc) == 0.0
    assert score("ternary_score", doc) == 1.0
    assert score("ternary_score", doc, normalisation="none") == -1.0
    p = np.exp([-1.0, -3.0, -1.0])
    right, wrong, unknown = p / p.sum()
    assert score("distributional_correctness", doc) == pytest.approx((right - wrong) * (1 - unknown))


def test_probabilities_do_not_underflow():
    assert score("prob_mass", Doc([-5000.0, -5001.0], 0)) == pytest.approx(1 / (1 + math.exp(-1)))


def test_impossible_choices_are_an_error_where_probabilities_are_needed():
    with pytest.raises(ScoringError, match="probability zero"):
        score("prob_mass", Doc([-math.inf, -math.inf], 0))


def test_bits_per_byte_of_the_right_choice():
    doc = Doc([-8 * math.log(2), -1.0], 0, ["abcd", "x"])
    assert score("gold_bits_per_byte", doc) == pytest.approx(2.0)
    assert score("bits_per_byte", doc) == (doc.lls[0], 4)
    with pytest.raises(ScoringError, match="no right choice"):
        score("gold_bits_per_byte", Doc([-1.0], -1))


def test_calibration_error_of_a_calibrated_and_of_a_boastful_model():
    calibrated = [(0.75, 1)] * 3 + [(0.75, 0)]
    assert AGGREGATIONS["expected_calibration_error"].fn(calibrated) == pytest.approx(0.0)
    assert AGGREGATIONS["expected_calibration_error"].fn([(1.0, 0)] * 4) == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["acc", "acc_norm", "acc_bytes"])
def test_batches_agree_with_single_docs(name):
    from assay.metrics import ChoiceBatch

    rng = np.random.default_rng(1)
    docs = [
        Doc(
            np.round(rng.normal(-5, 2, 4), 1).tolist(),
            int(rng.integers(-1, 4)),
            ["a" * int(n) + "é" for n in rng.integers(0, 6, 4)],
        )
        for _ in range(300)
    ]
    gold = np.zeros((300, 4), dtype=bool)
    for row, doc in enumerate(docs):
        if doc.target >= 0:
            gold[row, doc.target] = True
    batch = ChoiceBatch(
        *(np.array(x, dtype=float) for x in ([d.lls for d in docs],)),
        gold,
        np.array([d.char_lens for d in docs], dtype=float),
        np.array([d.byte_lens for d in docs], dtype=float),
    )
    assert METRICS[name].batch(batch).tolist() == [score(name, doc) for doc in docs]
