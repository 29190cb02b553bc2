"""Tasks over docs that are made on the spot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import datasets

from assay.config import TaskConfig
from assay.tasks import RequestOptions, Task

TRAIN = [{"q": f"tr{i}", "label": i % 2} for i in range(30)]
TEST = [{"q": f"te{i}", "label": i % 2} for i in range(8)]


def make_task(*, train: Sequence[dict[str, Any]] = TRAIN, test: Sequence[dict[str, Any]] = TEST, **fields: Any) -> Task:
    """A choice task of thirty training and eight test docs, unless the fields say otherwise."""
    given = {
        "task": "made_up",
        "custom_dataset": lambda **_: {
            "train": datasets.Dataset.from_list(list(train)),
            "test": datasets.Dataset.from_list(list(test)),
        },
        "training_split": "train",
        "test_split": "test",
        "output_type": "multiple_choice",
        "doc_to_text": "Q: {{q}}\nA:",
        "doc_to_target": "{{label}}",
        "doc_to_choice": ["x", "yy"],
        **fields,
    }
    return Task.from_config(TaskConfig(**{key: value for key, value in given.items() if value is not None}))


def arguments(task: Task, **options: Any) -> list[list[tuple[Any, ...]]]:
    """The arguments of all requests, by doc."""
    return [
        [instance.arguments for instance in requests.instances]
        for requests in task.iter_requests(RequestOptions(**options))
    ]
