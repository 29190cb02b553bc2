"""What a run will request: tasks with the run's overrides, their groups, how each is worded, about which docs."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.agents import BranchPoint
from assay.config import Origin, RunConfig, as_one_name
from assay.errors import ConfigError, ConfigWarning, ScoringError, did_you_mean
from assay.groups import GroupManager, read_size
from assay.metrics import find_sandbox
from assay.request_types import request_type_of
from assay.results import AppliedOverlay
from assay.run.doc_work import DocWork
from assay.tasks import (
    ASKED_FLOORS,
    BLIND,
    NO_CONTEXT,
    DocRequests,
    Loaded,
    RequestOptions,
    Task,
    TaskManager,
    check_floors,
    floor_task,
    says_how_to_generate,
)

if TYPE_CHECKING:
    from assay.models import LM

MAY_HOLD_KEYS = ("agent", "class_config", "dataset_kwargs", "generation_kwargs", "metadata", "scorer")
"""Settings of a task that are handed on to others; all else in a task is text that a model sees."""


@dataclass(frozen=True)
class PlannedTask:
    """One task and how it is worded in this run."""

    task: Task
    options: RequestOptions
    shots: int
    doc_ids: Sequence[int] = ()
    """The docs to send, in their order; they are known once the plan is settled."""
    units: Mapping[int, int] | None = None
    """Which docs belong together, where docs are drawn; None where each stands alone."""
    size: int | None = None
    """Docs the number is about, where only a part of them is sent: the task's own size."""
    left_out: frozenset[int] = frozenset()
    """Docs that an overlay excludes."""
    overlays: tuple[AppliedOverlay, ...] = ()
    called: str = ""
    """How a command would name the task: by its file where its name is not registered."""

    @property
    def name(self) -> str:
        return self.task.task_name

    def requests(self) -> Iterator[DocRequests]:
        return self.task.iter_requests(replace(self.options, only=self.doc_ids))


class FloorTask(NamedTuple):
    """What a task is asked for that is there for a floor."""

    of: str
    floor: str


@dataclass(frozen=True)
class Plan:
    tasks: dict[str, PlannedTask]
    groups: GroupManager
    origins: Mapping[str, Mapping[str, Origin]] = field(default_factory=dict)
    """Where each field of each task was set."""
    notes: tuple[str, ...] = ()
    """What is to be said about the tasks' docs."""
    floor_tasks: Mapping[str, FloorTask] = field(default_factory=dict)
    """Tasks that are asked for a floor of another. They stand in no group, and no table has a row for them."""
    is_part: bool = False
    """Whether a run's own docs stand for the datasets."""

    branches: Callable[[DocWork], Sequence[BranchPoint]] | None = None
    """Where the trajectories of a doc leave those of a finished run, if this run is a branch of one."""

    def asked_of(self, name: str) -> str:
        """The task itself, or that for whose floor it is asked."""
        return self.floor_tasks[name].of if name in self.floor_tasks else name

    def doc_total(self) -> int:
        """Docs to send, over all tasks."""
        return sum(len(planned.doc_ids) for planned in self.tasks.values())


def make_plan(
    config: RunConfig,
    lm: LM | None,
    manager: TaskManager | None = None,
    *,
    about: Mapping[str, Any] | None = None,
    ready: Loaded | None = None,
) -> Plan:
    """Find the tasks and settle how each is worded. Reads no data.

    `about` is what an earlier run wrote down of its model; `ready` are tasks that are objects already, among those named.
    """
    manager = manager or manager_for(config)
    data_dir = Path(config.data_dir) if config.data_dir else None
    own = Loaded({}, {}, []) if ready is None else ready
    loaded = with_ready(manager.load([name for name in config.tasks if name not in own.roots], data_dir=data_dir), own)
    if own.roots:
        loaded.roots.sort(key=lambda name: config.tasks.index(name) if name in config.tasks else len(config.tasks))
    conditional = any(spec.conditions for spec in loaded.groups.values())
    groups = GroupManager.from_loaded(loaded, facts=facts_about(config, lm, about or {}) if conditional else {})
    if config.samples is not None:
        for name in config.samples:
            if name not in loaded.tasks:
                raise ConfigError(
                    f"samples: {name!r} is not among the tasks of this run", hint=did_you_mean(name, loaded.tasks)
                )
    chat = chat_template_of(config, lm)
    room = int((about or {}).get("max_gen_toks", 0)) if lm is None else lm.info().max_gen_toks
    prices = None if lm is None else lm.info().prices
    tasks = {
        name: replace(plan_task(task, config, chat, room, prices), called=called(task, manager))
        for name, task in loaded.tasks.items()
        if name in groups.tasks
    }
    asked, named = asked_floors(tasks, config)
    return Plan(tasks=tasks | asked, groups=groups, origins=loaded.origins, floor_tasks=named)


def asked_floors(
    tasks: Mapping[str, PlannedTask], config: RunConfig
) -> tuple[dict[str, PlannedTask], dict[str, FloorTask]]:
    """The variants of the tasks that `--floors` asks of the model. After `--until` they would stop at other docs."""
    check_floors(config.floors)
    planned: dict[str, PlannedTask] = {}
    named: dict[str, FloorTask] = {}
    wanted = [
        floor for floor in ASKED_FLOORS if floor in config.floors or (floor == BLIND and "default" in config.floors)
    ]
    if config.predict_only or config.until:
        return planned, named
    for (name, each), floor in product(tasks.items(), wanted):
        in_chat = bool(each.options.apply_chat_template)
        task = None if in_chat and floor == NO_CONTEXT else floor_task(each.task, floor)
        if task is not None:
            planned[task.task_name], named[task.task_name] = replace(each, task=task), FloorTask(name, floor)
    return planned, named


def called(task: Task, manager: TaskManager) -> str:
    bare = re.split("[:@]", task.task_name)[0]
    if task.task_file is None or bare in manager.entries:
        return task.task_name
    return as_one_name(f"{os.path.relpath(task.task_file)}{task.task_name[len(bare) :]}")


def manager_for(config: RunConfig) -> TaskManager:
    """What finds the tasks of a run."""
    return TaskManager(
        include_path=config.include_path,
        include_defaults=config.include_defaults,
        lm_eval=config.lm_eval or None,
        metadata={**config.model_args, **config.metadata},
    )


def with_ready(loaded: Loaded, own: Loaded) -> Loaded:
    """What was loaded by name, and what came as objects."""
    names = [*own.tasks, *own.groups]
    if clash := [name for name in names if name in loaded.tasks or name in loaded.groups]:
        raise ConfigError(f"there are two tasks named {clash[0]!r}", hint="Rename the object: Task(config, name=…).")
    return replace(
        loaded,
        tasks={**loaded.tasks, **own.tasks},
        groups={**loaded.groups, **own.groups},
        roots=[*loaded.roots, *own.roots],
    )


def plan_task(
    task: Task,
    config: RunConfig,
    chat: Callable[..., Any] | None,
    room: int = 0,
    prices: tuple[float, float] | None = None,
) -> PlannedTask:
    if task.config.unsafe_code and not config.confirm_run_unsafe_code:
        raise ConfigError(
            f"task {task.task_name!r} runs code written by the model",
            hint="Add --confirm_run_unsafe_code to run it in a sandbox (separate process, no network, limits).",
        )
    if task.config.unsafe_code and not config.predict_only:
        find_sandbox(config.sandbox).require_isolation()
    check_workspace(task, config)
    task.seeds = (config.seed.python, config.seed.numpy)
    options = RequestOptions(
        num_fewshot=config.num_fewshot,
        limit=config.limit,
        samples=None if config.samples is None else config.samples.get(task.task_name),
        system_instruction=config.system_instruction,
        system=config.replace.get("system"),
        apply_chat_template=bool(config.apply_chat_template),
        fewshot_as_multiturn=config.multiturn,
        chat_template=chat,
        fewshot_seed=config.seed.fewshot,
        gen_kwargs={**thinking_length(task, room), **config.gen_kwargs},
        repeats=config.repeats,
        prices=prices,
    )
    task.check_options(options)
    if (
        config.repeats and task.config.lm_eval_version == "0.5"
    ):  # there, how often a doc is drawn decides how it is scored
        task.config = task.config.override(repeats=config.repeats)
    shots = task.num_fewshot(options)
    if config.num_fewshot is not None and shots != config.num_fewshot and task.NEEDS_CONTEXT:
        what = f"task {task.task_name}: no effect: num_fewshot {config.num_fewshot}, because the task fixes {shots}"
        warnings.warn(what, ConfigWarning, stacklevel=2)
    return PlannedTask(task=task, options=options, shots=shots)


def check_workspace(task: Task, config: RunConfig) -> None:
    """Refuse an agent whose commands may not, or cannot, run here."""
    agent = task.config.agent
    if agent is None or not agent.has_workspace:
        return
    if not config.confirm_run_unsafe_code:
        raise ConfigError(
            f"task {task.task_name!r} runs commands that the model writes",
            hint="Add --confirm_run_unsafe_code to run them in a sandbox (separate processes, no network, limits).",
        )
    if agent.sandbox.network and not config.allow_network:
        raise ConfigError(
            f"task {task.task_name!r} lets commands of the model use the network",
            hint="Add --allow_network if you accept that.",
        )
    find_sandbox(config.sandbox).require_shells(agent.sandbox.image)


def check_own_workspaces(plan: Plan, config: RunConfig) -> None:
    """Refuse docs whose own sandbox cannot be had here."""
    for name, planned in plan.tasks.items():
        images: set[str] = set()
        for doc_id, workspace in planned.task.own_workspaces(planned.doc_ids):
            if workspace.network == "must" and not config.allow_network:
                raise ConfigError(
                    f"task {name!r}, doc {doc_id}: its sandbox cannot do without the network",
                    hint="Add --allow_network if you accept that.",
                )
            if workspace.image is not None and not images:
                images.add(workspace.image)
                try:
                    find_sandbox(config.sandbox).require_shells(workspace.image)
                except ScoringError as error:
                    raise ScoringError(f"task {name!r}, doc {doc_id}: {error.message}", hint=error.hint) from None


def thinking_length(task: Task, room: int) -> dict[str, Any]:
    """Room for the thoughts of a model that thinks, where the task says nothing of its answers' length."""
    row = request_type_of(task.config.output_type)
    if row is None or not row.is_text or says_how_to_generate(task.config):
        return {}
    usual = (task.config.generation_kwargs or {}).get("max_gen_toks", 0)
    return {"max_gen_toks": room} if room > usual else {}


def chat_template_of(config: RunConfig, lm: LM | None) -> Callable[..., Any] | None:
    """The model's own template, or the one that was named; naming one that does not exist is an error of the model."""
    if not config.apply_chat_template or lm is None:
        return None
    lm.chat_template(config.apply_chat_template)
    return lm.to_context


def facts_about(config: RunConfig, lm: LM | None, about: Mapping[str, Any]) -> dict[str, Any]:
    """What conditions of group members (`if: "model.params > 7e9"`) may look at: the model, the run, and all of `--metadata`.

    A size that was given goes before what the model says of itself.
    """
    given = {key: _as_size(value) for key, value in config.metadata.items()}
    sizes = (given[key] for key in ("model_size", "params", "num_parameters") if key in given)
    params = next(sizes, about.get("model_num_parameters") if lm is None else lm.parameter_count())
    return {
        "model_size": params,
        **given,
        "model": {
            "name": str(config.model_args.get("pretrained") or config.model),
            "backend": config.model,
            "params": params,
        },
        "run": {"num_fewshot": config.num_fewshot, "chat": bool(config.apply_chat_template), "limit": config.limit},
    }


def _as_size(value: Any) -> Any:
    size = read_size(value) if isinstance(value, str) else None
    return value if size is None else size


def windows(plan: Plan, size: int) -> Iterator[list[DocWork]]:
    """All docs of all tasks, in order, cut so that about `size` requests are held at once. What a doc is asked for floors stands beside
    it: they share their beginnings.

    A quarter of them where every request has a doc and a prompt of its own: the choices of a question share theirs.
    """
    window: list[DocWork] = []
    requests = 0
    for name, doc in _docs_with_floors(plan):
        window.append(DocWork(name, doc))
        requests += len(doc.instances)
        if requests >= size or len(window) >= size // 4:
            yield window
            window.clear()  # let go of what was scored before the next docs are read
            requests = 0
    if window:
        yield window


def _docs_with_floors(plan: Plan) -> Iterator[tuple[str, DocRequests]]:
    families: dict[str, list[str]] = {}
    for name in plan.tasks:
        families.setdefault(plan.asked_of(name), []).append(name)
    for names in families.values():
        for docs in zip_longest(*(plan.tasks[name].requests() for name in names)):
            yield from ((name, doc) for name, doc in zip(names, docs) if doc is not None)


# Docs in a random order, unit by unit: docs of a cluster, and docs of equal content, are sent one after the other.
