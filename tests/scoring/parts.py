"""Instances and configs made by hand."""

from __future__ import annotations

from typing import Any

from assay.config import TaskConfig
from assay.instance import Instance
from assay.results import Flag, Health
from assay.scoring import ScoringResult, apply_filters, scorer_for


def config(output_type: str = "generate_until", **fields: Any) -> TaskConfig:
    return TaskConfig(task="demo", output_type=output_type, **fields)


def generation(*resps: Any, target: Any = "", doc_id: int = 0, **fields: Any) -> list[Instance]:
    return [
        Instance(
            "generate_until",
            {"id": doc_id},
            (f"q{doc_id}", {}),
            0,
            doc_id,
            "demo",
            max(1, len(resps)),
            target,
            [*resps],
            **fields,
        )
    ]


def choice(lls: list[float], target: Any, doc_id: int = 0, choices: Any = None, greedy: Any = None) -> list[Instance]:
    named = tuple(choices or [f"c{i}" for i in range(len(lls))])
    greedy = greedy or [False] * len(lls)
    return [
        Instance(
            "loglikelihood",
            {"id": doc_id},
            (f"q{doc_id}", f" {named[i % len(named)]}"),
            i,
            doc_id,
            "demo",
            1,
            target,
            [(ll, greedy[i])],
            choices=named,
        )
        for i, ll in enumerate(lls)
    ]


def score(task: TaskConfig, *docs: list[Instance], **options: Any) -> ScoringResult:
    by_doc = {instances[0].doc_id: instances for instances in docs}
    apply_filters([instance for instances in docs for instance in instances], task)
    return scorer_for(task, **options).score(by_doc, task)


def flagged(result: ScoringResult, name: str, filter_name: str | None = None) -> set[int]:
    """The docs with this flag."""
    return {doc_id for doc_id, flags in result.flags.items() if Flag(name, filter_name) in flags}


def health_of(result: ScoringResult) -> Health:
    """What a run would count of these docs."""
    health = Health()
    for flags in result.flags.values():
        health.note(flags)
    return health
