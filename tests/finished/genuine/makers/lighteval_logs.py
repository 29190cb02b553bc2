"""Details that lighteval itself writes: `python lighteval_logs.py FOLDER`, in an environment that has `lighteval`."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
from lighteval.logging.evaluation_tracker import EvaluationTracker
from lighteval.metrics.metrics import Metrics
from lighteval.models.abstract_model import LightevalModel
from lighteval.models.dummy.dummy_model import DummyModelConfig
from lighteval.models.model_output import ModelResponse
from lighteval.pipeline import ParallelismManager, Pipeline, PipelineParameters
from lighteval.tasks.lighteval_task import LightevalTaskConfig
from lighteval.tasks.registry import Registry
from lighteval.tasks.requests import Doc
from lighteval.utils.cache_management import SampleCache

# One of its own tasks fetches a file when it is imported.
Registry._load_from_files = Registry._load_from_subdirs = staticmethod(lambda *_: {})
GOOD, BAD = [1, 1, 1, 0] * 6, [0, 1, 0, 0] * 6


def question(row, task):
    n = row["n"]
    return Doc(task_name=task, query=f"What is {n} + {n}?", choices=[str(2 * n), str(2 * n + 1)], gold_index=0)


def task(name, *metrics, **more):
    return LightevalTaskConfig(
        name=name,
        prompt_function=question,
        hf_repo="sums",
        hf_subset="default",
        hf_avail_splits=["test"],
        evaluation_splits=["test"],
        metrics=[*metrics],
        **more,
    )


TASKS_TABLE = [
    task("sums", Metrics.exact_match, generation_size=8, stop_sequence=["\n"]),
    task("choices", Metrics.loglikelihood_acc),
    task(
        "draws",
        Metrics.avg_at_n(sample_params={"n": 3}),
        Metrics.pass_at_k(sample_params={"k": 1, "n": 3}),
        generation_size=8,
    ),
]


class Scripted(LightevalModel):
    tokenizer, add_special_tokens, max_length, disable_tqdm = None, False, 2048, True

    def __init__(self, name, skill):
        self.config = DummyModelConfig(model_name=name)
        self.skill = skill
        self._cache = SampleCache(self.config)

    def greedy_until(self, docs):
        found = []
        for doc in docs:
            n = int(doc.query.split()[2])
            said = [doc.choices[0 if self.skill(n, t) else 1] for t in range(max(1, doc.num_samples))]
            found.append(
                ModelResponse(input=doc.query, text=said, input_tokens=[1] * 5, output_tokens=[[7]] * len(said))
            )
        return found

    def loglikelihood(self, docs):
        found = []
        for doc in docs:
            right = self.skill(int(doc.query.split()[2]), 0)
            likely = [-1.0 if right else -3.0, -2.0]
            found.append(
                ModelResponse(
                    input=doc.query,
                    input_tokens=[1] * 5,
                    output_tokens=[[7], [8]],
                    logprobs=likely,
                    argmax_logits_eq_gold=[value == max(likely) for value in likely],
                )
            )
        return found

    def loglikelihood_rolling(self, docs):
        raise NotImplementedError


def run(folder, name, task, skill, samples=None):
    shutil.rmtree(Path.home() / ".cache/huggingface/lighteval", ignore_errors=True)
    tracker = EvaluationTracker(output_dir=str(folder / name), save_details=True)
    parameters = PipelineParameters(
        launcher_type=ParallelismManager.NONE, custom_tasks_directory=str(Path(__file__)), max_samples=samples
    )
    pipeline = Pipeline(task, parameters, tracker, model=Scripted("org/scripted", skill))
    pipeline.evaluate()
    pipeline.save_and_push_results()


def main(folder):
    Path("sums").mkdir()
    Path("sums/test.jsonl").write_text("".join(json.dumps({"n": n}) + "\n" for n in range(1, 25)))
    run(folder, "good", "sums|0", lambda n, t: GOOD[n - 1])
    run(folder, "bad", "sums|0", lambda n, t: BAD[n - 1])
    run(folder, "choices", "choices|0", lambda n, t: GOOD[n - 1], 8)
    run(folder, "draws", "draws|0", lambda n, t: (n + t) % 3 != 0, 6)
    shutil.rmtree("sums")


if __name__ == "__main__":
    np.random.seed(0)
    main(Path(sys.argv[1]).resolve())
