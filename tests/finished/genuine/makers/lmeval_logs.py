"""Results that lm-evaluation-harness itself writes: `python lmeval_logs.py FOLDER`, in an environment that has `lm_eval`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from lm_eval import simple_evaluate
from lm_eval.api.model import LM
from lm_eval.loggers import EvaluationTracker
from lm_eval.tasks import TaskManager

SKILLS = {"good": [1, 1, 1, 0] * 6, "bad": [0, 1, 0, 0] * 6}


class Scripted(LM):
    def __init__(self, right):
        super().__init__()
        self.right = right

    def loglikelihood(self, requests):
        raise NotImplementedError

    def loglikelihood_rolling(self, requests):
        raise NotImplementedError

    def generate_until(self, requests):
        said = []
        for request in requests:
            n = int(request.args[0].split()[0])
            said.append(f" s{2 * n if self.right[n - 1] else 2 * n + 1}")
        return said


def main(folder: Path) -> None:
    docs = ({"n": n, "answer": f"s{2 * n}"} for n in range(1, 25))
    (folder / "sums.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in docs))
    patterns = {"strict": r"^\s*(s\d+)", "flexible": r"(s\d+)"}
    first = {"function": "take_first"}
    filters = [{"name": k, "filter": [{"function": "regex", "regex_pattern": v}, first]} for k, v in patterns.items()]
    task = {
        "task": "sums",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": "sums.jsonl"}},
        "test_split": "test",
        "output_type": "generate_until",
        "doc_to_text": "{{n}} + {{n}} =",
        "doc_to_target": "{{answer}}",
        "generation_kwargs": {"until": ["\n"], "do_sample": False, "max_gen_toks": 6},
        "filter_list": filters,
        "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
        "metadata": {"version": 1.0},
    }
    (folder / "sums.yaml").write_text(json.dumps(task, indent=2))
    for skill, right in SKILLS.items():
        tracker = EvaluationTracker(output_path=str(folder / skill))
        tracker.general_config_tracker.log_experiment_args("hf", f"pretrained={skill}", "", "", None)
        manager = TaskManager(include_path=str(folder), include_defaults=False)
        found = simple_evaluate(
            Scripted(right), tasks=["sums"], task_manager=manager, log_samples=True, bootstrap_iters=100
        )
        samples = found.pop("samples")
        tracker.save_results_aggregated(results=found, samples=samples)
        for name, rows in samples.items():
            tracker.save_results_samples(task_name=name, samples=rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
