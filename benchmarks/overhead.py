"""What a harness costs around the model: both harnesses on their dummy models, same docs, same prompts, one machine.

    python benchmarks/overhead.py --rival PYTHON [--docs 20000] [--large 200000]

Two workloads: five-shot questions with four choices, and generations with a regular expression over the answer. Time is
wall time of the whole command, memory the largest resident set. Ours takes seconds where the other takes minutes, over
which a machine's speed varies: it is run before and after, and the mean counts. PYTHON is an interpreter that has lm-eval
installed; without it only our side is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from _results import markdown_table, write_section

WORDS = [
    "river",
    "stone",
    "cloud",
    "amber",
    "field",
    "north",
    "silver",
    "paper",
    "garden",
    "winter",
    "lantern",
    "bridge",
    "copper",
    "meadow",
    "harbour",
    "valley",
]

RUNS_EACH_SIDE = 2

CHOICE_TASK = """
task: bench_choice
dataset_path: json
dataset_kwargs: {{data_files: {{train: {folder}/train.jsonl, test: {folder}/test.jsonl}}}}
training_split: train
test_split: test
fewshot_split: train
output_type: multiple_choice
num_fewshot: 5
doc_to_text: "Question: {{{{question}}}}\\nA. {{{{choices[0]}}}}\\nB. {{{{choices[1]}}}}\\nC. {{{{choices[2]}}}}\\nD. {{{{choices[3]}}}}\\nAnswer:"
doc_to_choice: ["A", "B", "C", "D"]
doc_to_target: answer
metric_list:
  - metric: acc
    aggregation: mean
    higher_is_better: true
  - metric: acc_norm
    aggregation: mean
    higher_is_better: true
"""

GENERATION_TASK = """
task: bench_generation
dataset_path: json
dataset_kwargs: {{data_files: {{train: {folder}/train.jsonl, test: {folder}/test.jsonl}}}}
training_split: train
test_split: test
fewshot_split: train
output_type: generate_until
num_fewshot: 5
doc_to_text: "Question: {{{{question}}}}\\nAnswer:"
doc_to_target: "#### {{{{answer}}}}"
generation_kwargs: {{until: ["Question:"], do_sample: false, max_gen_toks: 32}}
filter_list:
  - name: strict-match
    filter:
      - function: regex
        regex_pattern: "#### (\\\\-?[0-9\\\\.\\\\,]+)"
      - function: take_first
metric_list:
  - metric: exact_match
    aggregation: mean
    higher_is_better: true
    ignore_case: true
    ignore_punctuation: false
"""


@dataclass(frozen=True)
class Cost:
    seconds: float
    processor: float
    megabytes: float

    @classmethod
    def mean(cls, costs: list[Cost]) -> Cost:
        """Of the times; of memory the most."""
        return cls(
            fmean(cost.seconds for cost in costs),
            fmean(cost.processor for cost in costs),
            max(cost.megabytes for cost in costs),
        )


def write_data(folder: Path, docs: int) -> None:
    """Questions of about forty words with four choices; the same for every run."""
    rng = random.Random(7)
    for name, count in (("train", 50), ("test", docs)):
        with open(folder / f"{name}.jsonl", "w", encoding="utf-8") as file:
            for i in range(count):
                question = f"{name} {i}: " + " ".join(rng.choices(WORDS, k=40)) + "?"
                row = {
                    "question": question,
                    "choices": [" ".join(rng.choices(WORDS, k=3)) for _ in range(4)],
                    "answer": rng.randrange(4),
                }
                file.write(json.dumps(row) + "\n")
    (folder / "choice.yaml").write_text(CHOICE_TASK.format(folder=folder))
    (folder / "generation.yaml").write_text(GENERATION_TASK.format(folder=folder))


def measure(command: list[str], environment: dict[str, str]) -> Cost:
    """Wall time and peak memory of a command and its children."""
    began = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, **environment}
    )
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} failed:\n{output.decode(errors='replace')[-3000:]}")
    return Cost(time.perf_counter() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def ours(folder: Path, task: str) -> Cost:
    command = [
        sys.executable,
        "-m",
        "assay",
        "run",
        "--model",
        "dummy",
        "--tasks",
        task,
        "--include_path",
        str(folder),
        "--run_dir",
        str(folder / f"run-{task}"),
    ]
    for place in (f"run-{task}", f"home-{task}"):
        shutil.rmtree(folder / place, ignore_errors=True)
    return measure(command, _environment(folder, task))


def score_again(folder: Path, task: str) -> Cost:
    """`assay score` on the samples that a run kept."""
    command = [
        sys.executable,
        "-m",
        "assay",
        "score",
        str(folder / f"run-{task}"),
        "--run_dir",
        str(folder / f"scored-{task}"),
    ]
    return measure(command, _environment(folder, task))


def _environment(folder: Path, task: str) -> dict[str, str]:
    return {"ASSAY_HOME": str(folder / f"home-{task}"), "HF_DATASETS_CACHE": str(folder / "cache"), "CI": "true"}


def theirs(python: str, folder: Path, task: str) -> Cost:
    command = [
        python,
        "-m",
        "lm_eval",
        "run",
        "--model",
        "dummy",
        "--tasks",
        task,
        "--include_path",
        str(folder),
        "--output_path",
        str(folder / "rival"),
        "--log_samples",
    ]
    return measure(command, {"HF_DATASETS_CACHE": str(folder / "cache-rival"), "HF_HUB_OFFLINE": "1"})


def main() -> str:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rival", help="interpreter with lm-eval installed")
    parser.add_argument("--docs", type=int, default=20_000)
    parser.add_argument("--large", type=int, default=200_000)
    parser.add_argument("--scored", type=int, default=100_000, help="kept samples that are scored again")
    arguments = parser.parse_args()
    costs, growth = [], []
    small: dict[str, Cost] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_data(folder, arguments.docs)
        for task in ("bench_choice", "bench_generation"):
            runs = [ours(folder, task) for _ in range(RUNS_EACH_SIDE)]
            rival = theirs(arguments.rival, folder, task) if arguments.rival else None
            runs += [ours(folder, task) for _ in range(RUNS_EACH_SIDE)]
            small[task] = mine = Cost.mean(runs)
            costs.append([f"assay, {task}", f"{arguments.docs:,}", *shown(mine), "", ""])
            if rival is not None:
                costs[-1][-2:] = [
                    f"{rival.seconds / mine.seconds:.1f}× (processor {rival.processor / mine.processor:.1f}×)",
                    f"{mine.megabytes / rival.megabytes:.2f}",
                ]
                costs.append([f"lm-evaluation-harness, {task}", f"{arguments.docs:,}", *shown(rival), "", ""])
            print(*costs[-2:], sep="\n", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_data(folder, arguments.large)
        for task, before in small.items():
            after = ours(folder, task)
            growth.append(
                [
                    task,
                    f"{arguments.large / arguments.docs:.0f}×",
                    f"{after.seconds / before.seconds:.1f}×",
                    f"{after.processor / before.processor:.1f}×",
                    f"{after.megabytes / before.megabytes:.2f}×",
                ]
            )
            print(growth[-1], flush=True)
    scores = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_data(folder, arguments.scored)
        for task in small:
            ours(folder, task)
            scores.append([f"{task}, {arguments.scored:,} samples", *shown(score_again(folder, task)), "15 s"])
            print(scores[-1], flush=True)
    body = markdown_table(["dummy models", "docs", "wall", "processor", "memory", "faster", "share of memory"], costs)
    body += "\n\n" + markdown_table(["growth", "docs", "wall", "processor", "memory"], growth)
    body += "\n\n" + markdown_table(["`assay score`", "wall", "processor", "memory", "limit"], scores)
    write_section("Overhead", body)
    return body


def shown(cost: Cost) -> list[str]:
    return [f"{cost.seconds:.1f} s", f"{cost.processor:.1f} s", f"{cost.megabytes:.0f} MB"]


if __name__ == "__main__":
    print(main())
