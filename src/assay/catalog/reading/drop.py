"""DROP: answers are numbers, dates or sets of spans, and several annotators gave theirs.

Scores follow the evaluation of the DROP paper (Dua et al. 2019, section 5): spans are bags of words, matched one to one
so that the total F1 is largest, and a span with numbers scores only if a number agrees.
"""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from typing import Any

from assay.timelimit import timed

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def process_docs(dataset: Any) -> Any:
    return dataset.map(lambda doc: {"id": doc["query_id"], "answers": all_answers(doc)})


def all_answers(doc: dict[str, Any]) -> list[list[str]]:
    """The answers of all annotators, each a list of spans, without duplicates."""
    others = doc["validated_answers"]
    given = [
        doc["answer"],
        *(
            {"number": number, "date": date, "spans": spans}
            for number, date, spans in zip(others["number"], others["date"], others["spans"])
        ),
    ]
    return [list(spans) for spans in dict.fromkeys(tuple(spans_of(answer)) for answer in given)]


def spans_of(answer: dict[str, Any]) -> list[str]:
    """
    >>> spans_of({"number": "", "spans": [], "date": {"day": "4", "month": "July", "year": ""}})
    ['4 July']
    """
    if answer["number"] != "":
        return [str(answer["number"])]
    if answer["spans"]:
        return list(answer["spans"])
    date = answer["date"]
    return [f"{date['day']} {date['month']} {date['year']}".strip()]


def process_results(doc: dict[str, Any], results: Sequence[str]) -> dict[str, float]:
    """The best agreement with any annotator."""
    pairs = [compare(results, gold) for gold in doc["answers"] if gold[0].strip()]
    return {"em": max((exact for exact, _ in pairs), default=0.0), "f1": max((f1 for _, f1 in pairs), default=0.0)}


def compare(predicted: Sequence[str], gold: Sequence[str]) -> tuple[float, float]:
    """Exact match and F1 of two lists of spans.

    >>> compare(["the 12 yards"], ["12 yards"])
    (1.0, 1.0)
    >>> compare(["13 yards"], ["12 yards"])
    (0.0, 0.0)
    """
    ours, theirs = [normalise(span) for span in predicted], [normalise(span) for span in gold]
    exact = set(ours) == set(theirs) and len(ours) == len(theirs)
    return float(exact), _aligned_f1([set(span.split()) for span in ours], [set(span.split()) for span in theirs])


def _aligned_f1(predicted: list[set[str]], gold: list[set[str]]) -> float:
    import numpy as np
    from scipy.optimize import linear_sum_assignment

    table = np.array([[_bag_f1(ours, theirs) for ours in predicted] for theirs in gold])
    rows, columns = linear_sum_assignment(-table)
    # A span without a partner counts as zero.
    return float(round(table[rows, columns].sum() / max(len(gold), len(predicted)), 2))


def _bag_f1(predicted: set[str], gold: set[str]) -> float:
    numbers = {word for word in gold if is_number(word)}
    if numbers and not numbers & predicted:
        return 0.0
    shared = len(gold & predicted)
    precision = shared / len(predicted) if predicted else 1.0
    recall = shared / len(gold) if gold else 1.0
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def normalise(text: str) -> str:
    """
    >>> normalise("The 3-year-old, about $5")
    '3.0 year old about 5.0'
    """
    words = (_normalise_word(word) for word in timed(" |-").split(text.lower()))
    return " ".join(word for word in words if word)


def _normalise_word(word: str) -> str:
    if not is_number(word):
        word = word.translate(_WITHOUT_PUNCTUATION)
    if is_number(word):
        word = str(float(word))
    return " ".join(_ARTICLES.sub(" ", word).split())


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
