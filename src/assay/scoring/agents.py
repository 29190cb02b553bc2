"""The scorer of agents: the last answer, the whole trajectory, and what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from assay.config import TaskConfig
from assay.instance import Instance
from assay.metrics import Reduced, is_right_or_wrong, ks_for, pass_at_k, pass_hat_k
from assay.results import branching_steps, from_step, trajectories_of
from assay.scoring.outcome import InstancesByDoc, ScoringResult
from assay.scoring.resolve import ResolvedMetric
from assay.scoring.results import GenResult
from assay.scoring.scorers import GenerateScorer, reduce_draws


class AgentScorer(GenerateScorer):
    """Each draw of a doc is a trajectory. Metrics of texts see its answer, others all of it.

    A branch at each step has its means by step beside the mean of all. With several draws that are right or wrong, pass@k (some of k is right) and pass^k (all of k are right) stand beside the
    mean, unless the task names a reducer.
    """

    def lacks_gold(self, instances: Sequence[Instance], task_config: TaskConfig) -> bool:
        return False  # whoever looks at the end state needs none

    def score(self, instances_by_doc: InstancesByDoc | Sequence[Instance], task_config: TaskConfig) -> ScoringResult:
        result = super().score(instances_by_doc, task_config)
        if isinstance(instances_by_doc, dict):
            for doc_id, instances in instances_by_doc.items():
                self._flag(doc_id, instances[0], task_config, result)
        return result

    def _flag(self, doc_id: int, instance: Instance, task_config: TaskConfig, result: ScoringResult) -> None:
        for trajectory in trajectories_of(instance):
            for mark in trajectory.marks:
                result.flag(doc_id, mark)
        if any(each is not None and each.more.get("failed_draws") for each in instance.responses):
            result.flag(doc_id, "draws_failed")
        if task_config.tool_protocol == "text":
            result.flag(doc_id, "text_protocol")

    def score_result(self, data: GenResult, metric: ResolvedMetric) -> Any:
        instance = data.instances[0]
        if metric.takes_trajectory:
            values = [metric.fn(each, **metric.kwargs) for each in trajectories_of(instance)]
            value = values[0] if instance.repeats == 1 else self.reduced(metric, values, instance)
        else:
            value = super().score_result(data, metric)
        alone = instance.repeats == 1 and branching_steps(instance)
        return self.reduced(metric, [value], instance) if alone else value

    def reduced(self, metric: ResolvedMetric, draws: list[Any], instance: Instance) -> Any:
        if any(each is None for each in draws):  # what some trajectories cannot say, such as a cost without prices
            return None
        mean, steps = reduce_draws(metric, draws), branching_steps(instance)
        if metric.reducer is not None or (len(draws) < 2 and not steps):
            return mean
        named = {name: [each[name] for each in draws] for name in draws[0]} if isinstance(draws[0], dict) else {}
        named = named or {metric.name: draws}
        binary = metric.metric is None or metric.metric.binary is not False
        if len(steps) == len(draws):
            # All draws together are no sample of anything, so their mean goes without what they say of it.
            together = {name: reduce_draws(metric, values) for name, values in named.items()}
            return {name: each.value if isinstance(each, Reduced) else each for name, each in together.items()} | {
                from_step(name, step): reduce_draws(metric, [v for v, at in zip(values, steps) if at == step])
                for name, values in named.items()
                if binary
                for step in sorted(set(steps))
            }
        return (mean if isinstance(mean, dict) else {metric.name: mean}) | {
            f"{pass_name}{k}({name})": of(values, k)
            for name, values in named.items()
            if binary and all(map(is_right_or_wrong, values))
            for k in ks_for(len(values))
            if k > 1
            for pass_name, of in (("pass@", pass_at_k), ("pass^", pass_hat_k))
        }
