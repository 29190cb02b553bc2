"""How fast docs become requests, against lm-evaluation-harness in the same run, and whether memory stays flat.

    python benchmarks/requests.py --rival PYTHON

PYTHON is an interpreter that has lm-evaluation-harness. Without it only the own numbers are measured. The task is a
five-shot question with four choices, worded by templates; data are made up and written to a temporary directory.
Every measurement runs in a process of its own and counts processor time, so that a busy machine does not decide it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _results import markdown_table, write_section

WORDS = [
    "amber",
    "basil",
    "cedar",
    "delta",
    "ember",
    "fjord",
    "grove",
    "heath",
    "inlet",
    "jetty",
    "knoll",
    "lemon",
    "maple",
    "north",
    "ocean",
    "pearl",
]
TASK = {
    "task": "made_up",
    "dataset_path": "made_up",
    "training_split": "train",
    "test_split": "test",
    "fewshot_split": "train",
    "output_type": "multiple_choice",
    "doc_to_text": "Question: {{question.strip()}}\nA. {{choices[0]}}\nB. {{choices[1]}}\nC. {{choices[2]}}\nD. {{choices[3]}}\nAnswer:",
    "doc_to_choice": "{{[choices[0], choices[1], choices[2], choices[3]]}}",
    "doc_to_target": "{{answer}}",
    "num_fewshot": 5,
    "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
}
RIVAL = """
import json, sys, time, logging
logging.disable(logging.CRITICAL)
import datasets
from lm_eval.api.task import ConfigurableTask
folder, task = sys.argv[1], json.loads(sys.argv[2])
files = {"train": f"{folder}/train.jsonl", "test": f"{folder}/test.jsonl"}
loaded = datasets.load_dataset("json", data_files=files)
datasets.load_dataset = lambda *args, **kwargs: loaded
made = ConfigurableTask(config=task)
made.set_fewshot_seed(1234)
import lm_eval.api.task as module
module.tqdm = lambda items, **kwargs: items
began = time.process_time()
made.build_all_requests(limit=None, rank=0, world_size=1)
took = time.process_time() - began
last = made.instances[-1].args
print(json.dumps({"seconds": took, "requests": len(made.instances), "last": last}))
"""


def write_docs(folder: Path, docs: int) -> None:
    """A training split of a thousand docs and a test split of `docs`."""
    rng = random.Random(0)
    folder.mkdir(parents=True)
    for split, count in (("train", 1000), ("test", docs)):
        with (folder / f"{split}.jsonl").open("w") as file:
            for number in range(count):
                words = rng.choices(WORDS, k=44)
                doc = {
                    "question": f"{split} {number}: {' '.join(words[:28])}?",
                    "choices": [" ".join(words[k : k + 4]) for k in range(28, 44, 4)],
                    "answer": rng.randrange(4),
                }
                file.write(json.dumps(doc) + "\n")


def build(mirror: str) -> dict[str, object]:
    """Stream all requests of the task, once, and say what it took. Runs in a process of its own."""
    from assay.config import TaskConfig
    from assay.tasks import Task

    task = Task.from_config(TaskConfig(**TASK), data_dir=mirror)
    task.eval_docs  # noqa: B018  reading the file is not what is measured
    task.fewshot_docs()
    peak, count, last = 0, 0, None
    began = time.process_time()
    for requests in task.iter_requests():
        count += len(requests.instances)
        if requests.doc_id % 5000 == 0:
            peak = max(peak, own_memory())
        last = requests.instances[-1].arguments
    took = time.process_time() - began
    return {"seconds": took, "requests": count, "last": last, "megabytes": max(peak, own_memory()) / 2**20}


def own_memory() -> int:
    """Bytes that belong to this process alone; pages of a mapped file are the system's to drop."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0


def run(python: str, *args: str, home: str) -> dict[str, object]:
    done = subprocess.run(
        [python, *args], capture_output=True, text=True, env={**os.environ, "ASSAY_HOME": home, "HF_HOME": home}
    )
    if done.returncode:
        sys.exit(f"{done.stderr[-2000:]}\n{python} failed")
    found: dict[str, object] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rival", metavar="PYTHON", help="an interpreter that has lm-evaluation-harness")
    parser.add_argument("--docs", type=int, default=20_000)
    parser.add_argument("--many", type=int, default=500_000, help="docs of the memory measurement")
    parser.add_argument("--build", metavar="MIRROR", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.build:
        print(json.dumps(build(args.build)))
        return
    with tempfile.TemporaryDirectory() as folder:
        rows = []
        mine = {}
        for docs in (args.docs, args.many):
            mirror = Path(folder) / str(docs)
            write_docs(mirror / "made_up" / "default", docs)
            mine[docs] = run(sys.executable, __file__, "--build", str(mirror), home=folder)
            memory = f"{mine[docs]['megabytes']:.0f} MB"
            rows.append(["assay", f"{docs:,}", per_doc(mine[docs], docs), memory, "", ""])
        if args.rival:
            data = Path(folder) / str(args.docs) / "made_up" / "default"
            other = run(args.rival, "-c", RIVAL, str(data), json.dumps(TASK), home=folder)
            if [other["requests"], other["last"]] != [mine[args.docs]["requests"], mine[args.docs]["last"]]:
                sys.exit("the two harnesses do not build the same requests")
            ratio = f"{float(str(other['seconds'])) / float(str(mine[args.docs]['seconds'])):.0f}×"
            rows.append(["lm-evaluation-harness", f"{args.docs:,}", per_doc(other, args.docs), "", "", ""])
            rows[0][4:] = [ratio, "20×"]
    header = ["five shots, four choices, from templates", "docs", "per doc", "own memory", "faster", "at least"]
    table = markdown_table(header, rows)
    print(table)
    if args.rival:
        write_section("Building requests", f"{table}\n\nBoth built the same requests.")


def per_doc(measured: dict[str, object], docs: int) -> str:
    return f"{float(str(measured['seconds'])) / docs * 1e6:,.0f} µs"


if __name__ == "__main__":
    main()
