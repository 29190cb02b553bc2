"""How far is a model from itself in other numbers, served otherwise, or trained a little? And how little does drift see?

    python benchmarks/drift.py            # prints the table, writes benchmarks/RESULTS.md

The model of the demo against itself, itself with another attention kernel, itself in bfloat16, its own GGUF file served by
llama.cpp (quantised kernels), and a copy trained for one step of AdamW (learning rate 1e-5) on eight short texts. Then
multiples and parts of that step: which does a drift on so many tokens see, and which does accuracy at the same cost?
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import assay
from _results import markdown_table, write_section
from assay.comparison import Drift, DriftOptions, Passage, bundled_passages, measure_drift, open_run, passages_of_file
from assay.models import LM, load_model, pull
from assay.models.hf import HFLM
from assay.stats import mcnemar

MODEL = "smollm2-135m"
PARTS = (100.0, 30.0, 10.0, 1.0, 0.1, 0.01)
TASKS = ["demo_capitals", "demo_grammar"]


def texts() -> list[Passage]:
    """The bundled sample, then our own documentation: enough for ten thousand tokens."""
    pages = sorted((Path(__file__).parents[1] / "docs").glob("*.md"))
    own = [
        Passage(each.text, "documentation") for page in pages for each in passages_of_file(page) if len(each.text) > 200
    ]
    return bundled_passages() + own


def network_at(directory: Path) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(directory)


def trained(directory: Path, tokenizer: Any, passages: list[Passage]) -> dict[str, Any]:
    """What one step changes, by parameter."""
    import torch

    network = network_at(directory).train()
    before = {name: each.detach().clone() for name, each in network.named_parameters()}
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-5, weight_decay=0.0)
    for passage in passages[:8]:
        ids = torch.tensor([tokenizer(passage.text)["input_ids"]])
        network(input_ids=ids, labels=ids).loss.backward()
    optimizer.step()
    return {name: each.detach() - before[name] for name, each in network.named_parameters()}


def moved(directory: Path, tokenizer: Any, step: dict[str, Any], part: float) -> HFLM:
    import torch

    network = network_at(directory)
    with torch.no_grad():
        for name, each in network.named_parameters():
            each.add_(part * step[name])
    return HFLM(network, tokenizer=tokenizer)


@contextmanager
def served(path: Path) -> Iterator[LM]:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx, params.n_parallel, params.port, params.warmup = 2048, 1, 0, False
    server = xllamacpp.Server(params)
    yield load_model("local-completions", {"base_url": server.listening_address, "model": "m", "num_concurrent": 1})
    del server


def row(name: str, drift: Drift) -> tuple[str, ...]:
    kl, least = drift.whole.kl, "" if drift.is_exact else "≥ "
    continued = "" if drift.continued is None or drift.continued.value is None else f"{drift.continued.value:.0%}"
    return (
        name,
        f"{least}{kl.value:.2g}",
        f"[{kl.low:.2g}, {kl.high:.2g}]",
        f"{drift.whole.same_first.value:.2%}",
        continued,
        f"{drift.whole.tokens:,}",
    )


def accuracies(lm: HFLM) -> tuple[np.ndarray, int]:
    """Right or wrong on each doc of the demo's choice tasks, and the tokens that it took."""
    with tempfile.TemporaryDirectory() as place:
        before = lm.usage.computed_tokens
        assay.evaluate(
            model=lm, tasks=TASKS, run_dir=str(Path(place) / "run"), store=str(Path(place) / "answers.sqlite")
        )
        run = open_run(Path(place) / "run")
        values = [
            run.columns(task)[key].values for task in run.tasks for key in run.columns(task) if key.metric == "acc"
        ]
        return np.concatenate(values), lm.usage.computed_tokens - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=10_000)
    parser.add_argument("--slow_tokens", type=int, default=10_000, help="for bfloat16, which processors may do slowly")
    parser.add_argument("--requests", type=int, default=500)
    arguments = parser.parse_args()
    directory = pull(MODEL).path
    passages, base = texts(), HFLM(MODEL)
    step = trained(directory, base.tokenizer, passages)
    unmoved = moved(directory, base.tokenizer, step, 0.0)
    rows: list[tuple[str, ...]] = []
    parts: list[tuple[str, ...]] = []
    right, cost = accuracies(unmoved)

    def write() -> None:
        head = ["against", "KL, nats", "95 %", "same top token", "continuations that differ", "tokens"]
        seen = ["steps", "KL, nats", "95 %", "seen by drift", "accuracy", "flips", "seen by accuracy"]
        text = __doc__.split("\n\n", 2)[2] + "\n\n" + markdown_table(head, rows)
        if parts:
            text += f"\n\nDrift on {arguments.tokens:,} tokens, accuracy on {len(right)} docs of the demo ({cost:,} tokens):\n\n"
            text += markdown_table(seen, parts)
        write_section("Drift", text)

    def measure(name: str, other: LM, tokens: int, continuations: int = 10) -> Drift:
        drift = measure_drift(base, other, passages, DriftOptions(tokens, arguments.requests, continuations))
        rows.append(row(name, drift))
        print(*rows[-1], sep=" | ", flush=True)
        write()
        return drift

    measure("itself", HFLM(MODEL), arguments.tokens)
    floor = (
        measure("itself, eager attention", HFLM(MODEL, attn_implementation="eager", tree=False), 1000, 0).whole.kl.high
        or 0.0
    )
    with served(next(directory.glob("*.gguf"))) as server:
        measure("its GGUF (Q4_1), llama.cpp", server, arguments.tokens)
    measure("itself in bfloat16", HFLM(MODEL, dtype="bfloat16"), arguments.slow_tokens, 0)
    for part in PARTS:
        other = moved(directory, base.tokenizer, step, part)
        drift = measure_drift(
            unmoved, other, passages, DriftOptions(arguments.tokens, continuations=10 if part == 1 else 0)
        )
        if part == 1:
            rows.append(row("trained for one step", drift))
        values, _ = accuracies(other)
        gained, lost = int((values > right).sum()), int((values < right).sum())
        p = mcnemar(gained, lost)
        kl = drift.whole.kl
        parts.append(
            (
                f"{part:g}",
                f"{kl.value:.2g}",
                f"[{kl.low:.2g}, {kl.high:.2g}]",
                "yes" if (kl.low or 0.0) > floor else "no",
                f"{values.mean() - right.mean():+.4f}",
                f"+{gained} −{lost}",
                f"{'yes' if p < 0.05 else 'no'} (p = {p:.2f})",
            )
        )
        print(*parts[-1], sep=" | ", flush=True)
        write()
        del other


if __name__ == "__main__":
    main()
