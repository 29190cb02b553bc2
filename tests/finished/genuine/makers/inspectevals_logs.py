"""Logs of evals from inspect-evals with inspect's mock model: `python inspectevals_logs.py FOLDER`, in an environment that has
`inspect-evals`. Data on the hub are out of reach: two evals get rows of this script in their place; the others ship theirs."""

from __future__ import annotations

import sys
from pathlib import Path

import datasets
import tiktoken
from inspect_ai import eval
from inspect_logs import Words

ROWS = {
    "gsm8k": [{"question": f"What is {n} + {n}?", "answer": f"{n} + {n} = {2 * n}\n#### {2 * n}"} for n in range(1, 5)],
    "boolq": [{"question": f"is {n} even", "passage": "On numbers.", "answer": n % 2 == 0} for n in range(1, 5)],
}
EVALS = {
    "gsm8k": {"fewshot": 0},
    "boolq": {},
    "agentdojo": {"with_injections": False, "workspace": ["banking"]},
    "agent_threat_bench_memory_poison": {},
    "agent_threat_bench_autonomy_hijack": {},
    "agentic_misalignment": {"grader_model": "mockllm/model"},
}


def rows(path, *_, **__):
    return datasets.Dataset.from_list(next(found for name, found in ROWS.items() if name in path))


def main(folder):
    tiktoken.get_encoding = tiktoken.encoding_for_model = lambda name: Words()
    datasets.load_dataset = rows
    for name, options in EVALS.items():
        logs = eval(
            f"inspect_evals/{name}",
            task_args=options,
            model="mockllm/model",
            limit=4,
            log_dir=str(folder / name),
            display="none",
        )
        print(name, logs[0].status, logs[0].error and logs[0].error.message)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
