"""What a run will request: tasks with the run's overrides, their groups, how each is worded, about which docs."""

from __future__ import annotations

import os
import random
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from assay.agents import BranchPoint
from assay.config import Origin, RunConfig, as_one_name
from assay.data import doc_hash
from assay.errors import ConfigError, ConfigWarning, DataError, did_you_mean
from assay.groups import GroupManager, read_size
from assay.metrics import find_sandbox
from assay.request_types import request_type_of
from assay.results import AppliedOverlay, RunDirectory, read_columns
from assay.run.doc_work import DocWork
from assay.run.overlays import put_under, require_all
from assay.stats import cluster_key, doc_key, is_missing_label, unit_index, unit_keys
from assay.tasks import (
    ASKED_FLOORS,
    BLIND,
    NO_CONTEXT,
    DocRequests,
    Loaded,
    RequestOptions,
    Task,
    TaskManager,
    check_docs,
    check_floors,
    floor_task,
    is_apt,
    read_overlay,
    says_how_to_generate,
    shuffle_of,
)

if TYPE_CHECKING:
    from assay.data import Docs
    from assay.models import LM


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


def settle(plan: Plan, config: RunConfig) -> Plan:
    """The plan with its docs. Loads every dataset, so that a missing one is found before the first request."""
    settled = {name: _settled(planned, config) for name, planned in plan.tasks.items() if name not in plan.floor_tasks}
    settled = under_overlays(settled, config, is_part=plan.is_part)
    remarks: dict[str, list[str]] = {}
    for name, planned in settled.items():
        for remark in check_docs(planned.task, plan.origins.get(name), planned.options):
            remarks.setdefault(remark, []).append(name)
    notes = [
        f"{', '.join(names[:5])}{f' and {len(names) - 5} more' if names[5:] else ''}: {remark}"
        for remark, names in remarks.items()
    ]
    floors = {
        name: each
        for name, each in plan.floor_tasks.items()
        if is_apt(each.floor, settled[each.of].task, settled[each.of].doc_ids)
    }
    for name, (of, _) in floors.items():
        plan.tasks[name].task.corrections = settled[of].task.corrections
        settled[name] = replace(settled[of], task=plan.tasks[name].task)
    return replace(plan, tasks=settled, notes=tuple(notes), floor_tasks=floors)


def under_overlays(tasks: Mapping[str, PlannedTask], config: RunConfig, *, is_part: bool) -> dict[str, PlannedTask]:
    """The tasks under the run's overlays. `is_part`: a run's own docs stand for the dataset, so that some may not be there."""
    overlays = [*map(read_overlay, config.overlay)]
    under = {name: put_under(each.task, each.options, each.doc_ids, overlays) for name, each in tasks.items()}
    if not is_part:
        require_all(overlays, under)
    made = dict(tasks)
    for name, found in under.items():
        if found.applied:
            planned, out = tasks[name], found.left_out
            ids = [doc_id for doc_id in planned.doc_ids if doc_id not in out]
            size = None if planned.size is None else planned.size - len(out)
            made[name] = replace(planned, doc_ids=ids, size=size, left_out=out, overlays=found.applied)
    return made


def _settled(planned: PlannedTask, config: RunConfig) -> PlannedTask:
    """`--until`, a limit with `--control` and one with `--sample random` take docs at random: the first ones are no sample of the
    whole. Every task has its own draw, so a group's tasks are strata; a larger limit draws the same docs and more.

    Shots are then those of a run over all docs, so that answers are shared with it.
    """
    ids = planned.task.select_ids(planned.options)
    if config.until is None and config.limit is None:
        return replace(planned, doc_ids=ids)
    options, seed = replace(planned.options, limit=None), f"{config.seed.fewshot}:{planned.name}"
    all_ids = planned.task.select_ids(options)
    if config.until is None and config.sample == "random":
        by_hash = sorted(all_ids, key=lambda doc_id: sha256(f"{seed}:{doc_id}".encode()).digest())
        return replace(planned, options=options, doc_ids=sorted(by_hash[: len(ids)]), size=len(all_ids))
    if config.until is None and config.control is None:
        return replace(planned, doc_ids=ids, size=len(all_ids))
    if config.until is None:
        drawn = sorted(draw_units(all_ids, None, len(ids), seed))
        return replace(planned, options=options, doc_ids=drawn, size=len(all_ids))
    units = units_of(planned.task, all_ids)
    drawn = draw_units(all_ids, units, len(ids), seed)
    return replace(planned, options=options, doc_ids=drawn, units=units, size=len(all_ids))


def with_docs(plan: Plan, docs: Mapping[str, Docs]) -> Plan:
    """The plan with these docs in place of what the tasks' datasets hold.

    There is then nothing to draw shots from: prompts have to be taken as they were stored.
    """
    tasks = {}
    for name, planned in plan.tasks.items():
        task = planned.task
        task.config = task.config.override(num_fewshot=0)
        task.eval_docs = docs[name]
        tasks[name] = replace(planned, options=replace(planned.options, num_fewshot=0))
    return replace(plan, tasks=tasks, is_part=True)


def settle_stored(plan: Plan, config: RunConfig, source: RunDirectory) -> tuple[Plan, list[str]]:
    """The plan with the docs that a run stored, in its order, and what is to be said about others."""
    tasks, notes = {}, []
    configs = (source.read_json("results.json") or {}).get("configs", {})
    for name, planned in plan.tasks.items():
        # By all docs of the split, of which there may be only some now.
        if (shuffle := shuffle_of(planned.task.config)) is not None and name in configs:
            shuffle.settle(bool(configs[name].get("shuffle_choices")))
    for name, planned in settle(plan, config).tasks.items():
        stored = _stored_ids(source, planned)
        there = set(planned.task.select_ids(planned.options))
        gone = [doc_id for doc_id in stored if doc_id not in there]
        there -= planned.left_out
        new = [] if config.until else sorted(set(planned.doc_ids).difference(stored))
        for ids, reason in ((gone, "the task no longer has"), (new, "the run did not ask")):
            if ids:
                shown = ", ".join(map(str, ids[:5])) + (", …" if len(ids) > 5 else "")
                notes.append(f"{name}: {reason} {len(ids)} docs ({shown}); they are left out")
        tasks[name] = replace(planned, doc_ids=[doc_id for doc_id in stored if doc_id in there])
    return replace(plan, tasks=tasks), notes


def _stored_ids(source: RunDirectory, planned: PlannedTask) -> list[int]:
    path = source.sample_file(planned.name)
    if path.is_file():
        return list(dict.fromkeys(doc_id for (doc_id,) in read_columns(path, ["doc_id"])))
    if not planned.doc_ids:
        return []
    raise ConfigError(
        f"{source.path} kept no samples of {planned.name!r}", hint="Name tasks that the run evaluated, or run it."
    )


def windows(plan: Plan, size: int) -> Iterator[list[DocWork]]:
    """All docs of all tasks, in order, cut so that about `size` requests are held at once.

    A quarter of them where every request has a doc and a prompt of its own: the choices of a question share theirs.
    """
    window: list[DocWork] = []
    requests = 0
    for name, planned in plan.tasks.items():
        for doc in planned.requests():
            window.append(DocWork(name, doc))
            requests += len(doc.instances)
            if requests >= size or len(window) >= size // 4:
                yield window
                window.clear()  # let go of what was scored before the next docs are read
                requests = 0
    if window:
        yield window


# Docs in a random order, unit by unit: docs of a cluster, and docs of equal content, are sent one after the other.


def units_of(task: Task, doc_ids: Sequence[int]) -> Mapping[int, int] | None:
    """The unit of each doc; None where every doc stands alone."""
    column, wanted = task.config.cluster, set(doc_ids)
    docs = [(doc_id, doc) for doc_id, doc in enumerate(task.eval_docs) if doc_id in wanted]
    keys = np.array([doc_key(doc_hash(doc)) for _, doc in docs], dtype=np.uint64)
    clusters = None
    if column:
        for doc_id, doc in docs:
            require_label(task.task_name, doc_id, column, doc)
        clusters = np.array([cluster_key(column, doc[column]) for _, doc in docs], dtype=np.uint64)
    index = unit_index(unit_keys(keys, clusters))
    return None if index is None else dict(zip((doc_id for doc_id, _ in docs), index.tolist(), strict=True))


def require_label(task: str, doc_id: int, column: str, doc: Mapping[str, object]) -> None:
    """A doc without the label of its cluster would be counted as what it is not."""
    if is_missing_label(doc.get(column)):
        found = repr(doc[column]) if column in doc else "no such field"
        raise DataError(
            f"task {task!r}, doc {doc_id}: `cluster: {column}` finds {found}",
            hint="Every doc needs a cluster label; fill it in with process_docs, or remove `cluster`.",
        )


def draw_units(doc_ids: Sequence[int], units: Mapping[int, int] | None, most: int, seed: str) -> list[int]:
    """At most so many docs, whole units in a random order."""
    generator = random.Random(seed)
    if units is None:
        return generator.sample(doc_ids, most)
    members: dict[int, list[int]] = {}
    for doc_id in doc_ids:
        members.setdefault(units[doc_id], []).append(doc_id)
    drawn: list[int] = []
    for unit in generator.sample(list(members), len(members)):
        if drawn and len(drawn) + len(members[unit]) > most:
            break
        drawn += members[unit]
    return drawn
