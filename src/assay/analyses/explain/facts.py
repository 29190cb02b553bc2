"""What the configs of two runs say of themselves, field by field."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assay.analyses.explain.causes import Hints
from assay.finished import Run

_OF_MODEL = {"model": "model", "base_url": "server", "peft": "adapter"}
"""Arguments of models by a name that says more."""
_NOT_ANSWERS = {
    *("pretrained", "trust_remote_code", "token", "cache_dir", "offload_folder", "device", "threads"),
    *("api_key", "header", "verify_certificate", "batch_size", "max_batch_size", "num_concurrent"),
    *("max_retries", "timeout"),
}
"""Arguments that no answer depends on; and the model's name, which is compared by itself."""
_NOT_SCORES = {"metadata", "task_alias", "dataset_kwargs", "description_hash", "config_source", "tag", "group"}
_OF_RUN = (
    "branch",
    "at",
    "replace",
    "system_instruction",
    "apply_chat_template",
    "fewshot_as_multiturn",
    "num_fewshot",
    "gen_kwargs",
    "limit",
    "seed",
)


@dataclass(frozen=True)
class FieldDifference:
    """One field that the configs have otherwise."""

    name: str
    a: Any
    b: Any


def hints_of(a: Run, b: Run, task: str) -> Hints:
    configs = [run.result.tasks[task].config for run in (a, b)]
    shots = [_shots(run, config) for run, config in zip((a, b), configs, strict=True)]
    system = [
        str(_replaced(run) or run.result.config.get("system_instruction") or config.get("description") or "")
        for run, config in zip((a, b), configs, strict=True)
    ]
    return Hints((shots[0], shots[1]), (system[0], system[1]))


def _replaced(run: Run) -> Any:
    """The system text that a branch has in place of all others."""
    return (run.result.config.get("replace") or {}).get("system")


def _shots(run: Run, config: Mapping[str, Any]) -> int | None:
    given = run.result.config.get("num_fewshot")
    shots = given if given is not None else config.get("num_fewshot")
    return shots if isinstance(shots, int) else None


def settings_of(cause: str, a: Run, b: Run, task: str) -> str:
    """What the two runs say of a cause, as `0 → 3`; empty where no field says it, or both say the same."""
    if cause == "shots":
        sides: list[Any] = list(hints_of(a, b, task).shots)
    elif cause == "stop strings":
        sides = [(run.result.tasks[task].config.get("generation_kwargs") or {}).get("until") for run in (a, b)]
    else:
        return ""
    if None in sides or sides[0] == sides[1]:
        return ""
    return " → ".join(json.dumps(side, ensure_ascii=False) for side in sides)


def config_differences(a: Run, b: Run, task: str) -> list[FieldDifference]:
    """Fields of the task, of the run and of the model that differ; a field that one format lacks is no difference."""
    one, other = (run.result.tasks[task].config for run in (a, b))
    found = [
        FieldDifference(f"task.{name}", one[name], other[name])
        for name in one
        if name in other and name not in _NOT_SCORES and one[name] != other[name]
    ]
    for name in _OF_RUN:
        left, right = a.result.config.get(name), b.result.config.get(name)
        if left != right and name in a.result.config and name in b.result.config:
            found.append(FieldDifference(f"run.{name}", left, right))
    return found + [FieldDifference(f"model.{name}", x, y) for name, (x, y) in _model_facts(a, b).items()]


def model_differences(a: Run, b: Run, *, names_only: bool = False) -> list[str]:
    """What may make two runs answer the same request otherwise, in words; with `names_only`, that they are two models.

    Formats name models in their own ways, so a name is compared by its last part.
    """
    found = _model_facts(a, b)
    return [f"{name} {x} → {y}" for name, (x, y) in found.items() if not names_only or name == "model"]


def _model_facts(a: Run, b: Run) -> dict[str, tuple[str, str]]:
    facts = [_facts(run) for run in (a, b)]
    if a.format == b.format:  # what one run was not told it had by default
        told = dict.fromkeys([*_arguments(a), *_arguments(b)])
        facts = [dict.fromkeys(told, "not set") | each for each in facts]
    names = [name for name in facts[0] if name in facts[1] and facts[0][name] != facts[1][name]]
    return {name: (facts[0][name], facts[1][name]) for name in names}


def _facts(run: Run) -> dict[str, str]:
    about, result = run.result.model, run.result
    facts: dict[str, str] = {"harness": run.format}
    if result.model_name:
        facts["model"] = result.model_name.rstrip("/").split("/")[-1]
    facts |= _arguments(run)
    backend = about.get("backend") or result.config.get("model")
    if backend:
        facts["backend"] = str(backend)
    if about.get("fingerprint"):
        facts["fingerprint"] = str(about["fingerprint"])[:12]
    for package in ("torch", "transformers", "vllm", "assay"):
        version = (
            (result.environment.get("packages") or {}).get(package)
            if isinstance(result.environment.get("packages"), Mapping)
            else None
        )
        if version:
            facts[package] = str(version)
    return facts


def _arguments(run: Run) -> dict[str, str]:
    given = run.result.model.get("args") or run.result.config.get("model_args") or {}
    if not isinstance(given, Mapping):
        return {}
    told = {str(name): str(value).rstrip("/") for name, value in given.items() if name not in _NOT_ANSWERS}
    return {_OF_MODEL.get(name, name): value for name, value in told.items()}
