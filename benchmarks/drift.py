"""How far is a model from itself in other numbers, served otherwise, or trained a little? And how little does drift see?

    python benchmarks/drift.py                         # prints the tables, writes benchmarks/RESULTS.md
    python benchmarks/drift.py --keep build/drift      # stopped and started again, it goes on where it was

The model of the demo against itself, itself with another attention kernel, itself in bfloat16, its own GGUF file served by
llama.cpp (quantised kernels), and a copy trained for one step of AdamW (learning rate 1e-5) on eight short texts, which are
not among those that are read. Then multiples and parts of that step: which does a drift see, and which does accuracy at the
same cost in tokens? “Seen by drift” means that the interval of the mean KL lies above all that another attention kernel does;
“seen by accuracy” is McNemar's mid-P test at 5 %.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import assay
from _results import markdown_table, write_section
from assay.analyses.drift import Drift, DriftOptions, bundled_passages, findings, measure_drift, passages_of_tasks
from assay.analyses.drift.engine import mean_kl
from assay.finished import open_run
from assay.models import LM, TokenDivergences, load_model, pull
from assay.models.hf import HFLM
from assay.results import MetricKey
from assay.stats import mcnemar, mean_estimate

MODEL = "smollm2-135m"
STEPS = (100.0, 30.0, 10.0, 3.0, 1.0, 0.1, 0.01, 0.001, 0.0001)
TRAINED_ON = 8
READ = ["demo_open", "demo_agreement", "demo_reflexives"]
"""Tasks whose texts follow the bundled sample: together enough for ten thousand tokens."""
CHOICES, WRITTEN = ["demo_capitals", "demo_grammar"], ["demo_arithmetic"]
"""Tasks of which every doc is right or wrong. They cost about as many tokens as the drift."""
FEW, CONTINUED = 2_000, 10
"""Tokens that are enough where a drift is large, and texts that are continued."""
SERVED = 5
"""Of so many texts one is read to the server, word by word."""
DRAWN, TRIES = (30, 100, 300), 1000
"""Texts of each draw, and draws, that check the intervals."""


class Remembered:
    """A tree runner that computes a walk once. Copies are compared on the same tokens, so the logits of the model that they
    are compared with (2 GB) are kept from the first to the last."""

    def __init__(self, runner: Any) -> None:
        self.runner, self.walk, self.at, self.path = runner, [], 0, self

    def cut(self, depth: int) -> None:
        self.runner.path.cut(depth)
        self.at = 0

    def run(self, step: Any, wanted: Any) -> Any:
        if self.at == len(self.walk):
            self.walk.append((len(step), self.runner.run(step, wanted)))
        length, found = self.walk[self.at]
        assert length == len(step)
        self.at += 1
        return found


class Lab:
    """What the measurements share: the model, the texts, and the step of training, made when first asked for."""

    def __init__(self, tokens: int, requests: int) -> None:
        self.tokens, self.requests = tokens, requests
        self.directory = pull(MODEL).path
        sample = bundled_passages()
        self.trained_on, self.passages = sample[:TRAINED_ON], sample[TRAINED_ON:] + passages_of_tasks(READ, None)

    @cached_property
    def base(self) -> HFLM:
        return HFLM(MODEL)

    @cached_property
    def unmoved(self) -> HFLM:
        """What copies are compared with."""
        lm = self.moved(0.0)
        engine = lm.loglikelihoods.engine
        lm.loglikelihoods.engine = replace(engine, runner=Remembered(engine.runner))
        return lm

    def network(self) -> Any:
        from transformers import AutoModelForCausalLM

        return AutoModelForCausalLM.from_pretrained(self.directory)

    @cached_property
    def step(self) -> dict[str, Any]:
        """What one step changes, by parameter."""
        import torch

        network = self.network().train()
        before = {name: each.detach().clone() for name, each in network.named_parameters()}
        optimizer = torch.optim.AdamW(network.parameters(), lr=1e-5, weight_decay=0.0)
        for passage in self.trained_on:
            ids = torch.tensor([self.base.tokenizer(passage.text)["input_ids"]])
            network(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        return {name: each.detach() - before[name] for name, each in network.named_parameters()}

    def moved(self, steps: float) -> HFLM:
        import torch

        network, step = self.network(), self.step  # the step needs gradients
        with torch.no_grad():
            for name, each in network.named_parameters():
                each.add_(steps * step[name])
        return HFLM(network, tokenizer=self.base.tokenizer)

    def drift(self, a: LM, b: LM, tokens: int, continuations: int = 0) -> Drift:
        return measure_drift(a, b, self.passages, DriftOptions(tokens, continuations=continuations))


@contextmanager
def served(path: Path) -> Iterator[LM]:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx, params.n_parallel, params.port, params.warmup = 2048, 1, 0, False
    server = xllamacpp.Server(params)
    with closing(
        load_model("local-completions", {"base_url": server.listening_address, "model": "m", "num_concurrent": 1})
    ) as lm:
        yield lm
    del server


def facts(drift: Drift) -> dict[str, Any]:
    whole, continued = drift.whole, drift.continued
    return {
        "exact": drift.is_exact,
        "kl": [whole.kl.value, whole.kl.low, whole.kl.high],
        "same": whole.same_first.value,
        "continued": None if continued is None else continued.value,
        "tokens": whole.tokens,
        "texts": whole.texts,
    }


def rights(lm: HFLM) -> dict[str, Any]:
    """Right or wrong on each doc, and the tokens that it took: those of the prompts that were computed, and the new ones."""

    def tokens() -> int:
        return lm.usage.computed_tokens + lm.usage.generated_tokens

    before, values = tokens(), []
    greedy: dict[str, Any] = {"gen_kwargs": {"do_sample": False, "temperature": 0.0}, "repeats": 1}
    for tasks, metric, more in (
        (CHOICES, MetricKey("acc"), {}),
        (WRITTEN, MetricKey("exact_match", "flexible"), greedy),
    ):
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            assay.evaluate(
                model=lm, tasks=tasks, run_dir=str(folder / "run"), store=str(folder / "answers.sqlite"), **more
            )
            run = open_run(folder / "run")
            columns = [run.columns(task)[key] for task in run.tasks for key in run.columns(task) if key == metric]
            values += [int(value) for column in columns for value in column.values]
    return {"right": values, "tokens": tokens() - before}


class Noted:
    """A model that keeps what a drift sees, token by token."""

    def __init__(self, lm: HFLM) -> None:
        self.lm, self.blocks = lm, []

    def token_divergences(self, other: LM, texts: Sequence[str], most: int) -> Iterator[TokenDivergences]:
        for block in self.lm.token_divergences(other, texts, most) or ():
            self.blocks.append(block)
            yield block

    def __getattr__(self, name: str) -> Any:
        return getattr(self.lm, name)


def coverage(blocks: Sequence[TokenDivergences]) -> dict[str, Any]:
    """How often do the intervals from some of the texts, drawn anew, hold what all of them say?"""
    owners, kl, same = (
        np.concatenate([getattr(block, name) for block in blocks]) for name in ("texts", "kl", "same_first")
    )
    tokens_of = [np.flatnonzero(owners == text) for text in np.unique(owners)]
    generator, held = np.random.default_rng(29), {}
    for count in DRAWN:
        inside, shown = np.zeros(2), np.zeros(2)
        for _ in range(TRIES):
            drawn = [tokens_of[i] for i in generator.integers(0, len(tokens_of), count)]
            clusters = np.repeat(np.arange(count), [len(tokens) for tokens in drawn])
            at = np.concatenate(drawn)
            estimates = mean_kl(kl[at], clusters), mean_estimate(same[at], clusters)
            shown += [one.low is not None for one in estimates]
            inside += [
                one.low is not None and one.low <= every.mean() <= one.high
                for one, every in zip(estimates, (kl, same), strict=True)
            ]
        held[str(count)] = [[one / of if of else None, of / TRIES] for one, of in zip(inside, shown, strict=True)]
    return {"held": held, "texts": len(tokens_of)}


def measurements(lab: Lab, page: Path | None) -> dict[str, Callable[[], dict[str, Any]]]:
    """By name, in the order of the tables."""

    def by_gguf() -> dict[str, Any]:
        with served(next(lab.directory.glob("*.gguf"))) as server:
            options = DriftOptions(max_requests=lab.requests, continuations=CONTINUED)
            return facts(measure_drift(lab.base, server, lab.passages[::SERVED], options))

    def in_bfloat16() -> dict[str, Any]:
        drift = lab.drift(lab.base, HFLM(MODEL, dtype="bfloat16"), lab.tokens)
        if page is not None:
            findings(replace(drift, a=MODEL, b=f"{MODEL} in bfloat16")).save(page)
        return facts(drift)

    def after(steps: float) -> dict[str, Any]:
        other = lab.moved(steps)
        base = Noted(lab.unmoved)
        found = facts(lab.drift(base, other, lab.tokens))
        if steps >= 3:
            found["accuracy"] = rights(other)
        if steps == 0.01:
            found["coverage"] = coverage(base.blocks)
        return found

    def continued() -> dict[str, Any]:
        return facts(lab.drift(lab.base, lab.moved(1.0), 100, CONTINUED))

    eager = {"attn_implementation": "eager", "tree": False}
    return {
        "itself": lambda: facts(lab.drift(lab.base, HFLM(MODEL), FEW, CONTINUED)),
        "itself, eager attention": lambda: facts(lab.drift(lab.base, HFLM(MODEL, **eager), FEW)),
        "itself in bfloat16": in_bfloat16,
        "its GGUF (Q4_1), llama.cpp": by_gguf,
        "accuracy before": lambda: rights(lab.moved(0.0)),
        **{f"{steps:g} steps": lambda steps=steps: after(steps) for steps in STEPS},
        "continuations after a step": continued,
    }


def report(found: dict[str, dict[str, Any]]) -> str:
    """Both tables, and what they say in a sentence each."""
    found["1 steps"]["continued"] = found["continuations after a step"]["continued"]
    relatives = [name for name in found if name.startswith("it")] + ["1 steps"]
    rows = [
        (
            "trained for one step" if name == "1 steps" else name,
            f"{'' if one['exact'] else '≥ '}{one['kl'][0]:.2g}",
            ends(one),
            f"{one['same']:.2%}",
            "" if one["continued"] is None else f"{one['continued']:.0%}",
            f"{one['tokens']:,}",
            f"{one['texts']:,}",
        )
        for name in relatives
        for one in [found[name]]
    ]
    noise, before = found["itself, eager attention"]["kl"][2], found["accuracy before"]
    right, steps = np.array(before["right"]), []
    by_drift: list[tuple[float, float, bool]] = []
    by_accuracy: list[tuple[float, float, bool]] = []
    for many in STEPS:
        one = found[f"{many:g} steps"]
        value, low, _ = one["kl"]
        seen = low is not None and low > noise
        by_drift.append((many, value, seen))
        cells = [f"{many:g}", f"{one['tokens']:,}", f"{value:.2g}", ends(one), "yes" if seen else "no", "", "", ""]
        if "accuracy" in one:
            then = np.array(one["accuracy"]["right"])
            gained, lost = int((then > right).sum()), int((then < right).sum())
            p = mcnemar(gained, lost)
            by_accuracy.append((many, value, p < 0.05))
            seen = "yes" if p < 0.05 else "no"
            cells[5:] = [f"{then.mean() - right.mean():+.4f}", f"+{gained} −{lost}", f"{seen} (p = {p:.2g})"]
        steps.append(cells)
    drift_tokens = found["0.01 steps"]["tokens"]
    first = ["against", "KL, nats", "95 %", "same top token", "continuations that differ", "tokens", "texts"]
    second = ["steps", "tokens", "KL, nats", "95 %", "seen by drift", "accuracy", "flips", "seen by accuracy"]
    return "\n\n".join(
        [
            __doc__.split("\n\n", 2)[2].strip(),
            markdown_table(first, rows),
            f"Drift, and accuracy on {len(right)} docs of the demo ({before['tokens']:,} tokens; {right.mean():.4f} before):",
            markdown_table(second, steps),
            f"{drift_tokens:,} tokens of drift: {smallest(by_drift)}. "
            f"Accuracy at {before['tokens']:,} tokens: {smallest(by_accuracy)}. Below 3 steps accuracy was not run.",
            f"Do the intervals hold? After a hundredth of a step, with the {found['0.01 steps']['coverage']['texts']} texts taken as the truth and texts "
            f"drawn from them {TRIES:,} times:",
            markdown_table(
                ["texts drawn", "KL: has an interval", "that covers", "same top token: has an interval", "that covers"],
                [
                    (
                        n,
                        *(
                            cell
                            for share, of in shares
                            for cell in (f"{of:.1%}", "" if share is None else f"{share:.1%}")
                        ),
                    )
                    for n, shares in found["0.01 steps"]["coverage"]["held"].items()
                ],
            ),
        ]
    )


def ends(one: dict[str, Any]) -> str:
    _, low, high = one["kl"]
    return "none: texts too uneven" if low is None else f"[{low:.2g}, {high:.2g}]"


def smallest(seen: Sequence[tuple[float, float, bool]]) -> str:
    """From the largest change down: the last that is seen before one is not.

    >>> smallest([(10, 0.03, True), (1, 0.002, True), (0.1, 1e-5, False)])
    '1 step is seen (KL 0.002), 0.1 steps are not (KL 1e-05)'
    """

    def named(many: float, kl: float, by: bool) -> str:
        return f"{many:g} step{' is' if many == 1 else 's are'} {'seen' if by else 'not'} (KL {kl:.2g})"

    unseen = next((at for at, (_, _, by) in enumerate(seen) if not by), len(seen))
    return ", ".join(named(*each) for each in seen[max(0, unseen - 1) : unseen + 1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=12_000, help="to read; those that texts share count once")
    parser.add_argument("--requests", type=int, default=1_000, help="to the server")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep what is measured, and do not measure it again")
    parser.add_argument("--minutes", type=float, help="begin nothing after that; a later start goes on")
    arguments = parser.parse_args()
    if arguments.minutes and not arguments.keep:
        parser.error("--minutes needs --keep")
    began = time.monotonic()
    lab, found, file = Lab(arguments.tokens, arguments.requests), {}, None
    settings = [MODEL, arguments.tokens, arguments.requests, assay.__version__]
    if arguments.keep is not None:
        arguments.keep.mkdir(parents=True, exist_ok=True)
        file = arguments.keep / "found.json"
        kept = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {"settings": settings, "found": {}}
        if kept["settings"] != settings:
            parser.error(f"{file} was measured with {kept['settings']}")
        found = kept["found"]
    every = measurements(lab, arguments.keep and arguments.keep / "bfloat16.html")
    for name in [name for name in every if name not in found]:
        start = time.monotonic()
        if arguments.minutes and start - began > 60 * arguments.minutes:
            break
        found[name] = every[name]()
        shown = {key: value for key, value in found[name].items() if key not in ("right", "accuracy")}
        print(f"{name}: {shown} ({time.monotonic() - start:.0f} s)", flush=True)
        if file is not None:
            file.write_text(json.dumps({"settings": settings, "found": found}), encoding="utf-8")
    if len(found) == len(every):
        text = report({name: found[name] for name in every})
        print(text)
        write_section("Drift", text)


if __name__ == "__main__":
    main()
