"""`assay.compare`: two runs from Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from assay.analyses.compare.engine import compare_runs
from assay.analyses.compare.model import CompareOptions, Comparison
from assay.errors import ConfigError
from assay.finished import Run, open_run
from assay.results import RunResult


def compare(
    a: RunResult | str | Path, b: RunResult | str | Path, options: CompareOptions | None = None, **fields: Any
) -> Comparison:
    """Is B better than A? Two results of `evaluate`, or two paths of runs of any harness.

    before = assay.evaluate(model="hf", model_args="pretrained=small", tasks=["demo"])
    after = assay.evaluate(model="hf", model_args="pretrained=large", tasks=["demo"])
    assay.compare(before, after, margin=0.02)

    `fields` are those of `CompareOptions`: tasks, metric, margin, alpha, unpaired, ignore_prompts, bootstrap_iters, noise.
    """
    (comparison,) = compare_runs([_opened(a, "a"), _opened(b, "b")], CompareOptions.made(options, fields))
    return comparison


def _opened(given: RunResult | str | Path, name: str) -> Run:
    if isinstance(given, RunResult):
        if given.place is None:
            raise ConfigError(
                f"compare: the docs of {name} were not stored, but runs are compared doc by doc",
                hint="Use evaluate(…, run_dir=…).",
            )
        return open_run(given.place)
    if not isinstance(given, str | Path):
        raise ConfigError(f"compare: {name} is a {type(given).__name__}", hint="Pass a result, or the path of a run.")
    return open_run(given)
