"""How long until something happens: the index of tasks cold and warm, `ls tasks`, `--help`, and a local model's first
answers, beside lm-evaluation-harness.

    make bench                                    with an lm-evaluation-harness in .venv-rival
    python benchmarks/startup.py --rival PYTHON   with one of your own
    python benchmarks/startup.py --rival PYTHON --first SRC      also the start of hf in the first version

Both sides index the same task files: those of the rival's installation. Each measurement runs in a fresh process;
assay's and the rival's take turns, and the smallest of the repeats counts, because noise only ever adds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from _results import markdown_table, write_section

OUR_INDEX = """
import sys, time
from assay.tasks import TaskManager
began = time.perf_counter()
manager = TaskManager(include_path=sys.argv[1], include_defaults=False)
count = len(manager.entries)
print(time.perf_counter() - began, count)
"""
THEIR_INDEX = """
import time
from lm_eval.tasks import TaskManager
began = time.perf_counter()
manager = TaskManager()
print(time.perf_counter() - began, len(manager.all_tasks))
"""


TASK = """
task: bench_start
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder}/test.jsonl}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "Question: {{{{question}}}}\\nAnswer:"
doc_to_choice: choices
doc_to_target: 0
metric_list: [{{metric: acc, aggregation: mean, higher_is_better: true}}]
"""
ASK = """
import os, sys, time
from assay.store import ResponseStore
put = ResponseStore.put
def first(*args, **kwargs):
    print("FIRST", time.time() - float(os.environ["BEGAN"]), flush=True)
    ResponseStore.put = put
    return put(*args, **kwargs)
ResponseStore.put = first
from assay.cli import main
main()
"""
"""Runs the command line, and says when the first answer was kept."""


def ask_a_model(
    assay: str, lm_eval: str, first: str | None, repeats: int
) -> tuple[list[tuple[str, float, float | None, str]], str]:
    """From the command to the result of one question, and to the first answer of forty."""
    from assay.models.pulling import pull

    model, more = pull("smollm2-135m").path, ""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "start.yaml").write_text(TASK.format(folder=folder))
        with open(Path(folder) / "test.jsonl", "w", encoding="utf-8") as file:
            for i in range(40):
                question = f"A man stands at door number {i} of a long street and rings. Then he " + "waits and " * 12
                choices = [
                    "opens it with a key and goes in.",
                    f"counts to {i} and leaves.",
                    "sings loudly.",
                    "sits down.",
                ]
                file.write(json.dumps({"question": question, "choices": choices}) + "\n")
        common = ["--model", "hf", "--tasks", "bench_start", "--include_path", folder]
        theirs = [lm_eval, "run", *common, "--model_args", f"pretrained={model},dtype=float32", "--limit", "1"]
        ours = [*common, "--model_args", f"pretrained={model}"]

        def first_answer(source: str | None, home: str) -> float:
            path = {} if source is None else {"PYTHONPATH": source}
            command = [sys.executable, "-c", ASK, "run", *ours, "--fresh", "--run_dir", f"{home}/run"]
            given = {**environment(home), **path, "BEGAN": str(time.time())}
            done = subprocess.run(command, check=True, capture_output=True, text=True, env=given)
            return float(next(line.split()[1] for line in done.stdout.splitlines() if line.startswith("FIRST")))

        one = [assay, "run", *ours, "--limit", "1", "--fresh"]
        result = take_turns(
            lambda: timed([*one, "--run_dir", f"{folder}/one"], folder), lambda: timed(theirs, folder), repeats
        )
        rows: list[tuple[str, float, float | None, str]] = [
            ("`run --model hf`, one question, to its result", *result, "")
        ]
        homes = [f"{folder}/now", f"{folder}/first"]
        for home in homes:
            first_answer(first if home == homes[1] else None, home)  # what is kept of a model from run to run
        if first is not None:
            began = take_turns(lambda: first_answer(None, homes[0]), lambda: first_answer(first, homes[1]), repeats)
            share = began[0] / began[1]
            more = f" The first answer took {began[0]:.1f} s, in the first version {began[1]:.1f} s ({share:.2f})."
        else:
            began = (min(first_answer(None, homes[0]) for _ in range(repeats)), 0.0)
        rows.append(("`run --model hf`, 40 questions, to the first answer", began[0], None, ""))
    return rows, more


def timed(command: list[str], home: str) -> float:
    """Wall time of a command, start of the interpreter included."""
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment(home))
    return time.perf_counter() - began


def inside(python: str, program: str, home: str, *arguments: str) -> tuple[float, int]:
    """What a program says it took, imports not counted, and how many names it found."""
    done = subprocess.run(
        [python, "-c", program, *arguments], check=True, capture_output=True, text=True, env=environment(home)
    )
    seconds, count = done.stdout.split()[-2:]
    return float(seconds), int(count)


def environment(home: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("ASSAY_LM_EVAL_TASKS", "PYTHONPATH")}
    return {**kept, "ASSAY_HOME": home, "HF_HUB_OFFLINE": "1", "COLUMNS": "200"}


def take_turns(ours: Callable[[], float], theirs: Callable[[], float], repeats: int) -> tuple[float, float]:
    pairs = [(ours(), theirs()) for _ in range(repeats)]
    return min(pair[0] for pair in pairs), min(pair[1] for pair in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--rival",
        metavar="PYTHON",
        default=os.environ.get("ASSAY_RIVAL"),
        help="an interpreter that has lm-evaluation-harness; else ASSAY_RIVAL",
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--first", metavar="SRC", help="src/ of the first version, to start hf in turn with this one")
    given = parser.parse_args()
    if not given.rival:
        parser.error("give --rival PYTHON, or run `make bench`, which makes one")
    rival = str(Path(given.rival).absolute())
    find = "import lm_eval, pathlib; print(pathlib.Path(lm_eval.__file__).parent / 'tasks')"
    tasks = subprocess.run([rival, "-c", find], check=True, capture_output=True, text=True).stdout.split()[-1]
    assay, lm_eval = str(Path(sys.executable).with_name("assay")), str(Path(rival).with_name("lm-eval"))

    with tempfile.TemporaryDirectory() as warm_home:
        counts: dict[str, int] = {}

        def ours_cold() -> float:
            with tempfile.TemporaryDirectory() as home:
                seconds, counts["assay"] = inside(sys.executable, OUR_INDEX, home, tasks)
            return seconds

        def ours_warm() -> float:
            return inside(sys.executable, OUR_INDEX, warm_home, tasks)[0]

        def theirs() -> float:
            seconds, counts["lm_eval"] = inside(rival, THEIR_INDEX, warm_home)
            return seconds

        ours_warm()
        listing = [assay, "ls", "tasks", "--no-defaults", "--include_path", tasks]
        cold = take_turns(ours_cold, theirs, given.repeats)
        warm = min(ours_warm() for _ in range(given.repeats * 3))
        ls = take_turns(
            lambda: timed(listing, warm_home), lambda: timed([lm_eval, "ls", "tasks"], warm_home), given.repeats
        )
        help_ = take_turns(
            lambda: timed([assay, "--help"], warm_home),
            lambda: timed([lm_eval, "--help"], warm_home),
            given.repeats * 3,
        )

    started, more = ask_a_model(assay, lm_eval, given.first, given.repeats)
    measured: list[tuple[str, float, float | None, str]] = [
        (f"index of all task files, cold ({counts['assay']:,} names)", *cold, "8"),
        ("index of all task files, warm", warm, cold[1], "50"),
        ("`ls tasks`", *ls, "20"),
        ("`--help`", *help_, "3"),
        *started,
    ]
    rows = [
        [
            what,
            f"{a:.3f} s",
            "" if b is None else f"{b:.2f} s",
            "" if b is None else f"{b / a:.1f}×",
            f"{wanted}×" if wanted else "",
        ]
        for what, a, b, wanted in measured
    ]
    table = markdown_table(["", "assay", "lm-evaluation-harness", "faster", "at least"], rows)
    same = (
        "both found the same number of names"
        if counts["assay"] == counts["lm_eval"]
        else f"names found differ: {counts}"
    )
    print(table, same + more, sep="\n")
    write_section("Start-up", f"{table}\n\n{same.capitalize()}.{more}")


if __name__ == "__main__":
    main()
