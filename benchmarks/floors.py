"""What benchmarks reward without any ability: the table of docs/floors.md, by running today's code on a mirror of the data.

    python benchmarks/floors.py --data_dir MIRROR --lm_eval .cache/lm-eval/lm_eval/tasks
    python benchmarks/floors.py --data_dir MIRROR --lm_eval … --model smollm2-135m

The first prints the floors that need no model, the second a model's scores with and without the questions. `--docs` compares with the
page and exits with 1 where a row differs.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from assay import evaluate
from assay.cli.task_data import measure_floors
from assay.tasks import TaskManager

PAGE = Path(__file__).resolve().parent.parent / "docs" / "floors.md"
_ROW = re.compile(r"\| `(\w+)` \|")


def rows_of_page(part: int) -> list[str]:
    """The rows of the first or second table under its heading."""
    section = PAGE.read_text().split("## What these benchmarks reward")[1].split("\n## ")[0]
    return [line for line in section.split("With the small model")[part].splitlines() if _ROW.match(line)]


def by_rules(tasks: list[str], manager: TaskManager, data_dir: str) -> Iterator[str]:
    seen = set()
    for row in measure_floors(tasks, manager, data_dir, limit=100):
        # The first metric of each filter; of minerva both, which differ.
        if (row.task, row.key.filter) in seen and row.key.metric != "math_verify":
            continue
        seen.add((row.task, row.key.filter))
        name = row.key.metric if row.key.filter == "none" else f"{row.key.metric}, {row.key.filter}"
        chance = "" if row.chance is None else f"{row.chance:.2f}"
        highest = f"{row.highest.replace('_', ' ')} {row.floors[row.highest].value:.2f}"
        yield f"| `{row.task}` | {name} | {chance} | {highest} | {row.others} |"


def with_and_without(tasks: list[str], model: str, lm_eval: str, data_dir: str, store: str) -> Iterator[str]:
    result = evaluate(
        model="hf",
        model_args={"pretrained": model},
        tasks=tasks,
        limit=100,
        num_fewshot=0,
        floors=["blind"],
        data_dir=data_dir,
        lm_eval=lm_eval,
        trust_remote_code=True,
        store=store,
    )
    for name, task in result.tasks.items():
        score = next(iter(task.scores.values()))
        yield f"| `{name}` | {score.estimate.value:.2f} | {score.floors['blind'].value:.2f} |"


def main(arguments: Iterable[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data_dir", required=True)
    parser.add_argument("--lm_eval", required=True)
    parser.add_argument("--model")
    parser.add_argument("--store", default="floors.db")
    parser.add_argument("--docs", action="store_true", help="compare with the page")
    given = parser.parse_args(arguments)
    page = rows_of_page(1 if given.model else 0)
    tasks = list(dict.fromkeys(_ROW.match(line)[1] for line in page))  # type: ignore[index]
    if given.model:
        made = list(with_and_without(tasks, given.model, given.lm_eval, given.data_dir, given.store))
    else:
        made = list(by_rules(tasks, TaskManager(lm_eval=given.lm_eval), given.data_dir))
    print("\n".join(made))
    differ = [line for line in made if line not in page] if given.docs else []
    for line in differ:
        print(f"not on the page: {line}", file=sys.stderr)
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
