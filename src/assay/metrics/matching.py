"""Exact match, and metrics that hand the pair of texts to their aggregation."""

from __future__ import annotations

import string
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from assay.metrics.base import METRICS, Metric
from assay.metrics.choice import choice_exact_match, passed_through
from assay.timelimit import TimedPattern

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_NO_DIGITS = str.maketrans("", "", string.digits)


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> TimedPattern:
    return TimedPattern(pattern)


def plain(
    text: Any,
    regexes_to_ignore: Sequence[str] | None = None,
    ignore_case: bool = False,
    ignore_punctuation: bool = False,
    ignore_numbers: bool = False,
) -> Any:
    """What two texts are compared as. The options take effect in this order, each on what the one before left.

    A pattern that does not come to an end on a text takes nothing out of it.
    """
    if not (regexes_to_ignore or ignore_case or ignore_punctuation or ignore_numbers):
        return text
    text = text if isinstance(text, str) else str(text)
    for pattern in regexes_to_ignore or ():
        text = _compiled(pattern).sub("", text)
    if ignore_case:
        text = text.lower()
    if ignore_punctuation:
        text = text.translate(_NO_PUNCTUATION)
    return text.translate(_NO_DIGITS) if ignore_numbers else text


def exact_match(
    *,
    predictions: Sequence[Any],
    references: Sequence[Any],
    regexes_to_ignore: Sequence[str] | None = None,
    ignore_case: bool = False,
    ignore_punctuation: bool = False,
    ignore_numbers: bool = False,
    **_: Any,
) -> dict[str, float]:
    """Share of predictions equal to their reference."""
    options = (regexes_to_ignore, ignore_case, ignore_punctuation, ignore_numbers)
    equal = [plain(p, *options) == plain(r, *options) for p, r in zip(predictions, references, strict=True)]
    return {"exact_match": sum(equal) / len(equal)}


def bypassed(**_: Any) -> None:
    """Nothing is scored: the run is made for its responses."""


METRICS.add("exact_match", Metric("exact_match", exact_match, forms={"choice": choice_exact_match}))
METRICS.add("bleu", Metric("bleu", passed_through, aggregation="bleu"))
METRICS.add("chrf", Metric("chrf", passed_through, aggregation="chrf"))
METRICS.add("chrf++", Metric("chrf++", passed_through, aggregation="chrf++"))
METRICS.add("ter", Metric("ter", passed_through, aggregation="ter", higher_is_better=False))
METRICS.add("acc_all", Metric("acc_all", passed_through))
METRICS.add(
    "bypass",
    Metric(
        "bypass",
        bypassed,
        aggregation="bypass",
        forms={"choice": lambda _: None, "loglikelihood": lambda _: None, "rolling": lambda _: None},
    ),
)
