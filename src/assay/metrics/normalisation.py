"""Length normalisation of choice loglikelihoods, as values."""

from __future__ import annotations

from enum import Enum

import numpy as np

from assay.errors import ScoringError
from assay.metrics.base import ChoiceResult, Floats


class Normalisation(Enum):
    """By what a choice's loglikelihood is divided, or from what it is subtracted, before choices are compared."""

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
                    "normalising by tokens needs the number of tokens of each choice, and the model does not report it",
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
