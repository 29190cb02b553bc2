"""Every kind of judge through a whole run, from a task file."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.scoring.judges.bench import asked, computed, judge, questions, run, write_bench

from assay.errors import ConfigError, ModelError
from assay.evaluation import score_again
from assay.scoring.judges import answer_hash

CORRECT = "scorer: {type: judge}"


def test_right_and_wrong_by_the_reference(tmp_path: Path) -> None:
    write_bench(tmp_path, judged=CORRECT)
    result = run(tmp_path, "judged", run_dir=str(tmp_path / "run"))
    assert result["judged"]["correct"].value == pytest.approx(2 / 3)
    assert list(result.tasks["judged"].scores) == [("correct", "none")], "no metric that nobody asked for"
    (question, *_), *_ = questions(tmp_path, "run", "judged")
    note = question["note"]
    assert {name: note[name] for name in ("filter", "draw", "part", "attempt")} == {
        "filter": "none",
        "draw": 0,
        "part": "",
        "attempt": 1,
    }
    assert note["verdicts"] == [0.0]
    assert note["answer_hash"] == answer_hash(["0"])
    assert "Seen." in question["resps"][0], "the explanation is kept"


def test_grades_of_a_scale(tmp_path: Path) -> None:
    write_bench(tmp_path, judged="scorer: {type: judge, kind: grade}")
    result = run(tmp_path, "judged")
    assert result["judged"]["grade"].value == pytest.approx(5.5)


def test_points_by_criteria(tmp_path: Path) -> None:
    write_bench(tmp_path, judged="scorer: {type: judge, kind: rubric, criteria: [{text: a, points: 2}, b]}")
    assert run(tmp_path, "judged")["judged"]["rubric"].value == pytest.approx(2 / 3)


def test_pairs_are_asked_in_both_orders(tmp_path: Path) -> None:
    """The model says i, the opponent 15: wins above it, one tie."""
    write_bench(tmp_path, judged=f"scorer: {{type: judge, kind: pairwise, opponent: {tmp_path}/other.jsonl}}")
    (tmp_path / "other.jsonl").write_text("".join(f'{{"doc_id": {i}, "answer": "15"}}\n' for i in range(30)))
    result = run(tmp_path, "judged")
    assert result["judged"]["win_rate"].value == pytest.approx((14 + 0.5) / 30)
    assert result["judged"]["position_flip"].value == 0
    assert len(asked(tmp_path)) == 60 - 1, "the two orders of equal answers are one question"
    assert result["judged"]["length_controlled_win_rate"].value is not None


def test_a_judge_that_always_prefers_the_first_finds_only_ties(tmp_path: Path) -> None:
    """The opponent is another run: the answers of a model that says one more."""
    write_bench(tmp_path, judged="")
    run(tmp_path, "judged", run_dir=str(tmp_path / "base"), model_args={"plus": 1})
    write_bench(tmp_path, judged=f"scorer: {{type: judge, kind: pairwise, opponent: {tmp_path}/base}}")
    result = run(tmp_path, "judged", rule="first")
    assert result["judged"]["win_rate"].value == 0.5
    assert result["judged"]["position_flip"].value == 1.0


TURNS = """
turns: ["{{answers[-1]}}?"]
scorer: {type: judge, kind: conversation, per: PER}
"""


def test_a_conversation_as_a_whole_and_turn_by_turn(tmp_path: Path) -> None:
    write_bench(tmp_path, whole=TURNS.replace("PER", "whole"), turn=TURNS.replace("PER", "turn"))
    assert run(tmp_path, "whole")["whole"]["grade"].value == 3.0, "four texts"
    result = run(tmp_path, "turn")["turn"]
    assert (result["grade_turn_1"].value, result["grade_turn_2"].value, result["grade"].value) == (2.0, 3.0, 2.5)


# ---------------------------------------------------------------------- what cannot be read


def test_a_verdict_that_cannot_be_read_is_asked_once_more(tmp_path: Path) -> None:
    write_bench(tmp_path, judged=CORRECT)
    result = run(tmp_path, "judged", rule="late", run_dir=str(tmp_path / "run"))
    assert result["judged"]["correct"].value == pytest.approx(2 / 3)
    assert len(asked(tmp_path)) == 60
    assert [q["note"]["attempt"] for q in questions(tmp_path, "run", "judged")[0]] == [1, 2]


def test_then_the_answer_is_unjudged_and_never_a_zero(tmp_path: Path) -> None:
    write_bench(tmp_path, judged=CORRECT)
    result = run(tmp_path, "judged", rule="mute")
    assert result.tasks["judged"].health.unjudged == {"none": 30}
    score = result.tasks["judged"].scores["correct", "none"].estimate
    assert (score.value, score.undefined) == (None, "no docs")
    assert len(asked(tmp_path)) == 60, "once more, and no more"
    assert "100% unjudged" in result.table()


# ---------------------------------------------------------------------- panels, repeats, filters, metrics


def test_a_panel_keeps_each_verdict_and_takes_the_mean_or_the_majority(tmp_path: Path) -> None:
    panel = "scorer: {type: judge, judges: [judge, second, third], panel: PANEL}"
    write_bench(tmp_path, mean=panel.replace("PANEL", "mean"), majority=panel.replace("PANEL", "majority"))
    roles = {
        name: judge(tmp_path, rule, name)
        for name, rule in (("judge", "honest"), ("second", "kind"), ("third", "honest"))
    }
    result = run(tmp_path, "mean", roles=roles)["mean"]
    assert result["correct"].value == pytest.approx((20 + 10 / 3) / 30)
    assert (result["correct_judge"].value, result["correct_second"].value) == (pytest.approx(2 / 3), 1.0)
    assert run(tmp_path, "majority", roles=roles)["majority"]["correct"].value == pytest.approx(2 / 3)


def test_repeats_are_drawn_with_a_temperature_and_averaged(tmp_path: Path) -> None:
    write_bench(tmp_path, judged="scorer: {type: judge, kind: grade, judge_repeats: 4}", docs=5)
    result = run(tmp_path, "judged", run_dir=str(tmp_path / "run"))
    assert sorted(draw for _, draw in asked(tmp_path)) == sorted([0, 1, 2, 3] * 5)
    assert result["judged"]["grade"].value == pytest.approx(sum(1 + i + 1.5 for i in range(5)) / 5)
    (question,), *_ = questions(tmp_path, "run", "judged")
    assert question["arguments"][1]["temperature"] == 0.7
    assert question["note"]["verdicts"] == [1.0, 2.0, 3.0, 4.0]


FILTERED = """
scorer: {type: judge}
filter_list:
  - {name: raw, filter: [take_first]}
  - {name: "nine, then first", filter: [{function: regex, regex_pattern: "(9)", fallback: "9"}, take_first]}
  - {name: spared, filter: [take_first], metric_list: [exact_match]}
metric_list: [{metric: correct, aggregation: mean}, exact_match]
"""


def test_filters_and_metrics_work_around_the_judge(tmp_path: Path) -> None:
    write_bench(tmp_path, judged=FILTERED)
    result = run(tmp_path, "judged")["judged"]
    assert result["correct", "raw"].value == result["exact_match", "raw"].value == pytest.approx(2 / 3)
    assert result["correct", "nine, then first"].value == 0.0
    assert ("correct", "spared") not in result.scores
    assert result["exact_match", "spared"].value == pytest.approx(2 / 3)


def test_several_draws_of_an_answer_are_each_judged(tmp_path: Path) -> None:
    more = CORRECT + "\nrepeats: 2\nfilter_list: [{name: all, filter: [{function: take_first_k, k: 2}]}]"
    write_bench(tmp_path, judged=more)
    result = run(tmp_path, "judged", run_dir=str(tmp_path / "run"))
    assert result["judged"]["correct"].value == pytest.approx(2 / 3)
    assert [q["note"]["draw"] for q in questions(tmp_path, "run", "judged")[0]] == [0, 1]


OWN = """
scorer:
  type: judge
  template: |-
    Is it so? {{question}} {{answer}} {{reference}} {{doc.answer}}
"""


def test_a_template_of_ones_own_has_its_fields_fenced(tmp_path: Path) -> None:
    write_bench(tmp_path, judged=OWN, docs=2)
    run(tmp_path, "judged")
    prompt, _ = asked(tmp_path)[1]
    assert prompt.startswith("Is it so? [question ")
    assert prompt.count("[end of ") == 3
    assert prompt.endswith("] 1")


# ---------------------------------------------------------------------- judging again


def test_judging_again_asks_the_model_nothing(tmp_path: Path) -> None:
    write_bench(tmp_path, judged=CORRECT)
    run(tmp_path, "judged", run_dir=str(tmp_path / "run"))
    assert (computed(tmp_path), len(asked(tmp_path))) == (30, 30)
    again = score_again(tmp_path / "run", {"roles": {"judge": judge(tmp_path, "kind", "other")}})
    assert again["judged"]["correct"].value == 1.0
    task = tmp_path / "judged.yaml"
    task.write_text(task.read_text().replace(CORRECT, OWN))
    worded = score_again(tmp_path / "run")
    assert worded["judged"]["correct"].value == pytest.approx(2 / 3)
    assert (computed(tmp_path), len(asked(tmp_path)), len(asked(tmp_path, "other"))) == (30, 60, 30)


def test_labels_are_taken_in_with_no_judge_in_reach(tmp_path: Path) -> None:
    """Neither the judge's file nor the store is there any more: what the run keeps of its judge suffices."""
    write_bench(tmp_path, judged=CORRECT)
    first = run(tmp_path, "judged", run_dir=str(tmp_path / "run"), rule="late")
    (tmp_path / "judge.py").unlink()
    (tmp_path / "store.sqlite").unlink()
    again = score_again(tmp_path / "run", run_dir=tmp_path / "again")
    assert again["judged"]["correct"] == first["judged"]["correct"]
    assert questions(tmp_path, "again", "judged") == questions(tmp_path, "run", "judged")
    once_more = score_again(tmp_path / "again")
    assert once_more["judged"]["correct"] == first["judged"]["correct"]


def test_an_edited_template_needs_the_judge_and_only_for_what_is_new(tmp_path: Path) -> None:
    more = "filter_list: [{name: raw, filter: [take_first]}]"
    write_bench(tmp_path, judged=f"{CORRECT}\n{more}")
    run(tmp_path, "judged", run_dir=str(tmp_path / "run"))
    (tmp_path / "store.sqlite").unlink()
    nine = "{name: nine, filter: [{function: regex, regex_pattern: '(9)', fallback: '9'}, take_first]}"
    task = tmp_path / "judged.yaml"
    task.write_text(task.read_text().replace(more, more.replace("]}]", f"]}}, {nine}]")))
    score_again(tmp_path / "run")
    assert len(asked(tmp_path)) == 30 + 29, "29 answers are not 9, which was judged for doc 9 already"


def test_verdicts_of_two_judges_are_never_mixed(tmp_path: Path) -> None:
    write_bench(tmp_path, judged=CORRECT)
    run(tmp_path, "judged", run_dir=str(tmp_path / "run"))
    code = tmp_path / "judge.py"
    code.write_text(code.read_text().replace("{self.name} {self.rule}", "retrained {self.rule}"))
    task = tmp_path / "judged.yaml"
    nine = "filter_list: [{name: none, filter: [take_first]}, {name: nine, filter: [{function: regex, regex_pattern: '(9)'}]}]"
    task.write_text(f"{task.read_text()}\n{nine}")
    with pytest.raises(ModelError, match="the judge is no longer the model"):
        score_again(tmp_path / "run")
    again = score_again(tmp_path / "run", {"roles": {"judge": judge(tmp_path)}})
    assert again["judged"]["correct", "none"].value == pytest.approx(2 / 3)


# ---------------------------------------------------------------------- errors before the first request


@pytest.mark.parametrize(
    ("scorer", "message"),
    [
        ("{type: jugde}", "unknown scorer 'jugde'"),
        ("{type: judge, kind: corect}", "unknown kind of judge 'corect'"),
        ("{type: judge, lables: x}", "has no setting 'lables'"),
        ("{type: judge, kind: rubric}", "has no criteria"),
        ("{type: judge, kind: pairwise}", "nothing to compare with"),
        ("{type: judge, kind: pairwise, opponent: gone}", "the opponent 'gone' does not exist"),
        ("{type: judge, panel: best}", "panel is 'best'"),
        ("{type: judge, judge_repeats: 0}", "judge_repeats is 0"),
        ("{type: judge, judges: [judge, judge]}", "judges is"),
        ("{type: judge, labels: gone.jsonl}", "gone.jsonl cannot be read"),
        ("{type: judge, template: '{{ answer'}", "is not valid Jinja"),
        ("{type: judge, kind: grade, scale: [10, 1]}", "scale is"),
        ("{type: judge, judges: [second]}", "needs a second model, the second"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_asked(tmp_path: Path, scorer: str, message: str) -> None:
    write_bench(tmp_path, judged=f"scorer: {scorer}")
    with pytest.raises(ConfigError, match=message):
        run(tmp_path, "judged")
    assert computed(tmp_path) == 0
