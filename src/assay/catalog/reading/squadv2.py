"""SQuAD 2.0 asks a model twice: for its answer, and for how likely it thinks that there is none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from assay.instance import Doc, Instance
from assay.tasks import GenerateTask

METRICS = ("exact", "f1", "HasAns_exact", "HasAns_f1", "NoAns_exact", "NoAns_f1", "best_exact", "best_f1")


class SQuADv2(GenerateTask):
    def construct_requests(self, doc: Doc, ctx: Any, *, target: Any = None, **_: Any) -> list[Instance]:
        return [
            Instance("generate_until", doc, (ctx, {"until": ["\n"]}), 0, target=target),
            Instance("loglikelihood", doc, (ctx, " unanswerable"), 1, target=target),
        ]


def doc_to_text(doc: Doc) -> str:
    return f"Title: {doc['title']}\n\nBackground: {doc['context']}\n\nQuestion: {doc['question']}\n\nAnswer:"


def doc_to_target(doc: Doc) -> str:
    return " " + next(iter(doc["answers"]["text"]), "unanswerable")


def process_results(doc: Doc, results: Sequence[Any]) -> dict[str, Any]:
    """The official metrics need all answers at once, so a doc's value is the pair of prediction and reference."""
    answer, (loglikelihood, _) = results
    prediction = {"id": doc["id"], "prediction_text": answer, "no_answer_probability": math.exp(loglikelihood)}
    return dict.fromkeys(METRICS, (prediction, {"id": doc["id"], "answers": doc["answers"]}))


def squad_metric(name: str, pairs: Sequence[Any]) -> float:
    """One number of the official evaluation; 0 where no doc is of its kind."""
    from assay.metrics import load_metric

    predictions, references = zip(*pairs)
    scores = load_metric("squad_v2").compute(predictions=list(predictions), references=list(references))
    return float(scores.get(name, 0))


exact, f1, has_answer_exact, has_answer_f1, no_answer_exact, no_answer_f1, best_exact, best_f1 = (
    partial(squad_metric, name) for name in METRICS
)
