"""Which docs a run sends: the plan with its datasets read, under `--limit`, `--samples`, `--sample`, overlays, or as an earlier run had them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np

from assay.config import RunConfig
from assay.data import doc_hash
from assay.errors import ConfigError, DataError
from assay.results import RunDirectory, read_columns
from assay.run.overlays import put_under, require_all
from assay.run.plan import Plan, PlannedTask
from assay.stats import cluster_key, doc_key, is_missing_label, unit_index, unit_keys
from assay.tasks import Task, check_docs, is_apt, read_overlay, shuffle_of

if TYPE_CHECKING:
    from assay.data import Docs


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
        task.eval_docs = docs[plan.floor_tasks[name].of if name in plan.floor_tasks else name]
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
    settled = settle(plan, config)
    for name, planned in settled.tasks.items():
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
    return replace(settled, tasks=tasks), notes


def _stored_ids(source: RunDirectory, planned: PlannedTask) -> list[int]:
    path = source.sample_file(planned.name)
    if path.is_file():
        return list(dict.fromkeys(doc_id for (doc_id,) in read_columns(path, ["doc_id"])))
    if not planned.doc_ids:
        return []
    raise ConfigError(
        f"{source.path} kept no samples of {planned.name!r}", hint="Name tasks that the run evaluated, or run it."
    )


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
