"""What both harnesses wrote, side by side. Needs nothing but their files: any clone can compare."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Samples = dict[str, dict[tuple[int, str], dict[str, Any]]]


def read_run(folder: Path) -> tuple[dict[str, Any], Samples]:
    """The results of a run directory, and the samples of each task by doc and filter."""
    results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    samples: Samples = {}
    for path in folder.glob("samples_*.jsonl"):
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        samples[path.stem.removeprefix("samples_")] = {(row["doc_id"], row["filter"]): row for row in rows}
    return results, samples


def compare(theirs: dict[str, Any], results: dict[str, Any], samples: Samples, *, group_errors: bool) -> Counter[str]:
    """How much was compared, by kind. What is not the same is an `AssertionError` that says where.

    Members of groups are called `group::task` by 0.5. Errors of groups are compared where asked: 0.5 pools those of an
    unweighted mean, which ours and 0.4's do not.
    """
    counts: Counter[str] = Counter()
    for name, rows in theirs["samples"].items():
        own = samples[name.rsplit("::", 1)[-1]]
        assert own.keys() == {(row["doc_id"], row["filter"]) for row in rows}, name
        for row in rows:
            counts.update(_compare_sample(name, row, own[row["doc_id"], row["filter"]]))
    for name, scores in theirs["results"].items():
        mine = results["results"][name.rsplit("::", 1)[-1]]
        for key, value in _numbers(scores, errors=group_errors or name in theirs["samples"]):
            assert _same(value, mine[key]), f"{name}: {key} is {value} there and {mine[key]} here"
            counts["results"] += 1
    return counts


def _compare_sample(name: str, theirs: dict[str, Any], mine: dict[str, Any]) -> Counter[str]:
    where = f"{name} doc {theirs['doc_id']} filter {theirs['filter']}"
    asked, own = _requests(theirs), _requests(mine)
    assert asked == own, where
    for metric in theirs["metrics"]:
        assert _same(theirs[metric], mine[metric]), f"{where}: {metric} {theirs[metric]} there, {mine[metric]} here"
    return Counter({"requests": len(asked), "scores": len(theirs["metrics"])})


def _requests(sample: dict[str, Any]) -> list[list[Any]]:
    """As they are sent. The one difference of form: a text that is scored whole is `("", text)` in 0.5."""
    found = sample["arguments"]
    if isinstance(found, dict):
        found = [[value for _, value in sorted(args.items())] for _, args in sorted(found.items())]
    plain = json.loads(json.dumps(found))
    return [args[1:] if len(args) == 2 and args[0] == "" and isinstance(args[1], str) else args for args in plain]


def _numbers(scores: dict[str, Any], *, errors: bool) -> Iterator[tuple[str, float]]:
    """Values, and errors of means: those of other aggregations are bootstrapped, and so differ with the draw."""
    means = ("acc", "acc_norm", "exact_match")
    for key, value in scores.items():
        metric, is_error, _ = key.partition("_stderr,")
        if isinstance(value, float) and (not is_error or (errors and metric in means)):
            yield key, value


def _same(theirs: Any, mine: Any) -> bool:
    """To the ninth digit; a list (of loglikelihood and length, say) by its parts."""
    if isinstance(theirs, list):
        return len(theirs) == len(mine) and all(map(_same, theirs, mine))
    return math.isclose(float(theirs), float(mine), rel_tol=1e-9, abs_tol=1e-9)
