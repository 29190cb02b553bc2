"""The scoring side of a task: instances in any order, clusters, and scorers of one's own."""

from __future__ import annotations

import pytest
from tests.tasks.made_up import make_task

from assay.errors import ScoringError
from assay.scoring import Scorer, ScoringResult
from assay.tasks import MultipleChoiceTask, Task


def answered(task: Task) -> Task:
    """Every doc answered right: the right choice is the likeliest."""
    for instance in task.build_all_requests():
        instance.resps = [(-1.0 if instance.idx == instance.target else -2.0, False)]
    task.apply_filters()
    return task


def test_instances_may_come_in_any_order():
    task = answered(make_task())
    in_order = task.process_instances()
    assert in_order["acc", "none"] == [1.0] * 8
    assert task.process_instances(reversed(task.instances)) == in_order
    by_doc = task.sort_instances(reversed(task.instances))
    assert list(by_doc) == list(range(8))
    assert [each.idx for each in by_doc[3]] == [0, 1]


def test_docs_of_one_cluster_count_together_here_too():
    docs = [{"q": f"te{i}", "label": 0, "passage": f"p{i // 4}"} for i in range(16)]
    tasks = [answered(make_task(test=docs, cluster=column)) for column in (None, "passage")]
    alone, together = [], []
    for task, found in zip(tasks, (alone, together)):
        for instance in task.instances[:16]:  # all choices of the first two passages: wrong
            instance.resps = [(-float(instance.idx == 0), False)]
        task.apply_filters()
        task.process_instances()
        found.append(task.compute_aggregations()["acc_stderr,none"])
    assert together[0] > 1.5 * alone[0]


class OwnScorer(Scorer):
    """Gives no more than the seeds' example does: scores by (metric, filter)."""

    def score(self, instances_by_doc, task_config):
        return ScoringResult(sample_scores={("own", "none"): [0.25 for _ in instances_by_doc]})


class OwnTask(MultipleChoiceTask):
    def _get_default_scorer(self) -> Scorer:
        return OwnScorer()


def test_a_type_of_ones_own_may_bring_its_scorer():
    task = answered(OwnTask(make_task().config))
    assert task.process_instances() == {("own", "none"): [0.25] * 8}
    assert task.compute_aggregations() == {"own,none": 0.25, "own_stderr,none": 0.0}
    task.config = task.config.override(process_results=lambda doc, results: {"mine": 1.0})
    del task.scorer
    assert list(task.process_instances()) == [("mine", "none")]


def test_a_scorer_that_skips_docs_must_say_which():
    class Skips(OwnScorer):
        def score(self, instances_by_doc, task_config):
            return ScoringResult({("own", "none"): [1.0]})

    task = answered(make_task())
    task.scorer = Skips()
    with pytest.raises(ScoringError, match="own under none: 1 values for 8 docs"):
        task.process_instances()
