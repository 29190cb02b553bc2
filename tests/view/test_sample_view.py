"""One sample taken apart: prompts, choices, responses, filters."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.instance import Instance, Message
from assay.results import pack_arguments
from assay.view.choices import choices_of
from assay.view.prompts import Turn, split_prompt
from assay.view.questions import OtherQuestion, QuestionReply
from assay.view.sample_view import answer_of, present, question_of, target_of
from assay.view.task_statistics import by_length, calibration


@pytest.mark.parametrize(
    ("context", "shots", "delimiter", "question"),
    [
        ("Q: a\nA: b\n\nQ: c\nA:", 1, "\n\n", "Q: c\nA:"),
        ("Q: a\n\nA: b\n\nQ: c\n\nA:", 1, "\n\n", "Q: c\n\nA:"),
        ("Answer well.\n\nQ: a\nA: b\n\nQ: c\nA: d\n\nQ: e\nA:", 2, "\n\n", "Q: e\nA:"),
        ("one###two###three", 2, "###", "three"),
        ("no shots here\n\nreally", 0, "\n\n", "no shots here\n\nreally"),
        ("too few delimiters", 3, "\n\n", "too few delimiters"),
        ("a\n\nb\n\nc\n\nd", 1, "\n\n", "a\n\nb\n\nc\n\nd"),
        ("", 5, "\n\n", ""),
        ("x", 1, "", "x"),
    ],
)
def test_few_shot_examples_are_told_from_the_question(context: str, shots: int, delimiter: str, question: str) -> None:
    prompt = split_prompt(context, shots, delimiter)
    assert prompt.question == question
    assert prompt.text == context


@given(st.text(), st.integers(0, 6), st.sampled_from(["\n\n", "\n", "###", ""]))
def test_no_character_of_a_prompt_is_lost(context: str, shots: int, delimiter: str) -> None:
    assert split_prompt(context, shots, delimiter).text == context


def row(**changes: Any) -> dict[str, Any]:
    requests = [["Question?", " yes"], [None, " no"]]
    base = {
        "doc_id": 4,
        "doc_hash": "d",
        "request_hash": "r",
        "filter": "none",
        "doc": '{"q": 1}',
        "target": "1",
        "arguments": json.dumps(requests),
        "resps": json.dumps([[[-1.0, True]], [[-2.0, False]]]),
        "filtered_resps": json.dumps([[-1.0, True], [-2.0, False]]),
        "stops": None,
        "flags": ["tied"],
        "cluster": None,
        "metric:acc": 0.0,
    }
    return {**base, **changes}


def test_choices_carry_likelihoods_shares_target_and_pick() -> None:
    sample = present([row()], {"output_type": "multiple_choice"}, 0)
    yes, no = sample.choices
    assert (yes.label, yes.text, yes.picked_by, yes.is_target, yes.is_greedy) == ("A", " yes", ("acc",), False, True)
    assert (no.picked_by, no.is_target) == ((), True)
    assert yes.share == pytest.approx(math.e / (1 + math.e))
    assert yes.per_character == pytest.approx(-1 / 3)
    assert sample.target_text == "B  no"
    assert (sample.flags, sample.responses) == (("tied",), ())


@pytest.mark.parametrize(
    ("target", "wanted"),
    [
        (1, [False, True]),
        ("1", [False, True]),
        ("no", [False, True]),
        (" no", [False, True]),
        ([0, 1], [True, True]),
        (None, [False, False]),
        (True, [False, False]),
        (7, [False, False]),
    ],
)
def test_a_target_may_be_an_index_a_text_or_several(target: Any, wanted: list[bool]) -> None:
    found = choices_of([["c", " yes"], ["c", " no"]], [[[-1.0, True]], [[-2.0, False]]], target)
    assert [choice.is_target for choice in found] == wanted


def test_choices_that_differ_in_context_show_it() -> None:
    found = choices_of([["The cup was", " full."], ["The jug was", " full."]], [[[-1.0, True]], [[-2.0, False]]], 0)
    assert [choice.context for choice in found] == ["The cup was", "The jug was"]


def test_requests_without_context_for_mutual_information_are_no_choices() -> None:
    requests = [["c", " a"], ["c", " b"], ["", " a"], ["", " b"]]
    assert len(choices_of(requests, [[[-1.0, False]]] * 4, 0)) == 2


def test_impossible_likelihoods_do_not_break_the_page() -> None:
    for values in ([-math.inf, -1.0], [-math.inf, -math.inf], [0.0, -1e308]):
        found = choices_of([["c", " a"], ["c", " b"]], [[[v, False]] for v in values], 0)
        assert all(0 <= choice.share <= 1 for choice in found)
    assert choices_of([["c", " a"]], [["text"]], 0) == ()
    assert choices_of([], [], 0) == ()
    assert choices_of([["c", " a"]], None, 0) == ()


def test_more_than_twenty_six_choices_are_labelled() -> None:
    found = choices_of([["c", f" {i}"] for i in range(28)], [[[-float(i), False]] for i in range(28)], 0)
    assert [choice.label for choice in found][-3:] == ["Z", "AA", "AB"]


def test_responses_repeats_stops_and_filters() -> None:
    config = {
        "output_type": "generate_until",
        "filter_list": [
            {
                "name": "first",
                "filter": [
                    {"function": "regex", "kwargs": {"regex_pattern": "x"}},
                    {"function": "take_first", "kwargs": {}},
                ],
            }
        ],
    }
    rows = [
        row(
            arguments='[["p", {"until": ["."]}]]',
            resps='[["one", "two"]]',
            stops='[["stop", "length"]]',
            filtered_resps='["on"]',
            filter="first",
            target='"t"',
        ),
        row(
            arguments='[["p", {"until": ["."]}]]',
            resps='[["one", "two"]]',
            filtered_resps='["one"]',
            filter="raw",
            target='"t"',
        ),
    ]
    sample = present(rows, config, 0)
    assert [(r.text, r.stop) for r in sample.responses] == [("one", "stop"), ("two", "length")]
    first, raw = sample.filtered
    assert first.steps == ("regex  x", "take_first")
    assert (first.text, first.changed, raw.changed) == ("on", True, False)
    assert sample.settings == {"until": ["."]}
    assert sample.counts == {"requests": 1, "prompt characters": 1, "response characters": 6}


def test_token_counts_where_the_run_kept_them() -> None:
    sample = present([row(tokens="[[[7, 1]], [[7, 2]]]")], {"output_type": "multiple_choice"}, 0)
    assert [choice.tokens for choice in sample.choices] == [1, 2]
    assert (sample.counts["prompt tokens"], sample.counts["response tokens"]) == (7, 3)
    drawn = row(arguments='[["p", {}]]', resps='[["one", "two"]]', filtered_resps='["one"]', tokens="[[[9, 4], null]]")
    sample = present([drawn], {"output_type": "generate_until"}, 0)
    assert [response.tokens for response in sample.responses] == [4, None]
    assert sample.counts["response tokens"] == 4
    assert "prompt tokens" not in present([row()], {"output_type": "multiple_choice"}, 0).counts


def test_rolling_and_single_likelihoods() -> None:
    rolling = present(
        [row(arguments='[["a text"]]', resps="[[-12.5]]", filtered_resps="[-12.5]")],
        {"output_type": "loglikelihood_rolling"},
        0,
    )
    assert rolling.likelihoods == ({"text": "a text", "value": -12.5, "is_greedy": None},)
    single = present([row(arguments='[["c", " d"]]', resps="[[[-1.5, true]]]")], {"output_type": "loglikelihood"}, 0)
    assert single.likelihoods[0]["value"] == -1.5


def test_damaged_cells_are_shown_as_they_are() -> None:
    sample = present([row(target="not json", resps="[", filtered_resps="{", arguments="[]", doc="[1, 2")], {}, 3)
    assert sample.target_text == "not json"
    assert sample.prompt.text == ""


@pytest.mark.parametrize("arguments", ["5", '"text"', "[5]", "[[]]", "{}", '{"a": 1}', "not json", None])
def test_requests_that_are_none_leave_the_prompt_empty(arguments: str | None) -> None:
    odd = row(arguments=arguments)
    assert present([odd], {"output_type": "multiple_choice", "filter_list": 3}, 0).prompt.text == ""
    assert (question_of(odd, 0, ""), target_of(odd), answer_of(odd)) == ("", "1", "log-likelihood -1.00")


def test_a_chat_is_shown_as_its_turns() -> None:
    chat = (Message("system", "Be brief."), Message("user", '[{"role": "system"'))
    sample = present([chat_row(chat)], {}, 0)
    assert sample.prompt.question == 'system: Be brief.\n\nuser: [{"role": "system"'
    assert sample.counts["prompt characters"] == len(sample.prompt.question)


def test_a_list_shows_what_the_last_turn_of_a_chat_asks() -> None:
    chat = (Message("system", "Be brief."), Message("user", "Q: 1"), Message("assistant", "1"), Message("user", "Q: 2"))
    assert question_of(chat_row(chat), 1, "") == "Q: 2"
    assert question_of(chat_row(chat[:2]), 0, "") == "Q: 1"


def test_an_image_beside_a_chat_stands_with_what_the_user_said() -> None:
    inside = "data:image/png;base64,iVBORw0K"
    asked = Instance(
        "generate_until", {}, ((Message("system", "S"), Message("user", "What is it?")), {}, {"visual": [inside]}), 0
    )
    sample = present([row(arguments=pack_arguments([asked]), resps='[["a dot"]]')], {}, 0)
    assert sample.pictures == ()
    assert [len(turn.pictures) for turn in sample.prompt.turns] == [0, 1]


def test_examples_of_a_chat_are_the_turns_before_the_last_question() -> None:
    shots = (Message("user", "Q: 1"), Message("assistant", "A: 1"))
    sample = present([chat_row((Message("system", "S"), *shots, Message("user", "Q: 2")))], {}, 1)
    assert sample.prompt.examples == "user: Q: 1\n\nassistant: A: 1\n\n"
    assert sample.prompt.question == "system: S\n\nuser: Q: 2", "the system prompt is no example"
    assert [turn.role for turn in sample.prompt.example_turns] == ["user", "assistant"]
    assert [turn.role for turn in sample.prompt.turns] == ["system", "user"]
    assert sample.prompt.preamble == (Turn("system", "S"),), "it is shown where it was sent: before the examples"


def test_an_image_that_is_part_of_the_sample_is_shown_and_any_other_only_named() -> None:
    inside, outside = "data:image/png;base64,iVBORw0K", "data:image/svg+xml;base64,PHN2Zz4="
    parts = tuple({"type": "image_url", "image_url": {"url": url}} for url in (inside, outside, "/etc/passwd"))
    (turn,) = present([chat_row((Message("user", parts),))], {}, 0).prompt.turns
    assert [picture.source for picture in turn.pictures] == [inside, "", ""]
    assert turn.pictures[2].name == "/etc/passwd"


@pytest.mark.parametrize("wrapped", [False, True])
def test_an_image_of_a_column_is_shown_whether_the_column_holds_a_list_or_one(wrapped: bool) -> None:
    inside = "data:image/png;base64,iVBORw0K"
    given = {"visual": [inside] if wrapped else inside}
    sample = present([row(arguments=json.dumps([["What is it?", {}, given]]), resps='[["a dot"]]')], {}, 0)
    assert [picture.source for picture in sample.pictures] == [inside]


def test_a_worked_solution_is_shown_as_it_is_compared() -> None:
    config = {"metric_list": [{"metric": "exact_match", "regexes_to_ignore": [",", "(?s).*#### "]}]}
    row = chat_row((Message("user", "Q"),), target=json.dumps("9 * 2 = 18\n#### 1,018"))
    assert present([row], config, 0).compared_as == "1018"
    assert target_of(row, config) == "1018"
    for broken in ("(", 5, None):
        assert present([row], {"metric_list": [{"regexes_to_ignore": [broken]}]}, 0).compared_as is None


def chat_row(*contexts: tuple[Message, ...], **changes: Any) -> dict[str, Any]:
    asked = [Instance("generate_until", {}, (context, {}), i) for i, context in enumerate(contexts)]
    answers = [[f"answer {i}"] for i in range(len(asked))]
    return row(arguments=pack_arguments(asked), resps=json.dumps(answers), filtered_resps='["x"]', **changes)


def test_further_turns_reasoning_and_tool_calls_stand_with_their_responses() -> None:
    first = (Message("user", "Name a city."),)
    second = (*first, Message("assistant", "answer 0"), Message("user", "And its country?"))
    calls = [{"function": {"name": "look_up"}}]
    extras = json.dumps([[None], [{"reasoning": "It is Oslo.", "tool_calls": calls}]])
    one, two = present([chat_row(first, second, extras=extras)], {}, 0).responses
    assert (one.text, one.turn, one.reasoning) == ("answer 0", None, "")
    assert (two.text, two.turn, two.reasoning) == ("answer 1", Turn("user", "And its country?"), "It is Oslo.")
    assert two.tool_calls == tuple(calls)


def test_what_other_models_were_asked_is_part_of_the_sample() -> None:
    asked = [
        {"about": 0, "role": "judge", "arguments": ["Is it right?", {}], "resps": ["yes"], "failure": None},
        {"about": 0, "role": "judge", "arguments": ["Again?", {}], "resps": [], "failure": "timed out"},
    ]
    yes, failed = present([row(questions=json.dumps(asked))], {}, 0).asked
    assert (yes.role, yes.question, yes.replies, yes.failure) == (
        "judge",
        "Is it right?",
        (QuestionReply("yes"),),
        None,
    )
    assert (failed.replies, failed.failure) == ((), "timed out")
    assert present([row(questions='[3, {"role": 1}]')], {}, 0).asked[0].role == "1"


def judged(replies: list[str], **note: Any) -> OtherQuestion:
    question = {"role": "judge", "arguments": ["Is it?"], "resps": replies, "failure": None, "note": note}
    (asked,) = present([row(questions=json.dumps([question]))], {}, 0).asked
    return asked


@pytest.mark.parametrize(
    ("note", "shown"),
    [
        ({"verdicts": [0.0], "allowed": {"words": {"correct": 1.0, "incorrect": 0.0}}}, "incorrect"),
        ({"verdicts": [7.0], "allowed": {"low": 1, "high": 10}}, "7"),
        ({"verdicts": [1.0], "part": "mine first", "allowed": {"words": {"win": 1.0, "loss": 0.0}}}, "win"),
        ({"verdicts": [1.0], "part": "mine second", "allowed": {"words": {"win": 1.0, "loss": 0.0}}}, "loss"),
        ({"verdicts": [0.3], "allowed": {"words": {"win": 1.0}}}, "0.3"),
        ({"verdicts": [], "allowed": []}, None),
    ],
)
def test_a_verdict_is_shown_in_the_words_of_its_scale(note: dict[str, Any], shown: str | None) -> None:
    assert judged(["because"], **note).replies == (QuestionReply("because", shown),)


def test_every_reply_of_a_judge_is_told_apart_and_what_cannot_be_read_says_so() -> None:
    asked = judged(["7", "hm"], verdicts=[7.0, None], filter="strip, then first", part="turn_2", draw=1, attempt=2)
    assert asked.replies == (QuestionReply("7", "7"), QuestionReply("hm", None, is_unread=True))
    assert asked.about == ("filter strip, then first", "turn 2", "answer 2", "asked once more")


def test_what_people_say_stands_with_the_score() -> None:
    (first,) = present([row(**{"label:correct": 1.0, "label:correct_second": 1.0})], {}, 0).filtered
    assert first.label == 1.0
    assert present([row(**{"label:correct": None})], {}, 0).filtered[0].label is None


def test_short_forms_for_lists() -> None:
    assert (answer_of(row()), target_of(row())) == ("yes", "no")
    assert answer_of(row(filtered_resps='["42"]')) == "42"
    assert answer_of(row(arguments='[["c", " d"]]', filtered_resps="[[-1.5, true]]")) == "log-likelihood -1.50"
    assert target_of(row(target='"text"')) == "text"


def test_calibration_of_a_sure_and_right_model_is_near_the_diagonal() -> None:
    rows = [row(resps=json.dumps([[[0.0, True]], [[-9.0, False]]]), **{"metric:acc": 1.0}) for _ in range(50)]
    found = calibration(rows, "acc")
    assert found is not None
    assert (found["n"], len(found["points"])) == (50, 1)
    assert found["error"] < 0.01
    assert calibration([], "acc") is None
    for odd in ("[[[NaN, true]], [[-1.0, false]]]", "[[[-Infinity, true]], [[-Infinity, false]]]", "[[], []]", "[]"):
        assert calibration([row(resps=odd)], "acc") is None
    assert calibration([row(resps='[["text"]]')], "acc") is None


def test_scores_by_length_need_lengths_that_differ() -> None:
    def of(length: int, score: float) -> dict[str, Any]:
        return row(arguments=json.dumps([["x" * length, " y"]]), **{"metric:acc": score})

    found = by_length([of(i, float(i > 40)) for i in range(80)], "acc")
    assert found is not None
    assert [point["n"] for point in found["points"]] == [10] * 8
    assert (found["points"][0]["mean"], found["points"][-1]["mean"]) == (0.0, 1.0)
    assert by_length([of(5, 1.0)] * 80, "acc") is None
    assert by_length([of(5, 1.0)], "acc") is None


def test_prompts_of_one_length_share_a_bin() -> None:
    lengths = [5] * 40 + [6] * 20 + [7] * 20
    rows = [
        row(arguments=json.dumps([["x" * length, " y"]]), **{"metric:acc": float(i % 2)})
        for i, length in enumerate(lengths)
    ]
    found = by_length(rows, "acc")
    assert found is not None
    assert [(p["from"], p["to"], p["n"], p["mean"]) for p in found["points"]] == [
        (5, 5, 40, 0.5),
        (6, 6, 20, 0.5),
        (7, 7, 20, 0.5),
    ]
