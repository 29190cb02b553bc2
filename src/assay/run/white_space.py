"""What scores would be if white space around answers did not count: a space may be all there is between a model and its score."""

from __future__ import annotations

import io
import random
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from copy import copy, deepcopy
from dataclasses import replace
from typing import Any

import numpy as np

from assay.filters import FilterEnsemble, works_per_doc
from assay.instance import Instance
from assay.request_types import REQUEST_TYPES
from assay.results import MetricKey
from assay.scoring import ScoringResult
from assay.tasks import DocRequests, Task
from assay.timelimit import DOC_SECONDS, begin, watched

Values = dict[MetricKey, dict[int, Any]]


def values_without_white_space(
    task: Task, ensembles: Sequence[FilterEnsemble], docs: Sequence[DocRequests], result: ScoringResult
) -> Values:
    """Values that would be others if answers, what filters leave of them, and targets began and ended without white space.

    Whatever scores the task scores again, the docs alone for which there is a difference. Left alone are programs, in which
    white space means something, and what a second model would have to be asked about. Scores that draw random numbers
    differ by themselves, and code that cannot score the stripped answer says nothing: neither is a finding.
    """
    if task.config.unsafe_code or task.scorer.roles:
        return {}
    spaced = [doc for doc in docs if any(_has_white_space(each) for each in doc.instances)]
    if not spaced:
        return {}
    in_parts = all(works_per_doc(step) for ensemble in ensembles for step in ensemble.steps)
    bare = {doc.doc_id: [_bare(each) for each in doc.instances] for doc in (spaced if in_parts else docs)}
    with _random_numbers_of_their_own() as drawn, warnings.catch_warnings(), redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            scored = _scored_again(task, ensembles, bare, {doc.doc_id: doc.instances for doc in docs})
        except Exception:  # filters and metrics may be anybody's code, and their first word stands
            return {}
        if drawn():
            return {}
    return _differences(result, scored)


def _has_white_space(instance: Instance) -> bool:
    is_text = REQUEST_TYPES[instance.request_type].is_text and instance.failure is None
    return is_text and any(_stripped(each) != each for each in (instance.resps, instance.target))


def _stripped(value: Any) -> Any:
    if isinstance(value, list):
        return [_stripped(each) for each in value]
    return value.strip() if type(value) is str else value


def _bare(instance: Instance) -> Instance:
    responses = [None if each is None else each._replace(answer=_stripped(each.answer)) for each in instance.responses]
    return replace(
        instance,
        doc=deepcopy(instance.doc),
        resps=_stripped(instance.resps),
        responses=responses,
        target=_stripped(instance.target),
        filtered_resps={},
        unparsed={},
    )


def _scored_again(
    task: Task,
    ensembles: Sequence[FilterEnsemble],
    bare: Mapping[int, list[Instance]],
    given: Mapping[int, Sequence[Instance]],
) -> ScoringResult:
    with watched():
        for ensemble in ensembles:
            begin(DOC_SECONDS + len(bare) / 10)
            ensemble.apply([instance for instances in bare.values() for instance in instances])
    changed: dict[int, Sequence[Instance]] = {}
    for doc_id, instances in bare.items():
        for instance in instances:
            instance.filtered_resps = {name: _stripped(left) for name, left in instance.filtered_resps.items()}
        if any(
            (mine.filtered_resps, mine.target) != (its.filtered_resps, its.target)
            for mine, its in zip(instances, given[doc_id])
        ):
            changed[doc_id] = task.scored_instances(instances)
    if not changed:
        return ScoringResult()
    scorer = copy(task.scorer)
    scorer.randomness, scorer.worked = None, set(scorer.worked)
    return scorer.score(changed, task.config).completed(changed, task.config)


@contextmanager
def _random_numbers_of_their_own() -> Iterator[Any]:
    """The global generators stay as they are found; inside, a call says whether any number was drawn."""
    python, numpy = random.getstate(), np.random.get_state()

    def drawn() -> bool:
        return random.getstate() != python or repr(np.random.get_state()) != repr(numpy)

    try:
        yield drawn
    finally:
        random.setstate(python)
        np.random.set_state(numpy)


def _differences(result: ScoringResult, scored: ScoringResult) -> Values:
    differing: Values = {}
    for key, column in scored.columns.items():
        known = result.columns.get(key)
        before = {} if known is None else dict(zip(known.doc_ids, known.values))
        others = {
            doc_id: value
            for doc_id, value in zip(column.doc_ids, column.values)
            if doc_id in before and repr(value) != repr(before[doc_id])
        }
        if others:
            differing[key] = others
    return differing
