"""Task files of somebody's own, written to a directory and run with a model whose answers are known."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from assay import evaluate
from assay.cli import main
from assay.instance import Instance
from assay.models import LM
from assay.results import MetricKey, RunResult


class Told(LM):
    """Answers what a function of the request says; counts the requests."""

    def __init__(self, text: Callable[[str], str] = str, ll: Callable[[str, str], float] = lambda a, b: -1.0) -> None:
        self.text, self.ll, self.sent = text, ll, 0

    def loglikelihood(self, requests: Sequence[Instance]) -> list[tuple[float, bool]]:
        self.sent += len(requests)
        return [(self.ll(str(each.args[0]), str(each.args[1])), False) for each in requests]

    def loglikelihood_rolling(self, requests: Sequence[Instance]) -> list[float]:
        self.sent += len(requests)
        return [self.ll("", str(each.args[0])) for each in requests]

    def generate_until(self, requests: Sequence[Instance]) -> list[str]:
        self.sent += len(requests)
        return [self.text(str(each.args[0])) for each in requests]


class _Function(str):
    """A text that is written with the tag `!function`."""


yaml.SafeDumper.add_representer(_Function, lambda dumper, text: dumper.represent_scalar("!function", str(text)))


def function(path: str) -> str:
    return _Function(path)


def write_task(
    folder: Path, docs: Sequence[Mapping[str, Any]], code: str = "", *, name: str = "mine", **fields: Any
) -> Path:
    """A task file with its docs, and its code in `u.py`."""
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in docs))
    if code:
        (folder / "u.py").write_text(code)
    base = {"task": name, "dataset_path": "json", "test_split": "test"}
    data = {"dataset_kwargs": {"data_files": {"test": f"{name}.jsonl"}}}
    file = folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump({**base, **data, **fields}, sort_keys=False))
    return file


def run(file: Path | str, model: Any = None, **config: Any) -> RunResult:
    store = {"store": str(Path(str(file).partition(".yaml")[0]).parent / "store.db")}
    return evaluate(model=Told() if model is None else model, tasks=[str(file)], **{**store, **config})


class Said(NamedTuple):
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out + self.err


def command(capsys: pytest.CaptureFixture[str], *args: object) -> Said:
    capsys.readouterr()
    with pytest.raises(SystemExit) as caught:
        main([str(arg) for arg in args])
    return Said(int(caught.value.code or 0), *capsys.readouterr())


def value(result: RunResult, metric: str, filter_name: str = "none", task: str = "mine") -> float | None:
    return result.tasks[task].scores[MetricKey(metric, filter_name)].estimate.value
