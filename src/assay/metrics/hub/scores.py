"""Scores of classes and of texts under their `evaluate` names, with its arguments and results."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any

from assay.metrics.matching import ROUGE_TYPES
from assay.metrics.matching import exact_match as exact_match  # the same function serves both worlds


def _scalar(value: Any) -> Any:
    return float(value) if getattr(value, "ndim", 0) == 0 else value


def accuracy(*, predictions: Any, references: Any, normalize: bool = True, sample_weight: Any = None) -> dict[str, Any]:
    from sklearn.metrics import accuracy_score

    return {
        "accuracy": float(accuracy_score(references, predictions, normalize=normalize, sample_weight=sample_weight))
    }


def f1(*, predictions: Any, references: Any, **options: Any) -> dict[str, Any]:
    from sklearn.metrics import f1_score

    return {"f1": _scalar(f1_score(references, predictions, **options))}


def precision(*, predictions: Any, references: Any, **options: Any) -> dict[str, Any]:
    from sklearn.metrics import precision_score

    return {"precision": _scalar(precision_score(references, predictions, **options))}


def recall(*, predictions: Any, references: Any, **options: Any) -> dict[str, Any]:
    from sklearn.metrics import recall_score

    return {"recall": _scalar(recall_score(references, predictions, **options))}


def matthews_correlation(*, predictions: Any, references: Any, sample_weight: Any = None) -> dict[str, Any]:
    from sklearn.metrics import matthews_corrcoef

    return {"matthews_correlation": float(matthews_corrcoef(references, predictions, sample_weight=sample_weight))}


def rouge(
    *,
    predictions: Sequence[str],
    references: Sequence[Any],
    rouge_types: Sequence[str] | None = None,
    use_aggregator: bool = True,
    use_stemmer: bool = False,
    tokenizer: Callable[[str], list[str]] | None = None,
) -> dict[str, Any]:
    """F-measures; with several references of a prediction the best one.

    Aggregated by the mean. (`evaluate` takes the median of random resamples of it, which differs from run to run.)
    """
    from rouge_score.rouge_scorer import RougeScorer

    class Tokenizer:
        def tokenize(self, text: str) -> list[str]:
            assert tokenizer is not None
            return tokenizer(text)

    types = list(rouge_types or ROUGE_TYPES)
    scorer = RougeScorer(types, use_stemmer=use_stemmer, tokenizer=Tokenizer() if tokenizer else None)
    rows = [
        scorer.score(reference, prediction) if isinstance(reference, str) else scorer.score_multi(reference, prediction)
        for prediction, reference in zip(predictions, references, strict=True)
    ]
    columns = {kind: [float(row[kind].fmeasure) for row in rows] for kind in types}
    if not use_aggregator:
        return columns
    return {kind: sum(values) / len(values) for kind, values in columns.items()}


def _tokens_13a(text: str) -> list[str]:
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    return str(Tokenizer13a()(text)).split()


def bleu(
    *,
    predictions: Sequence[str],
    references: Sequence[Any],
    tokenizer: Callable[[str], list[str]] = _tokens_13a,
    max_order: int = 4,
    smooth: bool = False,
) -> dict[str, Any]:
    """Corpus BLEU between 0 and 1, unsmoothed by default: one n-gram order without a match makes it 0."""
    matches, totals = [0] * max_order, [0] * max_order
    hyp_length = ref_length = 0
    for prediction, given in zip(predictions, references, strict=True):
        hyp = tokenizer(prediction)
        refs = [tokenizer(text) for text in ([given] if isinstance(given, str) else given)]
        hyp_length += len(hyp)
        ref_length += min(len(ref) for ref in refs)
        for n in range(1, max_order + 1):
            counts = _ngrams(hyp, n)
            best: Counter[tuple[str, ...]] = Counter()
            for ref in refs:
                best |= _ngrams(ref, n)
            matches[n - 1] += sum((counts & best).values())
            totals[n - 1] += max(len(hyp) - n + 1, 0)
    plus = 1 if smooth else 0
    precisions = [(m + plus) / (t + plus) if t + plus else 0.0 for m, t in zip(matches, totals)]
    ratio = hyp_length / ref_length if ref_length else 0.0
    brevity = 1.0 if ratio > 1 else math.exp(1 - 1 / ratio) if ratio else 0.0
    score = brevity * math.exp(sum(math.log(p) for p in precisions) / max_order) if min(precisions) > 0 else 0.0
    return {
        "bleu": score,
        "precisions": precisions,
        "brevity_penalty": brevity,
        "length_ratio": ratio,
        "translation_length": hyp_length,
        "reference_length": ref_length,
    }


def _ngrams(tokens: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(tokens[i:] for i in range(n))))


def _streams(references: Sequence[Any]) -> list[list[str | None]]:
    """Stream j holds the j-th reference of each doc; None where a doc has fewer."""
    rows = [[ref] if isinstance(ref, str) else list(ref) for ref in references]
    return [list(stream) for stream in zip_longest(*rows)]


def sacrebleu(*, predictions: Sequence[str], references: Sequence[Any], **options: Any) -> dict[str, Any]:
    import sacrebleu as package

    score = package.corpus_bleu(predictions, _streams(references), **options)
    return {
        "score": score.score,
        "counts": score.counts,
        "totals": score.totals,
        "precisions": score.precisions,
        "bp": score.bp,
        "sys_len": score.sys_len,
        "ref_len": score.ref_len,
    }


def chrf(*, predictions: Sequence[str], references: Sequence[Any], **options: Any) -> dict[str, Any]:
    from sacrebleu.metrics import CHRF

    score = CHRF(**options).corpus_score(predictions, _streams(references))
    return {"score": score.score, "char_order": score.char_order, "word_order": score.word_order, "beta": score.beta}


def ter(
    *,
    predictions: Sequence[str],
    references: Sequence[Any],
    ignore_punct: bool = False,
    support_zh_ja_chars: bool = False,
    **options: Any,
) -> dict[str, Any]:
    from sacrebleu.metrics import TER

    metric = TER(no_punct=ignore_punct, asian_support=support_zh_ja_chars, **options)
    score = metric.corpus_score(predictions, _streams(references))
    return {"score": score.score, "num_edits": score.num_edits, "ref_length": score.ref_length}
