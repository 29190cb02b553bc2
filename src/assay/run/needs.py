"""What tasks need and a model lacks: refused before the first request, with what would work instead."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from assay.config import RunConfig
from assay.errors import ConfigError
from assay.run.plan import Plan, manager_for
from assay.tasks import Task, TaskManager

if TYPE_CHECKING:
    from assay.models import LM, Capabilities

_SCORED = ("multiple_choice", "loglikelihood", "loglikelihood_rolling")


def check_needs(plan: Plan, lm: LM) -> None:
    """Raise for the first task that the model cannot be asked. A server is probed only if some task needs it to be."""
    for planned in plan.tasks.values():
        if planned.task.config.doc_to_audio is not None:
            raise ConfigError(
                f"{planned.name} needs sound (doc_to_audio), which no backend sends",
                hint="Leave the task out; without its sound the score would mean nothing.",
            )
    if any(needs(planned.task) for planned in plan.tasks.values()):
        able = lm.capabilities()
        for planned in plan.tasks.values():
            for problem in problems(planned.task, planned.name, able):
                raise problem


def needs(task: Task) -> bool:
    return task.config.output_type in (*_SCORED, "letters") or task.config.doc_to_image is not None


def problems(task: Task, name: str, able: Capabilities) -> Iterator[ConfigError]:
    output_type = task.config.output_type
    if output_type in _SCORED and not able.likelihoods:
        yield ConfigError(f"{name} needs likelihoods, which this model does not give", hint=instead(task, name, able))
    if output_type == "letters" and not able.likelihoods and not able.top_logprobs:
        yield ConfigError(
            f"{name} needs the probabilities of the likeliest tokens (top_logprobs), which this model does not give",
            hint=f"Try {name.replace(':letters', ':gen')} or {name.replace(':letters', ':cot')}.",
        )
    if task.config.doc_to_image is not None and not able.images:
        yield ConfigError(
            f"{name} shows images (doc_to_image), which this model does not take",
            hint="Use local-chat-completions or openai-chat-completions with a model that sees.",
        )


def instead(task: Task, name: str, able: Capabilities) -> str:
    if task.config.output_type != "multiple_choice":
        return "Choose tasks that generate (assay ls tasks shows the type), or a backend such as hf or vllm."
    forms = ["gen", "cot", *(["letters"] if able.top_logprobs else [])]
    base, *parts = name.split(":")
    shots = [part for part in parts if part.endswith("shot")]
    names = [":".join([base, form, *shots]) for form in forms]
    return f"Try {', '.join(names[:-1])} or {names[-1]}; --style auto chooses for every choice task."


def with_style(
    config: RunConfig, lm: LM, manager: TaskManager | None = None, *, ready: Collection[str] = ()
) -> RunConfig:
    """`--style auto`: choice tasks in the form that the model can answer. Their rows carry the form's name."""
    if config.style != "auto":
        return config
    able = lm.capabilities()
    if able.likelihoods:
        return config
    form = "letters" if able.top_logprobs else "gen"
    manager = manager or manager_for(config)
    names = [name if name in ready else _named(name, form, manager) for name in config.tasks]
    return config.model_copy(update={"tasks": names})


def _named(name: str, form: str, manager: TaskManager) -> str:
    types = {task.config.output_type for task in manager.load([name]).tasks.values()}
    if "multiple_choice" not in types:
        return name
    if types != {"multiple_choice"}:
        raise ConfigError(
            f"--style auto: {name} holds choice tasks and others ({', '.join(sorted(types))}), and a form is given to all",
            hint="Name its tasks one by one.",
        )
    return f"{name}:{form}"
