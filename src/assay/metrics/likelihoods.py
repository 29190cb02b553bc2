"""Metrics of loglikelihood and rolling tasks: perplexities and bits per byte."""

from __future__ import annotations

import re

from assay.metrics.base import METRICS, Metric
from assay.metrics.choice import passed_through
from assay.metrics.confidence import gold_bits

_SPACE = re.compile(r"\s+")


def count_words(text: str) -> int:
    """Pieces between runs of white space; white space at an end adds an empty piece, as lm-evaluation-harness counts."""
    return len(_SPACE.split(text))


def count_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def loglikelihood(result: tuple[float, bool]) -> float:
    return result[0]


def by_words(result: tuple[float, str]) -> tuple[float, int]:
    return result[0], count_words(result[1])


def by_bytes(result: tuple[float, str]) -> tuple[float, int]:
    return result[0], count_bytes(result[1])


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
):
    METRICS.add(_metric.name, _metric)
