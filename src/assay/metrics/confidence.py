"""Metrics of how a model spreads its confidence over the choices, with or without an "I don't know" among them.

Definitions follow eval-framework, except that softmax is shifted (nothing underflows) and the probability of "I don't
know" is the one of the last choice, whatever its wording.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from assay.errors import ScoringError
from assay.metrics.base import AGGREGATIONS, METRICS, ChoiceResult, Metric
from assay.metrics.choice import Normalisation, golds, normalise, preferred, softmax
from assay.stats import Aggregation, Floats

BINS = 15
"""Equal-width confidence bins of the calibration error, as in Guo et al. 2017."""


def probabilities(result: ChoiceResult, by: Normalisation | str) -> Floats:
    return softmax(normalise(result, by))


def probability_mass(result: ChoiceResult, *, normalisation: Normalisation | str = Normalisation.NONE) -> float:
    """Share of probability on the right choices."""
    return float(probabilities(result, normalisation)[golds(result)].sum())


def normalised_probability_mass(result: ChoiceResult) -> float:
    return probability_mass(result, normalisation=Normalisation.CHARACTERS)


def confidence_weighted_accuracy(
    result: ChoiceResult, *, normalisation: Normalisation | str = Normalisation.CHARACTERS
) -> float:
    """The probability of the preferred choice if it is right, else 0."""
    p = probabilities(result, normalisation)
    best = int(p.argmax())
    return float(p[best]) if best in golds(result) else 0.0


def ternary_score(
    result: ChoiceResult,
    *,
    reward: float = 1.0,
    penalty: float = 1.0,
    normalisation: Normalisation | str = Normalisation.CHARACTERS,
) -> float:
    """`reward` for a right choice, 0 for "I don't know" (the last choice), −`penalty` for a wrong one (Kalai et al. 2025).

    Choices are compared by loglikelihood per character, as eval-framework does; `normalisation: none` compares them whole.
    """
    best = preferred(result, normalisation)
    if best in golds(result):
        return reward
    return 0.0 if best == len(result.choices) - 1 else -penalty


def distributional_correctness(
    result: ChoiceResult,
    *,
    reward: float = 1.0,
    penalty: float = 1.0,
    normalisation: Normalisation | str = Normalisation.CHARACTERS,
) -> float:
    """(reward·p(right) − penalty·p(wrong)) · (1 − p("I don't know")), where the last choice is "I don't know" (Burns 2025).

    Probabilities are of loglikelihoods per character, as in eval-framework; `normalisation: none` takes them whole.
    """
    if not reward >= penalty >= 0:
        raise ScoringError(f"distributional_correctness: reward {reward} ≥ penalty {penalty} ≥ 0 does not hold")
    p = probabilities(result, normalisation)
    idk = float(p[-1])
    right = float(p[golds(result)].sum())
    return (reward * right - penalty * (1 - right - idk)) * (1 - idk)


def confidence_and_correctness(
    result: ChoiceResult, *, normalisation: Normalisation | str = Normalisation.NONE
) -> tuple[float, int]:
    p = probabilities(result, normalisation)
    best = int(p.argmax())
    return float(p[best]), int(best in golds(result))


def _calibration_statistics(pairs: Sequence[tuple[float, int]]) -> Floats:
    """Per doc and bin: confidence minus correctness in the doc's bin; and a column that counts docs."""
    confidence, correct = np.asarray(pairs, dtype=np.float64).T
    table = np.zeros((len(confidence), BINS + 1))
    bins = np.clip(np.ceil(confidence * BINS).astype(int) - 1, 0, BINS - 1)
    table[np.arange(len(confidence)), bins] = confidence - correct
    table[:, BINS] = 1.0
    return table


def _calibration_finish(sums: Floats) -> Floats:
    error: Floats = np.abs(sums[..., :BINS]).sum(-1) / sums[..., BINS]
    return error


def expected_calibration_error(pairs: Sequence[tuple[float, int]]) -> float:
    """Σ over bins of |Σ confidence − Σ correct| / n."""
    return float(_calibration_finish(_calibration_statistics(pairs).sum(axis=0)))


AGGREGATIONS.add(
    "expected_calibration_error",
    Aggregation("expected_calibration_error", expected_calibration_error, _calibration_statistics, _calibration_finish),
)
for _metric in (
    Metric("prob_mass", probability_mass, "choice", binary=False),
    Metric("prob_mass_norm", normalised_probability_mass, "choice", binary=False),
    Metric("confidence_weighted_acc", confidence_weighted_accuracy, "choice", binary=False),
    Metric("ternary_score", ternary_score, "choice", binary=False),
    Metric("distributional_correctness", distributional_correctness, "choice", binary=False),
    Metric("ece", confidence_and_correctness, "choice", "expected_calibration_error", higher_is_better=False),
):
    METRICS.add(_metric.name, _metric)
