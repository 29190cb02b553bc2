"""Scoring every answer of a conversation, and the conversation as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from assay.errors import ScoringError
from assay.instance import Instance
from assay.scoring.resolve import ResolvedMetric
from assay.scoring.scorers import GenerateScorer, only


class TurnsScorer(GenerateScorer):
    """Each metric once an answer (`exact_match_turn_1`, …), their mean under its own name, and `exact_match_all`: the
    least of them, which is 1 where every answer is right.

    A target that is a list has one entry an answer; any other is the target of all of them.
    """

    wants_every_turn = True

    def score_doc(self, instances: Sequence[Instance], metric: ResolvedMetric, filter_name: str) -> Any:
        values: list[float] = []
        for number, instance in enumerate(instances):
            turn = replace(instance, target=target_of(instance, number))
            values.append(float(only(metric, super().score_doc([turn], metric, filter_name))))
        by_turn = {f"{metric.name}_turn_{number}": value for number, value in enumerate(values, 1)}
        return {metric.name: sum(values) / len(values), **by_turn, f"{metric.name}_all": min(values)}


def target_of(instance: Instance, number: int) -> Any:
    if not isinstance(instance.target, list | tuple):
        return instance.target
    if number >= len(instance.target):
        raise ScoringError(
            f"task {instance.task_name!r}, doc {instance.doc_id}: answer {number + 1} has no target, of "
            f"{len(instance.target)} that doc_to_target gives",
            hint="Give one for each turn.",
        )
    return instance.target[number]
