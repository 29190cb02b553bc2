"""Prompts, letter by letter. The vectors were taken from lm-evaluation-harness 0.4.13."""

from __future__ import annotations

from typing import Any

import pytest
from tests.tasks.made_up import arguments, make_task

from assay.tasks.prompt import join_spaced, make_shot, prefix_delimiter


class Chat:
    """Records the messages it was given."""

    def __init__(self) -> None:
        self.seen: list[tuple[list[dict[str, str]], bool]] = []

    def __call__(self, messages: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        self.seen.append((messages, add_generation_prompt))
        return f"<{len(self.seen)}>"


def test_two_shots_and_a_description() -> None:
    first = arguments(make_task(description="D.\n\n"), num_fewshot=2)[0]
    assert first == [
        ("D.\n\nQ: tr24\nA: x\n\nQ: tr14\nA: x\n\nQ: te0\nA:", " x"),
        ("D.\n\nQ: tr24\nA: x\n\nQ: tr14\nA: x\n\nQ: te0\nA:", " yy"),
    ]


def test_a_prefix_opens_the_answer() -> None:
    assert arguments(make_task(gen_prefix="Ans"), num_fewshot=1)[0][0] == ("Q: tr24\nA: Ans x\n\nQ: te0\nA: Ans", " x")


def test_a_prefix_in_a_conversation() -> None:
    chat = Chat()
    options = {"num_fewshot": 1, "apply_chat_template": True, "chat_template": chat, "fewshot_as_multiturn": True}
    asked = arguments(make_task(gen_prefix="Ans"), **options)
    assert asked[0][0][1] == " x"
    messages, add_generation_prompt = chat.seen[0]
    assert [(m["role"], m["content"]) for m in messages] == [
        ("user", "Q: tr24\nA:"),
        ("assistant", "Ans x"),
        ("user", "Q: te0\nA:"),
        ("assistant", "Ans"),
    ]
    assert add_generation_prompt is False


def test_one_turn_with_system_and_description() -> None:
    chat = Chat()
    asked = arguments(
        make_task(description="D."),
        num_fewshot=1,
        apply_chat_template=True,
        chat_template=chat,
        system_instruction="S.",
    )
    messages, add_generation_prompt = chat.seen[0]
    assert messages == [
        {"role": "system", "content": "S.\n\nD."},
        {"role": "user", "content": "Q: tr24\nA: x\n\nQ: te0\nA:"},
    ]
    assert add_generation_prompt is True
    assert asked[0][0] == ("<1>", "x")


def test_a_prefix_that_ends_in_space_takes_no_delimiter_in_chat() -> None:
    asked = arguments(make_task(gen_prefix="Ans "), apply_chat_template=True, chat_template=Chat())
    assert asked[0][0][1] == "x"


def test_contexts_that_differ_and_a_shared_continuation() -> None:
    task = make_task(doc_to_text="label", doc_to_choice=r"{{[q + ' L', q + ' R']}}", doc_to_target="tail")
    assert arguments(task, num_fewshot=1)[0] == [("tr24 L tail\n\nte0 L", " tail"), ("tr24 L tail\n\nte0 R", " tail")]
    requests = next(task.iter_requests())
    assert requests.target == "tail"
    assert [(i.target, i.choices) for i in requests.instances] == [(0, ("te0 L", "te0 R"))] * 2


def test_the_text_of_one_target_has_no_delimiter() -> None:
    task = make_task(output_type="loglikelihood", doc_to_target="{{q}}", doc_to_choice=None)
    assert arguments(task)[0] == [("Q: te0\nA:", "te0")]


def test_rolling_takes_the_target_alone() -> None:
    task = make_task(output_type="loglikelihood_rolling", doc_to_text="", doc_to_target="{{q}}!", doc_to_choice=None)
    assert arguments(task, num_fewshot=3)[0] == [("te0!",)]


def test_generation_settings_are_copied_for_every_request() -> None:
    task = make_task(output_type="generate_until", doc_to_choice=None, generation_kwargs={"until": ["\n"]})
    first, second = arguments(task, gen_kwargs={"temperature": 0.5})[:2]
    assert first[0] == ("Q: te0\nA:", {"until": ["\n"], "temperature": 0.5})
    first[0][1]["until"].append("x")
    assert second[0][1]["until"] == ["\n"]
    assert task.config.generation_kwargs == {"until": ["\n"]}


def test_mutual_information_asks_for_every_choice_without_context() -> None:
    asked = arguments(make_task(metric_list=["acc", "acc_mutual_info"]))[0]
    assert asked[2:] == [("", " x"), ("", " yy")]


def test_images_go_along() -> None:
    task = make_task(doc_to_image=["label"], output_type="generate_until", doc_to_choice=None)
    assert arguments(task)[1][0][2] == {"visual": [1]}


def test_repeats_come_from_the_run_or_the_task() -> None:
    task = make_task(output_type="generate_until", doc_to_choice=None, repeats=3)
    assert next(task.iter_requests()).instances[0].repeats == 3
    from assay.tasks import RequestOptions

    assert next(task.iter_requests(RequestOptions(repeats=5))).instances[0].repeats == 5


def test_shots_may_be_worded_in_their_own_way() -> None:
    own = {"doc_to_text": "F {{q}}", "doc_to_target": "{{q}}?", "target_delimiter": "=", "fewshot_delimiter": ";"}
    assert arguments(make_task(fewshot_config=own), num_fewshot=1)[0][0] == ("F tr24=tr24?;Q: te0\nA:", " x")


def test_a_description_may_name_a_column_or_render_the_doc() -> None:
    assert arguments(make_task(description="q"))[0][0][0] == "te0Q: te0\nA:"
    assert arguments(make_task(description="About {{q}}.\n"))[0][0][0] == "About te0.\nQ: te0\nA:"


@pytest.mark.parametrize(
    ("left", "right", "joined"),
    [("a", "b", "a|b"), ("a ", "b", "a b"), ("a", "\nb", "a\nb"), ("", "b", "b"), (None, "b", "b"), ("a", None, "a")],
)
def test_delimiters_avoid_white_space(left: str | None, right: str | None, joined: str) -> None:
    assert join_spaced(left, right, "|") == joined


def test_nothing_stands_before_a_prefix_without_a_question() -> None:
    assert prefix_delimiter("", "Ans", " ") == ""
    assert prefix_delimiter("Q", "Ans", " ") == " "
    assert prefix_delimiter("Q\n", "Ans", " ") == ""


@pytest.mark.parametrize(
    ("answer", "choices", "prefix", "text"),
    [
        (1, ["a", "b"], None, "q b;"),
        ("t", None, None, "q t;"),
        (["first", "second"], None, None, "q first;"),
        ([1, 0], ["a", "b"], None, "q b;"),
        ("t", None, "P", "q P t;"),
        ("", None, None, "q"),
        ("", None, "P", "q P"),
        (None, None, None, "q"),
    ],
)
def test_answers_of_shots(answer: Any, choices: Any, prefix: Any, text: str) -> None:
    shot = make_shot({}, "q", answer, choices, prefix, target_delimiter=" ", fewshot_delimiter=";")
    assert shot.text == text
