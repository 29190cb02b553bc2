"""Seed 002: scorers, what they can be asked for, and the hooks that a run calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.seeds.parts import Written, load_task, run, write_task

import assay
from assay.config import TaskConfig
from assay.errors import ConfigError, ScoringError
from assay.instance import Instance
from assay.results import MetricKey
from assay.scoring import (
    CustomScorer,
    GenerateScorer,
    GenResult,
    MultiChoiceScorer,
    MultipleChoiceScorer,
    Scorer,
    ScoringResult,
)
from assay.tasks import GenerateTask, Task


def answered(text: str = "2", doc_id: int = 0, target: Any = "2") -> Instance:
    doc = {"question": "1+1=?", "answer": "2"}
    made = Instance(
        "generate_until", doc, ("1+1=?", {}), 0, doc_id=doc_id, task_name="gsm8k", target=target, resps=[text]
    )
    made.filtered_resps["none"] = text
    return made


CONFIG = TaskConfig(task="gsm8k", metric_list=["exact_match"])


def test_002_108_merging_never_overwrites() -> None:
    """The seed's later result wins without a word; here two values under one name are an error."""
    one = ScoringResult({("acc", "none"): [1.0]})
    with pytest.raises(ScoringError, match="two results both have acc under none"):
        one.merge(ScoringResult({("acc", "none"): [0.0]}))


def test_002_109_a_bare_scorer_cannot_be_made() -> None:
    with pytest.raises(TypeError, match="does not say how it scores"):
        Scorer()


def test_002_110_empty_instances_are_refused() -> None:
    with pytest.raises(ValueError, match="Cannot score empty instances"):
        GenerateScorer()._validate_instances([])
    with pytest.raises(ValueError, match="Cannot score empty instances"):
        GenerateScorer().score({}, CONFIG)


class Shouting(GenerateScorer):
    """Overrides the hooks of the seed."""

    def _create_gen_result(self, instances: Any, filter_name: str) -> GenResult:
        result = super()._create_gen_result(instances, filter_name)
        result.prediction = str(result.prediction).strip("!")
        result.results = [str(text).strip("!") for text in result.results]
        return result


class Counting(GenerateScorer):
    def _compute_metrics(self, data: Any, metrics: Any) -> dict[str, Any]:
        scores: dict[str, Any] = {metric.name: [] for metric in metrics}
        for generation in data.results:
            for metric in metrics:
                value = metric.fn(references=[data.target], predictions=[generation], **metric.kwargs)
                scores[metric.name].append(value[metric.name] if isinstance(value, dict) else value)
        return {**scores, "length": float(len(data.results[0]))}


class Strict(GenerateScorer):
    def _validate_instances(self, instances: Any) -> None:
        super()._validate_instances(instances)
        raise ScoringError("refused by the scorer")


def run_with(folder: Path, scorer: type[Scorer], answer: str = "2!") -> Any:
    class Mine(GenerateTask):
        def _get_default_scorer(self) -> Scorer:
            return scorer()

    write_task(folder, "sums", "metric_list: [{metric: exact_match}]\n")
    return run(folder, [Mine(load_task(folder, "sums").config)], Written(lambda prompt, draw: answer))


def test_002_112_a_run_calls_create_gen_result(tmp_path: Path) -> None:
    assert run_with(tmp_path, Shouting)["sums"]["exact_match"].value == 0.25


def test_002_113_a_run_calls_compute_metrics(tmp_path: Path) -> None:
    found = run_with(tmp_path, Counting, "2")["sums"]
    assert found["exact_match"].value == 0.25
    assert found["length"].value == 1.0


def test_002_110_a_run_calls_validate_instances(tmp_path: Path) -> None:
    with pytest.raises(ScoringError, match="refused by the scorer"):
        run_with(tmp_path, Strict)


def test_002_112_prepare_data_of_choices_is_called_in_a_run(tmp_path: Path) -> None:
    seen: list[int] = []

    class Noting(MultipleChoiceScorer):
        def _prepare_data(self, instances: Any, filter_name: str) -> Any:
            seen.append(instances[0].doc_id)
            return super()._prepare_data(instances, filter_name)

    class Mine(assay.tasks.MultipleChoiceTask):
        def _get_default_scorer(self) -> Scorer:
            return Noting()

    docs = [{"question": "?", "choices": ["a", "bb"], "answer": 0} for _ in range(20)]
    write_task(
        tmp_path,
        "pick",
        "output_type: multiple_choice\ndoc_to_choice: choices\ndoc_to_target: answer\nmetric_list: [acc]\n",
        docs,
    )
    found = run(tmp_path, [Mine(load_task(tmp_path, "pick").config)], Written(lambda prompt, draw: ""))
    assert found["pick"]["acc"].value == 1.0
    assert set(seen) == set(range(20))


def test_002_115_score_takes_a_list_of_instances_too() -> None:
    found = GenerateScorer().score([answered("3", 1), answered("2", 0)], CONFIG)
    assert found.sample_scores == {("exact_match", "none"): [1.0, 0.0]}
    by_doc = {0: [answered("2")]}
    assert GenerateScorer().score(by_doc, CONFIG).sample_scores == {("exact_match", "none"): [1.0]}


def test_002_120_and_123_names_of_the_diagram() -> None:
    assert MultiChoiceScorer is MultipleChoiceScorer

    def mine(doc: Any, results: Any) -> dict[str, float]:
        return {"my_metric": 1.0 if results[0] == doc["answer"] else 0.0}

    scorer = CustomScorer(process_results_fn=mine)
    assert scorer.process_results_fn is mine
    assert scorer.score([answered()], CONFIG).sample_scores == {("my_metric", "none"): [1.0]}
    with pytest.raises(TypeError):
        CustomScorer()


def test_002_124_a_doc_without_results_is_passed_over_and_counted(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "def results(doc, responses):\n    return None if doc['id'] == 2 else {'mine': float(doc['id'])}\n"
    )
    write_task(tmp_path, "sums", "process_results: !function own.results\n")
    found = run(tmp_path, ["sums"], Written(lambda prompt, draw: "2"))
    assert found["sums"]["mine"].value == pytest.approx((1 + 3 + 4) / 3)
    assert found["sums"]["mine"].n == 3
    assert found.tasks["sums"].health.unscored == 1


NEW_TASK = """
from assay.instance import Instance
from assay.scoring import Scorer, ScoringResult
from assay.tasks import Task


class MyNewScorer(Scorer):
    def score(self, instances_by_doc, task_config):
        values = [float(doc[0].resps[0] == "yes") for doc in instances_by_doc.values()]
        return ScoringResult({("said_yes", "none"): values})


class MyNewTask(Task):
    OUTPUT_TYPE = "my_new_type"

    def _get_default_scorer(self):
        return MyNewScorer()

    def construct_requests(self, doc, ctx, **kwargs):
        return Instance("generate_until", doc, (ctx, {"until": ["."]}), 0)
"""


def test_002_126_a_new_type_of_task_runs_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "new.py").write_text(NEW_TASK)
    write_task(tmp_path, "new", "class: !function new.MyNewTask\n")
    found = run(tmp_path, ["new"], Written(lambda prompt, draw: "yes" if prompt.startswith("1") else "no"))
    assert found["new"]["said_yes"].value == 0.25


def test_002_127_a_task_object_runs_beside_names(tmp_path: Path) -> None:
    space: dict[str, Any] = {}
    exec(NEW_TASK, space)
    write_task(tmp_path, "sums", "metric_list: [{metric: exact_match}]\n")
    config = load_task(tmp_path, "sums").config
    made = space["MyNewTask"](config, name="mine")
    found = run(tmp_path, [made, "sums"], Written(lambda prompt, draw: "yes"))
    assert list(found.tasks) == ["sums", "mine"] or list(found.tasks) == ["mine", "sums"]
    assert found.roots == ("mine", "sums")
    assert found["mine"]["said_yes"].value == 1.0
    with pytest.raises(ConfigError, match="there are two tasks named 'sums'"):
        run(tmp_path, [space["MyNewTask"](config), "sums:0shot", "sums"], Written(lambda prompt, draw: "yes"))
    with pytest.raises(ConfigError, match="is not a task"):
        run(tmp_path, [object()], Written(lambda prompt, draw: "yes"))


def test_002_128_and_137_output_types_are_those_of_task_files() -> None:
    """A class may call its type what it likes; a file's `output_type` says how requests are made, so it is checked."""
    with pytest.raises(ValueError, match="there is no output type 'my_new_type'"):
        TaskConfig(output_type="my_new_type")
    assert assay.tasks.MultipleChoiceTask.OUTPUT_TYPE == "multiple_choice"


def test_002_129_130_134_135_146_the_parts_of_a_task(tmp_path: Path) -> None:
    class Mine(GenerateTask):
        def _create_scorer(self) -> Scorer:
            return Counting()

    task = Mine(load_task(write_task(tmp_path, "sums", "metric_list: [{metric: exact_match}]\n"), "sums").config)
    assert isinstance(task._scorer, Counting)
    assert task._scorer is task.scorer
    task.build_all_requests()
    for instance in task._instances:
        instance.resps = ["2"]
    task.apply_filters().process_instances()
    assert task._sample_scores[MetricKey("exact_match")] == [1.0, 0.0, 0.0, 0.0]
    assert [each.name for each in task._filters] == ["none"]
    assert [each.name for each in task.config.get_filters()] == ["none"]
    assert [each.name for each in task.config._metric_list] == ["exact_match"]
    assert [each.name for each in task.config._filter_list] == ["none"]


def test_002_133_mock_instances_need_no_dataset() -> None:
    task = Task.from_config(
        TaskConfig(
            task="gsm8k",
            dataset_path="json",
            dataset_kwargs={"data_files": "nowhere.json"},
            test_split="test",
            doc_to_text="q",
            doc_to_target="a",
            metric_list=["exact_match"],
        )
    )
    scores = task.process_instances([answered("2"), answered("3", 1)])
    assert scores == {("exact_match", "none"): [1.0, 0.0]}


def test_002_142_and_144_the_docs_name_the_parts() -> None:
    docs = "\n".join(path.read_text() for path in (Path(__file__).parents[2] / "docs").glob("*.md"))
    for name in ("GenerateScorer", "MultipleChoiceScorer", "CustomScorer", "ScoringResult", "_get_default_scorer"):
        assert name in docs, name
    assert "`lm_eval.api.scorer`, `lm_eval.types` | `assay.scoring`" in docs
