"""Logs that OpenAI's evals itself writes: `python openai_logs.py FOLDER`, in an environment that has `evals`."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

os.environ.update(OPENAI_API_KEY="none", EVALS_SEQUENTIAL="1")  # it makes a client when it is imported

import evals
from evals.api import CompletionResult
from evals.cli import oaieval
from evals.record import record_sampling

GOOD, BAD = [1, 1, 1, 0] * 6, [0, 1, 0, 0] * 6


class Said(CompletionResult):
    def __init__(self, text):
        self.text = text

    def get_completions(self):
        return [self.text]


class Scripted:
    def __init__(self, skill="good", registry=None, **_):
        self.skill = skill

    def __call__(self, prompt, **_):
        n = int(prompt[-1]["content"].split()[2])
        said = str(2 * n if (GOOD if self.skill == "good" else BAD)[n - 1] else 2 * n + 1)
        record_sampling(
            prompt=prompt,
            sampled=[said],
            model="scripted",
            usage={"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6},
        )
        return Said(said)


class Faceted(evals.Eval):
    """Numbers of its own for each sample, as model-graded evals and many others record them."""

    def __init__(self, completion_fns, samples_jsonl, *args, **kwargs):
        super().__init__(completion_fns, *args, samples_jsonl=samples_jsonl, **kwargs)

    def eval_sample(self, sample, *_):
        said = self.completion_fn(prompt=sample["input"]).get_completions()[0]
        evals.record.record_metrics(right=float(said == sample["ideal"]), length=len(said))

    def run(self, recorder):
        self.eval_all_samples(recorder, self.get_samples())
        found = recorder.get_metrics()
        return {"right": sum(each["right"] for each in found) / len(found)}


def main(folder):
    for part in ("evals", "completion_fns", "data"):
        Path("registry", part).mkdir(parents=True)
    rows = [{"input": [{"role": "user", "content": f"What is {n} + {n}?"}], "ideal": str(2 * n)} for n in range(1, 25)]
    Path("registry/data/sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path("registry/data/few.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[:6]))
    here = Path(__file__).stem
    Path("registry/evals/sums.yaml").write_text(
        "sums:\n  id: sums.dev.v0\n  metrics: [accuracy]\nsums.dev.v0:\n  class: evals.elsuite.basic.match:Match\n  args: {samples_jsonl: sums.jsonl}\n"
        f"facets:\n  id: facets.dev.v0\n  metrics: [right]\nfacets.dev.v0:\n  class: {here}:Faceted\n  args: {{samples_jsonl: few.jsonl}}\n"
    )
    Path("registry/completion_fns/scripted.yaml").write_text(
        "".join(
            f"scripted-{skill}:\n  class: {here}:Scripted\n  args: {{skill: {skill}}}\n" for skill in ("good", "bad")
        )
    )
    for name, model, task in (("good", "good", "sums"), ("bad", "bad", "sums"), ("facets", "good", "facets")):
        (folder / name).mkdir()
        words = [
            f"scripted-{model}",
            task,
            "--registry_path",
            "registry",
            "--record_path",
            str(folder / name / f"{task}.jsonl"),
        ]
        oaieval.run(oaieval.get_parser().parse_args(words))
    shutil.rmtree("registry")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main(Path(sys.argv[1]).resolve())
