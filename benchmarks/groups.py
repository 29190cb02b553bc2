"""How long it takes to aggregate a large tree of groups: 10,000 tasks in 500 groups, four levels, 1,000 replicates.

    python benchmarks/groups.py

The scores and their replicates are made first and not counted: a run has them before it aggregates. Each size is timed
with the mean (closed form, and its replicates as a comparison of two runs reads them), and with aggregators that need
every replicate of every task. Times are CPU seconds, all threads together, so that neighbours do not count.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from _results import markdown_table, write_section
from assay.groups import GroupManager
from assay.results import MetricKey, Score
from assay.stats import Estimate

KEY = MetricKey("acc", "none")
DOCS = 100


@dataclass(eq=False)
class Leaf:
    task_name: str


def make_scores(tasks: int, replicates: int) -> dict[str, dict[MetricKey, Score]]:
    rng = np.random.default_rng(0)
    draws = 0.5 + 0.05 * rng.standard_normal((tasks, replicates))
    keys = np.arange(tasks * DOCS, dtype=np.uint64).reshape(tasks, DOCS)
    values = (rng.random((tasks, DOCS)) < 0.5).astype(np.float64)
    return {
        f"t{i}": {
            KEY: Score(
                Estimate(0.5, 0.05, 0.4, 0.6, DOCS, "wilson"),
                DOCS,
                replicates=lambda i=i: draws[i],
                samples=lambda i=i: (values[i], keys[i]),
            )
        }
        for i in range(tasks)
    }


def make_tree(tasks: int, groups: int, aggregation: str, over: str) -> GroupManager:
    """Four levels: one root, ~10 areas, ~50 fields, the rest hold the tasks."""
    areas, fields = 10, 50
    bottom = groups - 1 - areas - fields
    entry = {"metric": "acc", "aggregation": aggregation, "over": over}
    configs: dict[str, Any] = {"root": {"task": [f"area{i}" for i in range(areas)]}}
    configs |= {f"area{i}": {"task": [f"field{j}" for j in range(i, fields, areas)]} for i in range(areas)}
    configs |= {f"field{i}": {"task": [f"g{j}" for j in range(i, bottom, fields)]} for i in range(fields)}
    configs |= {f"g{i}": {"task": [f"t{j}" for j in range(i, tasks, bottom)]} for i in range(bottom)}
    manager = GroupManager()
    for i in range(tasks):
        manager.register_task(Leaf(f"t{i}"))
    manager.build_hierarchy({n: {"group": n, "aggregate_metric_list": [entry], **c} for n, c in configs.items()})
    return manager


def seconds(tasks: int, groups: int, replicates: int, aggregation: str, over: str) -> float:
    scores = make_scores(tasks, replicates)
    for found in scores.values():
        _ = found[KEY].draws, found[KEY].docs
    manager = make_tree(tasks, groups, aggregation, over)
    start = time.process_time()
    results = manager.score_groups(scores)
    for found in results.values():
        assert len(found[KEY].draws) == replicates
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--groups", type=int, default=500)
    parser.add_argument("--replicates", type=int, default=1000)
    args = parser.parse_args()
    sizes = [args.tasks // 4, args.tasks // 2, args.tasks]
    rows = []
    for aggregation in ("mean", "harmonic_mean", "median", "min"):
        for over in ("tasks", "subgroups"):
            times = [min(seconds(n, args.groups, args.replicates, aggregation, over) for _ in range(3)) for n in sizes]
            ratio = f"{times[-1] / times[-2]:.2f}"
            rows.append([f"{aggregation} over {over}", *(f"{t:.2f} s" for t in times), ratio, "2 s"])
            print(" · ".join(rows[-1]), flush=True)
    header = ["all groups, numbers and replicates", *(f"{n:,} tasks" for n in sizes), "twice the tasks, times", "limit"]
    about = (
        f"{args.groups} groups, four levels, {args.replicates} replicates; processor time beyond reading the scores."
    )
    write_section("Groups", f"{about}\n\n{markdown_table(header, rows)}")


if __name__ == "__main__":
    main()
