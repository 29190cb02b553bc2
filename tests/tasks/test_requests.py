"""Docs chosen, loaded once, streamed and labelled."""

from __future__ import annotations

import inspect
import json
import random
from pathlib import Path
from typing import Any

import datasets
import pytest
from tests.tasks.made_up import TEST, arguments, make_task

from assay.config import TaskConfig
from assay.data import doc_hash
from assay.errors import AssayError, ConfigError, DataError
from assay.tasks import RequestOptions, Task, as_json, preview, visible


def ids(task: Task, **options: Any) -> list[int]:
    return [requests.doc_id for requests in task.iter_requests(RequestOptions(**options))]


def test_making_a_task_reads_nothing() -> None:
    config = TaskConfig(task="t", dataset_path="no/such", test_split="test", doc_to_text="q", doc_to_target="a")
    task = Task.from_config(config, data_dir=Path("/nowhere"))
    assert (task.task_name, task.OUTPUT_TYPE, task.tags) == ("t", "generate_until", [])


def test_requests_are_streamed() -> None:
    task = make_task()
    assert inspect.isgenerator(task.iter_requests())
    assert task.instances == []
    assert len(task.build_all_requests()) == len(task.instances) == 16


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, list(range(8))),
        ({"limit": 3}, [0, 1, 2]),
        ({"limit": 0.3}, [0, 1, 2]),
        ({"limit": 1.0}, [0]),
        ({"limit": 100}, list(range(8))),
        ({"samples": [6, 1, 4, 1]}, [1, 4, 6]),
        ({"samples": []}, []),
    ],
)
def test_docs_chosen(options: dict[str, Any], expected: list[int]) -> None:
    task = make_task()
    assert ids(task, **options) == expected
    assert len(task.select_ids(RequestOptions(**options))) == len(expected)


def test_chosen_docs_carry_their_own_ids() -> None:
    chosen = list(make_task().iter_requests(RequestOptions(samples=[6, 1])))
    assert [(r.doc_id, r.doc["q"], r.instances[0].doc_id) for r in chosen] == [(1, "te1", 1), (6, "te6", 6)]


@pytest.mark.parametrize("samples", [[8], [-1], [0, 99]])
def test_ids_that_do_not_exist(samples: list[int]) -> None:
    with pytest.raises(ConfigError, match="do not exist") as caught:
        ids(make_task(), samples=samples)
    assert "0 to 7" in str(caught.value.hint)


def test_process_docs_runs_once_per_split_and_always_alike() -> None:
    calls = []

    def shuffled(docs: datasets.Dataset) -> datasets.Dataset:
        calls.append(1)
        order = list(range(len(docs)))
        random.shuffle(order)
        return docs.select(order)

    task = make_task(process_docs=shuffled, training_split=None, fewshot_split="test")
    first = arguments(task, num_fewshot=1)
    assert arguments(task, num_fewshot=1) == first
    assert len(calls) == 1
    random.seed(99)
    assert (
        arguments(make_task(process_docs=shuffled, training_split=None, fewshot_split="test"), num_fewshot=1) == first
    )


def test_hash_and_labels() -> None:
    requests = next(make_task().iter_requests())
    assert requests.doc_hash == doc_hash(TEST[0])
    assert [(i.idx, i.task_name, i.target, i.choices) for i in requests.instances] == [
        (0, "made_up", 0, ("x", "yy")),
        (1, "made_up", 0, ("x", "yy")),
    ]


def test_choices_share_one_context() -> None:
    first, second = next(make_task().iter_requests()).instances
    assert first.arguments[0] is second.arguments[0]


def test_a_preview_is_what_the_run_asks() -> None:
    task = make_task(fewshot_split="train")
    options = RequestOptions(num_fewshot=2)
    everything = list(task.iter_requests(options))
    assert [i.arguments for i in preview(task, 5, options)] == [i.arguments for i in everything[5].instances]
    assert as_json(preview(task, 5, options)[1])["arguments"] == list(everything[5].instances[1].arguments)
    with pytest.raises(ConfigError, match="no doc 8"):
        preview(task, 8)
    assert visible("a b\n") == "a·b⏎\n"


# ---------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"doc_to_text": "{{question}}"}, "'question' is undefined"),
        ({"doc_to_target": "{{answer}}"}, "'answer' is undefined"),
        ({"doc_to_choice": "q"}, "doc_to_choice gives str 'te0', expected a list"),
        ({"doc_to_choice": "{{q}}"}, "is not a list"),
        ({"doc_to_choice": []}, "empty list"),
        ({"doc_to_choice": ["x", ""]}, "choice 1 of 2 is empty"),
        ({"doc_to_choice": lambda doc: ["x", None]}, "choice 1 of 2 is empty"),
        ({"output_type": "loglikelihood", "doc_to_choice": None, "doc_to_target": ""}, "the target is ''"),
        (
            {"doc_to_text": "label", "doc_to_choice": ["a", "b"], "doc_to_target": "", "target_delimiter": ""},
            "the continuation is empty",
        ),
        ({"output_type": "loglikelihood_rolling", "doc_to_choice": None, "doc_to_target": "label"}, "the text is 0"),
        ({"doc_to_text": lambda doc: doc["gone"]}, "KeyError: 'gone'"),
        ({"doc_to_text": "{% for i in range(10**9) %}{% endfor %}"}, "does too much"),
    ],
)
def test_bad_docs_are_named(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError) as caught:
        arguments(make_task(**fields))
    assert "made_up, doc 0: " in caught.value.message
    assert message in caught.value.message


def test_the_doc_that_is_bad_is_the_one_named() -> None:
    docs = [{"q": "a", "label": 0, "options": ["x", "y"]}, {"q": "b", "label": 0, "options": []}]
    with pytest.raises(DataError, match=r"task made_up, doc 1: .*empty list"):
        arguments(make_task(test=docs, doc_to_choice="options"))


def test_a_bad_shot_is_named() -> None:
    train = [{"q": f"tr{i}", "label": 9} for i in range(5)]
    with pytest.raises(DataError, match=r"doc 0: few-shot doc \d: the target of a shot is 9"):
        arguments(make_task(train=train, fewshot_split="train"), num_fewshot=1)


def test_no_docs_and_no_split() -> None:
    with pytest.raises(AssayError, match="no split to evaluate"):
        arguments(make_task(test_split=None))
    with pytest.raises(DataError, match="has no docs"):
        arguments(make_task(process_docs=lambda docs: docs.select([])))


def test_prompts_of_other_packages_are_refused() -> None:
    with pytest.raises(ConfigError, match="doc 0: use_prompt is 'promptsource:x'"):
        arguments(make_task(use_prompt="promptsource:x"))


def test_process_docs_that_fails() -> None:
    with pytest.raises(
        DataError, match=r"made_up: process_docs failed on the split 'test': .*test_requests.py:\d+: KeyError: 'gone'"
    ):
        arguments(make_task(process_docs=lambda docs: docs.map(lambda doc: {"x": doc["gone"]})))


def test_an_all_digit_question_further_down_stays_text() -> None:
    docs = [{"q": "one", "label": 0}, {"q": "7", "label": 1}]
    assert arguments(make_task(test=docs, doc_to_text="{{q}}"))[1][0] == ("7", " x")


@pytest.mark.parametrize("hint", [None, ["a"]])
def test_a_question_that_is_no_text_is_not_asked(hint: Any) -> None:
    task = make_task(test=[{"q": "a", "label": 0, "hint": hint}], doc_to_text="hint")
    with pytest.raises(DataError, match=r"doc 0: the question is .*, expected text"):
        arguments(task)


def test_a_column_that_the_first_row_lacks_is_no_literal_prompt(tmp_path: Path) -> None:
    rows = [{"q": "a", "label": 0}, {"q": "b", "label": 1, "hint": "H"}]
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    files = {"data_files": {"test": str(tmp_path / "d.jsonl")}}
    task = make_task(custom_dataset=None, dataset_path="json", dataset_kwargs=files, doc_to_text="hint")
    assert arguments(task, samples=[1]) == [[("H", " x"), ("H", " yy")]]
