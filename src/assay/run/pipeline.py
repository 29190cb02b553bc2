"""The run: plan → answer → score → summarize. Running, scoring again and a dry run differ in who answers."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing

from assay.config import RunConfig
from assay.results import RunResult, self_preference, shown_settings
from assay.run.answerers import Answerer
from assay.run.collect import Collector, RoleAnswers, collecting
from assay.run.doc_work import DocWork
from assay.run.journal import Journal, describe_environment
from assay.run.plan import Plan, windows
from assay.run.prefetch import answered_windows
from assay.run.progress import Observer
from assay.run.rounds import RoleAnswerers, answer_rounds
from assay.run.summarize import summarize
from assay.run.until import Watch, watches_for


def run_pipeline(
    plan: Plan,
    answerer: Answerer,
    config: RunConfig,
    journal: Journal,
    *,
    observer: Observer,
    answer_roles: RoleAnswers | None = None,
    others: RoleAnswerers | None = None,
    to_the_end: bool = False,
) -> RunResult:
    """Answer and score every doc of the plan, and say what the scores are worth.

    `others` answer rounds that are not for the model: tools, a simulated user. `to_the_end` is for docs that were answered
    already: `--until` then stops nowhere.
    """
    watches = watches_for(plan, config)
    with collecting(
        plan, config, journal.directory, score=not config.predict_only, answer_roles=answer_roles
    ) as collectors:
        waiting = next_windows(plan, answerer, collectors, watches, to_the_end=to_the_end)
        at_once = 1 if watches else answerer.windows_at_once  # what a watch requests next hangs on the scores
        with answered(plan, answerer, waiting, observer, at_once, others) as windows_in_order:
            for window in windows_in_order:
                score_window(window, collectors, observer)
    journal.lap("ask_and_score")
    observer.summarizing()
    tasks, groups, notes = summarize(plan, collectors, config, journal.directory, watches, answer_roles)
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
        notes=(*plan.notes, *notes, *self_preference(shown), *answerer.notes()),
        path=None if journal.directory is None else journal.directory.path,
    ).with_withheld()


def answer_all(plan: Plan, answerer: Answerer) -> None:
    """The same loop for an answerer whose answers are not scored: it counts, or compares, what it is given."""
    with answered(plan, answerer, windows(plan, answerer.window_requests), Observer(), 1) as windows_in_order:
        for _ in windows_in_order:
            pass


def answered(
    plan: Plan,
    answerer: Answerer,
    waiting: Iterable[list[DocWork]],
    observer: Observer,
    at_once: int,
    others: RoleAnswerers | None = None,
) -> closing[Generator[list[DocWork], None, None]]:
    """The loop: every window of docs when all its rounds are answered, in order; closed when it is left."""

    def answer(window: list[DocWork]) -> None:
        observer.sending(window)
        answer_rounds(plan, answerer, window, observer.answered, others or {})

    return closing(answered_windows(waiting, answer, answerer.cancel, at_once))


def next_windows(
    plan: Plan,
    answerer: Answerer,
    collectors: dict[str, Collector],
    watches: dict[str, Watch],
    *,
    to_the_end: bool = False,
) -> Iterator[list[DocWork]]:
    """Docs to answer next: all of them, or task by task until its watch has seen enough."""
    if not watches:
        yield from windows(plan, answerer.window_requests)
    for name, watch in watches.items():
        yield from watch.batches(collectors[name], to_the_end=to_the_end)


def score_window(window: list[DocWork], collectors: dict[str, Collector], observer: Observer) -> None:
    for task, docs in by_task(window).items():
        collectors[task].add(docs)
        observer.scored(task, collectors[task].running)


def by_task(window: list[DocWork]) -> dict[str, list[DocWork]]:
    docs: dict[str, list[DocWork]] = {}
    for work in window:
        docs.setdefault(work.task, []).append(work)
    return docs
