"""Names and calls of the seeds as they stand there."""

from __future__ import annotations

import math
from typing import Any

import pytest
from tests.own_files import Told, function, run, value, write_task

from assay.config import GroupConfig, TaskConfig
from assay.errors import ConfigError
from assay.groups import Aggregator, Group, GroupManager, StandardGroup
from assay.instance import Instance
from assay.metrics import METRICS
from assay.results import MetricKey
from assay.scoring import MCResult, MultipleChoiceScorer, ScoringResult
from assay.tasks import BaseTask, GenerateTask, MCStyle, Task

SUMS = [{"q": f"{i}+1=", "a": str(i + 1)} for i in range(4)]
GENERATION: dict[str, Any] = {"output_type": "generate_until", "doc_to_text": "q", "doc_to_target": "a"}


def right(question: str) -> str:
    return str(int(question.partition("+")[0]) + 1)


def test_a_key_may_name_a_standard_error():
    key = MetricKey("acc", "none", is_stderr=True)
    assert (str(key), key.is_stderr, MetricKey("acc").is_stderr) == ("acc_stderr,none", True, False)
    assert key != MetricKey("acc")
    assert MetricKey("acc", "none") == ("acc", "none")


# ---------------------------------------------------------------------- the seed's scorer, word for word

SEED_SCORER = '''
from collections import defaultdict
from typing import Any

from assay.config import MetricConfig, TaskConfig
from assay.instance import Instance
from assay.scoring import GenResult, Scorer, ScoringResult
from assay.tasks import GenerateTask


class GenerateScorer(Scorer):
    def score(
        self,
        instances_by_doc: dict[int, list[Instance]],
        task_config: TaskConfig
    ) -> ScoringResult:
        all_scores = defaultdict(list)

        # Iterate over each filter
        for context in self._iterate_scoring_contexts(
            list(instances_by_doc.values()),
            task_config
        ):
            # Process each document
            for doc_id, instances in instances_by_doc.items():
                # Create GenResult for this filter
                gen_result = self._create_gen_result(
                    instances,
                    context.filter_name
                )

                # Compute metrics
                scores = self._compute_metrics(gen_result, context.metrics)

                # Store with (metric, filter) key
                for metric_name, score_value in scores.items():
                    key = (metric_name, context.filter_name)
                    all_scores[key].append(score_value)

        return ScoringResult(sample_scores=dict(all_scores))

    def _create_gen_result(
        self,
        instances: list[Instance],
        filter_name: str
    ) -> GenResult:
        """Create GenResult from instances for a specific filter."""
        return GenResult.from_instances(instances, filter_name=filter_name)

    def _compute_metrics(
        self,
        gen_result: GenResult,
        metrics: list[MetricConfig]
    ) -> dict[str, Any]:
        scores = {}

        for metric in metrics:
            if metric.fn is None:
                continue

            # Compute metric for each generation
            metric_scores = []
            for generation in gen_result.results:
                try:
                    score = metric.fn(
                        references=(
                            [gen_result.target]
                            if not isinstance(gen_result.target, list)
                            else gen_result.target
                        ),
                        predictions=[generation],
                        **metric.kwargs
                    )
                except TypeError:
                    # Fallback for metrics with different signature
                    score = metric.fn([gen_result.target, generation])

                # Handle metrics that return dicts
                if isinstance(score, dict):
                    for k, v in score.items():
                        if k not in scores:
                            scores[k] = []
                        scores[k].append(v)
                else:
                    metric_scores.append(score)

            # Store scores under metric name
            if metric_scores:  # Only if we didn't handle dict case
                scores[metric.name] = metric_scores

        return scores


class Seeded(GenerateTask):
    def _get_default_scorer(self):
        return GenerateScorer()


def equal(predictions, references): return float(predictions[0] == references[0])
def pair(items): return float(items[0] == items[1])
'''


@pytest.mark.parametrize("repeats", [1, 3])
@pytest.mark.parametrize("way", ["class", "scorer"])
def test_the_scorer_of_the_seed_scores_a_run(tmp_path, way, repeats):
    listed = ["exact_match", {"metric": function("u.equal")}, {"metric": function("u.pair")}]
    filters = {"filter_list": [{"name": "all", "filter": [{"function": "noop"}]}, {"name": "strict"}]}
    chosen = {"class": function("u.Seeded")} if way == "class" else {"scorer": function("u.GenerateScorer")}
    fields = {**GENERATION, **filters, **chosen, "metric_list": listed, "repeats": repeats}
    found = run(write_task(tmp_path, SUMS, SEED_SCORER, **fields), Told(right))
    for name in ("all", "strict"):
        assert [value(found, metric, name) for metric in ("exact_match", "equal", "pair")] == [1.0, 1.0, 1.0]


def test_results_of_scoring_are_equal_where_their_scores_are():
    one, other = ({("acc", "none"): [1.0, 0.0]}, {"seen": 2}), ({("acc", "none"): [1.0, 1.0]}, {"seen": 2})
    assert ScoringResult(*one) == ScoringResult(*one) != ScoringResult(*other)
    assert ScoringResult(sample_scores={}) != ScoringResult(sample_scores={}, metadata={"seen": 2})


def choice_instances(lls: list[float]) -> list[Instance]:
    return [
        Instance("loglikelihood", {}, ("", f" {i % 2}"), i, target=0, choices=("a", "b"), resps=[(ll, False)])
        for i, ll in enumerate(lls)
    ]


def test_mutual_information_is_made_on_request():
    instances = choice_instances([-1.0, -2.0, -3.0, -5.0])
    assert MCResult.from_instances(instances).lls_mutual_info == []
    assert MCResult.from_instances(instances, True).lls_mutual_info == [2.0, 3.0]
    assert MCResult.from_instances(instances, acc_mutual_info=True).lls_mutual_info == [2.0, 3.0]


@pytest.mark.parametrize(("lls", "mass"), [((0.0, -1.0), 1 / (1 + math.exp(-1))), ((-2.0, -1.0), 0.0)])
def test_the_mass_of_an_empty_choice_is_a_number(lls, mass):
    result = MCResult(lls, [False, False], 0, choices=["", "b"])
    assert METRICS["prob_mass_norm"].fn(result) == pytest.approx(mass)


# ---------------------------------------------------------------------- groups


class Own(Task):
    def __init__(self, task_name: str) -> None:
        self.task_name = task_name


def test_a_task_that_did_not_call_its_base_joins_a_group():
    group, task = StandardGroup("mine"), Own("own")
    group.add_child(task)
    assert (task.groups, task.tags, group.get_all_tasks()) == ([group], [], [task])


RESULTS = {
    "a": {"alias": "A", "acc,none": 0.5, "acc_stderr,none": 0.1, "sample_len": 10},
    "b": {"alias": "B", "acc,none": 1.0, "acc_stderr,none": 0.0, "acc,strict": 0.0, "sample_len": 30},
}


def manager() -> GroupManager:
    made = GroupManager()
    for name in ("a", "b"):
        made.register_task(Own(name))
    made.build_hierarchy(
        {"g": GroupConfig(group="g", task=["a", "b"], aggregate_metric_list=[{"metric": "acc", "filter_list": "none"}])}
    )
    return made


def test_all_groups_give_their_metrics_and_nothing_else():
    made = manager()
    assert made.compute_all_group_metrics(RESULTS) == {"g": {"acc,none": 0.875}}
    entry = made.group_entries(RESULTS)["g"]
    assert (entry["alias"], entry["sample_len"], entry["acc,none"]) == ("g", 40, 0.875)


class Worst(Aggregator):
    def aggregate(self, group: Group[Any], task_results: Any) -> dict[str, Any]:
        return {"acc,none": min(task_results[task.task_name]["acc,none"] for task in group.get_all_tasks())}


def test_an_aggregator_that_is_set_is_used():
    made = manager()
    group = made.groups["g"]
    group._aggregator = Worst(group.config)
    assert isinstance(group._aggregator, Worst)
    assert group.compute_metrics(RESULTS) == {"acc,none": 0.5}
    assert group.aggregate(RESULTS)["acc,none"] == 0.5
    assert made.compute_all_group_metrics(RESULTS) == {"g": {"acc,none": 0.5}}


def test_the_filters_of_a_metric_are_found_in_results():
    assert manager().groups["g"]._discover_filters_for_metric("acc", RESULTS) == ["none", "strict"]


def test_a_key_that_no_group_has_is_refused():
    with pytest.raises(ConfigError, match="agregate_metric_list") as caught:
        Group.from_config({"group": "g", "agregate_metric_list": [{"metric": "acc"}]})
    assert "aggregate_metric_list" in str(caught.value.hint)


# ---------------------------------------------------------------------- tasks


def test_repeats_and_their_reducer_stand_in_one_field_of_a_file(tmp_path):
    repeated = {"repeat_cfg": {"repeats": 3, "reducer": "max"}}
    filters = {"filter_list": [{"name": "all", "filter": [{"function": "noop"}]}]}
    model = Told(right)
    found = run(write_task(tmp_path, SUMS, **GENERATION, **repeated, **filters), model)
    assert found.tasks["mine"].config["repeats"] == 3
    assert value(found, "exact_match", "all") == 1.0
    with pytest.raises(ConfigError, match="reduser"):
        run(write_task(tmp_path, SUMS, **GENERATION, repeat_cfg={"repeats": 3, "reduser": "max"}), model)


def test_filters_of_a_task_can_be_applied_one_by_one():
    filters = [{"name": "low", "filter": [{"function": "lowercase"}, {"function": "take_first"}]}, {"name": "raw"}]
    task = GenerateTask(TaskConfig(task="t", filter_list=filters))
    instance = Instance("generate_until", {}, ("q", {}), 0, resps=["YES"])
    for each in task._filters:
        each.ensemble.apply([instance])
    assert instance.filtered_resps == {"low": "yes", "raw": "YES"}


def test_a_python_task_says_what_it_is():
    class Rivers(BaseTask[str]):
        NAME = "Rivers"
        DATASET_PATH = "my/rivers"
        SAMPLE_SPLIT = "test"
        SUBJECTS = ("asia",)
        TASK_STYLER = MCStyle()

    said = Rivers().get_metadata()
    assert (said["task_style"], said["dataset_path"], said["subjects"]) == ("multiple_choice", "my/rivers", ["asia"])
    assert said["metrics"][0] == "acc"


CLASS = """
from lm_eval.api.task import ConfigurableTask
from assay.config import TaskConfig

class Settled(ConfigurableTask):
    def __init__(self, config=None, **kwargs):
        super().__init__(config=config)
        self._config = self._config.override(doc_to_target="{{a}}")
"""


def test_a_class_may_set_its_config(tmp_path):
    fields = {"output_type": "generate_until", "doc_to_text": "q", "doc_to_target": "q", "metric_list": ["exact_match"]}
    file = write_task(tmp_path, SUMS, CLASS, **fields, **{"class": function("u.Settled")})
    assert value(run(file, Told(right)), "exact_match") == 1.0


def test_requests_whose_answer_is_no_list_are_scored_as_the_walkthrough_shows() -> None:
    lls = [(-2.1, True), (-1.5, True), (-0.8, True), (-3.2, True)]
    asked = [
        Instance("loglikelihood", {}, ("Q", f" {label}"), idx, target=2, resps=answer)  # type: ignore[arg-type]
        for idx, (label, answer) in enumerate(zip("ABCD", lls))
    ]
    config = TaskConfig(task="t", output_type="multiple_choice", doc_to_text="q", doc_to_target=2, metric_list=["acc"])
    assert MCResult.from_instances(asked, acc_mutual_info=False).lls == [-2.1, -1.5, -0.8, -3.2]
    assert MultipleChoiceScorer().score({0: asked}, config).sample_scores["acc", "none"] == [1.0]
