"""`simple_evaluate` as scripts for lm-evaluation-harness call it: its arguments, its dictionary, our run."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable
from importlib.util import find_spec
from typing import Any

from assay.compat.lm_eval.flags import NOT_NEEDED
from assay.errors import ConfigError, ConfigWarning
from assay.evaluation import evaluate
from assay.finished import open_run, sample_objects
from assay.results import RunResult
from assay.tasks import TaskManager

_SEEDS = {"random_seed": 0, "numpy_random_seed": 1234, "torch_random_seed": 1234, "fewshot_random_seed": 1234}
_UNNEEDED = {flag.removeprefix("--"): why for flag, why in NOT_NEEDED.items() if flag.startswith("--")}
_UNNEEDED |= dict.fromkeys(["rewrite_requests_cache", "delete_requests_cache"], _UNNEEDED["cache_requests"])


def simple_evaluate(
    model: Any,
    model_args: str | dict[str, Any] | None = None,
    tasks: Iterable[Any] | None = None,
    *,
    log_samples: bool = True,
    evaluation_tracker: Any = None,
    task_manager: Any = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """What `lm_eval.simple_evaluate` returns: `results`, `configs`, `versions`, `n-shot`, `n-samples`, …, and `samples` by task.

        results = assay.simple_evaluate(model="hf", model_args="pretrained=gpt2", tasks=["arc_easy"], limit=100)
        results["results"]["arc_easy"]["acc,none"]

    With lm-evaluation-harness installed, its task files are found too. `task_manager` may be its manager or ours. Fields of a
    `RunConfig` (`run_dir`, `data_dir`, …) are taken like its own arguments. `results["assay"]` has the intervals.
    """
    if not tasks:
        raise ConfigError("simple_evaluate: no tasks", hint='Name some: tasks=["arc_easy"].')
    seeds = [kwargs.pop(name, default) for name, default in _SEEDS.items()]
    for name in [name for name in kwargs if name in _UNNEEDED]:
        if kwargs.pop(name):
            warnings.warn(f"simple_evaluate: {name} is not needed: {_UNNEEDED[name]}", ConfigWarning, stacklevel=2)
    fields = {name: value for name, value in kwargs.items() if value is not None}
    if not fields.get("apply_chat_template"):
        fields.pop("fewshot_as_multiturn", None)  # on there by default, and without effect
    if model_args is not None and isinstance(model, str):
        fields["model_args"] = model_args
    manager = task_manager if isinstance(task_manager, TaskManager) else None
    if manager is None:
        fields = _fields_of(task_manager) | fields
    result = evaluate(model=model, tasks=[*tasks], manager=manager, seed=",".join(map(str, seeds)), **fields)
    if evaluation_tracker is not None:
        evaluation_tracker.general_config_tracker.log_experiment_args(
            model_source=model if isinstance(model, str) else "CUSTOM",
            model_args=model_args or "",
            system_instruction=fields.get("system_instruction"),
            chat_template=result.model.get("chat_template") if fields.get("apply_chat_template") else None,
            fewshot_as_multiturn=fields.get("fewshot_as_multiturn", True),
        )
    return as_dictionary(result, log_samples=log_samples or bool(fields.get("predict_only")))


def _fields_of(task_manager: Any) -> dict[str, Any]:
    """The settings that say the same as a manager of lm-evaluation-harness, which may be absent."""
    theirs = {name: getattr(task_manager, name, None) for name in ("include_path", "metadata")}
    found = {name: value for name, value in theirs.items() if value}
    return found | ({"lm_eval": True} if find_spec("lm_eval") is not None else {})


def as_dictionary(result: RunResult, *, log_samples: bool) -> dict[str, Any]:
    """The results file, read; with samples as that harness has them in memory."""
    found: dict[str, Any] = json.loads(json.dumps(result.to_dict()))
    if log_samples and result.place is not None:
        run = open_run(result.place)
        found["samples"] = {task: [*map(_as_logged, sample_objects(run, task))] for task in result.tasks}
    return found


def _as_logged(sample: dict[str, Any]) -> dict[str, Any]:
    """Files name the arguments of requests; in memory they are tuples."""
    return {**sample, "arguments": [tuple(each.values()) for each in sample["arguments"].values()]}
