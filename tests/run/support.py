"""A tiny benchmark on disk, and a model that writes down every request it computes."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

CHOICE = """
task: colours
dataset_path: json
dataset_kwargs: {{data_files: {{train: {folder}/train.jsonl, test: {folder}/test.jsonl}}}}
training_split: train
test_split: test
fewshot_split: train
num_fewshot: 2
output_type: multiple_choice
doc_to_text: "Q: {{{{question}}}}\\nA:"
doc_to_choice: ["red", "green", "blue"]
doc_to_target: answer
metric_list:
  - metric: acc
  - metric: acc_norm
metadata: {{version: 1.0}}
"""

GENERATION = """
task: sums
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder}/test.jsonl}}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{question}}}} ="
doc_to_target: "{{{{answer}}}}"
repeats: 2
generation_kwargs: {{until: ["\\n"], do_sample: true, temperature: 1.0, max_gen_toks: 4}}
filter_list:
  - name: number
    filter:
      - function: regex
        regex_pattern: "([0-9])"
      - function: take_first
  - name: raw
    filter:
      - function: take_first
metric_list:
  - metric: exact_match
metadata: {{version: 1.0}}
"""

GROUP = """
group: both
task: [colours, sums]
aggregate_metric_list:
  - metric: acc
    weight_by_size: false
    missing: skip
  - metric: exact_match
    aggregation: harmonic_mean
    filter_list: number
    missing: skip
metadata: {version: 2.0}
"""

MODEL = '''
"""Answers by content, slowly if asked to, and notes every computed request."""
import hashlib, os, time
from assay.models import LM
from assay.instance import Response


class Noted(LM):
    def __init__(self, log):
        self.log, self.pause = log, float(os.environ.get("NOTED_PAUSE", "0"))

    def stream(self, request_type, instances, draws, stop=lambda: False):
        for position, (instance, draw) in enumerate(zip(instances, draws)):
            if stop():
                return
            time.sleep(self.pause)
            digest = hashlib.sha256(repr((instance.arguments, draw)).encode()).digest()
            with open(self.log, "a") as file:
                file.write(digest.hex() + "\\n")
            if request_type == "generate_until":
                yield position, Response(f"{digest[0] % 10}", "stop")
            else:
                yield position, Response((-digest[0] / 16, digest[1] < 128))

    def loglikelihood(self, requests):
        return [answer.answer for _, answer in self.stream("loglikelihood", requests, [0] * len(requests))]

    def loglikelihood_rolling(self, requests):
        raise NotImplementedError

    def generate_until(self, requests):
        return [answer.answer for _, answer in self.stream("generate_until", requests, [0] * len(requests))]

    def fingerprint(self):
        return "noted"
'''


def write_benchmark(folder: Path, docs: int = 30) -> None:
    """Tasks `colours` and `sums` and the group `both`, with their data, and the model file."""
    for name, count in (("train", 6), ("test", docs)):
        rows = [{"question": f"{name} {i} + {i * 7 % 5}", "answer": i % 3} for i in range(count)]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "colours.yaml").write_text(CHOICE.format(folder=folder))
    (folder / "sums.yaml").write_text(GENERATION.format(folder=folder))
    (folder / "both.yaml").write_text(GROUP)
    (folder / "noted.py").write_text(MODEL)


def command(folder: Path, *words: str, run: str = "run", tasks: str = "both") -> list[str]:
    """`assay run` on that benchmark."""
    return [sys.executable, "-m", "assay", *words_of(folder, *words, run=run, tasks=tasks)]


def words_of(folder: Path, *words: str, run: str = "run", tasks: str = "both") -> list[str]:
    return [
        "run",
        "--model",
        f"{folder / 'noted.py'}:Noted",
        "--model_args",
        f"log={folder / 'log.txt'}",
        "--include_path",
        str(folder),
        "--tasks",
        tasks,
        "--run_dir",
        str(folder / run),
        *words,
    ]


def environment(folder: Path, pause: float = 0.0) -> dict[str, str]:
    """`pause` is the time that the model takes for a request."""
    return {
        **os.environ,
        "NOTED_PAUSE": str(pause),
        "ASSAY_HOME": str(folder / "home"),
        "HF_DATASETS_CACHE": str(folder / "cache"),
        "CI": "true",
    }


def results_without_times(folder: Path, run: str = "run") -> str:
    """`results.json` as text, less what depends on when and where it ran."""
    data: dict[str, Any] = json.loads((folder / run / "results.json").read_text())
    for key in ("date", "total_evaluation_time_seconds"):
        data.pop(key)
    return json.dumps(data)


def computed(folder: Path) -> list[str]:
    log = folder / "log.txt"
    return log.read_text().split() if log.exists() else []
