"""Bundles that nemo-evaluator itself writes: `python nemo_logs.py FOLDER`, in an environment that has `nemo-evaluator`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from nemo_evaluator.engine.artifacts import write_all
from nemo_evaluator.engine.eval_loop import run_evaluation
from nemo_evaluator.environments.base import EvalEnvironment, SeedResult, VerifyResult
from nemo_evaluator.solvers.base import ErrorKind, SolveResult

GOOD, BAD = [1, 1, 1, 0] * 6, [0, 1, 0, 0] * 6


class Sums(EvalEnvironment):
    name = "sums"

    def __init__(self, count):
        super().__init__()
        self.dataset = [{"n": n} for n in range(1, count + 1)]

    async def seed(self, idx):
        n = self.dataset[idx]["n"]
        return SeedResult(prompt=f"What is {n} + {n}?", expected_answer=str(2 * n))

    async def verify(self, response, expected, sandbox=None, **metadata):
        return VerifyResult(reward=float(response.strip() == expected), extracted_answer=response.strip())


class Scripted:
    def __init__(self, skill, breaks=()):
        self.skill, self.breaks, self.tries = skill, set(breaks), {}

    async def solve(self, task, *args, **kwargs):
        n = int(task.prompt.split()[2])
        self.tries[n] = self.tries.get(n, 0) + 1
        if n in self.breaks:
            return SolveResult(response="", error="the endpoint refused the connection", error_kind=ErrorKind.INFRA)
        right = self.skill(n, self.tries[n])
        return SolveResult(response=str(2 * n if right else 2 * n + 1))


async def run(folder, name, count, solver, repeats=1, **options):
    bundle = await run_evaluation(
        Sums(count), solver, n_repeats=repeats, config={"model": "scripted"}, max_concurrent=1, **options
    )
    write_all(bundle, folder / name)


def main(folder):
    asyncio.run(run(folder, "good", 24, Scripted(lambda n, t: GOOD[n - 1])))
    asyncio.run(run(folder, "bad", 24, Scripted(lambda n, t: BAD[n - 1])))
    asyncio.run(
        run(
            folder,
            "repeats",
            4,
            Scripted(lambda n, t: (n + t) % 3 != 0, breaks=[2]),
            repeats=3,
            skip_failed=True,
            max_system_retries=1,
        )
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
