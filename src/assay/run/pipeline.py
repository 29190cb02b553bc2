"""The run: plan → answer → score → summarize. Running, scoring again and a dry run differ in who answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing

from assay.config import RunConfig
from assay.results import RunResult, self_preference, shown_settings
from assay.run.ahead import answered_windows
from assay.run.answerers import Answerer
from assay.run.collect import AskRoles, Collector, collecting
from assay.run.journal import Journal, describe_environment
from assay.run.plan import Plan, windows
from assay.run.progress import Observer
from assay.run.summarize import summarize
from assay.run.units import Unit
from assay.run.until import Watch, watches_for


def run_pipeline(
    plan: Plan,
    answerer: Answerer,
    config: RunConfig,
    journal: Journal,
    *,
    observer: Observer,
    ask_roles: AskRoles | None = None,
    to_the_end: bool = False,
) -> RunResult:
    """Answer and score every doc of the plan, and say what the scores are worth.

    `to_the_end` is for docs that were asked already: `--until` then stops nowhere.
    """
    watches = watches_for(plan, config)
    with collecting(plan, config, journal.directory, score=not config.predict_only, ask_roles=ask_roles) as collectors:

        def answer(window: list[Unit]) -> None:
            observer.asking(window)
            answer_rounds(plan, answerer, window, observer.answered)

        windows = next_windows(plan, answerer, collectors, watches, to_the_end=to_the_end)
        at_once = 1 if watches else answerer.windows_at_once  # what a watch asks next hangs on the scores
        with closing(answered_windows(windows, answer, answerer.cancel, at_once)) as answered:
            for window in answered:
                score_window(window, collectors, observer)
    journal.lap("ask_and_score")
    observer.summarizing()
    tasks, groups, notes = summarize(plan, collectors, config, journal.directory, watches)
    journal.lap("aggregate")
    journal.seconds["total"] = time.time() - journal.began
    shown = shown_settings(config)
    return RunResult(
        tasks=tasks,
        groups=groups,
        roots=tuple(plan.groups.roots),
        model=journal.model,
        config=shown,
        environment=describe_environment(),
        date=journal.began,
        seconds=journal.seconds["total"],
        notes=(*notes, *self_preference(shown), *answerer.notes()),
        path=None if journal.directory is None else journal.directory.path,
    ).with_withheld()


def next_windows(
    plan: Plan,
    answerer: Answerer,
    collectors: dict[str, Collector],
    watches: dict[str, Watch],
    *,
    to_the_end: bool = False,
) -> Iterator[list[Unit]]:
    """Docs to answer next: all of them, or task by task until its watch has seen enough."""
    if not watches:
        yield from windows(plan, answerer.window_requests)
    for name, watch in watches.items():
        yield from watch.batches(collectors[name], to_the_end=to_the_end)


def answer_rounds(plan: Plan, answerer: Answerer, window: list[Unit], done: Callable[[Unit], None]) -> None:
    """Answer the docs of a window, and what their answers give rise to, until no task has a further request."""
    unfinished = window
    while unfinished:
        answerer.answer(unfinished, done)
        for unit in unfinished:
            unit.begin_round(plan.tasks[unit.task].task.next_requests(unit.requests) if unit.is_answered else [])
        unfinished = [unit for unit in unfinished if unit.round]
    answerer.check(window)


def score_window(window: list[Unit], collectors: dict[str, Collector], observer: Observer) -> None:
    for task, units in by_task(window).items():
        collectors[task].add(units)
        observer.scored(task, collectors[task].running)


def by_task(window: list[Unit]) -> dict[str, list[Unit]]:
    units: dict[str, list[Unit]] = {}
    for unit in window:
        units.setdefault(unit.task, []).append(unit)
    return units
