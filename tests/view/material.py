"""Runs to look at: a small benchmark of capitals, elements and word problems, and two models of different skill."""

from __future__ import annotations

import hashlib
import json
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import assay
from assay.instance import Instance
from assay.models import LM

CAPITALS = "France Paris,Italy Rome,Spain Madrid,Portugal Lisbon,Norway Oslo,Sweden Stockholm,Finland Helsinki,Denmark Copenhagen,Poland Warsaw,Austria Vienna,Hungary Budapest,Greece Athens,Turkey Ankara,Egypt Cairo,Kenya Nairobi,Ghana Accra,Senegal Dakar,Morocco Rabat,Japan Tokyo,China Beijing,India Delhi,Nepal Kathmandu,Thailand Bangkok,Vietnam Hanoi,Peru Lima,Chile Santiago,Cuba Havana,Canada Ottawa,Uruguay Montevideo,Ecuador Quito"
ELEMENTS = "hydrogen H,helium He,lithium Li,carbon C,nitrogen N,oxygen O,fluorine F,neon Ne,sodium Na,magnesium Mg,aluminium Al,silicon Si,phosphorus P,sulphur S,chlorine Cl,argon Ar,potassium K,calcium Ca,iron Fe,copper Cu,zinc Zn,silver Ag,tin Sn,iodine I,gold Au,mercury Hg,lead Pb,uranium U"

CHOICE = """
task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{train: {folder}/{name}_train.jsonl, test: {folder}/{name}.jsonl}}}}
training_split: train
test_split: test
fewshot_split: train
num_fewshot: 3
output_type: multiple_choice
doc_to_text: "Question: {{{{question}}}}\\nAnswer:"
doc_to_choice: choices
doc_to_target: answer
metric_list:
  - metric: acc
  - metric: acc_norm
metadata: {{version: 1.0}}
"""
PROBLEMS = """
task: word_problems
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder}/problems.jsonl}}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{question}}}}\\nLet's think step by step."
doc_to_target: "{{{{answer}}}}"
generation_kwargs: {{until: ["\\n\\n"], max_gen_toks: 64}}
filter_list:
  - name: strict-match
    filter: [{{function: regex, regex_pattern: "#### (-?[0-9]+)"}}, {{function: take_first}}]
  - name: flexible-extract
    filter: [{{function: regex, regex_pattern: "(-?[0-9]+)", group_select: -1}}, {{function: take_first}}]
metric_list: [{{metric: exact_match}}]
metadata: {{version: 2.0}}
"""
GROUPS = {
    "knowledge": "group: knowledge\ngroup_alias: Knowledge\ntask: [capitals, elements]\naggregate_metric_list:\n  - {metric: acc}\n  - {metric: acc_norm}\n",
    "general": "group: general\ngroup_alias: General ability\ntask: [knowledge, word_problems]\naggregate_metric_list:\n  - {metric: acc}\n  - {metric: exact_match, aggregation: min, filter_list: flexible-extract, missing: skip}\n",
}


def write_benchmark(folder: Path) -> Path:
    rng = random.Random(5)
    write_choices(folder, "capitals", "What is the capital of {}?", CAPITALS, rng, 4)
    write_choices(folder, "elements", "Which symbol does the element {} have?", ELEMENTS, rng, 4)
    rows = []
    for _ in range(60):
        a, b, price = rng.randint(3, 40), rng.randint(2, 9), rng.randint(2, 12)
        question = f"A baker fills {a} trays with {b} rolls each and sells every roll for {price} coins."
        steps = f"{a} × {b} = {a * b} rolls, {a * b} × {price} = {a * b * price} coins"
        rows.append(
            {"question": f"{question} How many coins does she take in?", "answer": a * b * price, "steps": steps}
        )
    write_rows(folder / "problems.jsonl", rows)
    (folder / "word_problems.yaml").write_text(PROBLEMS.format(folder=folder))
    for name, text in GROUPS.items():
        (folder / f"{name}.yaml").write_text(text)
    return folder


def write_choices(folder: Path, name: str, wording: str, facts: str, rng: random.Random, repeat: int) -> None:
    pairs = [fact.split(" ") for fact in facts.split(",")]
    rows = []
    for round_ in range(repeat):
        for thing, answer in pairs:
            others = rng.sample([a for _, a in pairs if a != answer], 3)
            choices = [answer, *others]
            rng.shuffle(choices)
            rows.append(
                {
                    "question": wording.format(thing),
                    "choices": choices,
                    "answer": choices.index(answer),
                    "round": round_,
                }
            )
    write_rows(folder / f"{name}_train.jsonl", rows[:8])
    write_rows(folder / f"{name}.jsonl", rows[8:])
    (folder / f"{name}.yaml").write_text(CHOICE.format(name=name, folder=folder))


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


class Pupil(LM):
    """Knows each answer with a certain chance, decided by a hash: the same pupil always knows the same."""

    def __init__(self, name: str, skill: float) -> None:
        self.name, self.skill = name, skill

    def chance(self, instance: Instance, salt: str = "") -> float:
        text = f"{self.name}{salt}{json.dumps(instance.doc, sort_keys=True)}{instance.arguments[-1]}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") / 2**64

    def knows(self, instance: Instance) -> bool:
        # Half of what a pupil knows depends on the question alone, so that two pupils agree more often than by chance.
        shared = (
            int.from_bytes(hashlib.sha256(json.dumps(instance.doc, sort_keys=True).encode()).digest()[:8], "big")
            / 2**64
        )
        own = (
            int.from_bytes(
                hashlib.sha256((self.name + json.dumps(instance.doc, sort_keys=True)).encode()).digest()[:8], "big"
            )
            / 2**64
        )
        return 0.6 * shared + 0.4 * own < self.skill

    def loglikelihood(self, requests: Sequence[Instance]) -> list[tuple[float, bool]]:
        answers = []
        for request in requests:
            right = str(request.arguments[1]).strip() == str(request.doc["choices"][request.doc["answer"]])
            value = -2.0 - 5 * self.chance(request) + (4.5 if right and self.knows(request) else 0.0)
            answers.append((value, value > -1))
        return answers

    def loglikelihood_rolling(self, requests: Sequence[Instance]) -> list[float]:
        raise NotImplementedError

    def generate_until(self, requests: Sequence[Instance]) -> list[str]:
        return [self.answer(request) for request in requests]

    def answer(self, request: Instance) -> str:
        number = (
            request.doc["answer"]
            if self.knows(request)
            else request.doc["answer"] + 1 + int(9 * self.chance(request, "off"))
        )
        steps = request.doc["steps"].rsplit("=", 1)[0]
        ending = f"#### {number}" if self.chance(request, "form") < 0.7 else f"So she takes in {number} coins."
        return (
            "" if self.chance(request, "mute") < 0.04 else f" First count the rolls: {steps}= {number} coins.\n{ending}"
        )

    def fingerprint(self) -> str:
        return f"pupil-{self.name}-{self.skill}"


def make_run(benchmark: Path, out: Path, name: str, skill: float) -> Path:
    model = type(name, (Pupil,), {})(name, skill)  # a model from Python is known by its class
    assay.evaluate(
        model=model,
        tasks=["general"],
        include_path=[str(benchmark)],
        include_defaults=False,
        run_dir=str(out),
        store=str(out.parent / f".{name}.db"),
    )
    return out


def make_live_run(out: Path) -> Path:
    """A run that has asked 40 of 100 docs."""
    out.mkdir(parents=True)
    counts = {
        "docs_total": 100,
        "docs_done": 40,
        "computed": 120,
        "reused": 40,
        "failed": 0,
        "tokens_asked": 4000,
        "tokens_computed": 900,
        "running": {"capitals": ["acc", 0.625, 40]},
        "questions": {"judge": [12, 30]},
    }
    about = {
        "format": 1,
        "status": "running",
        "date": time.time(),
        "model": {"name": "live-3b"},
        "config": {"tasks": ["capitals"]},
        "counts": counts,
        "seconds": {},
    }
    (out / "run.json").write_text(json.dumps(about))
    # Ahead of the clock: the tests that look at it may come minutes later.
    (out / "progress.json").write_text(json.dumps({**counts, "updated": time.time() + 3600}))
    return out


def make_foreign_run(out: Path) -> Path:
    """What lm-evaluation-harness writes with --log_samples."""
    out.mkdir(parents=True)
    stamp = "2026-01-02T03-04-05.000001"
    results = {
        "results": {
            "tiny": {"name": "tiny", "alias": "tiny", "sample_len": 3, "acc,none": 2 / 3, "acc_stderr,none": 0.33}
        },
        "group_subtasks": {"tiny": []},
        "configs": {"tiny": {"task": "tiny", "output_type": "multiple_choice", "num_fewshot": 0}},
        "versions": {"tiny": 1.0},
        "n-shot": {"tiny": 0},
        "higher_is_better": {"tiny": {"acc": True}},
        "n-samples": {"tiny": {"original": 3, "effective": 3}},
        "config": {"model": "hf", "model_args": "pretrained=foreign"},
        "date": 1767322800.0,
        "model_name": "foreign-1b",
        "total_evaluation_time_seconds": "12.5",
    }
    (out / f"results_{stamp}.json").write_text(json.dumps(results))
    lines = []
    for i in range(3):
        arguments = {
            f"gen_args_{j}": {"arg_0": f"Is {i} even?", "arg_1": f" {word}"} for j, word in enumerate(("yes", "no"))
        }
        resps = [[[str(-0.5 - i), "True"]], [[str(-1.0), "False"]]]
        lines.append(
            {
                "doc_id": i,
                "doc": {"q": f"Is {i} even?"},
                "target": str(i % 2),
                "arguments": arguments,
                "resps": resps,
                "filtered_resps": [r[0] for r in resps],
                "filter": "none",
                "metrics": ["acc"],
                "acc": float(i != 1),
                "doc_hash": "x",
                "prompt_hash": "y",
                "target_hash": "z",
            }
        )
    (out / f"samples_tiny_{stamp}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return out
