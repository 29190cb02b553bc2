"""Metrics of choice tasks: which choice the model prefers, with loglikelihoods normalised by length or not.

Ties go to the choice that comes first. A doc may have several right choices (`target` is a list).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any

import numpy as np

from assay.errors import ScoringError
from assay.metrics.base import METRICS, ChoiceBatch, ChoiceResult, Metric, passed_through
from assay.stats import Floats


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
    Metric("logprob", gold_loglikelihood, "choice", binary=False, forms={"loglikelihood": lambda pair: pair[0]}),
    Metric("choice_logprob", gold_share, "choice", binary=False),
    Metric("choice_prob_norm", gold_share_by_byte, "choice", binary=False),
    Metric("choice_logprob_norm", log_gold_share_by_byte, "choice", binary=False),
    Metric("likelihood", likelihood, "choice", binary=False, forms=_IN_GENERATION),
):
    METRICS.add(_metric.name, _metric)
