"""Task classes that were written for lm-evaluation-harness."""

from __future__ import annotations

from typing import Any

import datasets
import pytest

from assay.compat.lm_eval.class_tasks import ConfigurableTask, LmEvalInstance
from assay.config import TaskConfig
from assay.errors import ConfigError
from assay.tasks import RequestOptions, Task

DOCS = [{"text": "some words", "value": "words"}, {"text": "more", "value": "none"}]


class Written(ConfigurableTask):
    """In the manner of the classes that ship with lm-evaluation-harness."""

    VERSION = 2
    DATASET_PATH = "somewhere"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(config={"metadata": {"version": self.VERSION}})

    def download(self, dataset_kwargs: Any = None) -> None:
        self.dataset = {"validation": datasets.Dataset.from_list(DOCS)}

    def has_validation_docs(self) -> bool:
        return True

    def validation_docs(self) -> Any:
        return self.dataset["validation"]

    def doc_to_text(self, doc: Any) -> str:
        return doc["text"].strip() + "\nAnswer:"

    def doc_to_target(self, doc: Any) -> str:
        return f" {doc['value']}"

    def construct_requests(
        self, doc: Any, ctx: Any, chat_template: Any = None, apply_chat_template: bool = False, **kwargs: Any
    ) -> Any:
        ask = {"doc": doc, "idx": 0, **kwargs}
        return [
            LmEvalInstance(request_type="generate_until", arguments=(ctx, {"until": ["\n"]}), **ask),
            LmEvalInstance(request_type="loglikelihood", arguments=(ctx, " none"), **ask),
        ]

    def process_results(self, doc: Any, results: Any) -> dict[str, Any]:
        return {"contains": doc["value"] in results[0]}

    def aggregation(self) -> dict[str, Any]:
        return {"contains": max}

    def higher_is_better(self) -> dict[str, bool]:
        return {"contains": True}


def test_the_class_asks_what_it_likes() -> None:
    task = Task.from_config(TaskConfig(**{"task": "written", "class": Written}))
    requests = list(task.iter_requests())
    assert [i.arguments for i in requests[0].instances] == [
        ("some words\nAnswer:", {"until": ["\n"]}),
        ("some words\nAnswer:", " none"),
    ]
    assert [(i.request_type, i.idx, i.doc_id, i.task_name) for i in requests[1].instances] == [
        ("generate_until", 0, 1, "written"),
        ("loglikelihood", 1, 1, "written"),
    ]


def test_shots_work_too() -> None:
    task = Task.from_config(TaskConfig(**{"task": "written", "class": Written}))
    context = next(task.iter_requests(RequestOptions(num_fewshot=1))).instances[0].arguments[0]
    assert context == "more\nAnswer:  none\n\nsome words\nAnswer:"


def test_its_own_scoring_is_in_the_config() -> None:
    task = Task.from_config(TaskConfig(**{"task": "written", "class": Written}))
    assert task.config.metadata == {"version": 2}
    assert task.config.process_results is not None
    assert [(m.name, m.aggregation, m.higher_is_better) for m in task.config.metric_list or []] == [
        ("contains", max, True)
    ]


def test_a_class_that_is_no_task() -> None:
    with pytest.raises(ConfigError, match="'dict'"):
        Task.from_config(TaskConfig(**{"task": "t", "class": dict}))


def test_a_class_of_05_may_set_its_name_before_it_has_a_config() -> None:
    class Named(Written):
        def __init__(self, config: Any = None) -> None:
            self.task = "named"
            super().__init__()

    task = Task.from_config(TaskConfig(**{"task": "named", "class": Named}))
    assert (task.task_name, task.task) == ("named", "named")
