"""`formats:` and `task@format` of lm-evaluation-harness 0.5: its prompts to the byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.errors import ConfigError
from assay.tasks import RequestOptions, Task, TaskManager

FRANCE = {"question": "What is the capital of France?", "choices": ["Berlin", "Madrid", "Paris", "London"], "answer": 2}
SUM = {"question": "What is 2+2?", "choices": ["3", "4", "5", "6"], "answer": 1}

MCQA = "Question: What is the capital of France?\nA. Berlin\nB. Madrid\nC. Paris\nD. London\nAnswer:"
GENERATE = (
    "Given the following question and 4 candidate answers (A, B, C and D), choose the best answer.\n"
    "Question: What is the capital of France?\nA. Berlin\nB. Madrid\nC. Paris\nD. London\n"
    'Your response should end with "The best answer is [answer_letter]" where the [answer_letter] is one of A, B, C or D.\n'
    "The best answer is"
)
COT = (
    "Given the following problem, reason step by step to find the final answer.\n"
    "Problem: What is the capital of France?\n"
    'Your response should end with "The final answer is [answer]" where [answer] is the response to the problem.'
)
GREEDY = {"until": ["\n\n"], "max_gen_toks": 256, "temperature": 0.0, "do_sample": False}


def write(folder: Path, more: str = "", name: str = "cap", docs: list[dict[str, Any]] | None = None) -> TaskManager:
    data = folder / f"{name.replace('@', '-')}.jsonl"
    data.write_text("".join(json.dumps(doc) + "\n" for doc in docs or [FRANCE, SUM]))
    fields = {"output_type": "multiple_choice", "doc_to_text": "question", "doc_to_choice": "choices"}
    fields |= {"doc_to_target": "answer"}
    lines = [f"{key}: {value}\n" for key, value in fields.items() if f"{key}:" not in more]
    (folder / f"{name.replace('@', '-')}.yaml").write_text(
        f"task: {name}\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: {data}}}}}\ntest_split: test\n"
        f"{''.join(lines)}{more}"
    )
    return TaskManager(folder, include_defaults=False)


def first(task: Task, shots: int = 0) -> list[Any]:
    requests = next(iter(task.iter_requests(RequestOptions(num_fewshot=shots))))
    return [instance.args for instance in requests.instances]


def load(manager: TaskManager, name: str) -> Task:
    (task,) = manager.load([name]).tasks.values()
    return task


def test_the_four_formats_give_05s_prompts(tmp_path: Path) -> None:
    manager = write(tmp_path)
    assert first(load(manager, "cap@mcqa")) == [(MCQA, f" {letter}") for letter in "ABCD"]
    cloze = "Question: What is the capital of France?\nAnswer:"
    assert first(load(manager, "cap@cloze")) == [(cloze, f" {city}") for city in FRANCE["choices"]]
    assert first(load(manager, "cap@generate")) == [(GENERATE, GREEDY)]
    assert first(load(manager, "cap@cot")) == [(COT, GREEDY)]
    targets = {
        name: load(manager, f"cap@{name}").build_all_requests()[0].target for name in ("mcqa", "generate", "cot")
    }
    assert targets == {"mcqa": 2, "generate": "C", "cot": "Paris"}


def test_shots_have_the_same_words_and_the_answer(tmp_path: Path) -> None:
    manager = write(tmp_path, docs=[SUM, FRANCE])
    options = RequestOptions(num_fewshot=1)

    def context(name: str) -> str:
        return str(load(manager, f"cap@{name}").build_all_requests(options)[0].args[0])

    after = "Question: What is 2+2?\nA. 3\nB. 4\nC. 5\nD. 6\nAnswer:"
    assert context("mcqa") == f"{MCQA} C\n\n{after}"
    assert context("cloze") == (
        "Question: What is the capital of France?\nAnswer: Paris\n\nQuestion: What is 2+2?\nAnswer:"
    )
    assert context("generate").startswith(f"{GENERATE} C\n\nGiven the following question and 4 candidate answers")
    assert context("cot").startswith(f"{COT}\nParis\n\nGiven the following problem")


def test_a_prompt_is_not_put_into_a_prompt(tmp_path: Path) -> None:
    """0.5 begins `Question: Question: …` here."""
    manager = write(tmp_path, 'doc_to_text: "Question: {{question}}\\nAnswer:"\n')
    assert first(load(manager, "cap@mcqa"))[0][0] == MCQA
    listed = "{{question}}\\n{% for c in choices %}{{'ABCD'[loop.index0]}}. {{c}}\\n{% endfor %}Answer:"
    manager = write(tmp_path, f'doc_to_text: "{listed}"\ndoc_to_choice: [A, B, C, D]\n', name="listed")
    assert first(load(manager, "listed@mcqa")) == [(MCQA, f" {letter}") for letter in "ABCD"]


def test_our_cloze_is_theirs_where_the_text_asks_and_continues_where_it_does_not(tmp_path: Path) -> None:
    manager = write(tmp_path)
    assert first(load(manager, "cap:cloze")) == first(load(manager, "cap@cloze"))
    story = [{"question": "He sat down on the", "choices": ["mat", "moon"], "answer": 0}]
    manager = write(tmp_path, name="story", docs=story)
    assert first(load(manager, "story:cloze"))[0] == ("He sat down on the", " mat")
    assert first(load(manager, "story@cloze"))[0] == ("Question: He sat down on the\nAnswer:", " mat")


FIELDS = """formats:
  type: mcqa
  instruction: "Pick one of {{_choice_list_or}} ({{_num_choices}}).\\n"
  question_prefix: "Q: "
  choice_labels: [I, II, III, IV]
  choice_delimiter: " / "
  section_separator: "\\n\\n"
  answer_instruction: "Think.\\n"
  answer_prompt: "Choice:"
  target_delimiter: " -> "
  fewshot_delimiter: "\\n###\\n"
"""


def test_every_field_of_a_format_has_its_place(tmp_path: Path) -> None:
    task = load(write(tmp_path, FIELDS, docs=[SUM, FRANCE]), "cap")
    worded = "Pick one of I, II, III or IV (4).\nQ: What is {}?\n\nI. {} / II. {} / III. {} / IV. {}\n\nThink.\nChoice:"
    shot = worded.format("the capital of France", *FRANCE["choices"])
    asked = worded.format("2+2", *SUM["choices"])
    assert first(task, 1)[0] == (f"{shot} -> III\n###\n{asked}", " -> I")
    numbers = load(write(tmp_path, "formats: {type: mcqa, choice_labels: numbers}\n", "numbers"), "numbers")
    assert [args[1] for args in first(numbers)] == [" 1", " 2", " 3", " 4"]
    assert "\n3. Paris\n" in first(numbers)[0][0]


def test_several_formats_in_a_file_are_rows_of_their_own(tmp_path: Path) -> None:
    manager = write(tmp_path, "formats:\n  short: {type: cloze, question_prefix: ''}\n  mcqa:\n  plain: cloze\n")
    assert first(load(manager, "cap"))[0][0] == "What is the capital of France?\nAnswer:"
    assert first(load(manager, "cap@mcqa"))[0][0] == MCQA
    assert first(load(manager, "cap@plain"))[0][0] == "Question: What is the capital of France?\nAnswer:"
    with pytest.raises(ConfigError, match="has no format 'cot'") as error:
        manager.load(["cap@cot"])
    assert "short, mcqa, plain" in str(error.value)
    found = assay.evaluate(model="dummy", tasks=["cap@mcqa", "cap@plain", "cap"], include_path=str(tmp_path))
    assert set(found.tasks) == {"cap@mcqa", "cap@plain", "cap"}


def test_a_file_may_choose_in_its_own_name_and_a_run_otherwise(tmp_path: Path) -> None:
    manager = write(tmp_path, name="cap@cloze")
    assert first(load(manager, "cap@cloze"))[0][1] == " Berlin"
    assert first(load(manager, "cap"))[0][1] == " Berlin"
    (name, task), *_ = manager.load(["cap@mcqa"]).tasks.items()
    assert (name, first(task)[0][1]) == ("cap@mcqa", " A")


def test_a_group_of_a_named_directory_finds_a_member_there_that_chose_its_format(tmp_path: Path) -> None:
    write(tmp_path, name="cap@cloze")
    (tmp_path / "g.yaml").write_text("group: g\ntask: [cap]\n")
    found = TaskManager(include_defaults=False).resolve([str(tmp_path)])
    assert found.groups["g"].children == ("cap@cloze",)


def test_groups_and_patterns_hand_the_format_on(tmp_path: Path) -> None:
    write(tmp_path)
    write(tmp_path, name="cup")
    (tmp_path / "g.yaml").write_text("group: g\ntask: [cap, cup]\naggregate_metric_list: [acc]\n")
    manager = TaskManager(tmp_path, include_defaults=False)
    assert set(manager.load(["c*p@mcqa"]).tasks) == {"cap@mcqa", "cup@mcqa"}
    assert set(manager.load(["g@cloze:1shot"]).tasks) == {"cap@cloze:1shot", "cup@cloze:1shot"}
    found = assay.evaluate(model="dummy", tasks=["g@generate", "g@mcqa"], include_path=str(tmp_path))
    assert set(found.groups) == {"g@generate", "g@mcqa"}
    assert found["g@generate"]["exact_match"].value is not None
    assert found["g@mcqa"]["acc"].value is not None


def test_wrong_formats_are_refused_with_what_there_is(tmp_path: Path) -> None:
    manager = write(tmp_path)
    with pytest.raises(ConfigError, match="unknown format 'mcq'") as error:
        manager.load(["cap@mcq"])
    assert "mcqa" in str(error.value)
    with pytest.raises(ConfigError, match="a format has no field 'instructions'"):
        write(tmp_path, "formats: {type: mcqa, instructions: x}\n", "bad").load(["bad"])
    open_task = write(tmp_path, "output_type: generate_until\ndoc_to_choice: null\n", "open")
    with pytest.raises(ConfigError, match="has no choices, which this format needs"):
        open_task.load(["open@mcqa"])


def test_a_task_without_choices_is_worded_for_reasoning(tmp_path: Path) -> None:
    docs = [{"question": "Q: What is 6 times 7?\nA:", "answer": 42}]
    task = load(write(tmp_path, "output_type: generate_until\ndoc_to_choice: null\n", "open", docs), "open@cot")
    assert "\nProblem: What is 6 times 7?\nYour response" in first(task)[0][0]
    assert task.build_all_requests()[0].target == "42"
