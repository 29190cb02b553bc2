"""MMLU-Pro is one dataset; each of its subjects is a task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def _only(category: str) -> Callable[[Any], Any]:
    def process_docs(dataset: Any) -> Any:
        return dataset.filter(lambda doc: doc["category"] == category)

    return process_docs


biology = _only("biology")
business = _only("business")
chemistry = _only("chemistry")
computer_science = _only("computer science")
economics = _only("economics")
engineering = _only("engineering")
health = _only("health")
history = _only("history")
law = _only("law")
math = _only("math")
other = _only("other")
philosophy = _only("philosophy")
physics = _only("physics")
psychology = _only("psychology")
