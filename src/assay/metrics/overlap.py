"""Word overlap: token F1, the SQuAD scores, ROUGE."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from assay.metrics.base import METRICS, Metric

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


def squad_normal(text: str) -> str:
    """Lower case, without ASCII punctuation and English articles, single spaces: the official SQuAD normalisation."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def overlap_f1(prediction: Sequence[str], reference: Sequence[str]) -> float:
    """F1 of the two bags of words; two empty ones agree."""
    if not prediction or not reference:
        return float(prediction == reference)
    common = sum((Counter(prediction) & Counter(reference)).values())
    if common == 0:
        return 0.0
    precision, recall = common / len(prediction), common / len(reference)
    return 2 * precision * recall / (precision + recall)


def token_f1_of(prediction: str, reference: str) -> float:
    return overlap_f1(prediction.lower().split(), reference.lower().split())


def squad_f1_of(prediction: str, reference: str) -> float:
    return overlap_f1(squad_normal(prediction).split(), squad_normal(reference).split())


def squad_exact_of(prediction: str, reference: str) -> float:
    return float(squad_normal(prediction) == squad_normal(reference))


ROUGE_TYPES = ("rouge1", "rouge2", "rougeL", "rougeLsum")


@cache
def _rouge_scorer(stem: bool) -> Any:
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(list(ROUGE_TYPES), use_stemmer=stem)


def rouge_of(kind: str, prediction: str, reference: str, *, use_stemmer: bool = False) -> float:
    return float(_rouge_scorer(use_stemmer).score(reference, prediction)[kind].fmeasure)


def best_over(score: Callable[..., float]) -> Callable[..., float]:
    """A score of one prediction against several right answers is the best of them."""

    def metric(*, references: Sequence[Any], predictions: Sequence[Any], **options: Any) -> float:
        return max(score(str(predictions[0]), str(reference), **options) for reference in references)

    return metric


def _rouge(kind: str) -> Callable[..., float]:
    return best_over(lambda prediction, reference, **options: rouge_of(kind, prediction, reference, **options))


for _name, _fn in {
    "token_f1": best_over(token_f1_of),
    "squad_f1": best_over(squad_f1_of),
    "squad_em": best_over(squad_exact_of),
    **{kind: _rouge(kind) for kind in ROUGE_TYPES},
}.items():
    METRICS.add(_name, Metric(_name, _fn))
