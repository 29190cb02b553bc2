"""What people write themselves: no metric that is listed is left out, and none gets what it cannot read."""

from __future__ import annotations

import json
import re
import warnings
from typing import Any

import pytest
from tests.own_files import Told, command, function, run, value, write_task

import assay
from assay.errors import ConfigError, ScoringError
from assay.results import MetricKey
from assay.tasks import (
    BaseTask,
    BPBStyle,
    ClozeStyle,
    CoTStyle,
    GenerateStyle,
    LettersStyle,
    MCCompletionStyle,
    MCStyle,
    TaskManager,
    tasks_of,
)

SUMS = [
    {"q": "2+2=", "a": "4", "choices": ["4", "5", "6"], "gold": 0},
    {"q": "3+4=", "a": "7", "choices": ["6", "7", "8"], "gold": 1},
    {"q": "1+2=", "a": "3", "choices": ["1", "2", "3"], "gold": 2},
]
CHOICE: dict[str, Any] = {
    "output_type": "multiple_choice",
    "doc_to_text": "q",
    "doc_to_choice": "choices",
    "doc_to_target": "gold",
}
GENERATION: dict[str, Any] = {"output_type": "generate_until", "doc_to_text": "q", "doc_to_target": "a"}


def right(question: str) -> str:
    return str(sum(int(part) for part in question.strip("=").split("+")))


# ---------------------------------------------------------------------- functions as metrics


@pytest.mark.parametrize("beside", [["acc"], []])
def test_a_function_of_a_choice_task_is_called_with_its_result(tmp_path, beside):
    listed = [*beside, {"metric": function("u.good"), "aggregation": "mean", "higher_is_better": True}]
    file = write_task(tmp_path, SUMS, "def good(result): return len(result.choices)", **CHOICE, metric_list=listed)
    found = run(file)
    assert value(found, "good") == 3.0
    assert [key.metric for key in found.tasks["mine"].scores] == [*beside, "good"]


@pytest.mark.parametrize(
    ("fields", "body", "expected"),
    [
        ({"output_type": "loglikelihood", "doc_to_target": " {{a}}"}, "result[0]", -1.0),
        ({"output_type": "loglikelihood_rolling", "doc_to_text": "", "doc_to_target": "q"}, "len(result[1])", 4.0),
    ],
)
def test_a_function_is_called_for_every_kind_of_likelihood(tmp_path, fields, body, expected):
    listed = [{"metric": function("u.mine"), "aggregation": "mean"}]
    code = f"def mine(result): return {body}"
    file = write_task(tmp_path, SUMS, code, **{"doc_to_text": "q", **fields}, metric_list=listed)
    assert value(run(file), "mine") == expected


def test_a_function_for_texts_is_refused_in_a_choice_task_before_anything_is_sent(tmp_path, capsys):
    code = "def f(predictions, references): return 1.0"
    file = write_task(tmp_path, SUMS, code, **CHOICE, metric_list=["acc", {"metric": function("u.f")}])
    model = Told()
    with pytest.raises(ConfigError, match="MCResult"):
        run(file, model)
    assert model.sent == 0
    said = command(capsys, "validate", file, "--trust")
    assert (said.code, "0 loaded, 1 failed" in said.out) == (2, True)


@pytest.mark.parametrize(
    "code",
    [
        "def mine(prediction, reference): return 1.0",
        "class mine:\n    def __call__(self, predictions, references): return 1.0",
    ],
)
def test_a_function_that_texts_cannot_be_handed_to_is_refused_before_anything_is_sent(tmp_path, code):
    model = Told()
    file = write_task(tmp_path, SUMS, code, **GENERATION, metric_list=[{"metric": function("u.mine")}])
    with pytest.raises(ConfigError, match="mine cannot be called") as caught:
        run(file, model)
    assert (model.sent, "predictions=[answer]" in str(caught.value.hint)) == (0, True)


def test_arguments_that_a_function_of_pairs_is_not_given_are_told(tmp_path):
    code = "def mine(pair, bonus=1): return bonus"
    fields = {**GENERATION, "metric_list": [{"metric": function("u.mine"), "bonus": 5}]}
    with pytest.warns(UserWarning, match="no effect: the metric mine .* no arguments: bonus"):
        assert value(run(write_task(tmp_path, SUMS, code, **fields)), "mine") == 1.0
    with pytest.raises(ConfigError, match="no arguments: bonus"):
        run(write_task(tmp_path, SUMS, code, name="ours", **fields, language="en"))


def test_a_metric_that_does_not_apply_has_a_row_that_says_so(tmp_path, recwarn):
    file = write_task(tmp_path, SUMS, **CHOICE, metric_list=["acc", "perplexity"])
    found = run(file)
    assert sum("perplexity" in str(each.message) for each in recwarn) == 1
    score = found.tasks["mine"].scores[MetricKey("perplexity")]
    assert (score.estimate.value, "does not apply" in str(score.estimate.undefined)) == (None, True)
    ours = write_task(tmp_path, SUMS, name="ours", **CHOICE, metric_list=["acc", "perplexity"], language="en")
    with pytest.raises(ConfigError, match="perplexity does not apply"):
        run(ours)


def test_a_metric_without_a_value_has_a_row_and_an_exit_code(tmp_path, capsys, monkeypatch):
    code = "def nothing(predictions, references): return None"
    listed = [{"metric": function("u.nothing")}, "exact_match"]
    file = write_task(tmp_path, SUMS, code, **GENERATION, metric_list=listed)
    monkeypatch.setenv("ASSAY_STORE", str(tmp_path / "store.db"))
    said = command(capsys, "run", "--model", "dummy", "--tasks", file, "--run_dir", tmp_path / "run")
    assert (said.code, "no doc has a value" in said.out) == (1, True)


def test_a_value_that_is_no_number_is_told_with_its_task_and_metric(tmp_path):
    code = "def word(predictions, references): return 'no' if references[0] == '7' else 1.0"
    file = write_task(tmp_path, SUMS, code, **GENERATION, metric_list=[{"metric": function("u.word")}])
    with pytest.raises(ScoringError, match=r"task 'mine'.*metric 'word'") as caught:
        run(file)
    assert "Value 2 is 'no'" in str(caught.value.hint)


def test_a_score_that_process_results_does_not_give_has_a_row(tmp_path):
    code = "def pr(doc, results): return {'given': 1.0}"
    fields = {**GENERATION, "process_results": function("u.pr"), "metric_list": ["given", "forgotten"]}
    found = run(write_task(tmp_path, SUMS, code, **fields))
    assert value(found, "given") == 1.0
    assert "gave no forgotten" in str(found.tasks["mine"].scores[MetricKey("forgotten")].estimate.undefined)


def test_pairs_of_texts_are_not_handed_to_aggregations_of_numbers(tmp_path):
    model = Told()
    with pytest.raises(ConfigError, match="pairs of texts"):
        run(write_task(tmp_path, SUMS, **GENERATION, metric_list=["brier_score"]), model)
    assert model.sent == 0


# ---------------------------------------------------------------------- filters

EQUAL = "def equal(predictions, references): return float(predictions[0] == references[0])"


@pytest.mark.parametrize("steps", [{}, {"filter": []}])
def test_a_filter_without_steps_hands_on_texts(tmp_path, steps):
    filters = [{"name": "strict", **steps, "metric_list": [{"metric": function("u.equal")}]}]
    file = write_task(tmp_path, SUMS, EQUAL, **GENERATION, filter_list=filters)
    assert value(run(file, Told(right)), "equal", "strict") == 1.0


def test_a_filter_without_steps_hands_each_draw_on_by_itself(tmp_path):
    filters = [{"name": "strict", "metric_list": [{"metric": function("u.equal")}, "exact_match"]}]
    file = write_task(tmp_path, SUMS, EQUAL, **GENERATION, filter_list=filters, repeats=3)
    found = run(file, Told(right))
    assert (value(found, "equal", "strict"), value(found, "exact_match", "strict")) == (1.0, 1.0)


def test_a_filter_without_steps_hands_texts_to_process_results(tmp_path):
    code = "def pr(doc, results): return {'right': float(results[0] == doc['a'])}"
    fields = {**GENERATION, "process_results": function("u.pr"), "filter_list": [{"name": "strict"}]}
    assert value(run(write_task(tmp_path, SUMS, code, **fields), Told(right)), "right", "strict") == 1.0


READS = "def equal(predictions, references): return float(predictions[0] == references[0])\ndef pr(doc, results): return {'equal': float(results[0] == doc['a'])}"


@pytest.mark.parametrize(
    "reader", [{"metric_list": [{"metric": function("u.equal")}]}, {"process_results": function("u.pr")}]
)
@pytest.mark.parametrize("steps", [["lowercase"], ["lowercase", "remove_whitespace"], ["take_first"]])
def test_code_gets_the_only_answer_as_itself_or_is_told_of_a_list(tmp_path, recwarn, steps, reader):
    chain = {"filter_list": [{"name": "low", "filter": [{"function": each} for each in steps]}]}
    ours = write_task(tmp_path, SUMS, READS, name="ours", **GENERATION, **chain, **reader, language="en")
    assert value(run(ours, Told(right)), "equal", "low", "ours") == 1.0
    assert not [each for each in recwarn if "list" in str(each.message)]
    theirs = run(write_task(tmp_path, SUMS, **GENERATION, **chain, **reader), Told(right))
    ends = steps == ["take_first"]
    assert value(theirs, "equal", "low") == float(ends)
    assert ends or sum("`take_first` at its end" in str(each.message) for each in recwarn) == 1


def test_a_list_that_code_of_the_task_leaves_is_handed_on(tmp_path):
    code = "def found(resps, docs): return [[each[0]] * (i + 1) for i, each in enumerate(resps)]\ndef pr(doc, results): return {'n': len(results[0])}"
    chain = {"filter_list": [{"name": "all", "filter": [{"function": "custom", "filter_fn": function("u.found")}]}]}
    file = write_task(tmp_path, SUMS, code, **GENERATION, **chain, process_results=function("u.pr"), language="en")
    assert value(run(file, Told(right)), "n", "all") == 2.0


def test_a_filter_without_steps_serves_choice_tasks(tmp_path):
    file = write_task(tmp_path, SUMS, **CHOICE, filter_list=[{"name": "raw"}], metric_list=["acc"])
    model = Told(ll=lambda context, choice: -float(choice.strip() != right(context)))
    assert value(run(file, model), "acc", "raw") == 1.0


def test_an_empty_list_of_steps_in_a_file_of_the_harness_keeps_its_list(tmp_path):
    code = "def listed(predictions, references): return float(isinstance(predictions[0], list))"
    fields = {**GENERATION, "filter_list": [{"name": "all", "filter": []}], "metric_list": [function("u.listed")]}
    assert value(run(write_task(tmp_path, SUMS, code, **fields)), "listed", "all") == 1.0


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("return [each[0] for each in resps]", "doc 0"),  # a text, whose first character `take_first` would take
        ("return [len(each[0]) for each in resps]", "gave 1"),
        ("return ''.join(each[0] for each in resps)", "str"),
        ("return {i: each for i, each in enumerate(resps)}", "dict"),
        ("return None", "NoneType"),
    ],
)
def test_what_a_filter_gives_is_checked(tmp_path, body, named):
    steps = [{"function": "custom", "filter_fn": function("u.pick")}, {"function": "take_first"}]
    fields = {**GENERATION, "filter_list": [{"name": "picked", "filter": steps}], "metric_list": ["exact_match"]}
    file = write_task(tmp_path, SUMS, f"def pick(resps, docs): {body}", **fields)
    with pytest.raises(ScoringError) as caught:
        run(file, Told(right))
    assert all(word in caught.value.message for word in ("'picked'", "pick", named))


def test_a_list_is_not_read_from_one_answer(tmp_path):
    steps = [{"function": "take_first"}, {"function": "lowercase"}, {"function": "take_first"}]
    fields = {**GENERATION, "filter_list": [{"name": "low", "filter": steps}], "metric_list": ["exact_match"]}
    model = Told(right)
    with pytest.raises(ConfigError, match="TakeFirst leaves one answer"):
        run(write_task(tmp_path, SUMS, **fields, language="en"), model)
    assert model.sent == 0
    # Files of the harness have such chains; a text of one letter is then its own first character.
    with pytest.warns(UserWarning, match="characters of the answer are scored one by one"):
        assert value(run(write_task(tmp_path, SUMS, **fields), model), "exact_match", "low") == 1.0


LIKELIHOOD: dict[str, Any] = {"output_type": "loglikelihood", "doc_to_text": "q", "doc_to_target": "a"}
ROLLING: dict[str, Any] = {"output_type": "loglikelihood_rolling", "doc_to_text": "", "doc_to_target": "q"}


@pytest.mark.parametrize("steps", [{}, {"filter": []}, {"filter": [{"function": "noop"}]}])
@pytest.mark.parametrize(
    ("fields", "listed"),
    [
        (CHOICE, ["acc", {"metric": function("u.best"), "aggregation": "mean"}]),
        (CHOICE, ["acc"]),
        (LIKELIHOOD, ["perplexity"]),
        (ROLLING, ["word_perplexity"]),
    ],
)
def test_draws_of_a_likelihood_are_one_answer_whatever_a_filter_leaves(tmp_path, steps, fields, listed):
    code = "def best(result): return max(result.lls)"
    docs = SUMS * 8  # enough to score choices many at once
    model = Told(ll=lambda context, text: -float(len(text)))
    plain = run(write_task(tmp_path, docs, code, **fields, metric_list=listed), model)
    filters = {"filter_list": [{"name": "raw", **steps}], "repeats": 3}
    found = run(write_task(tmp_path, docs, code, name="drawn", **fields, **filters, metric_list=listed), model)
    for key, score in plain.tasks["mine"].scores.items():
        assert found.tasks["drawn"].scores[MetricKey(key.metric, "raw")].estimate == score.estimate


def test_process_results_gets_one_answer_of_a_likelihood_that_is_drawn_often(tmp_path):
    code = "def pr(doc, results): return {'ll': results[0][0]}"
    fields = {**CHOICE, "process_results": function("u.pr"), "filter_list": [{"name": "raw"}], "repeats": 3}
    assert value(run(write_task(tmp_path, SUMS, code, **fields)), "ll", "raw") == -1.0


def test_a_list_of_draws_that_process_results_gets_is_told(tmp_path, recwarn):
    code = "def pr(doc, results): return {'n': len(results[0])}"
    said = {"filter_list": [{"name": "raw"}, {"name": "meant", "filter": []}], "repeats": 3}
    run(write_task(tmp_path, SUMS, code, **GENERATION, process_results=function("u.pr"), **said), Told(right))
    told = [str(each.message) for each in recwarn if "list of 3 draws" in str(each.message)]
    assert [message.partition("filter ")[2][:5] for message in told] == ["'raw'"]


@pytest.mark.parametrize("fields", [CHOICE, LIKELIHOOD, ROLLING])
def test_what_a_filter_leaves_of_a_likelihood_is_checked(tmp_path, fields):
    steps = [{"function": "custom", "filter_fn": function("u.pick")}]
    file = write_task(
        tmp_path,
        SUMS * 8,
        "def pick(resps, docs): return ['x' for _ in resps]",
        **fields,
        filter_list=[{"name": "picked", "filter": steps}],
    )
    with pytest.raises(ScoringError, match="doc 0: filter 'picked' left 'x'"):
        run(file)


# ---------------------------------------------------------------------- templates in lists


def test_templates_in_a_list_are_rendered_in_our_files(tmp_path):
    docs = [{"q": "2+2=", "right": "4", "wrong": "5"}]
    fields = {**CHOICE, "doc_to_choice": ["{{right}}", "{{wrong}}", "none"], "doc_to_target": 0, "language": "en"}
    file = write_task(tmp_path, docs, **fields)
    task = TaskManager().load([str(file)]).tasks["mine"]
    assert task.doc_to_choice(docs[0]) == ["4", "5", "none"]


@pytest.mark.parametrize("choices", [["{{right}}", "{{wrong}}"], {"a": "{{right}}", "b": "b"}])
def test_templates_in_a_list_are_refused_where_they_would_be_text(tmp_path, choices):
    docs = [{"q": "2+2=", "right": "4", "wrong": "5"}]
    model = Told()
    with pytest.raises(ConfigError, match="stands in a list"):
        run(write_task(tmp_path, docs, **{**CHOICE, "doc_to_choice": choices, "doc_to_target": 0}), model)
    assert model.sent == 0


# ---------------------------------------------------------------------- code for lm-evaluation-harness


def test_the_mean_that_task_code_imports_is_the_mean(tmp_path):
    code = "from lm_eval.api.metrics import mean\n"
    fields = {**GENERATION, "metric_list": [{"metric": "exact_match", "aggregation": function("u.mean")}]}
    docs = [{**doc, "q": f"{i}+1=", "a": str(i + 1 if i % 3 else i)} for i, doc in enumerate(SUMS * 20)]
    theirs = run(write_task(tmp_path, docs, code, **fields), Told(right))
    plain = run(write_task(tmp_path, docs, name="plain", **GENERATION, metric_list=["exact_match"]), Told(right))
    ours = plain.tasks["plain"].scores[MetricKey("exact_match")]
    score = theirs.tasks["mine"].scores[MetricKey("exact_match")]
    assert (score.aggregation, score.estimate) == ("mean", ours.estimate)


@pytest.mark.parametrize("name", ["median", "nanmean", "perplexity"])
def test_other_aggregations_that_task_code_imports_are_the_registered_ones(tmp_path, name):
    code = (
        f"from lm_eval.api.metrics import {name} as mine\ndef size(predictions, references): return len(predictions[0])"
    )
    listed = [{"metric": function("u.size"), "aggregation": function("u.mine")}]
    score = run(write_task(tmp_path, SUMS, code, **GENERATION, metric_list=listed)).tasks["mine"].scores
    assert score[MetricKey("size")].aggregation == name


def test_a_template_where_text_is_read_as_it_stands_is_told(tmp_path):
    file = write_task(tmp_path, SUMS, **GENERATION, generation_kwargs={"until": ["{{a}}"]})
    with pytest.warns(UserWarning, match="until: '{{a}}' is text"):
        run(file)


CLASS = """
from lm_eval.api.task import ConfigurableTask

class Longer(ConfigurableTask):
    def process_results(self, doc, results):
        return {**super().process_results(doc, results), "asked": 1.0}

    def aggregation(self):
        return {"acc": sum, "exact_match": sum, "asked": sum}
"""


@pytest.mark.parametrize(("fields", "metric"), [(CHOICE, "acc"), (GENERATION, "exact_match")])
def test_a_class_may_add_to_what_the_metrics_of_its_file_give(tmp_path, fields, metric):
    listed = {"metric_list": [metric], "class": function("u.Longer")}
    file = write_task(tmp_path, SUMS, CLASS, **fields, **listed)
    model = Told(right, lambda context, choice: -float(choice.strip() != right(context)))
    found = run(file, model)
    assert (value(found, metric), value(found, "asked")) == (3.0, 3.0)


ADDING = """
from lm_eval.api.metrics import mean
from lm_eval.api.task import ConfigurableTask

class Adding(ConfigurableTask):
    def process_results(self, doc, results):
        return {**super().process_results(doc, results), "asked": 1.0}

    def aggregation(self):
        return {**super().aggregation(), "asked": mean}

    def higher_is_better(self):
        return {**super().higher_is_better(), "asked": True}

class Giving(ConfigurableTask):
    def process_results(self, doc, results):
        return super().process_results(doc, results)
"""


@pytest.mark.parametrize("made", ["Adding", "Giving"])
@pytest.mark.parametrize("listed", [{}, {"metric_list": [{"metric": function("u.first"), "aggregation": "median"}]}])
@pytest.mark.parametrize("fields", [CHOICE, LIKELIHOOD, ROLLING])
def test_a_class_that_adds_to_the_scores_of_its_file_leaves_them_as_they_are(tmp_path, fields, listed, made):
    code = f"{ADDING}\ndef first(result): return len(str(getattr(result, 'lls', result)))"
    model = Told(ll=lambda context, text: -float(len(text)))
    plain = run(write_task(tmp_path, SUMS, code, name="plain", **fields, **listed), model)
    found = run(write_task(tmp_path, SUMS, code, **{**fields, **listed, "class": function(f"u.{made}")}), model)
    scores = {key.metric: score for key, score in found.tasks["mine"].scores.items()}
    for key, score in plain.tasks["plain"].scores.items():
        mine = scores.pop(key.metric)
        assert (mine.estimate.value, mine.higher_is_better) == (score.estimate.value, score.higher_is_better)
    assert list(scores) == (["asked"] if made == "Adding" else [])


# ---------------------------------------------------------------------- hooks beside a styler


class Capitals(BaseTask[str]):
    NAME = "Capitals"
    DATASET_PATH = "json"
    SAMPLE_SPLIT = "test"

    def _get_raw_question(self, item: dict[str, Any]) -> str:
        return item["q"]

    def _get_choices(self, item: dict[str, Any]) -> list[str]:
        return item["choices"]

    def _get_correct_index(self, item: dict[str, Any]) -> int:
        return item["gold"]


@pytest.mark.parametrize("styler", [MCCompletionStyle(), MCStyle(), ClozeStyle(cue_text="A:")])
@pytest.mark.parametrize("hook", ["_get_instruction_text", "_get_possible_completions", "_get_ground_truth"])
def test_a_hook_beside_a_styler_changes_nothing_else(styler, hook, tmp_path):
    write_task(tmp_path, SUMS, **CHOICE)

    class Plain(Capitals):
        TASK_STYLER = styler
        DATASET_KWARGS = {"data_files": {"test": str(tmp_path / "mine.jsonl")}}  # noqa: RUF012

    own = type("Own", (Plain,), {hook: lambda self, item: getattr(Plain, hook)(self, item)})
    item = {"q": "Capital of France?", "choices": ["Rome", "Paris"], "gold": 1}
    assert own()._get_fewshot_target_text(item) == styler.get_fewshot_target_text(item["choices"], 1)
    plain, changed = (tasks_of(each)[0][0].config for each in (Plain, own))
    shots = [each.fewshot_config.doc_to_target(item) for each in (plain, changed)]
    assert shots[0] == shots[1] == styler.get_fewshot_target_text(item["choices"], 1)


class Listening(Told):
    """Writes the letter of the choice that is right by the prompt, and likes it best; remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__(
            self._letter, lambda context, said: -float(said.strip() not in (self._letter(context), "right"))
        )
        self.asked: list[Any] = []

    def _letter(self, context: str) -> str:
        listed = re.findall(r"(?m)^([A-D])\. (.*)$", context.rpartition("Question: ")[2])
        return next((letter for letter, text in listed if text == "right"), "none")

    def loglikelihood(self, requests: Any) -> list[tuple[float, bool]]:
        self.asked += [each.args for each in requests]
        return super().loglikelihood(requests)

    def generate_until(self, requests: Any) -> list[str]:
        self.asked += [each.args for each in requests]
        return super().generate_until(requests)


STYLERS = [MCStyle(), ClozeStyle(), BPBStyle(), MCCompletionStyle(), GenerateStyle(), CoTStyle(), LettersStyle()]
WORDING = [
    "_get_instruction_text",
    "_get_possible_completions",
    "_get_cue_text",
    "_get_fewshot_target_text",
    "_get_ground_truth",
]


@pytest.mark.parametrize("places", ["one", "all"])
@pytest.mark.parametrize("styler", STYLERS, ids=lambda styler: type(styler).__name__)
def test_a_class_that_words_one_thing_itself_is_asked_and_read_as_its_styler_says(tmp_path, styler, places):
    golds = [0 if places == "one" else i % 4 for i in range(24)]
    docs = [
        {"q": f"{i}?", "gold": gold, "choices": ["right" if place == gold else f"{place}{i}" for place in range(4)]}
        for i, gold in enumerate(golds)
    ]
    write_task(tmp_path, docs, **CHOICE)

    class Plain(Capitals):
        TASK_STYLER = styler
        FEWSHOT_SPLIT = "test"
        NUM_FEWSHOT = 1
        DATASET_KWARGS = {"data_files": {"test": str(tmp_path / "mine.jsonl")}}  # noqa: RUF012

    def asked_and_scored(task: Any) -> Any:
        model = Listening()
        found = assay.evaluate(model=model, tasks=[task], store=str(tmp_path / "store.db"), fresh=True)
        scores = found.tasks["Capitals"].scores
        return model.asked, {str(key): score.estimate.value for key, score in scores.items()}

    plain = asked_and_scored(Plain)
    assert plain[1].get("exact_match,none", 1.0) == plain[1].get("acc,none", 1.0) == 1.0
    for hook in WORDING:
        own = type("Own", (Plain,), {hook: lambda self, item, hook=hook: getattr(Plain, hook)(self, item)})
        asked, scores = asked_and_scored(own)
        assert asked == plain[0]
        if hook != "_get_ground_truth":  # an answer of one's own is compared as it is written
            assert scores == plain[1]


def test_a_cue_of_the_class_stands_before_the_answers_of_shots_too():
    class Own(Capitals):
        TASK_STYLER = MCCompletionStyle()

        def _get_cue_text(self) -> str:
            return "So:"

    item = {"q": "Capital of France?", "choices": ["Rome", "Paris"], "gold": 1}
    assert Own()._get_fewshot_target_text(item) == "So: Paris"


def test_what_a_styler_says_is_said_by_the_task():
    class Own(Capitals):
        TASK_STYLER = MCCompletionStyle()

    class Other(Own):
        TASK_STYLER = MCStyle()
        METRICS = ("acc",)

    assert (MCCompletionStyle.response_type, MCCompletionStyle.metrics) == (Own().RESPONSE_TYPE, Own.METRICS)
    assert (MCStyle.response_type, ("acc",)) == (Other().RESPONSE_TYPE, Other().METRICS)
    assert Capitals().RESPONSE_TYPE is None


# ---------------------------------------------------------------------- names that code makes


@pytest.mark.parametrize(
    "code",
    [
        "def _make():\n    globals()['made'] = lambda docs: docs\n_make()\n",
        "import sys\ndef _make(): setattr(sys.modules[__name__], 'made', len)\ndef _all(): _make()\n_all()\n",
        "class Made:\n    globals()['made'] = len\n",
        "def _make():\n    global made\n    made = len\n_make()\n",
        "match len:\n    case made: pass\n",
    ],
)
def test_names_that_code_makes_are_not_known_before_it_runs(tmp_path, code, capsys):
    file = write_task(tmp_path, SUMS, code, **CHOICE, process_docs=function("u.made"))
    said = command(capsys, "validate", file)
    assert (said.code, "1 of them not known without --trust" in said.out) == (0, True), said
    found = json.loads(command(capsys, "validate", file, "--json").out)
    assert (found["tasks"], len(found["unchecked"])) == ({"loaded": 1, "failed": 0}, 1)


def test_names_that_no_code_makes_are_missing(tmp_path, capsys):
    code = "def _make():\n    globals()['made'] = len\n\ndef other(): pass\n"
    file = write_task(tmp_path, SUMS, code, **CHOICE, process_docs=function("u.made"))
    assert command(capsys, "validate", file).code == 2


@pytest.mark.parametrize("step", ["lowercase", "remove_whitespace", "regex", "map"])
@pytest.mark.parametrize("output_type", ["multiple_choice", "loglikelihood", "loglikelihood_rolling"])
def test_filters_of_text_are_refused_before_likelihoods_are_requested(tmp_path, step, output_type):
    more = {"mapping_dict": {"a": "b"}} if step == "map" else {}
    chains = [{"name": "low", "filter": [{"function": step, **more}]}]
    fields = CHOICE if output_type == "multiple_choice" else GENERATION
    write_task(tmp_path, SUMS, **{**fields, "output_type": output_type, "filter_list": chains})
    told = Told()
    with pytest.raises(ConfigError, match=f"{step} works on text"):
        run(tmp_path / "mine.yaml", told)
    assert told.sent == 0


def test_a_function_that_is_called_with_all_draws_is_told_of_before(tmp_path, capsys):
    fields = {
        "output_type": "generate_until",
        "doc_to_text": "q",
        "doc_to_target": "a",
        "language": "en",
        "repeats": 3,
        "generation_kwargs": {"do_sample": True},
        "filter_list": [{"name": "low", "filter": [{"function": "lowercase"}]}],
    }
    code = "def same(predictions, references): return float(predictions[0] == references[0])\n"
    docs = [{"q": "2 + 2", "a": "4"}]
    file = write_task(tmp_path, docs, code, metric_list=[{"metric": function("u.same")}], **fields)
    with pytest.warns(match="metric same is called once with all draws that filter 'low' leaves; `reducer: mean`"):
        assert value(run(file, Told(lambda _: "4")), "same", "low") == 0
    write_task(tmp_path, docs, code, metric_list=[{"metric": function("u.same"), "reducer": "mean"}], **fields)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert value(run(file, Told(lambda _: "4")), "same", "low") == 1
