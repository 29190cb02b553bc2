"""SQuAD 2.0 asks a model twice: for its answer, and for how likely it thinks that there is none."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from assay.instance import Doc, Instance
from assay.tasks.configurable import ConfigurableTask

METRICS = ("exact", "f1", "HasAns_exact", "HasAns_f1", "NoAns_exact", "NoAns_f1", "best_exact", "best_f1")


class SQuADv2(ConfigurableTask):
    """The official metrics need all answers at once, so a doc's value is the pair of prediction and reference."""

    def doc_to_text(self, doc: Doc) -> str:
        return f"Title: {doc['title']}\n\nBackground: {doc['context']}\n\nQuestion: {doc['question']}\n\nAnswer:"

    def doc_to_target(self, doc: Doc) -> str:
        return " " + next(iter(doc["answers"]["text"]), "unanswerable")

    def construct_requests(self, doc: Doc, ctx: Any, **kwargs: Any) -> list[Instance]:
        known = {
            name: kwargs[name] for name in ("doc_id", "task_name", "repeats", "target", "metadata") if name in kwargs
        }
        if "metadata" in known:  # (task name, doc id, repeats), as one value
            known["task_name"], known["doc_id"], known["repeats"] = known.pop("metadata")
        return [
            Instance("generate_until", doc, (ctx, {"until": ["\n"]}), 0, **known),
            Instance("loglikelihood", doc, (ctx, " unanswerable"), 0, **known),
        ]

    def process_results(self, doc: Doc, results: Sequence[Any]) -> dict[str, Any]:
        answer, (loglikelihood, _) = results
        prediction = {"id": doc["id"], "prediction_text": answer, "no_answer_probability": math.exp(loglikelihood)}
        return dict.fromkeys(METRICS, (prediction, {"id": doc["id"], "answers": doc["answers"]}))

    def aggregation(self) -> dict[str, Callable[[list[Any]], Any]]:
        return {name: partial(squad_metric, name) for name in METRICS}

    def higher_is_better(self) -> dict[str, bool]:
        return dict.fromkeys(METRICS, True)


def squad_metric(name: str, pairs: Sequence[Any]) -> float:
    """One number of the official evaluation; 0 where no doc is of its kind."""
    from assay.metrics.hub import load

    predictions, references = zip(*pairs)
    found = load("squad_v2").compute(predictions=list(predictions), references=list(references))
    return float(found.get(name, 0))
