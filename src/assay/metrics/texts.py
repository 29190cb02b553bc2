"""Metrics that compare an answer with the right ones: exact match, word overlap (token F1, SQuAD, ROUGE), maj@k, the calls of
tools; and BLEU, chrF, chrF++ and TER over (reference, prediction) pairs, as sacrebleu defines them."""

from __future__ import annotations

import json
import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from itertools import zip_longest
from typing import Any

import numpy as np

from assay.errors import ConfigError, ScoringError
from assay.metrics.base import AGGREGATIONS, METRICS, Metric, passed_through
from assay.metrics.likelihoods import choice_exact_match
from assay.metrics.reducers import majority_probability
from assay.stats import Aggregation, Floats
from assay.timelimit import TimedPattern

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_NO_DIGITS = str.maketrans("", "", string.digits)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


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
    """Normalises text for comparison. The options apply in this order, each to the result of the one before.

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


def stripped(answer: Any) -> Any:
    return answer.strip() if isinstance(answer, str) else answer


def exact_match(
    *,
    predictions: Sequence[Any],
    references: Sequence[Any],
    regexes_to_ignore: Sequence[str] | None = None,
    ignore_case: bool = False,
    ignore_punctuation: bool = False,
    ignore_numbers: bool = False,
    strip: bool = False,
    **_: Any,
) -> dict[str, float]:
    """Share of predictions equal to their reference. `strip` lets white space around both go."""
    options = (regexes_to_ignore, ignore_case, ignore_punctuation, ignore_numbers)
    pairs = [(p, r) for p, r in zip(predictions, references, strict=True)]
    if strip:
        pairs = [(stripped(p), stripped(r)) for p, r in pairs]
    equal = [plain(p, *options) == plain(r, *options) for p, r in pairs]
    return {"exact_match": sum(equal) / len(equal)}


def bypassed(**_: Any) -> None:
    """Scores nothing, for runs that only collect responses."""


def squad_normal(text: str) -> str:
    """Lower case, without ASCII punctuation and English articles, single spaces: the official SQuAD normalisation."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


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


def majority_at_k(*, references: list[Any], predictions: list[Any], k: int | None = None, **options: Any) -> Any:
    """How often the majority vote of k draws is right, over all subsets of the draws and not over one of them.

    `predictions[0]` holds its draws. Options are those of exact_match."""
    draws = predictions[0] if isinstance(predictions[0], list) else predictions
    if k is None:
        raise ConfigError("metric maj@k needs k", hint="Write `k: 8` next to it.")
    votes = Counter(plain(draw, **options) for draw in draws)
    right = {plain(reference, **options) for reference in references}
    won = [votes.pop(answer, 0) for answer in right]
    # Several right wordings vote apart, as they would in a real vote; each may win.
    parts = [majority_probability(n, [*votes.values(), *won[:i], *won[i + 1 :]], k) for i, n in enumerate(won)]
    return {f"maj@{k}": None if parts[0] is None else sum(p for p in parts if p is not None)}


METRICS.add("exact_match", Metric("exact_match", exact_match, binary=True, forms={"choice": choice_exact_match}))
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
METRICS.add("maj@k", Metric("maj@k", majority_at_k, takes_draws=True, names_scores=True, binary=False))
for _name, _fn in {
    "token_f1": best_over(token_f1_of),
    "squad_f1": best_over(squad_f1_of),
    "squad_em": best_over(squad_exact_of),
    **{kind: _rouge(kind) for kind in ROUGE_TYPES},
}.items():
    METRICS.add(_name, Metric(_name, _fn, binary=_name == "squad_em"))


def tool_call_match(
    *, predictions: Sequence[Any], references: Sequence[Any], ordered: bool = False, **_: Any
) -> dict[str, float]:
    """1 if the calls match a reference: same names, arguments equal as JSON; the order counts if `ordered`.

    An argument that is null is one that was not given: tables give all rows the arguments of all calls.

    >>> said = '[{"name": "add", "arguments": {"b": 2, "a": 1.0}}]'
    >>> tool_call_match(predictions=[said], references=['[{"name": "add", "arguments": {"a": 1, "b": 2}}]'])
    {'tool_call_match': 1.0}
    """
    calls = read_calls(predictions[0])
    return {"tool_call_match": float(any(is_same(calls, read_calls(each), ordered) for each in references))}


def read_calls(given: Any) -> list[dict[str, Any]]:
    calls = given
    if isinstance(given, str):
        try:
            calls = json.loads(given)
        except (ValueError, RecursionError):
            raise ScoringError(
                f"tool_call_match compares calls, but got {given[:80]!r}",
                hint='Targets are JSON: [{"name": …, "arguments": {…}}]; answers go through the filter tool_calls.',
            ) from None
    listed = calls if isinstance(calls, list) else [calls]
    if not all(isinstance(call, Mapping) and "name" in call for call in listed):
        raise ScoringError(f"a call needs a name and arguments, but this is {json.dumps(listed)[:120]}")
    return [{"name": call["name"], "arguments": call.get("arguments") or {}} for call in listed]


def is_same(calls: list[dict[str, Any]], wanted: list[dict[str, Any]], ordered: bool) -> bool:
    """Python's equality is JSON's, but for true and 1, which are two values there."""
    left = [_exact(call) for call in wanted]
    if ordered:
        return [_exact(call) for call in calls] == left
    for call in map(_exact, calls):
        if call not in left:
            return False
        left.remove(call)
    return not left


def same_value(one: Any, other: Any) -> bool:
    """Whether two values are equal as JSON.

    >>> same_value(1, 1.0), same_value(1, True)
    (True, False)
    """
    return bool(_exact(one) == _exact(other))


def _exact(value: Any) -> Any:
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, Mapping):
        return {name: _exact(each) for name, each in value.items() if each is not None}
    return [_exact(each) for each in value] if isinstance(value, list) else value


METRICS.add("tool_call_match", Metric("tool_call_match", tool_call_match, binary=True))


# sacrebleu counts n-grams and edits per sentence and computes the score from the sums. Here the counts of each doc are the
# aggregation's statistics, so a bootstrap replicate is a weighted sum of counts and no text is read twice.

Pair = Sequence[Any]
"""`(reference, prediction)`; the reference may be a list of texts, the prediction a list of one."""


def _several(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str)


def split_pairs(pairs: Sequence[Pair]) -> tuple[list[str], list[tuple[str, ...]]]:
    """Predictions, and references as sacrebleu wants them: stream j holds the j-th reference of each doc."""
    predictions: list[str] = []
    references: list[list[str]] = []
    for reference, prediction in pairs:
        if _several(prediction):
            if len(prediction) != 1:
                raise ScoringError(
                    f"a doc has {len(prediction)} predictions, but only one can be scored",
                    hint="End the filter with take_first or majority_vote, or name a reducer.",
                )
            prediction = prediction[0]
        predictions.append(prediction)
        references.append(list(reference) if _several(reference) else [reference])
    # sacrebleu takes None for "no such reference"; a shorter list is not a reason to drop references of others.
    return predictions, list(zip_longest(*references))


def _corpus_statistics(metric: Any, pairs: Sequence[Pair]) -> Floats:
    predictions, references = split_pairs(pairs)
    for text in predictions:
        if not isinstance(text, str):
            raise ScoringError(f"a prediction is {text!r}, not text", hint="Check the filters of the task.")
    rows = metric._extract_corpus_statistics(predictions, references)
    return np.asarray(rows, dtype=np.float64)


def bleu_finish(sums: Floats) -> Floats:
    """BLEU-4 from [hypothesis length, reference length, matches 1–4, totals 1–4], smoothed as sacrebleu's default is.

    A precision without a match counts as 1/(2·total), 1/(4·total), … for the first, second, … such order.
    """
    hyp, ref = sums[..., 0], sums[..., 1]
    matches, totals = sums[..., 2:6], sums[..., 6:10]
    empty = matches == 0
    halving = 2.0 ** np.cumsum(empty, axis=-1)
    safe = np.where(totals > 0, totals, 1.0)
    precision = np.where(empty, 1.0 / (halving * safe), matches / safe)
    brevity = np.where(hyp < ref, np.exp(1 - ref / np.where(hyp > 0, hyp, 1.0)), 1.0)
    score = 100.0 * brevity * np.exp(np.log(precision).mean(axis=-1))
    # Without any match, or without an n-gram of some order, sacrebleu gives zero.
    return np.where((hyp > 0) & (matches.sum(-1) > 0) & (totals > 0).all(-1), score, 0.0)


def chrf_finish(sums: Floats) -> Floats:
    """chrF (β = 2) from [hypothesis, reference, match] counts per n-gram order, averaged over orders that occur."""
    counts = sums.reshape(*sums.shape[:-1], -1, 3)
    hyp, ref, match = counts[..., 0], counts[..., 1], counts[..., 2]
    eps = 1e-16
    precision = np.where(hyp > 0, match / np.where(hyp > 0, hyp, 1.0), eps)
    recall = np.where(ref > 0, match / np.where(ref > 0, ref, 1.0), eps)
    effective = (hyp > 0) & (ref > 0)
    orders = effective.sum(-1)
    average_p = np.where(effective, precision, 0.0).sum(-1) / np.maximum(orders, 1)
    average_r = np.where(effective, recall, 0.0).sum(-1) / np.maximum(orders, 1)
    both = average_p + average_r
    score = 100 * 5 * average_p * average_r / np.where(both > 0, 4 * average_p + average_r, 1.0)
    return np.where((orders > 0) & (both > 0), score, 0.0)


def ter_finish(sums: Floats) -> Floats:
    """Edits per reference word; with no reference words 1 if there was anything to edit, else 0."""
    edits, length = sums[..., 0], sums[..., 1]
    return 100 * np.where(length > 0, edits / np.where(length > 0, length, 1.0), (edits > 0).astype(np.float64))


def _aggregation(
    name: str, function: str, counter: str, finish: Callable[[Floats], Floats], **options: Any
) -> Aggregation:
    """`function` of sacrebleu gives the score, its class `counter` the counts of each doc."""

    def score(pairs: Sequence[Pair]) -> float:
        import sacrebleu

        predictions, references = split_pairs(pairs)
        return float(getattr(sacrebleu, function)(predictions, references, **options).score)

    def statistics(pairs: Sequence[Pair]) -> Floats:
        from sacrebleu import metrics

        return _corpus_statistics(getattr(metrics, counter)(**options), pairs)

    return Aggregation(name, score, statistics, finish, resamples=100)


for _each in (
    _aggregation("bleu", "corpus_bleu", "BLEU", bleu_finish),
    _aggregation("chrf", "corpus_chrf", "CHRF", chrf_finish),
    _aggregation("chrf++", "corpus_chrf", "CHRF", chrf_finish, word_order=2),
    _aggregation("ter", "corpus_ter", "TER", ter_finish),
):
    AGGREGATIONS.add(_each.name, _each)
