"""What a run will ask: tasks with the run's overrides, their groups, and how each is to be asked."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.config import FunctionRef, RunConfig, Seeds
from assay.errors import ConfigError, did_you_mean
from assay.groups import GroupManager
from assay.scoring import ensembles_of, filters_of, resolve_metrics
from assay.tasks import DocRequests, RequestOptions, Task, TaskManager

if TYPE_CHECKING:
    from assay.models import LM


@dataclass(frozen=True)
class PlannedTask:
    """One task and how it is asked in this run."""

    task: Task
    options: RequestOptions
    shots: int
    doc_ids: Sequence[int] = ()
    """The docs to ask about, in the order of asking; they are known once the plan is settled."""

    @property
    def name(self) -> str:
        return self.task.task_name

    def requests(self) -> Iterator[DocRequests]:
        return self.task.iter_requests(replace(self.options, only=self.doc_ids))


@dataclass(frozen=True)
class Plan:
    tasks: dict[str, PlannedTask]
    groups: GroupManager

    def doc_total(self) -> int:
        """Docs to ask about, over all tasks."""
        return sum(len(planned.doc_ids) for planned in self.tasks.values())


def make_plan(config: RunConfig, lm: LM | None, manager: TaskManager | None = None) -> Plan:
    """Find the tasks and settle how each is asked. Reads no data."""
    if not config.tasks:
        raise ConfigError("no tasks given", hint="Name some with --tasks; `assay ls tasks` lists what there is.")
    manager = manager or TaskManager(
        include_path=config.include_path,
        include_defaults=config.include_defaults,
        lm_eval=config.lm_eval or None,
        metadata={**config.model_args, **config.metadata},
    )
    data_dir = Path(config.data_dir) if config.data_dir else None
    loaded = manager.load(config.tasks, data_dir=data_dir)
    groups = GroupManager.from_loaded(loaded, facts=facts_about(config, lm))
    if config.samples is not None:
        for name in config.samples:
            if name not in loaded.tasks:
                raise ConfigError(f"samples: {name!r} is not among the tasks of this run", hint=did_you_mean(name, loaded.tasks))  # fmt: skip
    chat = chat_template_of(config, lm)
    tasks = {name: plan_task(task, config, chat) for name, task in loaded.tasks.items() if name in groups.tasks}
    return Plan(tasks=tasks, groups=groups)


def plan_task(task: Task, config: RunConfig, chat: Callable[..., str] | None) -> PlannedTask:
    if task.config.unsafe_code and not config.confirm_run_unsafe_code:
        raise ConfigError(
            f"task {task.task_name!r} runs code written by the model",
            hint="Add --confirm_run_unsafe_code to run it in a sandbox (separate process, no network, limits).",
        )
    shots = shots_for(task, config)
    task.seeds = (config.seed.python, config.seed.numpy)
    options = RequestOptions(
        num_fewshot=shots,
        limit=config.limit,
        samples=None if config.samples is None else config.samples.get(task.task_name),
        system_instruction=config.system_instruction,
        apply_chat_template=bool(config.apply_chat_template),
        fewshot_as_multiturn=config.multiturn,
        chat_template=chat,
        fewshot_seed=config.seed.fewshot,
        gen_kwargs=config.gen_kwargs,
        repeats=config.repeats,
    )
    return PlannedTask(task=task, options=options, shots=shots)


def shots_for(task: Task, config: RunConfig) -> int:
    """The run's number, except that a task which fixes 0 keeps 0, and a variant (`gsm8k:8shot`) keeps its own."""
    own = task.config.num_fewshot
    fixed = own == 0 or task.fixes_shots
    return (own or 0) if config.num_fewshot is None or fixed else config.num_fewshot


def chat_template_of(config: RunConfig, lm: LM | None) -> Callable[..., str] | None:
    """The model's own template, or the one that was named; naming one that does not exist is an error of the model."""
    if not config.apply_chat_template or lm is None:
        return None
    lm.chat_template(config.apply_chat_template)
    return lm.apply_chat_template


def facts_about(config: RunConfig, lm: LM | None) -> dict[str, Any]:
    """What conditions of group members (`if: "model.params > 7e9"`) may ask."""
    params = getattr(lm, "num_parameters", None)
    return {
        "model": {
            "name": str(config.model_args.get("pretrained") or config.model),
            "backend": config.model,
            "params": params,
        },
        "run": {"num_fewshot": config.num_fewshot, "chat": bool(config.apply_chat_template), "limit": config.limit},
    }


def load_scoring_code(plan: Plan) -> None:
    """Import what tasks score with, so that a missing package is found before the first request, not after the last."""
    for planned in plan.tasks.values():
        config = planned.task.config
        ensembles_of(config)
        if isinstance(config.process_results, FunctionRef):
            config.process_results.load()
        elif config.process_results is None:
            for each in filters_of(config):
                resolve_metrics(config, each)


def seed_everything(seeds: Seeds) -> None:
    """Seed the global generators that task utilities use. Torch only if something has imported it."""
    import sys

    import numpy as np

    if seeds.python is not None:
        random.seed(seeds.python)
    if seeds.numpy is not None:
        np.random.seed(seeds.numpy)
    if seeds.torch is not None and "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seeds.torch)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
