"""Outputs that eval-framework itself writes: `python evalframework_logs.py FOLDER`, in an environment that has `eval-framework`."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import ClassVar

from eval_framework.llm.base import BaseLLM
from eval_framework.main import main as evaluate
from eval_framework.metrics.completion.accuracy_completion import AccuracyCompletion
from eval_framework.metrics.loglikelihood.accuracy_loglikelihood import AccuracyLoglikelihood
from eval_framework.shared.types import Error, RawCompletion, RawLoglikelihood
from eval_framework.tasks.base import NO_SUBJECT, BaseTask, ResponseType
from eval_framework.tasks.eval_config import EvalConfig
from eval_framework.tasks.registry import register_task

GOOD, BAD = [1, 1, 1, 0] * 6, [0, 1, 0, 0] * 6


class Sums(BaseTask):
    NAME = "Sums"
    DATASET_PATH = ""
    SAMPLE_SPLIT = FEWSHOT_SPLIT = "test"
    SUBJECTS: ClassVar = [NO_SUBJECT]
    LANGUAGE = REVISION_LOCKFILE = None
    RESPONSE_TYPE = ResponseType.COMPLETION
    METRICS: ClassVar = [AccuracyCompletion]

    def _load_dataset(self, subject):
        self.dataset = {"test": [{"n": n} for n in range(1, 25)]}

    def _get_instruction_text(self, item):
        return f"What is {item['n']} + {item['n']}?"

    def _get_ground_truth(self, item):
        return str(2 * item["n"])


class Choices(Sums):
    NAME = "Choices"
    RESPONSE_TYPE = ResponseType.LOGLIKELIHOODS
    METRICS: ClassVar = [AccuracyLoglikelihood]

    def _get_possible_completions(self, item):
        return [str(2 * item["n"]), str(2 * item["n"] + 1)]


class Scripted(BaseLLM):
    def __init__(self, skill=None, breaks=(), name="scripted"):
        self.skill, self.breaks, self.tries, self._name = skill, breaks, {}, name

    @property
    def name(self):
        return self._name

    def right(self, sample):
        n = int(sample.messages[-1].content.split()[2])
        self.tries[n] = self.tries.get(n, 0) + 1
        return n, self.skill(n, self.tries[n])

    def generate_from_messages(self, messages, *_, **__):
        raise NotImplementedError

    def generate_from_samples(self, samples, *_, **__):
        found = []
        for sample in samples:
            n, right = self.right(sample)
            prompt, said = sample.messages[-1].content, str(2 * n if right else 2 * n + 1)
            error = Error(error_class="ConnectionError", message="no route", traceback="") if n in self.breaks else None
            counts = {"prompt_num_tokens": 5, "completion_num_tokens": 1}
            found.append(
                RawCompletion(prompt=prompt, completion="" if error else said, raw_completion_error=error, **counts)
            )
        return found

    def logprobs(self, samples):
        found = []
        for sample in samples:
            n, right = self.right(sample)
            likely = {str(2 * n): -1.0 if right else -3.0, str(2 * n + 1): -2.0}
            found.append(
                RawLoglikelihood(
                    prompt=sample.messages[-1].content,
                    prompt_num_tokens=5,
                    loglikelihoods=likely,
                    loglikelihoods_num_tokens={},
                )
            )
        return found


def run(folder, name, task, skill, breaks=(), count=24, repeats=1):
    config = EvalConfig(task_name=task, llm_class=Scripted, output_dir=Path("."), num_samples=count, repeats=repeats)
    evaluate(Scripted(skill, breaks, name), config)
    shutil.move(name, folder / name)


def main(folder):
    register_task(Sums)
    register_task(Choices)
    run(folder, "good", "Sums", lambda n, t: GOOD[n - 1])
    run(folder, "bad", "Sums", lambda n, t: BAD[n - 1])
    run(folder, "repeats", "Sums", lambda n, t: (n + t) % 3 != 0, breaks={2}, count=4, repeats=3)
    run(folder, "choices", "Choices", lambda n, t: GOOD[n - 1], count=8)
    for file in folder.rglob("*.log"):
        file.unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
