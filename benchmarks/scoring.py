"""What scoring costs: choice docs by the million, and the bootstrap of f1 and mcc.

    python benchmarks/scoring.py --rival PYTHON [--docs 1000000] [--replicates 100000]

PYTHON is an interpreter that has lm-evaluation-harness; it scores fewer docs and draws fewer replicates, and the cost of
one is compared. Processor time on both sides, in one run. Both must find the same accuracies and the same f1 and mcc.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from _results import markdown_table, write_section

WINDOW = 10_000
LABELS = 2_000
METRICS = ["acc", "acc_norm", "acc_bytes"]
TASK = {
    "task": "bench_scoring",
    "dataset_path": "json",
    "test_split": "test",
    "output_type": "multiple_choice",
    "doc_to_text": "{{question}}",
    "doc_to_choice": "{{choices}}",
    "doc_to_target": "{{answer}}",
    "metric_list": [{"metric": name, "aggregation": "mean", "higher_is_better": True} for name in METRICS],
}

RIVAL = """
import json, logging, os, sys, time
logging.disable(logging.WARNING)
os.environ["DISABLE_MULTIPROC"] = "1"
task_file, docs, labels, replicates = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3]), int(sys.argv[4])
from lm_eval.tasks import TaskManager
from lm_eval.api.metrics import bootstrap_stderr, f1_score, matthews_corrcoef
task = TaskManager(include_defaults=False).load([task_file])["tasks"]["bench_scoring"]
task.build_all_requests(limit=docs, rank=0, world_size=1)
by_doc = {}
for instance in task.instances:
    instance.resps.append((instance.doc["lls"][instance.idx], False))
    by_doc.setdefault(instance.doc_id, []).append(instance)
began = time.process_time()
task.apply_filters()
scores = {}
for doc_id, doc in enumerate(task.eval_docs):
    if doc_id == docs:
        break
    for name, value in task.process_results(doc, [i.filtered_resps["none"] for i in by_doc[doc_id]]).items():
        scores.setdefault(name, []).append(value)
spent = time.process_time() - began
out = {"seconds": spent / docs, "scores": {name: sum(values) for name, values in scores.items()}}
sys.stdout, shown = open(os.devnull, "w"), sys.stdout
sys.stderr = sys.stdout
for name, function in (("f1", f1_score), ("mcc", matthews_corrcoef)):
    items = [tuple(pair) for pair in labels]
    function(items)
    began = time.process_time()
    stderr = bootstrap_stderr(function, items, iters=replicates)
    out[name] = {"seconds": (time.process_time() - began) / replicates, "value": float(function(items)), "stderr": float(stderr)}
print(json.dumps(out), file=shown)
"""


def make_doc(rng: random.Random, number: int) -> dict[str, Any]:
    words = ["stone", "river", "a long way home", "nineteen hundred", "blå", "cloud"]
    return {
        "question": f"Question {number}: which of these is it?",
        "choices": [f"{rng.choice(words)} {rng.randrange(10_000)}" for _ in range(4)],
        "answer": rng.randrange(4),
        "lls": [-10 * rng.random() for _ in range(4)],
    }


def measure_choices(docs: int, first: int) -> dict[str, Any]:
    """Score docs in windows, as a run does; the instances of a window are made outside the clock."""
    from assay.config import TaskConfig
    from assay.instance import Instance
    from assay.scoring import apply_filters, scorer_for

    task = TaskConfig(**{**TASK, "doc_to_text": "", "doc_to_choice": "choices", "doc_to_target": "answer"})
    scorer, rng, spent = scorer_for(task), random.Random(0), 0.0
    totals, first_totals = dict.fromkeys(METRICS, 0.0), dict.fromkeys(METRICS, 0.0)
    for start in range(0, docs, WINDOW):
        window = {}
        for doc_id in range(start, min(start + WINDOW, docs)):
            doc = make_doc(rng, doc_id)
            choices = tuple(doc["choices"])
            window[doc_id] = [
                Instance(
                    "loglikelihood",
                    doc,
                    (doc["question"], f" {choice}"),
                    i,
                    doc_id,
                    "bench",
                    1,
                    doc["answer"],
                    [(doc["lls"][i], False)],
                    choices=choices,
                )
                for i, choice in enumerate(choices)
            ]
        began = time.process_time()
        apply_filters([instance for doc in window.values() for instance in doc], task)
        result = scorer.score(window, task)
        spent += time.process_time() - began
        for name in METRICS:
            values = result.sample_scores[name, "none"]
            totals[name] += sum(values)
            if start < first:
                first_totals[name] += sum(values[: first - start])
    return {"seconds": spent / docs, "scores": first_totals, "totals": totals}


def measure_bootstrap(labels: list[tuple[int, int]], replicates: int) -> dict[str, Any]:
    import numpy as np

    from assay.metrics import AGGREGATIONS
    from assay.scoring import estimate

    keys = np.random.default_rng(0).integers(0, 2**64, len(labels), dtype=np.uint64)
    out = {}
    for name, aggregation in (("f1", "f1"), ("mcc", "matthews_corrcoef")):
        began = time.process_time()
        found = estimate(labels, AGGREGATIONS[aggregation], keys, None, replicates).estimate
        out[name] = {
            "seconds": (time.process_time() - began) / replicates,
            "value": found.value,
            "stderr": found.stderr,
        }
    return out


def measure_memory(metrics: list[str], docs: int) -> float:
    """Largest resident set, in MB, of a process of its own that scores one window of docs by these metrics."""
    code = (
        "import sys, resource; sys.path.insert(0, sys.argv[1]); import scoring\n"
        f"scoring.METRICS[:] = {metrics!r}\n"
        f"scoring.TASK['metric_list'] = {metrics!r}\n"
        f"scoring.measure_choices({docs}, 0)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)\n"
    )
    return float(subprocess.check_output([sys.executable, "-c", code, str(Path(__file__).parent)], text=True))


def run_rival(python: str, docs: int, labels: list[tuple[int, int]], replicates: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        rng, data = random.Random(0), Path(folder) / "test.jsonl"
        data.write_text("".join(json.dumps(make_doc(rng, i)) + "\n" for i in range(docs)), encoding="utf-8")
        task = {**TASK, "dataset_kwargs": {"data_files": {"test": str(data)}}}
        (Path(folder) / "task.yaml").write_text(json.dumps(task), encoding="utf-8")
        command = [python, "-c", RIVAL, f"{folder}/task.yaml", str(docs), json.dumps(labels), str(replicates)]
        environment = {"HOME": folder, "PATH": "/usr/bin:/bin", "HF_DATASETS_OFFLINE": "1", "HF_HUB_OFFLINE": "1"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        sys.exit(f"the rival failed:\n{done.stderr[-2000:]}")
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def check_same(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    for name in METRICS:
        if ours["scores"][name] != theirs["scores"][name]:
            sys.exit(f"{name}: we count {ours['scores'][name]} right docs, they {theirs['scores'][name]}")
    for name in ("f1", "mcc"):
        if abs(ours[name]["value"] - theirs[name]["value"]) > 1e-12:
            sys.exit(f"{name}: {ours[name]['value']} here, {theirs[name]['value']} there")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rival", metavar="PYTHON", help="an interpreter that has lm-evaluation-harness")
    parser.add_argument("--docs", type=int, default=1_000_000)
    parser.add_argument("--replicates", type=int, default=100_000)
    parser.add_argument("--rival_docs", type=int, default=1_000)
    parser.add_argument("--rival_replicates", type=int, default=200)
    args = parser.parse_args()
    rng = random.Random(1)
    labels = [(gold, gold if rng.random() < 0.7 else 1 - gold) for gold in (rng.randrange(2) for _ in range(LABELS))]
    ours = {**measure_choices(args.docs, args.rival_docs), **measure_bootstrap(labels, args.replicates)}
    one, three = measure_memory(["acc"], 5 * WINDOW), measure_memory(METRICS, 5 * WINDOW)
    theirs = run_rival(args.rival, args.rival_docs, labels, args.rival_replicates) if args.rival else None
    if theirs:
        check_same(ours, theirs)
    rows = []
    for label, key, least in (
        (f"acc, acc_norm and acc_bytes, per choice doc ({args.docs:,} docs)", None, "20×"),
        (f"bootstrap of f1, per replicate ({LABELS:,} docs, {args.replicates:,} replicates)", "f1", "100×"),
        (f"bootstrap of mcc, per replicate ({LABELS:,} docs, {args.replicates:,} replicates)", "mcc", "100×"),
    ):
        mine = ours["seconds"] if key is None else ours[key]["seconds"]
        other = None if theirs is None else theirs["seconds"] if key is None else theirs[key]["seconds"]
        shown = ["–", "–"] if other is None else [f"{other * 1e6:,.1f} µs", f"{other / mine:,.0f}×"]
        rows.append([label, f"{mine * 1e6:,.1f} µs", *shown, least])
    table = markdown_table(["processor time", "assay", "lm-evaluation-harness", "faster", "at least"], rows)
    note = (
        f"Largest resident set while scoring {5 * WINDOW:,} docs: {one:.0f} MB with one metric, {three:.0f} MB with three "
        f"(this whole benchmark: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB)."
    )
    print(f"{table}\n\n{note}")
    if theirs:
        write_section("Scoring", f"{table}\n\n{note} Both found the same numbers.")


if __name__ == "__main__":
    main()
