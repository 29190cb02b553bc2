"""Seed 003: results, reduction, aggregation, filters."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.seeds.parts import Written, load_task, run, write_task

from assay.cli.entry import assay as command
from assay.config import ConfigWarning, MetricConfig, TaskConfig
from assay.errors import ConfigError, ScoringError
from assay.filters import FilterEnsemble, LowercaseFilter, StripPunctuationFilter, register_filter
from assay.instance import GenInstance, Instance, MCInstance
from assay.metrics import AGGREGATIONS, METRICS, mean, register_aggregation, register_metric
from assay.scoring import GenResult, MCResult, stderr_for_metric
from assay.tasks import GenerateTask, MultipleChoiceTask, Task


def choice(idx: int, ll: float) -> Instance:
    made = Instance("loglikelihood", {}, ("context", f"{'ABCD'[idx]}) option"), idx, target=2)
    made.resps = (ll, True)  # type: ignore[assignment]
    return made


def sums(folder: Path, more: str = "metric_list: [{metric: exact_match}]\n") -> Task:
    return load_task(write_task(folder, "gsm8k", more), "gsm8k")


def test_003_151_and_153_filters_are_named_none_and_must_have_been_applied() -> None:
    """`none` is the name in seed 001 and in lm-evaluation-harness's files; a filter that was not applied is no answer."""
    made = Instance("generate_until", {}, ("q", {}), 0, target="4", filtered_resps={"a": "4"}, resps=["4"])
    assert GenResult.from_instances([made]).filter_name == "none"
    with pytest.raises(ScoringError, match="filter 'b' was not applied"):
        GenResult.from_instances([made], "b")


def test_003_156_and_158_bare_tuples_and_the_keyword_results() -> None:
    instances = [choice(i, ll) for i, ll in enumerate((-2.1, -1.5, -0.8, -3.2))]
    found = MCResult.from_instances(results=instances, acc_mutual_info=False)
    assert list(found.lls) == [-2.1, -1.5, -0.8, -3.2]
    assert METRICS["acc"].fn(found) == 1.0


def test_003_161_names_of_instances() -> None:
    assert GenInstance is MCInstance is Instance


def test_003_164_sorting_nothing_gives_nothing() -> None:
    assert Task.sort_instances() == Task.sort_instances(None) == {}


def test_003_165_and_166_result_and_metric_of_one_doc(tmp_path: Path) -> None:
    task = sums(tmp_path)
    made = Instance("generate_until", {}, ("q", {}), 0, target="4", filtered_resps={"none": "4"}, resps=["4"])
    task.multiple_target = False
    result = task._create_result([made], "none")
    assert isinstance(result, GenResult)
    assert task._compute_metric(result, "exact_match") == {"exact_match": 1.0}
    assert task._compute_metric(result, MetricConfig(metric="exact_match")) == {"exact_match": 1.0}


def test_003_165_a_run_scores_what_create_result_made(tmp_path: Path) -> None:
    class Trimmed(GenerateTask):
        def _create_result(self, instances: Any, filter_name: str) -> GenResult:
            result = GenResult.from_instances(instances, filter_name=filter_name)
            result.prediction = result.prediction.strip("!")
            return result

    found = run(tmp_path, [Trimmed(sums(tmp_path).config)], Written(lambda prompt, draw: "2!"))
    assert found["gsm8k"]["exact_match"].value == 0.25


def test_003_165_a_run_flags_choices_whose_result_the_task_made(tmp_path: Path) -> None:
    class Flat(MultipleChoiceTask):
        def _create_result(self, instances: Any, filter_name: str) -> MCResult:
            result = MCResult.from_instances(instances, filter_name)
            return dataclasses.replace(result, lls=[-ll for ll in result.lls])

    docs = [{"question": "?", "choices": ["a", "bb"], "answer": 1, "id": n} for n in range(20)]
    write_task(
        tmp_path,
        "pick",
        "output_type: multiple_choice\ndoc_to_choice: choices\ndoc_to_target: answer\nmetric_list: [acc]\n",
        docs,
    )
    model = Written(lambda prompt, draw: "")
    assert run(tmp_path, ["pick"], model)["pick"]["acc"].value == 0.0
    assert run(tmp_path, [Flat(load_task(tmp_path, "pick").config)], model)["pick"]["acc"].value == 1.0


def test_003_166_a_run_calls_compute_metric_and_reduces_what_it_gives(tmp_path: Path) -> None:
    class PerDraw(GenerateTask):
        def _compute_metric(self, gen_result: Any, metric: Any) -> list[float]:
            calls = [metric.fn(references=["2"], predictions=[text], **metric.kwargs) for text in gen_result.results]
            return [each[metric.name] for each in calls]

    sampled = "generation_kwargs: {do_sample: true, temperature: 1.0}\nrepeats: 4\n"
    kept = "filter_list: [{name: all, filter: [{function: take_first_k, k: 4}]}]\n"
    for reducer, value in (("", 0.25), ("reducer: max\n", 1.0)):
        config = sums(tmp_path, f"{sampled}{kept}{reducer}metric_list: [exact_match]\n").config
        found = run(tmp_path, [PerDraw(config)], Written(lambda prompt, draw: "2" if draw == 1 else "3"))
        assert found["gsm8k"]["exact_match", "all"].value == value


def test_003_166_what_the_file_names_goes_before_the_class(tmp_path: Path) -> None:
    class Never(GenerateTask):
        def _compute_metric(self, result: Any, metric: Any) -> Any:
            raise AssertionError("the file's own process_results scores")

    (tmp_path / "own.py").write_text("def score(doc, results):\n    return {'length': len(results[0])}\n")
    config = sums(tmp_path, "process_results: !function own.score\nmetric_list: [{metric: length}]\n").config
    found = run(tmp_path, [Never(config)], Written(lambda prompt, draw: "abc"))
    assert found["gsm8k"]["length"].value == 3.0


def test_003_167_what_is_called_stands_in_the_registry(tmp_path: Path) -> None:
    entry = MetricConfig(metric="exact_match", ignore_case=True)  # type: ignore[call-arg]
    assert (entry.name, entry.kwargs) == ("exact_match", {"ignore_case": True})
    assert callable(METRICS[entry.name].fn)


def test_003_170_171_172_174_scores_alone_are_aggregated(tmp_path: Path) -> None:
    task = sums(tmp_path)
    found = task.compute_aggregations({("exact_match", "default"): [1.0, 0.0, 1.0, 1.0], ("mine", "none"): [1.0, 2.0]})
    assert found["exact_match,default"] == 0.75
    assert found["exact_match_stderr,default"] == pytest.approx(0.25)
    assert found["mine,none"] == 1.5
    assert task.sample_len == 2
    for wrong in ("100", 1.5, None, True):
        with pytest.raises(ValueError, match="expected an int"):
            task.compute_aggregations({("mine", "none"): [1.0]}, bootstrap_iters=wrong)  # type: ignore[arg-type]


def test_003_173_no_error_bar_is_none_in_python(tmp_path: Path) -> None:
    """A text among numbers is for files: results.json says "N/A"."""
    found = sums(tmp_path).compute_aggregations({("mine", "none"): [1.0, 2.0]}, bootstrap_iters=0)
    assert found == {"mine,none": 1.5, "mine_stderr,none": None}


def test_003_175_aggregation_by_metric(tmp_path: Path) -> None:
    assert sums(tmp_path).aggregation()["exact_match"]([1.0, 0.0]) == 0.5


def test_003_178_reduce_takes_the_mean_as_a_run_does(tmp_path: Path) -> None:
    assert sums(tmp_path).reduce([[1.0, 0.0, 0.0], 1.0], "exact_match") == [pytest.approx(1 / 3), 1.0]


def test_003_179_repeat_cfg() -> None:
    config = TaskConfig(repeat_cfg={"repeats": 3, "reducer": "max"})  # type: ignore[call-arg]
    assert (config.repeats, config.reducer, config.repeat_cfg.reducer) == (3, "max", "max")


def test_003_walkthrough_of_reduction(tmp_path: Path) -> None:
    task = sums(tmp_path, "repeats: 3\nreducer: max\nmetric_list: [{metric: exact_match}]\n")
    scores = [[0.8, 0.75, 0.78], [0.9, 0.85, 0.92], [0.7, 0.72, 0.69]]
    assert task.reduce(scores, "exact_match") == [0.8, 0.92, 0.72]
    assert task.compute_aggregations({("exact_match", "none"): scores})["exact_match,none"] == pytest.approx(
        0.8133, abs=1e-4
    )


def test_003_185_and_193_medians_are_sorted_first(tmp_path: Path) -> None:
    """Of draws the ordinary median, of docs the upper one; unsorted, the number would be that of any doc."""
    task = sums(tmp_path, "reducer: median\n")
    assert task.reduce([[0.0, 1.0]], "x") == [0.5]
    assert AGGREGATIONS["median"].fn([3, 1, 2]) == 2


def test_003_187_a_reducer_without_effect_is_told(tmp_path: Path) -> None:
    sampled = "generation_kwargs: {do_sample: true, temperature: 1.0}\n"
    write_task(tmp_path, "gsm8k", f"{sampled}repeats: 3\nreducer: max\nmetric_list: [{{metric: exact_match}}]\n")
    with pytest.warns(ConfigWarning, match="no effect: reducer of exact_match: filter 'none' leaves one answer"):
        run(tmp_path, ["gsm8k"], Written(lambda prompt, draw: "2"))
    said = CliRunner().invoke(command, ["validate", "gsm8k", "--include_path", str(tmp_path)])
    assert "no effect: reducer of exact_match" in said.output


def test_003_194_and_195_functions_become_aggregations_and_metrics(tmp_path: Path) -> None:
    @register_aggregation("third_largest")
    def third(values: list[float]) -> float:
        return sorted(values)[-3]

    AGGREGATIONS.add("plain_sum", sum)  # type: ignore[arg-type]

    @register_metric("begins_alike")
    def starts(references: list[str], predictions: list[str]) -> float:
        return float(references[0][0] == predictions[0][0])

    METRICS.add("length_of", lambda references, predictions: float(len(predictions[0])))  # type: ignore[arg-type,return-value]

    @register_filter("first_letter")
    def first_letter(resps: Any, docs: Any) -> list[list[str]]:
        return [[text[:1] for text in each] for each in resps]

    listed = "[{metric: begins_alike, aggregation: third_largest}, {metric: length_of, aggregation: plain_sum}]"
    chain = "[{name: first, filter: [{function: first_letter}, {function: take_first}]}]"
    write_task(tmp_path, "gsm8k", f"metric_list: {listed}\nfilter_list: {chain}\n")
    found = run(tmp_path, ["gsm8k"], Written(lambda prompt, draw: "22"))["gsm8k"]
    assert found["begins_alike"].value == 0.0
    assert found["length_of"].value == 4.0


def test_003_196_mean_and_its_standard_error() -> None:
    assert mean([1.0, 0.0]) == 0.5
    stderr = stderr_for_metric(metric=mean, bootstrap_iters=100)
    assert stderr is not None
    assert stderr([1.0, 0.0, 1.0, 0.0]) == pytest.approx((1 / 3 / 4) ** 0.5)
    assert stderr_for_metric(metric=mean, bootstrap_iters=0) is None
    median = stderr_for_metric("median", 200)
    assert median is not None
    assert median([0.0, 1.0, 2.0, 3.0, 4.0] * 4) > 0  # type: ignore[operator]


def test_003_198_acc_all() -> None:
    docs = [{"idx": {"paragraph": 0, "question": q}, "label": label} for q, label in ((0, 1), (0, 0), (1, 1))]
    assert AGGREGATIONS["acc_all"].fn(list(zip([True, False, False], docs))) == 0.5


def test_003_201_the_seeds_chain_of_filters() -> None:
    made = [Instance("generate_until", {}, ("q", {}), 0, resps=[text]) for text in ("Hello, World!", "Hi there!")]
    FilterEnsemble("lowercase", [LowercaseFilter(), StripPunctuationFilter()]).apply(made)
    assert [each.filtered_resps["lowercase"] for each in made] == [["hello world"], ["hi there"]]


def test_003_203_and_204_apply_filters_gives_the_task_back(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    task = sums(tmp_path)
    with caplog.at_level(logging.WARNING):
        assert task.apply_filters() is task
    assert "there are no instances to filter" in caplog.text


def test_003_205_and_206_an_unknown_metric_ends_a_run_before_it_begins(tmp_path: Path) -> None:
    """`f1_score` and `bert_score` stand for any metric in the seed; ours is token_f1, and bert_score would be a model."""
    write_task(tmp_path, "gsm8k", "metric_list: [{metric: exact_mach}]\n")
    asked = [
        "run",
        "--model",
        "dummy",
        "--tasks",
        "gsm8k",
        "--include_path",
        str(tmp_path),
        "--store",
        str(tmp_path / "s"),
    ]
    result = CliRunner().invoke(command, asked)
    assert "exact_match" in str(result.exception)
    assert getattr(result.exception, "exit_code", None) == 2


def test_003_209_and_210_choices_of_a_loglikelihood_task_are_told_to_do_nothing(tmp_path: Path) -> None:
    docs = [{"question": "?", "choices": ["a", "b"], "answer": 1}]
    mmlu = "output_type: loglikelihood\ndoc_to_choice: choices\nmetric_list: [{metric: acc}, {metric: acc_norm}]\n"
    write_task(tmp_path, "mmlu_anatomy", f"{mmlu}doc_to_target: answer\n", docs)
    with pytest.raises(ConfigError, match="expected text to score"):
        run(tmp_path, ["mmlu_anatomy"], Written(lambda prompt, draw: ""))
    write_task(tmp_path, "text_target", mmlu + "doc_to_target: '{{choices[answer]}}'\n", docs)
    with pytest.warns(ConfigWarning) as told:
        run(tmp_path, ["text_target"], Written(lambda prompt, draw: ""))
    said = " ".join(str(each.message) for each in told)
    assert "metric acc_norm does not apply to loglikelihood tasks" in said
    assert "multiple_choice scores choices" in said
    told_by_validate = CliRunner().invoke(command, ["validate", "text_target", "--include_path", str(tmp_path)])
    assert "metric acc_norm does not apply to loglikelihood tasks" in told_by_validate.output


def test_003_222_a_metric_without_a_value_passes_the_doc_over(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "def some(references, predictions):\n    return None if references[0] == '4' else 1.0\n"
    )
    write_task(tmp_path, "gsm8k", "metric_list: [{metric: !function own.some}]\n")
    found = run(tmp_path, ["gsm8k"], Written(lambda prompt, draw: "2"))
    assert (found["gsm8k"]["some"].value, found["gsm8k"]["some"].n) == (1.0, 3)
    assert found.tasks["gsm8k"].health.unscored == 1
