"""Which docs are asked about and in which order: one way from config to docs, for runs, forecasts and scoring again."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from assay.config import RunConfig
from assay.errors import ConfigError
from assay.results.directory import RunDirectory
from assay.results.samples import read_columns
from assay.run.infer import Unit
from assay.run.plan import Plan, PlannedTask

WINDOW_REQUESTS = 16_384
"""Requests held in memory at once. Large enough that prefixes are shared, small enough that memory stays flat."""


def settle(plan: Plan, config: RunConfig) -> Plan:
    """The plan with its docs. Loads every dataset, so that a missing one is found before the first request."""
    return replace(plan, tasks={name: _settled(planned, config) for name, planned in plan.tasks.items()})


def _settled(planned: PlannedTask, config: RunConfig) -> PlannedTask:
    """`--until`, and a limit with `--control`, take docs at random: the first ones are no sample of the whole.

    Shots are then those of a run over all docs, so that answers are shared with it.
    """
    ids = planned.task.select_ids(planned.options)
    if config.until is None and (config.control is None or config.limit is None):
        return replace(planned, doc_ids=ids)
    options = replace(planned.options, limit=None)
    drawn = random.Random(f"{config.seed.fewshot}:{planned.name}").sample(planned.task.select_ids(options), len(ids))
    return replace(planned, options=options, doc_ids=drawn if config.until else sorted(drawn))


def settle_kept(plan: Plan, config: RunConfig, source: RunDirectory) -> tuple[Plan, list[str]]:
    """The plan with the docs that a run kept, in the order it asked them, and what is to be said about others."""
    tasks, notes = {}, []
    for name, planned in settle(plan, config).tasks.items():
        kept = _kept_ids(source, planned)
        selected = planned.task.select_ids(planned.options)
        there = set(selected)
        gone = [doc_id for doc_id in kept if doc_id not in there]
        new = [] if config.until else sorted(set(planned.doc_ids).difference(kept))
        for ids, reason in ((gone, "the task no longer has"), (new, "the run did not ask about")):
            if ids:
                shown = ", ".join(map(str, ids[:5])) + (", …" if len(ids) > 5 else "")
                notes.append(f"{name}: {reason} {len(ids)} docs ({shown}); they are left out")
        tasks[name] = replace(planned, doc_ids=[doc_id for doc_id in kept if doc_id in there])
    return replace(plan, tasks=tasks), notes


def _kept_ids(source: RunDirectory, planned: PlannedTask) -> list[int]:
    path = source.sample_file(planned.name)
    if path.is_file():
        return list(dict.fromkeys(doc_id for (doc_id,) in read_columns(path, ["doc_id"])))
    if not planned.doc_ids:
        return []
    raise ConfigError(f"{source.path} kept no samples of {planned.name!r}", hint="Name tasks that the run evaluated, or run it.")  # fmt: skip


def windows(plan: Plan, size: int = WINDOW_REQUESTS) -> Iterator[list[Unit]]:
    """All docs of all tasks, in order, cut so that about `size` requests are held at once.

    A quarter of them where every request has a doc and a prompt of its own: the choices of a question share theirs.
    """
    window: list[Unit] = []
    requests = 0
    for name, planned in plan.tasks.items():
        for doc in planned.requests():
            window.append(Unit(name, doc))
            requests += len(doc.instances)
            if requests >= size or len(window) >= size // 4:
                yield window
                window, requests = [], 0
    if window:
        yield window


def by_task(window: list[Unit]) -> dict[str, list[Unit]]:
    found: dict[str, list[Unit]] = {}
    for unit in window:
        found.setdefault(unit.task, []).append(unit)
    return found
