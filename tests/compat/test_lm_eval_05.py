"""What files for lm-evaluation-harness 0.5 say, and files for 0.4 do not."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.seeds.parts import Written, load_task, run, write_task

from assay.cli.entry import assay as command
from assay.compat.lm_eval.class_tasks import LmEvalInstance
from assay.errors import ConfigError, ConfigWarning, DataError
from assay.metrics import METRICS
from assay.scoring import MCResult
from assay.tasks import TaskManager
from assay.templates import compile_template


def choices(folder: Path, docs: list[dict[str, Any]], more: str = "", name: str = "pick") -> Path:
    fields = "output_type: multiple_choice\ndoc_to_text: question\ndoc_to_choice: choices\ndoc_to_target: answer\n"
    kept = "".join(f"{line}\n" for line in fields.splitlines() if line.split(":")[0] + ":" not in more)
    return write_task(folder, name, kept + more, docs)


# ---------------------------------------------------------------------- what its files say


def test_multiple_inputs_vary_the_context(tmp_path: Path) -> None:
    docs = [{"first": "Ann", "second": "Bea", "rest": " was late.", "answer": 1}]
    more = 'doc_to_text: "{{[first, second]}}"\ndoc_to_choice: "{{[rest]}}"\nmultiple_inputs: true\n'
    task = load_task(choices(tmp_path, docs, more + 'target_delimiter: ""\n'), "pick")
    made = task.build_all_requests()
    assert [instance.args for instance in made] == [("Ann", " was late."), ("Bea", " was late.")]
    assert made[0].target == 1


def test_multiple_inputs_with_two_continuations_is_an_error(tmp_path: Path) -> None:
    docs = [{"question": ["a", "b"], "choices": ["x", "y"], "answer": 0}]
    task = load_task(choices(tmp_path, docs, "multiple_inputs: true\n"), "pick")
    with pytest.raises(DataError, match="continuation"):
        task.build_all_requests()


def test_multiple_targets_are_all_right(tmp_path: Path) -> None:
    docs = [{"question": "?", "choices": ["bb", "a", "cc"], "answer": [1, 2]}]
    found = run(choices(tmp_path, docs, "multiple_targets: true\n"), ["pick"], Written(lambda prompt, draw: ""))
    assert found["pick"]["acc"].value == 1.0


def test_noop_leaves_every_draw_to_the_metric(tmp_path: Path) -> None:
    sampled = "generation_kwargs: {do_sample: true, temperature: 1.0}\nrepeats: 2\n"
    write_task(
        tmp_path,
        "sums",
        f"{sampled}filter_list: [{{name: all, filter: [{{function: noop}}]}}]\nmetric_list: [exact_match]\n",
    )
    found = run(tmp_path, ["sums"], Written(lambda prompt, draw: "2" if draw else "x"))
    assert found["sums"]["exact_match", "all"].value == 0.125


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{c | letter_choices}}", "A. yes\nB. no"),
        ("{{c | letter_choices(sep=', ', style=') ')}}", "A) yes, B) no"),
        ("{{'B' | answer_key_to_index}}{{3 | answer_key_to_index}}{{'2' | answer_key_to_index(['2', '1'])}}", "120"),
    ],
)
def test_template_filters(template: str, text: str) -> None:
    assert compile_template(template).render({"c": ["yes", "no"]}) == text


def test_an_answer_key_that_is_no_label_is_an_error() -> None:
    with pytest.raises(DataError, match="expected one of A, B"):
        compile_template("{{'C' | answer_key_to_index(['A', 'B'])}}").render({})


def test_instances_are_made_as_either_line_makes_them() -> None:
    older = LmEvalInstance("generate_until", {}, ("q", {}), 1, ("t", 7, 2))
    assert (older.task_name, older.doc_id, older.repeats, older.idx) == ("t", 7, 2, 1)
    newer = LmEvalInstance(
        "generate_until", {}, ("q", {}), task_name="t", doc_id=7, repeats=2, idx=1, metadata={"a": 1}
    )
    assert (newer.task_name, newer.doc_id, newer.repeats, newer.idx) == ("t", 7, 2, 1)
    by_place = LmEvalInstance("generate_until", {}, ("q", {}), "t", additional_args={"visual": ["image"]})
    assert (by_place.task_name, by_place.idx, by_place.args[2]) == ("t", 0, {"visual": ["image"]})


@pytest.mark.parametrize("code", ["ll = results[0]", "(ll, is_greedy) = results[0]"])
def test_a_rolling_answer_is_a_number_and_a_pair(code: str, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(f"def score(doc, results):\n    {code}\n    return {{'total': ll}}\n")
    more = "output_type: loglikelihood_rolling\nprocess_results: !function own.score\nmetric_list: [{metric: total}]\n"
    write_task(tmp_path, "text", more)
    found = run(tmp_path, ["text"], Written(lambda prompt, draw: ""))
    assert found["text"]["total"].value == -1.0  # one character each


# ---------------------------------------------------------------------- groups


def test_a_mapping_under_include_reaches_every_member(tmp_path: Path) -> None:
    write_task(tmp_path, "a", "metric_list: [exact_match]\n")
    (tmp_path / "g.yaml").write_text(
        "group: g\ntask: [a, {task: a, num_fewshot: 1, task_alias: other}]\ninclude: {num_fewshot: 2, scorer: first_token}\n"
    )
    loaded = TaskManager(tmp_path, include_defaults=False).load(["g"])
    assert sorted(task.config.num_fewshot or 0 for task in loaded.tasks.values()) == [1, 2]
    assert all(task.config.scorer and task.config.scorer.type == "first_token" for task in loaded.tasks.values())
    assert loaded.groups["g"].config.scorer is None


def test_a_scorer_of_an_included_file_is_the_members(tmp_path: Path) -> None:
    write_task(tmp_path, "a", "metric_list: [exact_match]\n")
    (tmp_path / "fields.yaml").write_text("scorer: choice_match\nnum_fewshot: 3\n")
    (tmp_path / "g.yaml").write_text("group: g\ninclude: fields.yaml\ntask: [a]\n")
    loaded = TaskManager(tmp_path, include_defaults=False).load(["g"])
    config = loaded.tasks["a"].config
    assert (config.num_fewshot, config.scorer and config.scorer.type) == (3, "choice_match")
    assert loaded.groups["g"].config.scorer is None


def test_direct_fields_of_a_group_of_05_reach_nobody_and_that_is_said(tmp_path: Path) -> None:
    tasks = tmp_path / "lm_eval" / "tasks"
    tasks.mkdir(parents=True)
    (tmp_path / "lm_eval-0.5.0.dev1.dist-info").mkdir()
    write_task(tasks, "a", "metric_list: [exact_match]\n")
    (tasks / "g.yaml").write_text("group: g\ntask: [a]\nnum_fewshot: 7\ninclude: {repeats: 2}\n")
    with pytest.warns(ConfigWarning, match="num_fewshot of a group apply to no member in lm-evaluation-harness 0.5"):
        config = TaskManager(tasks, include_defaults=False).load(["g"]).tasks["a"].config
    assert (config.num_fewshot, config.repeats, config.lm_eval_version) == (None, 2, "0.5")


def test_a_function_above_its_directory_is_reported_not_raised(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    write_task(inner, "a", "process_docs: !function ../utils.keep\n")
    said = CliRunner().invoke(command, ["validate", "--no-defaults", "--include_path", str(tmp_path)])
    assert said.exit_code == 2
    assert "../utils.keep" in said.output or "utils" in said.output
    assert "Traceback" not in said.output


# ---------------------------------------------------------------------- which line


SPACED = [{"question": "They", "choices": [" kissed.", "ran"], "answer": 0}]


@pytest.mark.parametrize(
    ("version", "sent"), [("", ["  kissed.", " ran"]), ("0.4", ["  kissed.", " ran"]), ("0.5", [" kissed.", " ran"])]
)
def test_a_space_that_is_there_is_not_sent_twice_in_05(version: str, sent: list[str], tmp_path: Path) -> None:
    said = f'lm_eval_version: "{version}"\n' if version else ""
    task = load_task(choices(tmp_path, SPACED, said), "pick")
    assert [instance.args[1] for instance in task.build_all_requests()] == sent


class Fixed(Written):
    def loglikelihood(self, requests: Any) -> list[tuple[float, bool]]:
        return [({" a": -1.0, " bb": -1.8}[request.args[1]], False) for request in requests]


@pytest.mark.parametrize("docs", [1, 40], ids=["doc by doc", "many at once"])
@pytest.mark.parametrize(("version", "right"), [("0.4", 0.0), ("0.5", 1.0)])
def test_lengths_count_the_delimiter_in_05(version: str, right: float, docs: int, tmp_path: Path) -> None:
    """-1/1 and -1.8/2 without the delimiter; -1/2 and -1.8/3 with it."""
    rows = [{"question": "?", "choices": ["a", "bb"], "answer": 0, "id": n} for n in range(docs)]
    choices(tmp_path, rows, f'lm_eval_version: "{version}"\nmetric_list: [acc_norm]\n')
    found = run(tmp_path, ["pick"], Fixed(lambda prompt, draw: ""))
    assert found["pick"]["acc_norm"].value == right


def test_results_record_the_line(tmp_path: Path) -> None:
    choices(tmp_path, SPACED, 'lm_eval_version: "0.5"\n')
    run(tmp_path, ["pick"], Written(lambda prompt, draw: ""), run_dir=str(tmp_path / "out"))
    (results,) = (tmp_path / "out").rglob("results*.json")
    assert json.loads(results.read_text())["configs"]["pick"]["lm_eval_version"] == "0.5"


# ---------------------------------------------------------------------- scorers, reductions, metrics


@pytest.mark.parametrize(
    ("scorer", "answer", "value"),
    [
        ("first_token", "  paris. ", 1.0),
        ("first_token", "Paris is it", 0.0),
        ("choice_match", "paris.", 1.0),
        ("choice_match", " paris", 0.0),
        ("regex", "so #### paris", 0.0),
        ("{type: regex, regex_pattern: 'so (\\w+)'}", "so paris", 1.0),
        ("{type: regex, kwargs: {regex_pattern: 'so (\\w+)'}}", "so paris", 1.0),
        ("choice", "I think of Berlin, but the best answer is Paris.", 1.0),
        ("choice", "The answer is B.", 1.0),
        ("choice", "The answer is A.", 0.0),
    ],
)
def test_scorers_read_and_compare(scorer: str, answer: str, value: float, tmp_path: Path) -> None:
    docs = [{"question": "?", "answer": "Paris", "choices": ["Berlin", "Paris"]}]
    offered = "doc_to_choice: choices\n" if "choice" in scorer and "match" not in scorer else ""
    write_task(tmp_path, "cap", f"scorer: {scorer}\n{offered}", docs)
    assert run(tmp_path, ["cap"], Written(lambda prompt, draw: answer))["cap"]["exact_match"].value == value


def test_a_tasks_own_metrics_go_before_those_of_its_scorer(tmp_path: Path) -> None:
    write_task(
        tmp_path,
        "sums",
        "scorer: first_token\nmetric_list: [{metric: exact_match}]\n",
        [{"question": "?", "answer": "A"}],
    )
    assert run(tmp_path, ["sums"], Written(lambda prompt, draw: " a"))["sums"]["exact_match"].value == 0.0


DRAWN = (
    "generation_kwargs: {do_sample: true, temperature: 1.0}\nrepeats: 4\nfilter_list: [{name: none, filter: [noop]}]\n"
)


def test_reduction_by_pass_at_k_gives_05s_names(tmp_path: Path) -> None:
    write_task(tmp_path, "sums", f"{DRAWN}metric_list: [{{metric: exact_match, reduction: pass@k}}]\n")
    found = run(
        tmp_path, ["sums"], Written(lambda prompt, draw: "2" if draw == 1 else "x"), run_dir=str(tmp_path / "out")
    )
    scores = {key.metric: score.estimate.value for key, score in found["sums"].scores.items()}
    assert scores == {"pass@1(exact_match)": 1 / 16, "pass@3(exact_match)": 3 / 16, "pass@4(exact_match)": 0.25}
    (results,) = (tmp_path / "out").rglob("results*.json")
    written = json.loads(results.read_text())["results"]["sums"]
    assert {"pass@1(exact_match),none", "pass@1(exact_match)_stderr,none"} <= set(written)


@pytest.mark.parametrize("asked", [{"repeats": 4}, {}], ids=["of the run", "of the file"])
def test_a_file_of_05_scores_every_draw_without_being_told(asked: dict[str, int], tmp_path: Path) -> None:
    drawn = "generation_kwargs: {do_sample: true, temperature: 1.0}\n" + ("" if asked else "repeats: 4\n")
    write_task(tmp_path, "sums", f'{drawn}lm_eval_version: "0.5"\nmetric_list: [exact_match]\n')
    found = run(tmp_path, ["sums"], Written(lambda prompt, draw: "2" if draw == 1 else "x"), **asked)
    scores = {key.metric: score.estimate.value for key, score in found["sums"].scores.items()}
    assert scores == {"pass@1(exact_match)": 1 / 16, "pass@3(exact_match)": 3 / 16, "pass@4(exact_match)": 0.25}


@pytest.mark.parametrize("line", ["reducer: max", "reduction: max"])
def test_reduction_is_another_word_for_reducer(line: str, tmp_path: Path) -> None:
    write_task(tmp_path, "sums", f"{DRAWN}metric_list: [{{metric: exact_match, {line}}}]\n")
    found = run(tmp_path, ["sums"], Written(lambda prompt, draw: "2" if draw == 1 else "x"))
    assert found["sums"]["exact_match"].value == 0.25


def test_a_key_that_a_metric_does_not_take_is_an_error_with_the_nearest(tmp_path: Path) -> None:
    write_task(tmp_path, "sums", "metric_list: [{metric: exact_match, ignore_cases: true}]\n")
    with pytest.raises(ConfigError, match="has no argument 'ignore_cases'") as error:
        run(tmp_path, ["sums"], Written(lambda prompt, draw: ""))
    assert "ignore_case" in str(error.value)
    write_task(tmp_path, "typo", "metric_list: [{metric: exact_match, reductions: max}]\n")
    with pytest.raises(ConfigError, match="has no argument 'reductions'") as error:
        run(tmp_path, ["typo"], Written(lambda prompt, draw: ""))
    assert "reduction" in str(error.value)


CHOICE = "output_type: multiple_choice\ndoc_to_choice: ['2', '4']\ndoc_to_target: 0\n"


@pytest.mark.parametrize("line", ['lm_eval_version: "0.4"\n', 'lm_eval_version: "0.5"\n', ""])
def test_an_argument_that_a_metric_of_lm_eval_ignores_is_said_to_have_no_effect(line: str, tmp_path: Path) -> None:
    """By `validate`; by a run in files of one's own, for those of lm-evaluation-harness do so in a thousand places."""
    write_task(tmp_path, "pick", f"{CHOICE}{line}metric_list: [{{metric: acc, ignore_case: true}}]\n")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConfigWarning)
        run(tmp_path, ["pick"], Written(lambda prompt, draw: ""))
    said = [str(each.message) for each in caught if issubclass(each.category, ConfigWarning)]
    what = "task pick: no effect: ignore_case of metric acc, which does not use it"
    assert said == ([] if line else [what])
    shown = CliRunner().invoke(command, ["validate", str(tmp_path / "pick.yaml")])
    assert shown.exit_code == 0, shown.output
    assert f"! {what}" in " ".join(shown.output.split())


def test_any_other_argument_is_an_error_in_files_of_ones_own_and_said_in_those_of_lm_eval(tmp_path: Path) -> None:
    write_task(tmp_path, "own", f"{CHOICE}metric_list: [{{metric: acc, weigh: 2}}]\n")
    with pytest.raises(ConfigError, match="has no argument 'weigh'"):
        run(tmp_path, ["own"], Written(lambda prompt, draw: ""))
    write_task(tmp_path, "theirs", f'{CHOICE}lm_eval_version: "0.4"\nmetric_list: [{{metric: acc, weigh: 2}}]\n')
    shown = CliRunner().invoke(command, ["validate", str(tmp_path / "theirs.yaml")])
    assert "no effect: weigh of metric acc" in " ".join(shown.output.split())


def test_metrics_of_05_by_hand() -> None:
    import math

    import numpy as np

    result = MCResult([-2.0, -1.0, -4.0], [False, True, False], 0, choices=[" ab", " c", " d€"])
    share = np.exp([-2.0, -1.0, -4.0]) / np.exp([-2.0, -1.0, -4.0]).sum()
    by_byte = np.exp([-2 / 3, -1 / 2, -4 / 5]) / np.exp([-2 / 3, -1 / 2, -4 / 5]).sum()
    expected = {
        "exact_match_mc": 0,
        "bpb": 2.0 / 3 / math.log(2),
        "logprob": -2.0,
        "choice_logprob": math.log(share[0]),
        "choice_prob_norm": by_byte[0],
        "choice_logprob_norm": math.log(by_byte[0]),
    }
    assert {name: METRICS[name].fn(result) for name in expected} == pytest.approx(expected)
    assert METRICS["bpb"].higher_is_better is False
    assert METRICS["exact_match_mc"].fn(MCResult([-1.0], [True], 0, choices=["a"])) == 1


def test_bpb_and_logprob_of_one_target(tmp_path: Path) -> None:
    more = "output_type: loglikelihood\ndoc_to_target: ' ab'\nmetric_list: [bpb, logprob]\n"
    write_task(tmp_path, "text", more)
    model = Written(lambda prompt, draw: "")
    ll = model.loglikelihood([LmEvalInstance("loglikelihood", {}, ("", " ab"), 0)])[0][0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = run(tmp_path, ["text"], model)["text"]
    assert found["logprob"].value == pytest.approx(ll)
    assert found["bpb"].value == pytest.approx(-ll / 3 / 0.6931471805599453)


# ---------------------------------------------------------------------- scorers that are written for it

SCORERS_05 = """
from dataclasses import dataclass

from lm_eval.api.registry import register_scorer
from lm_eval.scorers import GenScorer, LLScorer, ScoredDoc


@register_scorer("by_length")
@dataclass
class ByLength(GenScorer):
    longest: int = 3

    def score(self, reference, predictions, metric_kwargs=None):
        return {"short": [float(len(text) <= self.longest) for text in predictions]}


class Stripped(GenScorer):
    default_filter_cfg = [{"function": "remove_whitespace"}]
    default_metric_cfg = [{"metric": "exact_match", "ignore_case": True}]


class Both(GenScorer):
    def score(self, reference, predictions, metric_kwargs=None):
        return {**super().score(reference, predictions), "said": [1.0 for _ in predictions]}


class AllAtOnce(GenScorer):
    def score_instances(self, instances):
        inputs = {doc_id: self._extract_inputs(mine) for doc_id, mine in instances.items()}
        longest = max(len(said[0]) for _, said, _ in inputs.values())
        return {
            doc_id: ScoredDoc(doc_id=doc_id, reference=right, scores={"share": [len(said[0]) / longest]})
            for doc_id, (right, said, _) in inputs.items()
        }


class Margin(LLScorer):
    def score_doc(self, doc_id, doc_instances):
        from lm_eval.api.metrics import LLResults

        doc = LLResults.from_instances(doc_instances, self.name)
        best = sorted(doc.lls)[-2:]
        scored = super().score_doc(doc_id, doc_instances)
        return ScoredDoc(doc_id, doc.targets, {**scored.scores, "margin": [best[1] - best[0]], "sent": [len(doc.choices[0])]})


def keep(docs):
    return docs
"""


def run_scorer(folder: Path, more: str, answers: str = "2", name: str = "sums", docs: Any = None) -> dict[str, float]:
    (folder / "scorers.py").write_text(SCORERS_05)
    write_task(folder, name, more, *([docs] if docs else []))
    found = run(folder, [name], Written(lambda prompt, draw: answers))[name]
    return {key.metric: score.estimate.value for key, score in found.scores.items()}


def test_a_scorer_of_05_scores_its_docs_one_by_one(tmp_path: Path) -> None:
    assert run_scorer(tmp_path, "scorer: !function scorers.ByLength\n", "four") == {"short": 0.0}
    assert run_scorer(tmp_path, "scorer: {type: !function scorers.ByLength, longest: 4}\n", "four") == {"short": 1.0}


def test_a_scorer_of_05_is_known_by_the_name_it_registers(tmp_path: Path) -> None:
    more = "process_docs: !function scorers.keep\nscorer: {type: by_length, kwargs: {longest: 4}}\n"
    assert run_scorer(tmp_path, more, "four") == {"short": 1.0}


def test_a_scorer_of_05_brings_its_filter_and_metrics(tmp_path: Path) -> None:
    assert run_scorer(tmp_path, "scorer: !function scorers.Stripped\n", " 2 ") == {"exact_match": 0.25}


def test_a_scorer_of_05_adds_to_the_metrics_of_the_task(tmp_path: Path) -> None:
    more = "scorer: !function scorers.Both\nmetric_list: [exact_match, {metric: said}]\n"
    assert run_scorer(tmp_path, more) == {"exact_match": 0.25, "said": 1.0}


def test_a_scorer_of_05_scores_all_docs_at_once(tmp_path: Path) -> None:
    assert run_scorer(tmp_path, "scorer: !function scorers.AllAtOnce\n") == {"share": 1.0}


def test_a_scorer_of_05_for_choices_sees_what_was_sent(tmp_path: Path) -> None:
    docs = [{"question": "?", "choices": ["a", "bb"], "answer": 0}]
    fields = "output_type: multiple_choice\ndoc_to_choice: choices\ndoc_to_target: answer\n"
    found = run_scorer(
        tmp_path, f"{fields}scorer: !function scorers.Margin\nmetric_list: [acc, margin, sent]\n", docs=docs
    )
    assert (found["acc"], found["sent"]) == (1.0, 2.0)
    assert found["margin"] > 0


def test_a_setting_that_a_scorer_of_05_does_not_take_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="longst"):
        run_scorer(tmp_path, "scorer: {type: !function scorers.ByLength, longst: 4}\n")
