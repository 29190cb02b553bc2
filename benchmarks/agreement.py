"""The same numbers as lm-evaluation-harness and transformers, on a real model.

    python benchmarks/agreement.py --rival PYTHON [--model smollm2-135m]

Both harnesses run the same task files on the data in `../shared/parity` with the same model in float32: every loglikelihood
is compared, and every final score. Greedy generations of gsm8k prompts are compared with `generate` of transformers, called
for one prompt at a time.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from _results import markdown_table, write_section

PARITY = Path(__file__).parents[2] / "shared" / "parity"
TASKS = {
    "arc_easy": (0, 40),
    "hellaswag": (0, 40),
    "winogrande": (0, 60),
    "lambada_openai": (0, 100),
    "mmlu_mini": (5, 5),
    "wikitext": (0, 2),
}
"""Shots and docs (of each subject for mmlu)."""
GREEDY_DOCS = 32


@dataclass(frozen=True, slots=True)
class Found:
    """Responses by request, and scores by task and metric."""

    responses: dict[str, Any]
    scores: dict[str, float]


def run_rival(path: Path, model: str) -> None:
    """Runs in the rival's interpreter, which knows nothing of this package."""
    sys.path.insert(0, str(PARITY))
    import lm_eval
    import oracle
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager

    oracle.patch_datasets(PARITY / "hub")
    manager = TaskManager(include_path=str(PARITY / "groups"))
    lm = HFLM(model, dtype="float32", device="cpu", batch_size=8)
    found: dict[str, Any] = {"tasks": str(Path(lm_eval.__file__).parent / "tasks")}
    for task, (shots, limit) in TASKS.items():
        results = lm_eval.simple_evaluate(
            model=lm,
            tasks=[task],
            num_fewshot=shots or None,
            limit=limit,
            task_manager=manager,
            log_samples=True,
            bootstrap_iters=0,
        )
        answers = {}
        for sample in (sample for samples in results["samples"].values() for sample in samples):
            for request, response in zip(sample["arguments"], sample["resps"]):
                answers[json.dumps(list(request))] = response[0]
        scores = {f"{name}/{key}": value for name, block in results["results"].items() for key, value in block.items()}
        found[task] = {"responses": answers, "scores": {k: v for k, v in scores.items() if isinstance(v, float)}}
        print(f"  lm-evaluation-harness: {task}, {len(answers)} requests", file=sys.stderr, flush=True)
    path.write_text(json.dumps(found))


def run_ours(task: str, model: str, tasks: str, folder: Path) -> Found:
    import assay
    from assay.results import read_samples, unpack_arguments

    shots, limit = TASKS[task]
    results = assay.evaluate(
        model="hf",
        model_args={"pretrained": model, "dtype": "float32"},
        device="cpu",
        tasks=[task],
        num_fewshot=shots or None,
        limit=limit,
        lm_eval=tasks,
        include_path=[str(PARITY / "groups")],
        data_dir=str(PARITY / "hub"),
        run_dir=str(folder / task),
        store=str(folder / "store.sqlite"),
        bootstrap_iters=0,
    )
    responses = {}
    for found in results.tasks.values():
        for row in read_samples(folder / task / str(found.sample_file)):
            for request, answer in zip(unpack_arguments(row["arguments"]), json.loads(row["resps"])):
                responses[json.dumps(request)] = answer[0]
    blocks = {**results.to_dict()["results"], **results.to_dict().get("groups", {})}
    scores = {f"{name}/{key}": value for name, block in blocks.items() for key, value in block.items()}
    return Found(responses, {k: v for k, v in scores.items() if isinstance(v, float)})


def compare(task: str, ours: Found, theirs: dict[str, Any]) -> list[str]:
    responses, scores = theirs["responses"], theirs["scores"]
    if missing := responses.keys() - ours.responses.keys():
        raise SystemExit(
            f"{task}: {len(missing)} of {len(responses)} requests differ, for example {min(missing)[:300]}"
        )
    pairs = [(ours.responses[request], response) for request, response in responses.items()]
    if absent := scores.keys() - ours.scores.keys():
        raise SystemExit(f"{task}: {', '.join(sorted(absent))} is missing from our scores")
    if task == "wikitext":
        worst = max(abs(one - _number(two)) / abs(_number(two)) for one, two in pairs)
        difference, limit, greedy = f"{worst:.1e} (relative)", "1e-6", ""
    else:
        difference, limit = f"{max(abs(one[0] - two[0]) for one, two in pairs):.1e}", "1e-4"
        greedy = str(sum(one[1] != two[1] for one, two in pairs))
    differing = [key for key, value in scores.items() if not _same(key, ours.scores[key], value)]
    for key in differing:
        print(f"  {key}: {ours.scores[key]!r}, lm-evaluation-harness {scores[key]!r}", file=sys.stderr, flush=True)
    equal = f"{len(scores) - len(differing)} of {len(scores)}"
    return [task, str(len(pairs)), difference, limit, greedy, equal]


def _same(metric: str, ours: float, theirs: float) -> bool:
    """Counted scores to the last digit; perplexities and bits are functions of sums of logarithms and agree as those do."""
    if "perplexity" in metric or "bits" in metric:
        return abs(ours / theirs - 1) < 1e-4
    return ours == theirs


def _number(response: Any) -> float:
    return float(response[0] if isinstance(response, list) else response)


def greedy_row(model: str) -> list[str]:
    """Texts of the tree-sharing generation, and of `generate` for one prompt after the other."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from assay.instance import Instance
    from assay.models.hf import HFLM
    from inference import gsm8k

    requests = gsm8k(GREEDY_DOCS)
    lm = HFLM(model, dtype="float32", device="cpu")
    ours = lm.generate_until([Instance("generate_until", {}, request, 0) for request in requests])
    network = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(model)
    equal = 0
    for (context, settings), text in zip(requests, ours):
        prompt = tokenizer(context, return_tensors="pt")
        with torch.inference_mode():
            ids = network.generate(
                **prompt,
                do_sample=False,
                max_new_tokens=settings["max_gen_toks"],
                stop_strings=settings["until"],
                tokenizer=tokenizer,
            )
        alone = tokenizer.decode(ids[0, prompt["input_ids"].shape[1] :], skip_special_tokens=True)
        for stop in settings["until"]:
            alone = alone.split(stop)[0]
        equal += alone == text
        print(f"  generate: {equal} equal so far", file=sys.stderr, flush=True)
    return ["gsm8k, greedy", str(len(requests)), f"{equal} of {len(requests)} texts equal", "all", "", ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rival", metavar="PYTHON", help="an interpreter that has lm-evaluation-harness and torch")
    parser.add_argument("--model", help="directory of a causal model (by default smollm2-135m, pulled if need be)")
    parser.add_argument("--scores", action="store_true", help="no generations; RESULTS.md is left as it is")
    parser.add_argument("--run-rival", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run_rival:
        run_rival(arguments.run_rival, arguments.model)
        return
    from inference import small_model

    model = arguments.model or small_model()
    rows = []
    if arguments.rival:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            answers = folder / "rival.json"
            subprocess.run([arguments.rival, __file__, "--model", model, "--run-rival", str(answers)], check=True)
            theirs = json.loads(answers.read_text())
            for task in TASKS:
                rows.append(compare(task, run_ours(task, model, theirs["tasks"], folder), theirs[task]))
                print(rows[-1], file=sys.stderr, flush=True)
    if apart := [row[0] for row in rows if float(row[2].split()[0]) > float(row[3])]:
        raise SystemExit(f"differences beyond the limit: {', '.join(apart)}")
    if not arguments.scores:
        rows.append(greedy_row(model))
    table = markdown_table(
        ["float32", "requests", "largest difference", "limit", "is_greedy differs", "scores equal"], rows
    )
    print(table)
    if not arguments.scores:
        write_section("Agreement on a real model", table)


if __name__ == "__main__":
    main()
