"""`assay explain`: pairs of runs with one known cause, with two at once, and of every format that can be read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.analyses.made import write_run
from tests.finished.test_readers import inspect_sample, lighteval_rows, write_inspect, write_lighteval

import assay
from assay.analyses.compare import compare_runs
from assay.analyses.explain import ExplainOptions, Explanation, explain, findings
from assay.analyses.explain.causes import Hints, text_segments
from assay.analyses.rank import rank
from assay.cli.explain import command
from assay.errors import ConfigError
from assay.finished import Run, open_run, same_questions
from assay.instance import Instance, Response, context_text
from assay.models import LM

DOCS = 200
RIGHT = 0.9
LOSS = 0.3
"""What every cause costs: the model knows it, and the explanation has to find it."""


def luck(*parts: str) -> float:
    return int.from_bytes(sha256("/".join(parts).encode()).digest()[:6], "big") / 2**48


class Fragile(LM):
    """Right on nine sums of ten; each thing that it dislikes about a request costs three more."""

    def __init__(self, dislikes: Sequence[str] = (), careless: bool = False) -> None:
        self.dislikes, self.careless = dislikes, careless

    def generate_until(self, requests: Sequence[Instance]) -> list[str]:
        return [self._answer(context_text(request.args[0]), request.args[1]) for request in requests]

    def _answer(self, prompt: str, settings: dict[str, Any]) -> str:
        a, b = re.findall(r"\d+", prompt)[-2:]
        seen = f"{prompt}\x1e{json.dumps(settings, sort_keys=True)}"
        chance = RIGHT - LOSS * sum(bool(re.search(each, seen)) for each in self.dislikes) - LOSS * self.careless
        return f" the answer is {int(a) + int(b) if luck(a, b) < chance else 0}."

    def loglikelihood(self, requests: Sequence[Instance]) -> list[tuple[float, bool]]:
        return [(-1.0, False) for _ in requests]

    def loglikelihood_rolling(self, requests: Sequence[Instance]) -> list[float]:
        return [-1.0 for _ in requests]

    def fingerprint(self) -> str:
        return f"{self.dislikes}{self.careless}"


TASK: dict[str, Any] = {
    "task": "sums",
    "dataset_path": "json",
    "test_split": "test",
    "output_type": "generate_until",
    "doc_to_text": "Question: {{a}} + {{b}}\nAnswer:",
    "doc_to_target": "{{answer}}",
    "fewshot_split": "test",
    "num_fewshot": 0,
    "generation_kwargs": {"until": ["\n"], "max_gen_toks": 16},
    "filter_list": [
        {"name": "read", "filter": [{"function": "regex", "regex_pattern": "(\\d+)"}, {"function": "take_first"}]}
    ],
    "metric_list": [{"metric": "exact_match"}],
}


def sums(path: Path, name: str, lm: LM, task: dict[str, Any] | None = None, **settings: Any) -> Run:
    """A real run of the task, changed as said."""
    folder = path / name
    folder.mkdir()
    rows = [{"a": 10 + i, "b": 300 + 7 * i, "answer": str(310 + 8 * i)} for i in range(DOCS)]
    (folder / "docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = {**TASK, "dataset_kwargs": {"data_files": {"test": str(folder / "docs.jsonl")}}, **(task or {})}
    (folder / "sums.yaml").write_text(json.dumps(config))
    assay.evaluate(
        model=lm,
        tasks=["sums"],
        include_path=[str(folder)],
        run_dir=str(folder / "run"),
        store=str(folder / "store.sqlite"),
        **settings,
    )
    return open_run(folder / "run")


def regex_filter(pattern: str) -> list[dict[str, Any]]:
    return [{"name": "read", "filter": [{"function": "regex", "regex_pattern": pattern}, {"function": "take_first"}]}]


CAUSES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "BOS token": ("^<s>", {"doc_to_text": "<s>Question: {{a}} + {{b}}\nAnswer:"}, {}),
    "system text": ("^You are", {"description": "You are a calculator.\n"}, {}),
    "shots": ("\n\nQuestion", {"num_fewshot": 2}, {}),
    "delimiters": ("\n\nAnswer", {"doc_to_text": "Question: {{a}} + {{b}}\n\nAnswer:"}, {}),
    "prompt wording": ("^Sum", {"doc_to_text": "Sum: {{a}} + {{b}}\nAnswer:"}, {}),
    "chat template": (
        "im_start",
        {"doc_to_text": "<|im_start|>user\n{{a}} + {{b}}<|im_end|>\n<|im_start|>assistant\n"},
        {},
    ),
    "truncation": ("^ion", {"doc_to_text": "ion: {{a}} + {{b}}\nAnswer:"}, {}),
    "stop strings": ("</s>", {"generation_kwargs": {"until": ["\n", "</s>"], "max_gen_toks": 16}}, {}),
    "generation settings": ('"max_gen_toks": 8', {"generation_kwargs": {"until": ["\n"], "max_gen_toks": 8}}, {}),
}
"""Cause: what the model dislikes about it, and how the task is changed to have it."""


def check_cause(explanation: Explanation, cause: str, value: float) -> None:
    """The cause is named, is what made the difference, and its true worth lies in its interval."""
    share = explanation.share(cause)
    assert share is not None, [each.cause for each in explanation.shares]
    assert share.estimate.low is not None
    assert share.estimate.high is not None
    assert share.estimate.low <= value <= share.estimate.high
    assert sum(each.estimate.value or 0.0 for each in explanation.shares) == pytest.approx(explanation.difference)


@pytest.mark.parametrize("cause", list(CAUSES))
def test_one_thing_asked_otherwise_is_named_with_its_worth(tmp_path: Path, cause: str) -> None:
    dislike, task, settings = CAUSES[cause]
    lm = Fragile([dislike])
    explanation = explain(sums(tmp_path, "a", lm), sums(tmp_path, "b", lm, task, **settings))
    check_cause(explanation, cause, -LOSS)
    assert explanation.shares[0].cause == cause
    assert explanation.shares[0].docs == DOCS
    others = [share for share in explanation.shares if share.cause != cause]
    assert all(abs(share.estimate.value or 0.0) < 1e-9 for share in others)


class Rendered(Fragile):
    """A local model with a chat template."""

    def apply_chat_template(self, messages: list[dict[str, Any]], add_generation_prompt: bool = True) -> str:
        turns = "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages)
        return turns + "<|im_start|>assistant\n" * add_generation_prompt

    def chat_template(self, name: bool | str | None = None) -> str | None:
        return "im"


class Served(Fragile):
    """Another model, behind a server that takes messages."""

    chat = "messages"


def test_two_models_of_which_one_was_sent_messages_and_the_other_the_same_words_are_two_models(tmp_path: Path) -> None:
    chat: dict[str, Any] = {"apply_chat_template": True}
    a = sums(tmp_path, "a", Rendered(), **chat)
    b = sums(tmp_path, "b", Served(careless=True), **chat)
    explanation = explain(a, b)
    (share,) = [share for share in explanation.shares if share.docs]
    assert "Rendered → Served" in share.cause
    assert share.estimate.value == pytest.approx(-LOSS, abs=0.1)
    assert any("cannot be told" in note for note in explanation.notes)
    (row,) = compare_runs([a, b])[0].rows
    assert row.paired
    (ranking,) = rank([a, b])
    assert len(ranking.runs) == 2


def test_words_that_differ_under_a_template_are_told_from_those_that_do_not(tmp_path: Path) -> None:
    chat: dict[str, Any] = {"apply_chat_template": True}
    a = sums(tmp_path, "a", Rendered(), **chat)
    b = sums(tmp_path, "b", Served(), {"doc_to_text": "Sum: {{a}} + {{b}}\nAnswer:"}, **chat)
    with pytest.raises(ConfigError, match="prompts differ"):
        compare_runs([a, b])
    assert not same_questions(a, b, "sums")
    causes = [share.cause for share in explain(a, b).shares if share.docs]
    assert causes == ["the model Rendered → Served, and chat template"]


def test_runs_with_other_settings_and_the_same_prompts_pair_and_say_which(tmp_path: Path) -> None:
    a = sums(tmp_path, "a", Fragile(), gen_kwargs={"max_gen_toks": 4})
    b = sums(tmp_path, "b", Fragile(), gen_kwargs={"max_gen_toks": 16})
    (row,) = compare_runs([a, b])[0].rows
    assert row.paired
    assert row.notes == ("other generation settings: max_gen_toks 4 and 16",)
    (ranking,) = rank([a, b])
    assert "sums: other generation settings: max_gen_toks 4 and 16" in ranking.notes


def test_what_a_group_makes_of_draws_pairs_under_other_settings_too(tmp_path: Path) -> None:
    settings: list[dict[str, Any]] = [{}, {"gen_kwargs": {"max_gen_toks": 5}}]
    runs = [str(tmp_path / str(place)) for place in range(2)]
    for place, more in zip(runs, settings):
        assay.evaluate(model="ngram", tasks=["demo_arithmetic"], limit=4, run_dir=place, **more)
    found = compare_runs([open_run(place) for place in runs])[0]
    assert not found.refusals
    assert any(row.kind == "group" and row.key.metric == "pass@3" for row in found.rows)


def test_two_models_that_were_also_sent_other_prompts_cannot_be_told_apart_from_these(tmp_path: Path) -> None:
    class Another(Fragile):
        pass

    dislikes, change, settings = CAUSES["shots"]
    a = sums(tmp_path, "a", Fragile([dislikes]))
    b = sums(tmp_path, "b", Another([dislikes]), change, **settings)
    causes = [share.cause for share in explain(a, b).shares if share.docs]
    assert causes == ["the model Fragile → Another, and shots"]


def test_a_real_chat_is_a_chat_template(tmp_path: Path) -> None:
    class Chatty(Fragile):
        chat = "messages"

    Chatty.__name__ = Fragile.__name__  # the same model
    plain, chatty = Fragile(["role"]), Chatty(["role"])
    explanation = explain(sums(tmp_path, "a", plain), sums(tmp_path, "b", chatty, apply_chat_template=True))
    check_cause(explanation, "chat template", -LOSS)


def test_another_model_behind_the_same_requests_is_named(tmp_path: Path) -> None:
    explanation = explain(sums(tmp_path, "a", Fragile()), sums(tmp_path, "b", Fragile(careless=True)))
    (share,) = explanation.shares
    assert share.cause.startswith("the model: ")
    assert "fingerprint" in share.cause
    check_cause(explanation, share.cause, -LOSS)


def test_their_filter_on_our_answers_is_the_filters_share(tmp_path: Path) -> None:
    strict = {"filter_list": regex_filter("is (\\d*[0-4])\\.")}
    explanation = explain(sums(tmp_path, "a", Fragile()), sums(tmp_path, "b", Fragile(), strict))
    share = explanation.share("filter")
    assert share is not None
    assert share.estimate.value == pytest.approx(explanation.difference)
    assert explanation.difference < -0.2
    assert share.examples


@pytest.mark.parametrize(("cause", "detail"), [("shots", "0 → 2"), ("stop strings", '["\\n"] → ["\\n", "</s>"]')])
def test_what_the_runs_say_of_a_cause_stands_beside_it(cause: str, detail: str, tmp_path: Path) -> None:
    dislike, task, _ = CAUSES[cause]
    share = explain(sums(tmp_path, "a", Fragile(dislike)), sums(tmp_path, "b", Fragile(dislike), task)).share(cause)
    assert share is not None
    assert share.detail == detail


def test_our_metric_on_their_answers_is_the_metrics_share(tmp_path: Path) -> None:
    text = {"filter_list": [{"name": "read", "filter": [{"function": "take_first"}]}]}
    kind = {**text, "doc_to_target": " The answer is {{answer}}."}
    loose = {**kind, "metric_list": [{"metric": "exact_match", "ignore_case": True}]}
    explanation = explain(sums(tmp_path, "a", Fragile(), kind), sums(tmp_path, "b", Fragile(), loose))
    share = explanation.share("metric")
    assert share is not None
    assert share.estimate.value == pytest.approx(explanation.difference)
    assert explanation.difference > 0.8


def test_docs_that_one_run_lacks_are_a_cause(tmp_path: Path) -> None:
    class Tiring(Fragile):
        def _answer(self, prompt: str, settings: dict[str, Any]) -> str:
            a, b = re.findall(r"\d+", prompt)[-2:]
            return f"{int(a) + int(b) if int(a) < 110 else 0}"

    explanation = explain(sums(tmp_path, "a", Tiring()), sums(tmp_path, "b", Tiring(), limit=100))
    check_cause(explanation, "docs", 0.5)
    share = explanation.share("docs")
    assert share is not None
    assert share.docs == 100
    assert share.detail == "100 only in A, 0 only in B"


def test_docs_that_one_run_lacks_stand_together_where_they_are_clusters(tmp_path: Path) -> None:
    values, labels = [float(i // 10 % 3 > 0) for i in range(400)], {"t": [str(i // 10) for i in range(400)]}
    widths = []
    for kind, clusters in (("alone", None), ("clustered", labels)):
        a, b = (
            open_run(write_run(tmp_path / f"{kind}{n}", {"t": {"acc,none": values[:n]}}, clusters=clusters))
            for n in (400, 200)
        )
        share = explain(a, b).share("docs")
        assert share is not None
        assert share.estimate.low is not None
        assert share.estimate.high is not None
        widths.append(share.estimate.high - share.estimate.low)
    assert widths[1] > 2.5 * widths[0]


def test_another_aggregation_is_a_cause(tmp_path: Path) -> None:
    median = {"metric_list": [{"metric": "exact_match", "aggregation": "median", "higher_is_better": True}]}
    explanation = explain(sums(tmp_path, "a", Fragile()), sums(tmp_path, "b", Fragile(), median))
    share = explanation.share("aggregation")
    assert share is not None
    assert share.detail == "mean → median"
    assert share.estimate.low is None  # no interval rather than one without width
    assert share.estimate.value == pytest.approx(explanation.difference)


def test_another_target_is_a_cause(tmp_path: Path) -> None:
    other = {"doc_to_target": "{{answer}}0"}
    explanation = explain(sums(tmp_path, "a", Fragile()), sums(tmp_path, "b", Fragile(), other))
    check_cause(explanation, "targets", -explanation.score_a)


TWO = {
    "BOS token": "stop strings",
    "delimiters": "generation settings",
    "shots": "stop strings",
    "system text": "shots",
}


@pytest.mark.parametrize("first", list(TWO))
def test_two_causes_at_once_are_told_apart_by_asking_again(tmp_path: Path, first: str) -> None:
    second = TWO[first]
    lm = Fragile(
        [CAUSES[first][0].replace("^", "(^|\n)") if first == "BOS token" else CAUSES[first][0], CAUSES[second][0]]
    )
    task = {**CAUSES[first][1], **CAUSES[second][1]}
    a, b = sums(tmp_path, "a", lm), sums(tmp_path, "b", lm, task)
    together = explain(a, b)
    assert together.shares[0].cause == " and ".join(sorted([first, second]))
    apart = explain(a, b, lm=lm)
    for cause in (first, second):
        check_cause(apart, cause, -LOSS)


def test_a_cause_in_the_prompt_and_one_in_the_filter_need_no_model(tmp_path: Path) -> None:
    dislike, task, _ = CAUSES["shots"]
    lm = Fragile([dislike])
    even = {**task, "filter_list": regex_filter("is (\\d*[02468])\\.")}
    odd = {"filter_list": regex_filter("is (\\d+)\\.")}
    explanation = explain(sums(tmp_path, "a", lm, odd), sums(tmp_path, "b", lm, even))
    assert explanation.share("filter") is None  # every sum is even, and so is 0: this filter changes nothing
    check_cause(explanation, "shots", -LOSS)
    small = {**task, "filter_list": regex_filter("is (\\d*[0-4])\\.")}
    explanation = explain(explanation.a, sums(tmp_path, "c", lm, small))
    shots, read = explanation.share("shots"), explanation.share("filter")
    assert shots is not None
    assert read is not None
    assert (shots.estimate.value or 0) < -0.1
    assert (read.estimate.value or 0) < -0.1
    total = (shots.estimate.value or 0) + (read.estimate.value or 0)
    assert total == pytest.approx(explanation.difference)


def test_runs_that_are_the_same_have_nothing_to_explain(tmp_path: Path) -> None:
    explanation = explain(sums(tmp_path, "a", Fragile()), sums(tmp_path, "b", Fragile()))
    assert explanation.difference == 0
    assert all(share.estimate.value == 0 for share in explanation.shares)


# Files of other harnesses


def lm_eval_copy(path: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """The recorded files of lm-evaluation-harness, with every sample of a task changed."""
    source = Path(__file__).parents[1] / "finished" / "mini" / "lm_eval"
    path.mkdir()
    for file in source.iterdir():
        lines = file.read_text().splitlines()
        if file.name.startswith("samples_mini_sums"):
            samples = [json.loads(line) for line in lines]
            for sample in samples:
                change(sample)
            lines = [json.dumps(sample) for sample in samples]
        (path / file.name).write_text("\n".join(lines) + "\n")
    return path


def test_samples_of_lm_evaluation_harness(tmp_path: Path) -> None:
    def with_bos(sample: dict[str, Any]) -> None:
        asked = sample["arguments"]["gen_args_0"]
        asked["arg_0"] = "<s>" + asked["arg_0"]
        sample["resps"], sample["filtered_resps"], sample["exact_match"] = [[" none"]], ["[invalid]"], 0.0

    a, b = lm_eval_copy(tmp_path / "a", lambda sample: None), lm_eval_copy(tmp_path / "b", with_bos)
    results = next(b.glob("results*"))
    data = json.loads(results.read_text())
    data["results"]["mini_sums"]["exact_match,strict"] = 0.0
    results.write_text(json.dumps(data))
    explanation = explain(open_run(a), open_run(b), ExplainOptions(task="mini_sums", metric="exact_match,strict"))
    assert explanation.difference < 0
    check_cause(explanation, "BOS token", explanation.difference)


def test_details_of_lighteval(tmp_path: Path) -> None:
    rows = lighteval_rows([0.0] * 30)
    for row in rows:
        row["model_response"]["input"] = "You are terse.\n" + row["model_response"]["input"]
        row["model_response"]["text"] = ["b"]
    a = write_lighteval(tmp_path / "a", lighteval_rows([1.0] * 30))
    explanation = explain(open_run(a), open_run(write_lighteval(tmp_path / "b", rows)), ExplainOptions(metric="em"))
    check_cause(explanation, "system text", -1.0)


def test_logs_of_inspect(tmp_path: Path) -> None:
    theirs = [inspect_sample(i, "I") for i in range(30)]
    for sample in theirs:
        sample["messages"].insert(0, {"role": "system", "content": "You are terse."})
        sample["output"] = {"completion": "no"}
    a = write_inspect(tmp_path / "a", [inspect_sample(i, "C") for i in range(30)])
    explanation = explain(open_run(a), open_run(write_inspect(tmp_path / "b", theirs)))
    check_cause(explanation, "system text", -1.0)


def test_the_same_answers_with_other_values_are_the_scorers_doing(tmp_path: Path) -> None:
    a = write_inspect(tmp_path / "a", [inspect_sample(i, "C") for i in range(20)])
    b = write_inspect(tmp_path / "b", [inspect_sample(i, "C" if i % 2 else "I") for i in range(20)])
    check_cause(explain(open_run(a), open_run(b)), "metric", -0.5)


# Pieces, words, mistakes


def test_pieces_put_together_again_are_the_prompts() -> None:
    a = "Question: what is it?\nAnswer:"
    for b in ("<s>" + a, a + "\n", "Q: else\nA: 1\n\n" + a, a[5:], a.replace("Question", "Query"), "", "x"):
        segments = text_segments(a, b, Hints())
        assert "".join(segment.a for segment in segments) == a
        assert "".join(segment.b for segment in segments) == b


def test_the_verb_says_it_in_a_sentence_with_examples(tmp_path: Path) -> None:
    dislike, task, _ = CAUSES["stop strings"]
    lm = Fragile([dislike])
    a, b = sums(tmp_path, "a", lm), sums(tmp_path, "b", lm, task)
    text = findings(explain(a, b)).to_text(400)
    assert re.search(r"is -0\.\d+: -0\.\d+ \[-0\.\d+, -0\.\d+\] from stop strings \(200 docs\)", text)
    assert "parsed as" in text
    assert "task.generation_kwargs" in text
    done = CliRunner().invoke(command, [str(a.path), str(b.path), "--html", str(tmp_path / "page.html")])
    assert done.exit_code == 0
    assert ">stop strings</td>" in (tmp_path / "page.html").read_text()
    assert "from stop strings" in done.output
    data = json.loads(findings(explain(a, b)).to_json())
    assert data["shares"][0]["cause"] == "stop strings"


def test_tasks_that_are_not_shared_are_refused(tmp_path: Path) -> None:
    a = open_run(write_inspect(tmp_path / "a", [inspect_sample(1, "C")], task="one"))
    b = open_run(write_inspect(tmp_path / "b", [inspect_sample(1, "C")], task="two"))
    with pytest.raises(ConfigError, match="in common"):
        explain(a, b)


# Choices, chats, and what a backend does to a prompt


class Chooser(Fragile):
    """Likes the right colour on nine questions of ten; each thing that it dislikes about a request costs three more."""

    def loglikelihood(self, requests: Sequence[Instance]) -> list[tuple[float, bool]]:
        return [self._likelihood(*request.args) for request in requests]

    def _likelihood(self, context: Any, choice: str) -> tuple[float, bool]:
        prompt = context_text(context)
        number = int(re.findall(r"\d+", prompt)[-1])
        chance = RIGHT - LOSS * sum(bool(re.search(each, prompt + choice)) for each in self.dislikes)
        says = number % 3 if luck(str(number)) < chance else (number + 1) % 3
        return (-1.0 if choice.strip() == ("red", "green", "blue")[says] else -5.0, False)


CHOICES: dict[str, Any] = {
    "output_type": "multiple_choice",
    "doc_to_text": "Question: colour {{a}}?\nAnswer:",
    "doc_to_choice": ["red", "green", "blue"],
    "doc_to_target": "{{a % 3}}",
    "filter_list": None,
    "generation_kwargs": None,
    "metric_list": [{"metric": "acc"}, {"metric": "acc_norm"}],
}


def test_two_causes_of_a_choice_task_are_told_apart_by_asking_again(tmp_path: Path) -> None:
    lm = Chooser(["^You are", "\n\nAnswer"])
    other = {**CHOICES, "description": "You are a painter.\n", "doc_to_text": "Question: colour {{a}}?\n\nAnswer:"}
    a, b = sums(tmp_path, "a", lm, CHOICES), sums(tmp_path, "b", lm, other)
    apart = explain(a, b, ExplainOptions(metric="acc"), lm=lm)
    for cause in ("system text", "delimiters"):
        check_cause(apart, cause, -LOSS)
    text = findings(apart).to_text(400)
    assert re.search(r"choice \d +choice \d +A …", text), "log-likelihoods say nothing to a reader"


def test_another_metric_of_the_same_likelihoods_is_the_metrics_share(tmp_path: Path) -> None:
    a = sums(tmp_path, "a", Chooser(), CHOICES)
    longer = {**CHOICES, "doc_to_choice": ["red", "green, as grass is", "blue"]}
    b = sums(tmp_path, "b", Chooser(), longer)
    by_length = explain(b, b, ExplainOptions(metric="acc", metric_b="acc_norm"))
    assert by_length.difference != 0
    check_cause(by_length, "metric", by_length.difference)
    assert explain(a, b, ExplainOptions(metric="acc")).shares[0].cause == "choices"


def test_two_causes_in_chats_are_told_apart_turn_by_turn(tmp_path: Path) -> None:
    class Chatty(Fragile):
        chat = "messages"

    lm = Chatty(["You are", "</s>"])
    chat = {"apply_chat_template": True}
    stops = CAUSES["stop strings"][1]
    a = sums(tmp_path, "a", lm, **chat)
    b = sums(tmp_path, "b", lm, stops, system_instruction="You are a calculator.", **chat)
    apart = explain(a, b, lm=lm)
    for cause in ("system text", "stop strings"):
        check_cause(apart, cause, -LOSS)


class Counting(Fragile):
    """Counts its tokens: one a word, one more at the start, and no more than fit."""

    def __init__(self, adds_bos: bool = False, most: int = 100, dislikes: Sequence[str] = ()) -> None:
        super().__init__(dislikes)
        self.adds_bos, self.most = adds_bos, most

    def generate_until(self, requests: Sequence[Instance]) -> list[Any]:
        answers = []
        for request in requests:
            words = context_text(request.args[0]).split()
            count = len(words) + self.adds_bos
            hurt = LOSS * self.adds_bos + LOSS * (count > self.most)
            a, b = words[-4], words[-2]
            right = luck(a, b) < RIGHT - hurt
            text = f" the answer is {int(a) + int(b) if right else 0}."
            answers.append(Response(text, tokens=(min(count, self.most), 5)))
        return answers

    def fingerprint(self) -> str:
        return f"{self.adds_bos} {self.most}"


WORDS = {"doc_to_text": "{{'word ' * (a % 5)}}{{a}} + {{b}} ="}


@pytest.mark.parametrize(
    ("cause", "other", "docs"), [("BOS token", Counting(adds_bos=True), 200), ("truncation", Counting(most=6), 80)]
)
def test_tokens_tell_what_the_text_does_not(tmp_path: Path, cause: str, other: LM, docs: int) -> None:
    explanation = explain(sums(tmp_path, "a", Counting(), WORDS), sums(tmp_path, "b", other, WORDS))
    share = explanation.share(cause)
    assert share is not None, [each.cause for each in explanation.shares]
    assert share.docs == docs
    check_cause(explanation, cause, -LOSS * docs / DOCS)


def test_what_the_backend_did_is_not_asked_again(tmp_path: Path) -> None:
    stops = {**WORDS, **CAUSES["stop strings"][1]}
    a, b = sums(tmp_path, "a", Counting(), WORDS), sums(tmp_path, "b", Counting(adds_bos=True), stops)
    explanation = explain(a, b, lm=Counting())
    assert explanation.shares[0].cause == "BOS token and stop strings"
    assert any("done by the backend" in note for note in explanation.notes)


def test_arguments_of_models_are_named_where_one_run_has_none(tmp_path: Path) -> None:
    one, other = sums(tmp_path, "a", Fragile()), sums(tmp_path, "b", Fragile(careless=True))
    told = replace(other.result, model={**other.result.model, "args": {"add_bos_token": True, "batch_size": 8}})
    explanation = explain(one, replace(other, result=told))
    assert "add_bos_token not set → True" in explanation.shares[0].cause
    assert "batch_size" not in explanation.shares[0].cause
