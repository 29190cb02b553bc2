"""Perplexities and bits per byte: of a text, and of the right choice."""

from __future__ import annotations

import math
import re
from typing import Any

from assay.errors import ScoringError
from assay.metrics.base import METRICS, ChoiceResult, Metric, passed_through
from assay.metrics.choice import golds

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


for _metric in (
    Metric("perplexity", loglikelihood, "loglikelihood", "perplexity", False, forms={"generation": passed_through}),
    Metric("word_perplexity", by_words, "rolling", "weighted_perplexity", False, forms={"generation": passed_through}),
    Metric("byte_perplexity", by_bytes, "rolling", "weighted_perplexity", False, forms={"generation": passed_through}),
    Metric(
        "bits_per_byte",
        by_bytes,
        "rolling",
        "bits_per_byte",
        False,
        forms={"generation": passed_through, "choice": gold_bits},
    ),
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
