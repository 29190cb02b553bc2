"""A tiny task and a model that fails, or answers with what no terminal should get."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from assay.instance import Instance, Response
from assay.models import LM, Stop, never

TASK = """
task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder}/docs.jsonl}}}}
test_split: test
fewshot_split: test
output_type: {kind}
doc_to_text: "{name} {{{{question}}}}"
doc_to_target: "{{{{answer}}}}"
{rest}
"""
CHOICES = 'doc_to_choice: ["red", "blue"]\nmetric_list: [{metric: acc}]'
TEXTS = 'generation_kwargs: {until: ["\\n"]}\nmetric_list: [{metric: exact_match}]'
GROUP = "group: {name}\ntask: {members}\naggregate_metric_list: [{{metric: acc, missing: skip}}]\n"


def write_tasks(folder: Path, docs: int = 8) -> Path:
    """Choice tasks `one` and `two` in the group `both`, a group `outer` around it, and the generation task `words`."""
    rows = [{"question": f"q{i}", "answer": "red" if i % 2 else "blue"} for i in range(docs)]
    (folder / "docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name, kind, rest in (
        ("one", "multiple_choice", CHOICES),
        ("two", "multiple_choice", CHOICES),
        ("words", "generate_until", TEXTS),
    ):
        (folder / f"{name}.yaml").write_text(TASK.format(name=name, folder=folder, kind=kind, rest=rest))
    (folder / "both.yaml").write_text(GROUP.format(name="both", members="[one, two]"))
    (folder / "outer.yaml").write_text(GROUP.format(name="outer", members="[both]"))
    return folder


class Spoiled(LM):
    """Fails on every other doc of the named task; answers texts with `text`, but those of odd docs rightly."""

    def __init__(self, failing: str = "", text: str = "") -> None:
        self.failing, self.text = failing, text

    def stream(
        self, request_type: str, instances: Sequence[Instance], draws: Sequence[int], stop: Stop = never
    ) -> Iterator[tuple[int, Response]]:
        for position, instance in enumerate(instances):
            if instance.task_name == self.failing and instance.doc_id % 2:
                yield position, Response(None, failure="no luck")
            elif request_type == "generate_until":
                yield position, Response(self.text or ("red" if instance.doc_id % 2 else "blue"), "stop")
            else:
                yield position, Response((-float(instance.idx), True))

    def loglikelihood(self, requests: Sequence[Instance]) -> list[tuple[float, bool]]:
        raise NotImplementedError

    def loglikelihood_rolling(self, requests: Sequence[Instance]) -> list[float]:
        raise NotImplementedError

    def generate_until(self, requests: Sequence[Instance]) -> list[str]:
        raise NotImplementedError

    def fingerprint(self) -> str:
        return f"spoiled:{self.failing}:{self.text!a}"
