"""What scores would be without the ability: floors beside every score, and how far it lies above the highest of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.config import RunConfig
from assay.groups import Group
from assay.results import GroupResult, MetricColumn, MetricKey, Score, TaskResult
from assay.run.collect import Collector, RoleAnswers
from assay.run.doc_work import DocWork
from assay.run.plan import Plan, PlannedTask, make_plan
from assay.run.prepare import set_process
from assay.run.settle import settle
from assay.run.task_scores import task_scores
from assay.stats import Estimate, Floats, paired_difference, unit_index, unit_keys
from assay.tasks import ASKED_FLOORS, SHUFFLED, TaskManager, answered_by, floors_of, is_decided_by_choice, kind_of

Keys = NDArray[np.uint64]
FloorScores = Mapping[str, Mapping[str, Mapping[MetricKey, Score]]]
"""Task → floor → score."""


@dataclass(frozen=True)
class MeasuredFloors:
    """Of all tasks: the scores of their floors, and how far their own scores lie above each."""

    floors: FloorScores
    above: FloorScores

    def missing(self, chosen: Sequence[str]) -> list[str]:
        """Floors that were asked by name and that no task has."""
        there = {floor for found in self.floors.values() for floor in found}
        return [f"no task of this run has the floor {name}" for name in chosen if name not in ("default", *there)]

    def of_task(self, result: TaskResult) -> TaskResult:
        own, above = self.floors.get(result.name, {}), self.above.get(result.name, {})
        scores = {}
        for key, score in result.scores.items():
            floors = {name: found[key].estimate for name, found in own.items() if key in found}
            over, over_shuffled = compared({name: found[key] for name, found in above.items() if key in found})
            scores[key] = replace(score, floors=floors, above_floor=over, over_shuffled=over_shuffled)
        return replace(result, scores=scores)

    def of_group(self, result: GroupResult, plan: Plan) -> GroupResult:
        """The group's own aggregator over the floors that all its members have. Which floor is the highest is found for the group: a
        choice task by task would lean towards chance, and over many tasks that adds up."""
        group = plan.groups.groups[result.name]
        scores = {}
        for key, score in result.scores.items():
            # The mean of differences is the difference of means; of other numbers it is not.
            is_mean = score.aggregation in ("mean", "weighted_mean")
            above = self._lifted(self.above, plan, group, key) if is_mean else {}
            floors = {name: found.estimate for name, found in self._lifted(self.floors, plan, group, key).items()}
            over, over_shuffled = compared(above)
            scores[key] = replace(score, floors=floors, above_floor=over, over_shuffled=over_shuffled)
        return replace(result, scores=scores)

    def _lifted(self, scores: FloorScores, plan: Plan, group: Group[Any], key: MetricKey) -> dict[str, Score]:
        """A mean of some members' floors would be about another group."""
        tasks = [task.task_name for task in group.get_all_tasks(recursive=True)]
        names = [name for name in scores.get(tasks[0], {}) if all(key in scores[t].get(name, {}) for t in tasks)]
        made = {name: plan.groups.score_groups({t: {key: scores[t][name][key]} for t in tasks}) for name in names}
        lifted = {name: found[group.name][key] for name, found in made.items() if key in found.get(group.name, {})}
        return {name: score for name, score in lifted.items() if score.estimate.value is not None}


def compared(above: Mapping[str, Score]) -> tuple[Estimate | None, Estimate | None]:
    """A score less its highest floor, and less itself with the choices in another order: that is no floor, and is told by itself."""
    floors = {name: score for name, score in above.items() if name != SHUFFLED}
    return above_highest(floors), above[SHUFFLED].estimate if SHUFFLED in above else None


def above_highest(above: Mapping[str, Score]) -> Estimate | None:
    """The least of the differences to several floors. It lies no higher than any of them, so the lowest low end holds; each high end
    may err, so together they get what one has (Bonferroni)."""
    if not above:
        return None
    name = min(above, key=lambda each: above[each].estimate.value or 0.0)
    far = 1 - 0.05 / len(above)
    lows, highs = ([score.bounds(level) for score in above.values()] for level in (0.95, far))
    if any(ends is None for ends in (*lows, *highs)):
        return None
    value = above[name].estimate.value or 0.0
    low, high = min(ends[0] for ends in lows if ends), min(ends[1] for ends in highs if ends)
    method = f"above {name}"
    return replace(above[name].estimate, low=min(low, value), high=max(high, value), method=method, caution=None)


def measure_floors(
    plan: Plan,
    collectors: Mapping[str, Collector],
    tasks: Mapping[str, TaskResult],
    config: RunConfig,
    answer_roles: RoleAnswers | None = None,
) -> MeasuredFloors:
    floors, above = {}, {}
    for name, result in tasks.items():
        planned = plan.tasks[name]
        asked = {each.floor: collectors[sent] for sent, each in plan.floor_tasks.items() if each.of == name}
        answered = asked | dict(by_rules(planned, sorted(collectors[name].doc_ids), config, answer_roles))
        floors[name] = {floor: floor_scores(planned, floor, each, config) for floor, each in answered.items()}
        above[name] = {
            floor: dict(differences(result.scores, floors[name][floor], collectors[name], each))
            for floor, each in answered.items()
        }
    return MeasuredFloors(floors, above)


def by_rules(
    planned: PlannedTask, doc_ids: Sequence[int], config: RunConfig, answer_roles: RoleAnswers | None = None
) -> Iterator[tuple[str, Collector]]:
    """The docs, answered by each rule of the task, and scored as the answers of models are."""
    for name, floor in floors_of(planned.task, config.floors).items():
        task, batches = answered_by(floor, planned.task, planned.options, doc_ids)
        collector = Collector(task, None, answer_roles=answer_roles)
        for docs in batches:
            collector.add([DocWork(planned.name, doc) for doc in docs])
        collector.finish()
        if collector.columns:
            yield name, collector


def floor_scores(planned: PlannedTask, floor: str, collector: Collector, config: RunConfig) -> dict[MetricKey, Score]:
    """Those that the floor has something to say about: a rule takes a choice, and has no probabilities to give."""
    is_choice = kind_of(planned.task) == "choices" and floor not in ASKED_FLOORS
    return {
        key: score
        for key, score in task_scores(collector, config.bootstrap_iters).items()
        if score.estimate.value is not None
        and (not is_choice or is_decided_by_choice(key.metric))
        and (not planned.task.acts or score.higher_is_better is not False)  # steps and tokens are no ability
    }


def floors_without_model(config: RunConfig, manager: TaskManager) -> Iterator[TaskFloors]:
    """The floors of every task that need no model, and how right guessing is."""
    set_process(config)
    plan = settle(make_plan(config, None, manager), config)
    for planned in plan.tasks.values():
        if planned.name in plan.floor_tasks:
            continue
        collectors = dict(by_rules(planned, planned.doc_ids, config))
        floors = {floor: floor_scores(planned, floor, each, config) for floor, each in collectors.items()}
        counts = next((each.choice_counts for each in collectors.values()), Counter())
        guessing = sum(n / choices for choices, n in counts.items()) / counts.total() if counts else None
        yield TaskFloors(planned.name, len(planned.doc_ids), floors, guessing, kind_of(planned.task))


@dataclass(frozen=True)
class TaskFloors:
    task: str
    docs: int
    floors: Mapping[str, Mapping[MetricKey, Score]]
    chance: float | None
    kind: str | None = None
    """What the task asks for; None where no floor is known for it."""


def differences(
    scores: Mapping[MetricKey, Score], floor: Mapping[MetricKey, Score], own: Collector, other: Collector
) -> Iterator[tuple[MetricKey, Score]]:
    """Each score minus that of a floor, doc by doc; only for means of which more is better."""
    for key in floor:
        score, column = scores.get(key), own.columns.get(key)
        if score is None or column is None or column.aggregation.name != "mean" or not column.is_numeric:
            continue
        column, below = column.in_doc_order(), other.columns[key].in_doc_order()
        if score.higher_is_better is False or len(below) != len(column):
            continue
        a, b = (np.asarray(each.values, dtype=np.float64) for each in (below, column))
        found, keys = paired_difference(a, b, _units(own, column)), score.doc_keys
        samples = None if keys is None or len(keys) != len(a) else partial(_pair, b - a, keys)
        yield key, Score(found.estimate, score.size, higher_is_better=True, interval=found.interval, samples=samples)


def _pair(values: Floats, keys: Keys) -> tuple[Floats, Keys]:
    return values, keys


def _units(collector: Collector, column: MetricColumn) -> NDArray[np.int64] | None:
    place = {doc_id: at for at, doc_id in enumerate(collector.doc_ids)}
    at = [place[doc_id] for doc_id in column.doc_ids]
    clusters = None if collector.clusters is None else np.asarray(collector.clusters)[at]
    return unit_index(unit_keys(np.asarray(collector.keys)[at], clusters))
