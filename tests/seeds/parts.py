"""What these tests share: small task files with their data, and a model whose answers are written down."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import assay
from assay.instance import Instance
from assay.models import LM
from assay.results import RunResult
from assay.tasks import Task, TaskManager

DOCS = [{"question": f"{n}+{n}=?", "answer": str(2 * n), "id": n} for n in range(1, 5)]


class Written(LM):
    """Answers by a function of the prompt and the number of the draw."""

    def __init__(self, answer: Callable[[str, int], str]) -> None:
        self.answer = answer

    def fingerprint(self) -> str:
        return f"written-{id(self)}"

    def generate_until(self, requests: Sequence[Instance]) -> list[str]:
        return [self.answer(request.args[0], 0) for request in requests]

    def stream(self, request_type: str, instances: Any, draws: Any, stop: Any = lambda: False) -> Any:
        if request_type != "generate_until":
            yield from super().stream(request_type, instances, draws, stop)
            return
        for position, (instance, draw) in enumerate(zip(instances, draws)):
            yield position, assay.instance.Response(self.answer(instance.args[0], draw))

    def loglikelihood(self, requests: Sequence[Instance]) -> list[tuple[float, bool]]:
        """The shorter, the likelier; where two are as short, the one that sorts first."""
        return [(-float(len(r.args[1])) - 0.001 * sum(map(ord, r.args[1])), False) for r in requests]

    def loglikelihood_rolling(self, requests: Sequence[Instance]) -> list[float]:
        return [-float(len(request.args[0])) for request in requests]


def write_docs(folder: Path, docs: list[dict[str, Any]] = DOCS, name: str = "docs") -> Path:
    path = folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps(doc) + "\n" for doc in docs))
    return path


def write_task(folder: Path, name: str, more: str = "", docs: list[dict[str, Any]] = DOCS) -> Path:
    """A generation task over a few sums; `more` are further lines of its file."""
    data = write_docs(folder, docs, name)
    head = "" if "output_type:" in more else "output_type: generate_until\n"
    text = "" if "doc_to_text:" in more else 'doc_to_text: "{{question}}"\n'
    target = "" if "doc_to_target:" in more else 'doc_to_target: "{{answer}}"\n'
    (folder / f"{name}.yaml").write_text(
        f"task: {name}\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: {data}}}}}\ntest_split: test\n"
        f"{head}{text}{target}{more}"
    )
    return folder


def write_mirror(folder: Path, docs: list[dict[str, Any]], *subjects: str) -> str:
    """The dataset `my/dataset` with these docs in every subset and split, as `data_dir` finds it."""
    for subject in subjects or ("default",):
        place = folder / "hub" / "my" / "dataset" / subject
        place.mkdir(parents=True)
        for split in ("test", "train"):
            write_docs(place, docs, split)
    return str(folder / "hub")


def load_task(folder: Path, name: str) -> Task:
    return TaskManager(folder, include_defaults=False).load([name]).tasks[name]


def run(folder: Path, tasks: Any, model: Any, **words: Any) -> RunResult:
    return assay.evaluate(
        model=model, tasks=tasks, include_path=str(folder), store=str(folder / "store.sqlite"), **words
    )
