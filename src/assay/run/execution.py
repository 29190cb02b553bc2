"""Two ways into the pipeline: a model answers, or an earlier run's samples do."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import ExitStack
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Any

from assay.config import RunConfig
from assay.errors import ConfigError
from assay.instance import context_text
from assay.metrics import allow_unsafe_code
from assay.models import LM
from assay.results import RunDirectory, RunResult
from assay.run.answerers import ModelAnswerer
from assay.run.executors import cost_limit, is_known, model_for, model_name, ready_model
from assay.run.interrupt import StopRequest
from assay.run.journal import Journal, describe_model
from assay.run.kept import KeptAnswerer, KeptVerdicts
from assay.run.needs import check_needs, with_style
from assay.run.pipeline import run_pipeline
from assay.run.plan import (
    Plan,
    check_tasks,
    load_scoring_code,
    make_plan,
    manager_for,
    seed_everything,
    settle,
    settle_kept,
    with_docs,
)
from assay.run.progress import Counts, Observer, Progress, Quiet
from assay.run.reuse import ModelStore
from assay.run.roles import Roles
from assay.run.units import Unit
from assay.store import ResponseStore

if TYPE_CHECKING:
    from assay.data import Docs
    from assay.tasks import Loaded, TaskManager


def execute(
    config: RunConfig,
    *,
    model: LM | object | None = None,
    progress: Progress | None = None,
    manager: TaskManager | None = None,
    store: ResponseStore | None = None,
    ready: Loaded | None = None,
) -> RunResult:
    """Evaluate. `model`, `store` and some of the tasks may be given ready-made; else they are what the config names."""
    progress, name = progress or Quiet(), model_name(config, model)
    journal = Journal(config, Counts())
    _require_free(config, name)
    with ExitStack() as stack:
        stop = stack.enter_context(StopRequest(progress.message))
        prepare(config)
        progress.stage("checking tasks")
        manager = manager or manager_for(config)
        own = () if ready is None else ready.roots
        check_tasks(config, manager, ready=own)
        progress.stage("loading the model")
        lm = ready_model(config, model, progress.message)
        lm.cost_limit = limit = cost_limit(config, lm)
        if model is None:  # a model that was handed over may be used again by whoever did
            stack.callback(lm.close)
        journal.lap("load_model")
        progress.stage("reading tasks")
        if store is None:
            store = stack.enter_context(ResponseStore(config.store, fresh=config.fresh, notify=progress.message))
        config = journal.config = with_style(config, lm, manager, ready=own, store=store)
        plan = settled_plan(config, lm, manager, store, ready=ready)
        journal.counts.docs_total = plan.doc_total()
        journal.lap("load_tasks")
        journal.model = describe_model(lm, config, name, model)
        journal.directory = RunDirectory.create(config, name)
        if journal.directory is not None:
            stack.enter_context(journal.directory.alone())
            journal.directory.clear()
        with journal.under_way():
            run = str(journal.directory.path) if journal.directory else ""
            kept = ModelStore(store, lm, config, run=run, model=name, notify=progress.message)
            shared: dict[str, Any] = {"stop": stop, "progress": progress, "counts": journal.counts}
            known = kept if is_known(lm, progress) else None
            answerer = ModelAnswerer(
                lm, known, fresh=config.fresh, offline=config.offline, shuffle=config.shuffle, **shared
            )
            roles = Roles(
                config, store, run, load=lambda c: model_for(c, progress.message), stack=stack, limit=limit, **shared
            )
            progress.stage("asking")
            observer = RunObserver(lm, journal, progress)
            result = run_pipeline(plan, answerer, config, journal, observer=observer, ask_roles=roles.ask)
            store.flush()
            answers_from = "; ".join([kept.summary(journal.counts), *roles.summaries()])
            journal.extra |= {"answers_from": answers_from} | ({"roles": roles.spent()} if config.roles else {})
            journal.model = describe_model(
                lm, config, name, model
            )  # by now a model that loads late has said what it is
        return replace(result, model=journal.model, answers_from=answers_from)


def settled_plan(
    config: RunConfig, lm: LM, manager: TaskManager, store: ResponseStore, *, ready: Loaded | None
) -> Plan:
    """What is asked and how it is scored, with everything found wrong that can be found before the first request."""
    plan = make_plan(config, lm, manager, ready=ready)
    if not config.offline:
        check_needs(plan, lm, store)
    plan = settle(plan, config)
    load_scoring_code(plan, config)
    return plan


def _require_free(config: RunConfig, name: str) -> None:
    """Refuse a directory of another run, or one that a run is writing to, now rather than when a model is loaded."""
    if config.run_dir is not None:
        directory = RunDirectory(config.run_dir)
        directory.require_same_run(config, name)
        if directory.path.is_dir():
            with directory.alone():
                pass


def rescore(
    source: RunDirectory,
    config: RunConfig,
    *,
    target: RunDirectory | None = None,
    progress: Progress | None = None,
    kept_roles: Collection[str] = (),
    kept_only: bool = False,
    docs: Mapping[str, Docs] | None = None,
    manager: TaskManager | None = None,
) -> tuple[RunResult, dict[str, Any]]:
    """Score the responses of `source` under `config`, which may name other task files than the run did.

    No model is loaded, unless a scorer asks another one, such as a judge, something new. What the models of `kept_roles` said
    in `source` is taken as said. Comes with what was asked of each role. `kept_only` asks nobody anything. With `docs`, no
    dataset is read: these are the docs, and prompts are taken as kept.
    """
    progress = progress or Quiet()
    journal = Journal(config, Counts())
    journal.model = (source.read_json("run.json") or {}).get("model") or {"name": config.model, "args": {}}
    if target is not None:
        require_scores_of(target, config, source, journal.model["name"])
        target.clear()
    journal.directory = target
    with ExitStack() as stack:
        prepare(config)
        manager = manager or manager_for(config)
        if not kept_only:  # then the task files are a bundle's, and what they name may lie on another machine
            check_tasks(config, manager)
        plan = make_plan(config, None, manager, about=journal.model)
        plan, notes = settle_kept(plan if docs is None else with_docs(plan, docs), config, source)
        load_scoring_code(plan, config)
        journal.counts.docs_total = plan.doc_total()
        asks = bool(config.roles) and not kept_only
        store = ResponseStore(config.store, notify=progress.message) if asks else None
        # Judging again may take hours: it can be stopped, and what was said is kept.
        stop = stack.enter_context(StopRequest(progress.message)) if asks else lambda: False
        shared: dict[str, Any] = {"stop": stop, "progress": progress, "counts": journal.counts}
        roles = Roles(
            config,
            None if store is None else stack.enter_context(store),
            "" if target is None else str(target.path),
            load=lambda c: model_for(c, progress.message),
            stack=stack,
            kept=KeptVerdicts(source, kept_roles) if kept_roles else None,
            kept_only=kept_only,
            **shared,
        )
        rebuilt = docs is None and not config.apply_chat_template
        answerer = KeptAnswerer(source, rebuilt=rebuilt, strict=kept_only)
        observer = RescoreObserver(journal.counts, progress)
        result = run_pipeline(plan, answerer, config, journal, observer=observer, ask_roles=roles.ask, to_the_end=True)
        asked = roles.spent()
    return replace(result, notes=(*result.notes, *notes)), asked


def require_scores_of(target: RunDirectory, config: RunConfig, source: RunDirectory, model_name: str) -> None:
    """New scores go to a new directory, or over earlier ones of the same run and config; never over a run."""
    target.require_same_run(config, model_name)
    there = target.read_json("run.json")
    if there is not None and there.get("rescored_from") != str(source.path):
        raise ConfigError(
            f"{target.path} contains another run, not scores of {source.path}", hint="Use another --run_dir."
        )


def prepare(config: RunConfig) -> None:
    """Set what is global to the process: seeds, permission to run code."""
    seed_everything(config.seed)
    allow_unsafe_code(config.confirm_run_unsafe_code, config.sandbox)


# ---------------------------------------------------------------------- what is shown meanwhile


class RunObserver(Observer):
    """Tells the progress of a run to the screen, and writes it down."""

    def __init__(self, lm: LM, journal: Journal, progress: Progress) -> None:
        self.lm, self.journal, self.progress = lm, journal, progress
        self._shown: set[str] = set()
        self._lock = Lock()
        """Docs are answered on other threads while some are scored on this one."""

    def asking(self, window: list[Unit]) -> None:
        """With `--write_out`, show the first request of each task as the model gets it."""
        if not self.journal.config.write_out:
            return
        with self._lock:
            self._show_first(window)

    def _show_first(self, window: list[Unit]) -> None:
        for unit in window:
            if unit.task not in self._shown:
                self._shown.add(unit.task)
                doc = unit.requests
                first, *rest = doc.instances[0].arguments
                where = f"── {unit.task}, doc {doc.doc_id}"
                self.progress.message(f"{where}\n{context_text(first)}\n── then: {rest}; target: {doc.target!r}")

    def answered(self, unit: Unit) -> None:
        self.journal.counts.docs_done += unit.is_first_round  # the answerer's lock is held
        if self.journal.is_due:
            with self._lock:
                self._show()

    def scored(self, task: str, running: tuple[str, float, int] | None) -> None:
        with self._lock:
            if running is not None:
                self.journal.counts.running[task] = running
            self._show()

    def summarizing(self) -> None:
        self.progress.stage("computing error bars")

    def _show(self) -> None:
        counts = self.journal.counts
        if (usage := self.lm.usage) is not None:
            counts.tokens_asked, counts.tokens_computed = usage.prompt_tokens, usage.computed_tokens
            counts.cost = usage.cost
            counts.images, counts.image_bytes = usage.images, usage.image_bytes
        counts.replicas = self.lm.status() or ""
        self.progress.update(counts)
        self.journal.write_progress()


class RescoreObserver(Observer):
    """Nothing is asked: the docs are counted."""

    def __init__(self, counts: Counts, progress: Progress) -> None:
        self.counts, self.progress = counts, progress

    def answered(self, unit: Unit) -> None:
        self.counts.docs_done += unit.is_first_round
        self.counts.reused += len(unit.round)

    def scored(self, task: str, running: tuple[str, float, int] | None) -> None:
        self.progress.update(self.counts)
