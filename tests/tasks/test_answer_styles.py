"""Choice tasks for models without likelihoods: `gen`, `cot` and `letters`, as styles and as variants."""

from __future__ import annotations

from typing import Any

import pytest

from assay.config import TaskConfig
from assay.errors import ConfigError
from assay.filters import read_choice
from assay.instance import Instance
from assay.tasks import CoTStyle, GenerateStyle, LettersStyle, RequestOptions, Task, TaskManager
from assay.tasks.answer_styles import _INSTRUCTIONS

CITIES = ["Berlin", "Paris", "Rome"]
DOCS = [{"q": f"Capital number {i}?", "options": CITIES, "right": i % 3} for i in range(6)]


def task(style: Any, **more: Any) -> Task:
    config = TaskConfig(
        task="capitals",
        custom_dataset=lambda **_: {"test": DOCS},
        test_split="test",
        doc_to_question="{{q}}",
        doc_to_choice="options",
        doc_to_target="right",
        style=style,
        **more,
    )
    return Task.from_config(config)


def requests(made: Task, **options: Any) -> list[Instance]:
    return made.build_all_requests(RequestOptions(**options))


@pytest.mark.parametrize("style", [GenerateStyle, CoTStyle, LettersStyle])
@pytest.mark.parametrize("language", sorted(_INSTRUCTIONS))
def test_every_language_words_every_style(style: type[GenerateStyle], language: str) -> None:
    styler = style.for_language(language)
    text = styler.get_instruction_text("?", CITIES)
    assert "B. Paris" in text
    assert "{statement}" not in text
    answer = styler.get_fewshot_target_text(CITIES, 1)
    assert read_choice(answer, CITIES) is not None, answer
    assert read_choice(answer, CITIES)[0] == "B"  # type: ignore[index]  # what the wording asks for, the filter reads


def test_twenty_languages_each_with_its_own_words() -> None:
    assert len(_INSTRUCTIONS) == len(set(_INSTRUCTIONS.values())) == 20


def test_gen_asks_for_the_label_and_scores_what_states_it() -> None:
    made = task("gen")
    asked = requests(made)
    assert asked[1].args[0] == (
        "Question: Capital number 1?\nA. Berlin\nB. Paris\nC. Rome\n"
        "Answer with the letter of the right choice alone.\nAnswer:"
    )
    for instance, answer in zip(asked, ["A", " B. Paris", "The answer is (A).", "A", "I do not know", "**C**"]):
        instance.resps = [answer]
    made.apply_filters(asked)
    assert made.process_instances(asked) == {("exact_match", "none"): [1.0, 1.0, 0.0, 1.0, 0.0, 1.0]}
    assert [doc for doc, flags in made._result.flags.items() if flags] == [4]  # type: ignore[union-attr]


def test_cot_examples_end_in_the_sentence_that_is_read() -> None:
    made = task("cot", num_fewshot=2)
    prompt = requests(made)[0].args[0]
    assert prompt.count("\nAnswer: The answer is (") == 2
    assert prompt.endswith("place of X: The answer is (X).\nAnswer:")


def test_shots_of_a_chat_hold_the_answer_alone() -> None:
    def template(messages: list[dict[str, str]], add_generation_prompt: bool) -> str:
        return "|".join(f"{m['role']}:{m['content'].splitlines()[-1]}" for m in messages)

    options = {"apply_chat_template": True, "fewshot_as_multiturn": True, "chat_template": template}
    prompt = requests(task("letters", num_fewshot=1), **options)[0].args[0]
    assert prompt in {f"user:Answer:|assistant:{label}|user:Answer:" for label in "ABC"}


def test_wording_may_be_the_task_files_own() -> None:
    style = {"name": "cot", "instruction": "Reason. Then: {statement}", "statement": "Final: X", "cue_text": ""}
    assert requests(task(style))[0].args[0].endswith("C. Rome\nReason. Then: Final: X")
    with pytest.raises(ConfigError, match="has no X"):
        task({"name": "cot", "statement": "The answer."})


def test_letters_are_one_request_a_doc_and_unlisted_ones_are_counted() -> None:
    made = task("letters")
    asked = requests(made)
    assert len(asked) == len(DOCS)
    assert asked[0].args[1] == ("A", "B", "C")
    sure, close = ((-0.1, True), (-5.0, False), (-5.0, False)), ((-5.0, False), (-4.9, True), (-5.0, False))
    for number, instance in enumerate(asked):
        instance.resps = [close if number == 1 else sure]
    made.apply_filters(asked)
    assert made.process_instances(asked) == {("acc", "none"): [1.0, 1.0, 0.0, 1.0, 0.0, 0.0]}
    flagged = {doc for doc, flags in made._result.flags.items() for flag in flags if flag.name == "not_in_top"}  # type: ignore[union-attr]
    assert flagged == {1}


def test_variants_of_tasks_and_groups_keep_their_names() -> None:
    manager = TaskManager()
    loaded = manager.load(["demo_capitals:gen", "demo_capitals_en:cot:5shot"])
    assert {"demo_capitals_de:gen", "demo_capitals_en:gen", "demo_capitals_en:cot:5shot"} <= set(loaded.tasks)
    german = loaded.tasks["demo_capitals_de:gen"]
    assert "Antworte nur mit dem Buchstaben" in german.doc_to_text(german.eval_docs[0])
    assert loaded.tasks["demo_capitals_en:cot:5shot"].num_fewshot(RequestOptions()) == 5
