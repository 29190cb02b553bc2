"""Docs whose gold answer somebody checked, scored by what is right."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

from assay.data import CorrectedDoc
from assay.instance import Instance
from assay.results import GoldValue, MetricKey
from assay.scoring import GoldLabel, ScoringResult
from assay.tasks import DocRequests, RequestOptions, Task, bare_name


def labels_of_task(labels: Mapping[str | None, Mapping[str, GoldLabel]], task: str) -> dict[str, GoldLabel]:
    """Those of a task in whatever wording, and those that name none."""
    own = [of for name, of in labels.items() if name is None or bare_name(name) == bare_name(task)]
    return {digest: label for of in own for digest, label in of.items() if label.says_something}


def why_not(task: Task) -> str | None:
    """Why a task's docs cannot be scored by another gold answer here."""
    if task.config.process_results is not None or task.config.class_ is not None:
        return "the task scores by code of its own"
    if task.scorer.roles or task.config.turns or task.config.agent is not None:
        return "another gold answer would have to be judged or played again"
    return None


def note_gold(task: Task, labels: Mapping[str, GoldLabel], docs: Iterable[DocRequests], result: ScoringResult) -> None:
    """Beside the published values of a batch, those under the right gold answers, of docs that were checked."""
    checked = {doc.doc_id: labels[doc.doc_hash] for doc in docs if doc.doc_hash in labels}
    if not checked:
        return
    scored = {
        doc_id for column in result.columns.values() for doc_id in column.doc_ids
    }  # what failed is no wrong answer
    changed = {
        doc.doc_id: _under(task, doc, checked[doc.doc_id].answer)
        for doc in docs
        if doc.doc_id in checked
        and doc.doc_id in scored
        and checked[doc.doc_id].verdict == "wrong"
        and checked[doc.doc_id].has_answer
    }
    again = _scored(task, changed) if changed else {}
    for key, column in result.columns.items():
        if column.is_numeric:
            column.gold = {
                doc_id: GoldValue(
                    _value(checked[doc_id], float(value), again.get(key, {}), doc_id), checked[doc_id].weight
                )
                for doc_id, value in zip(column.doc_ids, column.values)
                if doc_id in checked
            }


def _value(label: GoldLabel, published: float, again: Mapping[int, Any], doc_id: int) -> float | None:
    if not label.has_answer:
        return None
    return published if label.verdict == "right" else again.get(doc_id)


def _under(task: Task, doc: DocRequests, answer: Any) -> list[Instance]:
    """The answered requests with the right answer for their target."""
    right = CorrectedDoc(doc.doc, doc.doc_hash, answer)
    built = task._requests_of(doc.doc_id, right, (), RequestOptions(num_fewshot=0)).instances
    return [replace(mine, doc=its.doc, target=its.target) for mine, its in zip(doc.instances, built)]


def _scored(task: Task, docs: Mapping[int, Sequence[Instance]]) -> dict[MetricKey, dict[int, Any]]:
    scorer = copy(task.scorer)
    scorer.randomness, scorer.worked = None, set(scorer.worked)
    instances = {doc_id: task.scored_instances(each) for doc_id, each in docs.items()}
    found = scorer.score(instances, task.config).completed(instances, task.config)
    return {key: dict(zip(column.doc_ids, column.values)) for key, column in found.columns.items()}
