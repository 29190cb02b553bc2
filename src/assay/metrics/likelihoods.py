"""Metrics of loglikelihoods: which choice the model prefers, normalised by length or not, how it spreads its confidence over the
choices, and the perplexity and bits per byte of texts.

Ties go to the choice that comes first. A doc may have several right choices (`target` is a list).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from typing import Any

import numpy as np

from assay.errors import ScoringError
from assay.metrics.base import AGGREGATIONS, METRICS, ChoiceBatch, ChoiceResult, Metric, passed_through
from assay.stats import Aggregation, Floats


class Normalisation(Enum):
    """How a choice's loglikelihood is normalised before choices are compared."""

    NONE = "none"
    CHARACTERS = "characters"
    BYTES = "bytes"
    TOKENS = "tokens"
    MUTUAL_INFORMATION = "mutual_information"


def normalise(result: ChoiceResult, by: Normalisation | str = Normalisation.NONE) -> Floats:
    """The comparable scores of a doc's choices.

    Lengths are those of the choices as the task words them, without the delimiter before them.
    """
    lls = np.asarray(result.lls, dtype=np.float64)
    match Normalisation(by):
        case Normalisation.NONE:
            return lls
        case Normalisation.CHARACTERS:
            return divide(lls, np.asarray(result.char_lens, dtype=np.float64))
        case Normalisation.BYTES:
            return divide(lls, np.asarray(result.byte_lens, dtype=np.float64))
        case Normalisation.TOKENS:
            if len(result.token_lens) != len(lls):
                raise ScoringError(
                    "normalising by tokens needs the number of tokens of each choice, which the model does not report",
                    hint="Use characters or bytes, or a backend with a tokenizer.",
                )
            return divide(lls, np.asarray(result.token_lens, dtype=np.float64))
        case Normalisation.MUTUAL_INFORMATION:
            if len(result.lls_mutual_info) != len(lls):
                raise ScoringError(
                    "mutual information needs the loglikelihood of each choice without context",
                    hint="List the metric acc_mutual_info in the task, so that those requests are made.",
                )
            return np.asarray(result.lls_mutual_info, dtype=np.float64)


def divide(lls: Floats, lengths: Floats) -> Floats:
    """An empty choice has no length to divide by: it gets −∞ and is never chosen, unless it was certain."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return lls / lengths


def softmax(scores: Floats) -> Floats:
    """Probabilities of the choices against each other; shifted by the largest so that nothing underflows to 0/0."""
    largest = scores.max()
    if not np.isfinite(largest):
        raise ScoringError("every choice has probability zero, so there are no probabilities to compare")
    shifted = np.exp(scores - largest)
    probabilities: Floats = shifted / shifted.sum()
    return probabilities


def golds(result: ChoiceResult) -> list[int]:
    """Indices of right choices that exist; an index beyond the choices is never right."""
    targets = result.target if isinstance(result.target, list) else [result.target]
    return [int(i) for i in targets if 0 <= i < len(result.choices)]


def one_gold(result: ChoiceResult, metric: str) -> int:
    """The index of the right choice, for metrics that are defined for exactly one."""
    if isinstance(result.target, list):
        raise ScoringError(f"{metric} needs one right choice, but the doc has {len(result.target)}")
    return int(result.target)


def preferred(result: ChoiceResult, by: Normalisation | str = Normalisation.NONE) -> int:
    return int(np.argmax(normalise(result, by)))


def accuracy(result: ChoiceResult, *, normalisation: Normalisation | str = Normalisation.NONE) -> float:
    return 1.0 if preferred(result, normalisation) in golds(result) else 0.0


def choice_exact_match(result: ChoiceResult) -> int:
    """Whether greedy decoding would have written a right choice."""
    return int(any(result.is_greedy[i] for i in golds(result)))


def confusion_cell(metric: str, result: ChoiceResult) -> tuple[int, int]:
    return one_gold(result, metric), preferred(result)


def brier(result: ChoiceResult) -> tuple[int, Floats]:
    gold = one_gold(result, "brier_score")
    if not 0 <= gold < len(result.choices):
        raise ScoringError(
            f"brier_score: the right choice is number {gold}, but there are {len(result.choices)} choices"
        )
    return gold, softmax(np.asarray(result.lls, dtype=np.float64))


def likelihood(result: ChoiceResult) -> tuple[Any, tuple[float, ...]]:
    return result.target, tuple(result.lls)


def gold_loglikelihood(result: ChoiceResult) -> float:
    return float(result.lls[one_real_gold(result, "logprob")])


def gold_share(result: ChoiceResult) -> float:
    """The log-probability of the right choice among the choices."""
    return float(np.log(softmax(np.asarray(result.lls, dtype=np.float64))[one_real_gold(result, "choice_logprob")]))


def gold_share_by_byte(result: ChoiceResult) -> float:
    """The probability of the right choice among the choices, with each loglikelihood divided by the bytes sent."""
    sizes = result.scored_bytes or result.byte_lens
    scores = divide(np.asarray(result.lls, dtype=np.float64), np.asarray(sizes, dtype=np.float64))
    return float(softmax(scores)[one_real_gold(result, "choice_prob_norm")])


def log_gold_share_by_byte(result: ChoiceResult) -> float:
    return float(np.log(gold_share_by_byte(result)))


def one_real_gold(result: ChoiceResult, metric: str) -> int:
    """The first right choice that is among the choices."""
    found = golds(result)
    if not found:
        raise ScoringError(f"{metric}: none of the {len(result.choices)} choices is right")
    return found[0]


def _batch_accuracy(scores: Callable[[ChoiceBatch], Floats], batch: ChoiceBatch) -> Floats:
    best = scores(batch).argmax(axis=1)
    right: Floats = batch.gold[np.arange(len(best)), best].astype(np.float64)
    return right


def _accuracy(name: str, by: Normalisation, scores: Callable[[ChoiceBatch], Floats] | None, **more: Any) -> Metric:
    batch = None if scores is None else partial(_batch_accuracy, scores)
    return Metric(name, partial(accuracy, normalisation=by), "choice", batch=batch, binary=True, **more)


def greedy(result: tuple[float, bool]) -> int:
    return int(result[1])


# Confidence, with or without an "I don't know" among the choices. Definitions follow eval-framework, except that softmax is
# shifted (nothing underflows) and the probability of "I don't know" is the one of the last choice, whatever its wording.

BINS = 15
"""Equal-width confidence bins of the calibration error, as in Guo et al. 2017."""


def probabilities(result: ChoiceResult, by: Normalisation | str) -> Floats:
    scores = normalise(result, by)
    # An empty choice that is certain: nothing of it was unlikely, however long it is not.
    return softmax(np.where(np.isnan(scores) & (np.asarray(result.lls) == 0), 0.0, scores))


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


# Perplexities and bits per byte: of a text, and of the right choice.

_SPACE = re.compile(r"\s+")


def count_words(text: str) -> int:
    """Pieces between runs of white space; white space at an end adds an empty piece, as in lm-evaluation-harness."""
    return len(_SPACE.split(text))


def count_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def loglikelihood(result: tuple[float, bool]) -> float:
    return result[0]


def by_words(result: tuple[float, str]) -> tuple[float, int]:
    return result[0], count_words(result[1])


def by_bytes(result: tuple[float, str]) -> tuple[float, int]:
    return result[0], count_bytes(result[1])


def gold_bits(result: ChoiceResult) -> tuple[float, int]:
    """(loglikelihood, bytes) of the first right choice, as the model was asked to write it."""
    first = golds(result)[:1]
    sizes = result.scored_bytes or result.byte_lens
    if not first or sizes[first[0]] == 0:
        raise ScoringError("bits per byte of the right choice: the doc has no right choice with any text")
    return result.lls[first[0]], sizes[first[0]]


def gold_bits_per_byte(result: ChoiceResult) -> float:
    ll, size = gold_bits(result)
    return -ll / (size * math.log(2))


def target_bits_per_byte(result: Any) -> float:
    size = count_bytes(result.text)
    if size == 0:
        raise ScoringError("bits per byte: the target has no text")
    return -float(result[0]) / (size * math.log(2))


AGGREGATIONS.add(
    "expected_calibration_error",
    Aggregation("expected_calibration_error", expected_calibration_error, _calibration_statistics, _calibration_finish),
)

_IN_GENERATION: dict[Any, Callable[..., Any]] = {"generation": passed_through}

for _metric in (
    _accuracy("acc", Normalisation.NONE, lambda b: b.lls, forms={"loglikelihood": greedy, **_IN_GENERATION}),
    _accuracy("acc_norm", Normalisation.CHARACTERS, lambda b: divide(b.lls, b.char_lens), forms=_IN_GENERATION),
    _accuracy("acc_bytes", Normalisation.BYTES, lambda b: divide(b.lls, b.byte_lens), forms=_IN_GENERATION),
    _accuracy("acc_tokens", Normalisation.TOKENS, None),
    _accuracy("acc_mutual_info", Normalisation.MUTUAL_INFORMATION, None, forms=_IN_GENERATION),
    Metric("f1", partial(confusion_cell, "f1"), "choice", "f1", forms=_IN_GENERATION),
    Metric("mcc", partial(confusion_cell, "mcc"), "choice", "matthews_corrcoef", forms=_IN_GENERATION),
    Metric("brier_score", brier, "choice", "brier_score", higher_is_better=False, forms=_IN_GENERATION),
    Metric("exact_match_mc", choice_exact_match, "choice", binary=True),
    Metric("logprob", gold_loglikelihood, "choice", binary=False, forms={"loglikelihood": loglikelihood}),
    Metric("choice_logprob", gold_share, "choice", binary=False),
    Metric("choice_prob_norm", gold_share_by_byte, "choice", binary=False),
    Metric("choice_logprob_norm", log_gold_share_by_byte, "choice", binary=False),
    Metric("likelihood", likelihood, "choice", binary=False, forms=_IN_GENERATION),
    Metric("prob_mass", probability_mass, "choice", binary=False),
    Metric("prob_mass_norm", normalised_probability_mass, "choice", binary=False),
    Metric("confidence_weighted_acc", confidence_weighted_accuracy, "choice", binary=False),
    Metric("ternary_score", ternary_score, "choice", binary=False),
    Metric("distributional_correctness", distributional_correctness, "choice", binary=False),
    Metric("ece", confidence_and_correctness, "choice", "expected_calibration_error", higher_is_better=False),
    Metric("perplexity", loglikelihood, "loglikelihood", "perplexity", False, forms=_IN_GENERATION),
    Metric("word_perplexity", by_words, "rolling", "weighted_perplexity", False, forms=_IN_GENERATION),
    Metric("byte_perplexity", by_bytes, "rolling", "weighted_perplexity", False, forms=_IN_GENERATION),
    Metric("bits_per_byte", by_bytes, "rolling", "bits_per_byte", False, forms={**_IN_GENERATION, "choice": gold_bits}),
    Metric("gold_bits_per_byte", gold_bits_per_byte, "choice", higher_is_better=False, binary=False),
    Metric(
        "bpb",
        gold_bits_per_byte,
        "choice",
        higher_is_better=False,
        binary=False,
        forms={"loglikelihood": target_bits_per_byte},
    ),
):
    METRICS.add(_metric.name, _metric)
