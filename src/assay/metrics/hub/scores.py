"""Scores of classes, of texts and of programs under their `evaluate` names, with its arguments and results."""

from __future__ import annotations

import math
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any

from assay.metrics.programs import run_programs, unsafe_code_allowed
from assay.metrics.reducers import pass_at_k
from assay.metrics.texts import ROUGE_TYPES
from assay.metrics.texts import exact_match as exact_match  # the same function serves both worlds


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


def code_eval(
    *,
    predictions: Sequence[Sequence[str]],
    references: Sequence[str],
    k: Sequence[int] = (1, 10, 100),
    num_workers: int | None = None,
    timeout: float = 3.0,
) -> tuple[dict[str, float], dict[int, list[tuple[int, dict[str, Any]]]]]:
    """pass@k over problems, and what became of each program, run against its tests in a sandbox of its own.

    `predictions[i]` are candidates for the problem whose tests are `references[i]`. A k that some problem has too few
    candidates for is left out.
    """
    if not unsafe_code_allowed() and _called_while_importing():
        # Task files try the metric once when they are imported and throw the answer away. That runs no model's code,
        # and listing or checking a task must not need permission to run any.
        return {f"pass@{each}": 0.0 for each in k}, {}
    jobs = [
        (task, j, (candidate, tests))
        for task, (candidates, tests) in enumerate(zip(predictions, references, strict=True))
        for j, candidate in enumerate(candidates)
    ]
    verdicts = run_programs([job for _, _, job in jobs], seconds=timeout, workers=num_workers)
    results: dict[int, list[tuple[int, dict[str, Any]]]] = defaultdict(list)
    for (task, j, _), verdict in zip(jobs, verdicts):
        entry = {"task_id": task, "passed": verdict.passed, "result": verdict.result, "completion_id": j}
        results[task].append((j, entry))
    outcomes = [[entry["passed"] for _, entry in results[task]] for task in range(len(predictions))]
    return _pass_rates(outcomes, k), dict(results)


def _pass_rates(outcomes: Sequence[Sequence[bool]], ks: Sequence[int]) -> dict[str, float]:
    rates: dict[str, float] = {}
    for k in ks:
        values = [pass_at_k(outcome, k) for outcome in outcomes]
        known = [value for value in values if value is not None]
        if known and len(known) == len(values):
            rates[f"pass@{k}"] = sum(known) / len(known)
    return rates


def _called_while_importing() -> bool:
    """Whether the call comes from the top level of a module."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("assay.metrics.hub"):
        frame = frame.f_back  # type: ignore[assignment]
    return frame is not None and frame.f_code.co_name == "<module>"
