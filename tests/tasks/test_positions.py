"""Where the right choice stands, whether it is there at all, and what spaces around answers cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.own_files import Told, command, function, run, value, write_task

from assay import evaluate
from assay.data import doc_hash
from assay.errors import AssayError, ConfigError
from assay.evaluation import score_again
from assay.results import MetricKey
from assay.tasks import (
    BaseTask,
    ClozeStyle,
    GenerateStyle,
    MCCompletionStyle,
    MCStyle,
    RequestOptions,
    Task,
    TaskManager,
    tasks_of,
)

CHOICE: dict[str, Any] = {
    "output_type": "multiple_choice",
    "doc_to_text": "{{q}}",
    "doc_to_choice": "choices",
    "doc_to_target": "gold",
}
FORMS = ("mc", "gen", "cot", "mc_completion")


def docs(n: int, gold: int | None = 0) -> list[dict[str, Any]]:
    """Docs whose right choice is that of their number; at one place, or at every place in turn."""
    made = []
    for i in range(n):
        place = i % 4 if gold is None else gold
        choices = [f"wrong {i} {k}" for k in range(4)]
        choices[place] = f"right {i}"
        made.append({"q": f"Which one is {i}?", "choices": choices, "gold": place})
    return made


def load(name: object) -> Task:
    (task,) = TaskManager(include_path=None).load([str(name)]).tasks.values()
    return task


def places(task: Task) -> list[int]:
    return [task.doc_to_target(doc) for doc in task.eval_docs]


def test_listed_choices_of_one_sided_docs_are_shuffled_by_the_doc(tmp_path):
    task = load(write_task(tmp_path, docs(60), **CHOICE, style="mc"))
    assert {places(task).count(place) for place in range(4)} <= set(range(6, 26))
    again = load(write_task(tmp_path, docs(60)[::-1], **CHOICE, style="mc"))
    by_doc = {doc_hash(doc): task.doc_to_text(doc) for doc in task.eval_docs}
    assert by_doc == {doc_hash(doc): again.doc_to_text(doc) for doc in again.eval_docs}
    for doc in task.eval_docs:
        letter = "ABCD"[task.doc_to_target(doc)]
        assert f"{letter}. right" in task.doc_to_text(doc)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_that_lists_choices_is_measured_by_what_they_say(tmp_path, form):
    """A model that always says A is right as often as A is."""
    file = write_task(tmp_path, docs(60), **CHOICE, style=form)
    first = lambda context: context.rpartition("A. ")[2].partition("\n")[0]  # noqa: E731
    told = Told(
        first if form == "mc_completion" else lambda context: "The answer is (A).", lambda c, x: -float("A" not in x)
    )
    found = run(file, told)
    (score,) = [each for key, each in found.tasks["mine"].scores.items() if key.metric in ("acc", "exact_match")]
    assert 0.1 < float(score.estimate.value or 0) < 0.42
    assert "choices shuffled" in found.table()
    assert found.tasks["mine"].config["shuffle_choices"] is True


def test_the_whole_split_decides_whatever_part_is_asked(tmp_path):
    file = write_task(tmp_path, docs(60), **CHOICE, style="mc")
    whole, part = run(file), run(file, limit=4)
    assert part.tasks["mine"].health.shuffled
    sent = [next(load(file).iter_requests(RequestOptions(limit=limit))).instances for limit in (1, 60)]
    assert sent[0][0].args == sent[1][0].args
    assert whole.tasks["mine"].task_hash != part.tasks["mine"].task_hash


@pytest.mark.parametrize(("n", "gold"), [(9, 0), (60, None)])
def test_docs_that_may_be_chance_stay_as_they_are(tmp_path, n, gold):
    task = load(write_task(tmp_path, docs(n, gold), **CHOICE, style="mc"))
    assert places(task) == [doc["gold"] for doc in docs(n, gold)]


def test_a_file_says_itself_whether_choices_are_shuffled(tmp_path):
    kept = load(write_task(tmp_path, docs(60), **CHOICE, style="mc", shuffle_choices=False))
    assert places(kept) == [0] * 60
    made = load(write_task(tmp_path, docs(60, None), **CHOICE, style="mc", shuffle_choices=True))
    assert places(made) != [doc["gold"] for doc in docs(60, None)]


@pytest.mark.parametrize(
    "fields", [{}, {"style": "cloze"}, {"formats": "mcqa"}, {"lm_eval_version": "0.4", "style": "mc"}]
)
def test_other_forms_and_files_of_the_harness_are_never_shuffled(tmp_path, fields):
    assert places(load(write_task(tmp_path, docs(60), **CHOICE, **fields))) == [0] * 60


def test_a_wish_to_shuffle_that_changes_nothing_is_told(tmp_path, recwarn):
    file = write_task(tmp_path, docs(8, None), **CHOICE, shuffle_choices=True)
    run(file)
    run(f"{file}:mc")
    told = [str(each.message) for each in recwarn if "no effect: shuffle_choices" in str(each.message)]
    assert [message.partition(": ")[0] for message in told] == ["task mine"]


def test_shots_are_shuffled_too(tmp_path):
    task = load(write_task(tmp_path, docs(60), **CHOICE, style="mc", num_fewshot=5))
    answers = {task.render_shot(doc).text.rstrip()[-1] for doc in task.eval_docs}
    assert answers == {"A", "B", "C", "D"}


def test_variants_of_the_catalog_measure_more_than_a_place():
    task = load("demo_agreement:mc")
    assert set(places(task)) == {0, 1}
    assert set(places(load("demo_agreement"))) == {0}
    assert set(places(load("demo_agreement:mc:choice_order"))) == {0, 1}


def test_a_python_task_is_shuffled_too(tmp_path):
    write_task(tmp_path, docs(60), **CHOICE)

    class Rows(BaseTask[str]):
        NAME = "Rows"
        DATASET_PATH = "json"
        SAMPLE_SPLIT = "test"
        DATASET_KWARGS = {"data_files": {"test": str(tmp_path / "mine.jsonl")}}  # noqa: RUF012
        TASK_STYLER = MCStyle()

        def _get_raw_question(self, item: dict[str, Any]) -> str:
            return item["q"]

        def _get_choices(self, item: dict[str, Any]) -> list[str]:
            return item["choices"]

        def _get_correct_index(self, item: dict[str, Any]) -> int:
            return item["gold"]

    assert set(places(tasks_of(Rows)[0][0])) == {0, 1, 2, 3}


def listing(self: Any, item: dict[str, Any]) -> str:
    listed = "".join(f"{letter}. {choice}\n" for letter, choice in zip("ABCD", self._get_choices(item)))
    return f"Say which: {item['q']}\n{listed}"


def listing_from_the_doc(self: Any, item: dict[str, Any]) -> str:
    listed = "".join(f"{letter}. {choice}\n" for letter, choice in zip("ABCD", item["choices"]))
    return f"Say which: {item['q']}\n{listed}"


def own_class(folder: Path, gold: int | None = 0, **attributes: Any) -> type[Any]:
    write_task(folder, docs(60, gold), **CHOICE)
    data = {"data_files": {"test": str(folder / "mine.jsonl")}}
    base = {"NAME": "Rows", "DATASET_PATH": "json", "SAMPLE_SPLIT": "test", "DATASET_KWARGS": data}
    hooks = {
        "_get_raw_question": lambda self, item: item["q"],
        "_get_choices": lambda self, item: item["choices"],
        "_get_correct_index": lambda self, item: item["gold"],
    }
    return type("Rows", (BaseTask,), {**base, "TASK_STYLER": MCStyle(), **hooks, **attributes})


FOLLOWING: dict[str, dict[str, Any]] = {
    "text": {"_get_instruction_text": listing},
    "cue": {"_get_cue_text": lambda self, item: "My answer:"},
    "truth": {"_get_ground_truth": lambda self, item: " " + "ABCD"[self._get_correct_index(item)]},
    "completions": {"_get_possible_completions": lambda self, item: [f" {letter}" for letter in "ABCD"]},
    "shots": {"_get_fewshot_target_text": lambda self, item: "It is " + "ABCD"[self._get_correct_index(item)]},
    "above": {"_get_instruction_text": lambda self, item: "Think. " + BaseTask._get_instruction_text(self, item)},
}
STAYING: dict[str, dict[str, Any]] = {
    "text": {"_get_instruction_text": listing_from_the_doc},
    "truth": {"_get_ground_truth": lambda self, item: " " + "ABCD"[item["gold"]]},
    "shots": {"_get_fewshot_target_text": lambda self, item: "It is " + "ABCD"[item["gold"]]},
}


@pytest.mark.parametrize("hook", FOLLOWING)
def test_a_python_task_with_hooks_of_its_own_is_shuffled_too(tmp_path, hook):
    """A model that always says A is right as often as A is."""
    ((task,), _) = tasks_of(own_class(tmp_path, **FOLLOWING[hook]))
    assert {places(task).count(place) for place in range(4)} <= set(range(6, 26))
    for doc in task.eval_docs:
        assert f"{'ABCD'[task.doc_to_target(doc)]}. right" in task.doc_to_text(doc)
    if hook == "shots":
        assert {task.render_shot(doc).text.rstrip()[-1] for doc in task.eval_docs} == {"A", "B", "C", "D"}
    found = evaluate(
        model=Told(ll=lambda c, x: -float("A" not in x)), tasks=[task], store=str(tmp_path / "store.db"), limit=40
    )
    assert found.tasks["Rows"].health.shuffled
    assert 0.05 < float(found.tasks["Rows"].scores[MetricKey("acc")].estimate.value or 0) < 0.5


@pytest.mark.parametrize("hook", STAYING)
def test_a_hook_that_does_not_follow_the_order_is_refused_before_the_first_request(tmp_path, hook):
    model, cls = Told(), own_class(tmp_path, **STAYING[hook])
    (name,) = STAYING[hook]
    with pytest.raises(AssayError, match=f"the first in all 60 docs.*{name}") as caught:
        evaluate(model=model, tasks=[cls], store=str(tmp_path / "store.db"), limit=3)
    assert (model.sent, "SHUFFLE_CHOICES" in str(caught.value.hint)) == (0, True)
    for keeps in ({"gold": None}, {"SHUFFLE_CHOICES": False}):
        ((task,), _) = tasks_of(own_class(tmp_path, **{"gold": 0, **STAYING[hook], **keeps}))
        assert places(task) == [doc["gold"] for doc in task.eval_docs]


def test_a_python_class_says_itself_whether_choices_are_shuffled(tmp_path):
    for own in ({}, FOLLOWING["text"]):
        ((kept,), _) = tasks_of(own_class(tmp_path, SHUFFLE_CHOICES=False, **own))
        assert places(kept) == [0] * 60
        ((made,), _) = tasks_of(own_class(tmp_path, gold=None, SHUFFLE_CHOICES=True, **own))
        assert places(made) != [doc["gold"] for doc in made.eval_docs]


@pytest.mark.parametrize("styler", [ClozeStyle(), None])
def test_hooks_of_other_forms_are_never_shuffled(tmp_path, styler):
    own = {
        "_get_instruction_text": listing,
        "_get_possible_completions": lambda self, item: item["choices"],
        "_get_ground_truth": lambda self, item: item["choices"][item["gold"]],
    }
    ((task,), _) = tasks_of(own_class(tmp_path, TASK_STYLER=styler, **own))
    assert places(task) == [0] * 60


@pytest.mark.parametrize(
    ("styler", "letter"), [(GenerateStyle(), True), (MCCompletionStyle(), False)], ids=["gen", "mc_completion"]
)
def test_free_answers_of_a_class_with_hooks_are_shuffled_too(tmp_path, styler, letter):
    ((task,), _) = tasks_of(own_class(tmp_path, TASK_STYLER=styler, _get_instruction_text=listing))
    listed = [task.doc_to_text(doc) for doc in task.eval_docs]
    answers = [str(task.doc_to_target(doc)).strip() for doc in task.eval_docs]
    assert all(f"{answer}. right" in text if letter else answer in text for answer, text in zip(answers, listed))
    assert len({text.splitlines().index(line) for text in listed for line in text.splitlines() if "right" in line}) == 4


def test_scoring_again_keeps_the_order_of_the_run(tmp_path):
    file = write_task(tmp_path, docs(60), **CHOICE, style="gen")
    first = run(file, Told(lambda context: "A"), run_dir=str(tmp_path / "run"))
    again = score_again(tmp_path / "run")
    key = MetricKey("exact_match")
    assert again.tasks["mine"].scores[key].estimate == first.tasks["mine"].scores[key].estimate


@pytest.mark.parametrize("verb", ["run", "validate"])
def test_one_sided_docs_of_any_choice_task_are_told(tmp_path, verb, capsys, monkeypatch):
    monkeypatch.setenv("ASSAY_STORE", str(tmp_path / "store.db"))
    file = write_task(tmp_path, docs(60), **CHOICE)
    args = (
        ("run", "--model", "dummy", "--run_dir", tmp_path / "run", "--limit", 3, "--tasks")
        if verb == "run"
        else (verb,)
    )
    said = command(capsys, *args, file)
    assert (said.code, "the first in all 60 docs" in said.text) == (0, True)
    mixed = write_task(tmp_path, docs(60, None), name="mixed", **CHOICE)
    assert "the first in" not in command(capsys, "validate", mixed).text


# ---------------------------------------------------------------------- right choices that are none


def one_based(n: int = 12) -> list[dict[str, Any]]:
    return [{**doc, "gold": doc["gold"] + 1} for doc in docs(n, None)]


@pytest.mark.parametrize("own", [{"language": "en"}, {"style": "mc"}, {"style": "gen"}, {"style": "cloze"}])
def test_labels_that_run_from_one_are_an_error_in_our_files(tmp_path, own):
    model = Told()
    with pytest.raises(ConfigError, match="doc 3") as caught:
        run(write_task(tmp_path, one_based(), **CHOICE, **own), model)
    assert (model.sent, "from 1 to 4" in str(caught.value.hint)) == (0, True)


@pytest.mark.parametrize("form", ["", ":mc", ":cloze"])
@pytest.mark.parametrize("written", ["4 of 1 to 4", "4 of 0 to 3", "D as a place", "4.0", "in a list"])
def test_what_the_cause_of_a_wrong_label_proposes_works(tmp_path, written, form):
    """Whatever labels are: an error before the first request; and its cure, where it names one, is one."""
    as_written = {
        "4 of 1 to 4": lambda gold: str(gold + 1),
        "4 of 0 to 3": lambda gold: str(gold),
        "D as a place": lambda gold: "ABCD"[gold],
        "4.0": lambda gold: float(gold + 1),
        "in a list": lambda gold: [gold + 1],
    }[written]
    wrong = [{**doc, "gold": as_written(doc["gold"])} for doc in docs(12, None)]
    if form and written == "D as a place":
        pytest.skip("styles read letters")
    model = Told()
    file = write_task(tmp_path, wrong, **CHOICE, language="en", metric_list=["acc"])
    with pytest.raises(ConfigError) as caught:
        run(f"{file}{form}", model)
    assert model.sent == 0
    cure = str(caught.value.hint).partition("doc_to_target: '")[2].rpartition("'")[0]
    assert bool(cure) == (written != "in a list")
    if cure:
        cured = write_task(tmp_path, wrong, name="cured", **{**CHOICE, "doc_to_target": cure}, metric_list=["acc"])
        task = TaskManager().load([str(cured)]).tasks["cured"]
        assert [int(task.doc_to_target(doc)) for doc in task.eval_docs] == [doc["gold"] for doc in docs(12, None)]


def test_an_error_of_one_doc_is_found_before_the_first_request_whatever_part_is_asked(tmp_path):
    wrong = [*docs(20, None), {**docs(1)[0], "q": "last", "gold": 9}]
    model = Told()
    with pytest.raises(ConfigError, match="doc 20: the right choice is given as 9"):
        run(write_task(tmp_path, wrong, **CHOICE, language="en"), model, limit=2)
    assert model.sent == 0


def test_files_of_the_harness_keep_their_scores_and_are_told_the_cause(tmp_path):
    file = write_task(tmp_path, one_based(), **CHOICE, metric_list=["acc"])
    found = run(file)
    assert any("labels run from 1 to 4" in note for note in found.notes)
    assert found.tasks["mine"].scores[MetricKey("acc")].size == 9


# ---------------------------------------------------------------------- spaces around answers

SUMS = [{"q": f"{i}+1=", "a": str(i + 1)} for i in range(20)]
GENERATION: dict[str, Any] = {"output_type": "generate_until", "doc_to_text": "q", "doc_to_target": "a"}


def spaced(question: str) -> str:
    return f" {int(question.partition('+')[0]) + 1}"


def test_white_space_around_answers_does_not_count_in_our_files(tmp_path):
    assert value(run(write_task(tmp_path, SUMS, **GENERATION, language="en"), Told(spaced)), "exact_match") == 1.0
    strict = [{"metric": "exact_match", "strip": False}]
    file = write_task(tmp_path, SUMS, **GENERATION, language="en", metric_list=strict)
    assert value(run(file, Told(spaced)), "exact_match") == 0.0


@pytest.mark.parametrize("repeats", [1, 3])
def test_what_white_space_costs_is_told_where_it_counts(tmp_path, repeats):
    steps = {"filter_list": [{"name": "all", "filter": [{"function": "noop"}]}], "repeats": repeats}
    found = run(write_task(tmp_path, SUMS, **GENERATION, **steps, metric_list=["exact_match"]), Told(spaced))
    assert value(found, "exact_match", "all") == 0.0
    assert found.tasks["mine"].health.stripped == {MetricKey("exact_match", "all"): 1.0}
    assert "1.0000 if white space" in found.table()


WAYS: dict[str, dict[str, Any]] = {
    "function": {"metric_list": [{"metric": function("u.equal")}]},
    "pair": {"metric_list": [{"metric": function("u.pair")}]},
    "several": {"metric_list": [{"metric": function("u.two")}]},
    "process_results": {"process_results": function("u.results"), "metric_list": [{"metric": "same"}]},
    "corpus": {"metric_list": [{"metric": function("u.labels"), "aggregation": function("u.agreement")}]},
    "regex": {
        "filter_list": [
            {
                "name": "none",
                "filter": [{"function": "custom", "filter_fn": function("u.first")}, {"function": "take_first"}],
            }
        ],
        "metric_list": ["exact_match"],
    },
    "references": {"doc_to_target": "{{[a, 'none']}}", "metric_list": ["exact_match"]},
    "all_docs": {
        "filter_list": [{"name": "none", "filter": [{"function": function("u.Whole")}, {"function": "take_first"}]}],
        "metric_list": ["exact_match"],
    },
}
SPACES = """
def equal(predictions, references): return float(predictions[0] == references[0])
def pair(items): return float(items[0] == items[1])
def two(predictions, references): return {"same": float(predictions[0] == references[0]), "always": 1.0}
def results(doc, results): return {"same": float(results[0] == doc["a"])}
def labels(predictions, references): return (predictions[0], references[0])
def agreement(items): return sum(a == b for a, b in items) / len(items)
def first(resps, docs): return [[text.split(" ")[0] for text in each] for each in resps]
class Whole:
    def apply(self, resps, docs): return list(resps) if len(resps) == 20 else 1 / 0
"""


@pytest.mark.parametrize("way", WAYS)
def test_what_white_space_costs_is_told_of_every_generation_score(tmp_path, way):
    """Whatever scores it: functions, `process_results`, aggregations over all docs, filters that a space misleads."""
    found = run(write_task(tmp_path, SUMS, SPACES, **{**GENERATION, **WAYS[way]}), Told(spaced))
    scores = found.tasks["mine"].scores
    told = found.tasks["mine"].health.stripped
    assert {scores[key].estimate.value: told[key] for key in told} == {0.0: 1.0}
    assert len(told) == 1
    assert "1.0000 if white space" in found.table()


def test_scoring_again_tells_the_same(tmp_path):
    file = write_task(tmp_path, SUMS, SPACES, **{**GENERATION, **WAYS["function"]})
    first = run(file, Told(spaced), run_dir=str(tmp_path / "run"))
    assert score_again(tmp_path / "run").tasks["mine"].health.stripped == first.tasks["mine"].health.stripped != {}


def test_random_scores_keep_their_numbers_and_are_not_told_apart(tmp_path):
    """What a metric draws goes on from doc to doc, as if nobody had looked a second time."""
    code = "import random\ndef coin(predictions, references): return float(random.random() < 0.5)\n"
    fields = {**GENERATION, "metric_list": [{"metric": function("u.coin")}]}
    files = [write_task(tmp_path, SUMS, code, name=name, **fields) for name in ("mine", "bare")]
    found = run(files[0], Told(spaced))
    assert found.tasks["mine"].health.stripped == {}
    assert value(found, "coin") == value(run(files[1], Told(lambda q: spaced(q).strip())), "coin", task="bare")


def test_code_that_cannot_score_a_stripped_answer_keeps_its_first_word(tmp_path):
    code = "def strict(predictions, references):\n    assert predictions[0].startswith(' ')\n    return 1.0\n"
    found = run(
        write_task(tmp_path, SUMS, code, **GENERATION, metric_list=[{"metric": function("u.strict")}]), Told(spaced)
    )
    assert (value(found, "strict"), found.tasks["mine"].health.stripped) == (1.0, {})
    assert found.tasks["mine"].health.failed == 0


def test_nothing_is_told_where_white_space_costs_nothing(tmp_path):
    found = run(write_task(tmp_path, SUMS, **GENERATION), Told(lambda question: "\n no \n"))
    assert found.tasks["mine"].health.stripped == {}


def test_docs_with_several_right_choices_do_not_decide(tmp_path):
    rows = [{**doc, "gold": [0, 2] if i == 5 else doc["gold"]} for i, doc in enumerate(docs(60))]
    task = load(
        write_task(
            tmp_path,
            [{**row, "gold": str(row["gold"])} for row in rows],
            **{**CHOICE, "doc_to_target": "{{gold}}"},
            style="mc",
        )
    )
    assert "A. right 0" not in task.doc_to_text(rows[0]) or "A. right 1" not in task.doc_to_text(rows[1])
