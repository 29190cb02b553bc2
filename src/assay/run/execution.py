"""The ways into the pipeline: a model answers, an earlier run's samples do, or some of its docs are sent again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Any

from assay.config import RunConfig
from assay.errors import ConfigError
from assay.instance import context_text
from assay.models import LM
from assay.results import RunDirectory, RunResult
from assay.run.answerers import ModelAnswerer, ModelStore
from assay.run.branching import Branch
from assay.run.doc_work import DocWork
from assay.run.extending import ExtendingAnswerer
from assay.run.journal import Journal, describe_model
from assay.run.pipeline import answer_all, run_pipeline
from assay.run.prepare import Earlier, cost_limit, is_known, model_for, model_name, prepare, ready_model
from assay.run.progress import Counts, Observer, Progress, Quiet, StopRequest
from assay.run.roles import Roles
from assay.run.stored import AgainAnswerer, AskedAgain, StoredAnswerer, StoredVerdicts
from assay.run.tool_answers import ToolAnswerer
from assay.run.watching import watched
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
    scratch: RunDirectory | None = None,
) -> RunResult:
    """Evaluate. `model`, `store` and some of the tasks may be given ready-made; else they are what the config names."""
    progress, name = progress or Quiet(), model_name(config, model)
    journal = Journal(config, Counts())
    _require_free(config, name)
    branch = None if config.branch is None else Branch.open(config.branch, config)
    with ExitStack() as stack:
        progress = stack.enter_context(watched(progress))
        stop = stack.enter_context(StopRequest(progress.message))

        def load() -> LM:
            lm = ready_model(config, model, progress.message)
            lm.cost_limit = cost_limit(config, lm)
            stack.callback(keep_logs, lm)
            if model is None:  # a model that was handed over may be used again by whoever did
                stack.callback(lm.close)
            return lm

        def keep_logs(lm: LM) -> None:
            if journal.directory is not None:
                journal.directory.keep_logs(lm.logs)

        prepared = prepare(
            config, stack, progress, load=load, store=store, manager=manager, ready=ready, lap=journal.lap
        )
        config, plan, lm = prepared.config, prepared.plan, prepared.model
        if branch is not None:
            plan = branch.of(plan)
        store = prepared.store
        assert store is not None
        journal.config, journal.counts.docs_total = config, plan.doc_total()
        journal.model = describe_model(lm, config, name, model)
        journal.directory = RunDirectory.create(config, name) or scratch
        if journal.directory is not None:
            stack.enter_context(journal.directory.alone())
            journal.directory.clear()
        with journal.under_way():
            run = str(journal.directory.path) if journal.directory else ""
            own = ModelStore(store, lm, config, run=run, model=name, notify=progress.message)
            shared: dict[str, Any] = {"stop": stop, "progress": progress, "counts": journal.counts}
            answerer = ModelAnswerer(
                lm,
                own if is_known(lm, progress) else None,
                fresh=config.fresh,
                offline=config.offline,
                shuffle=config.shuffle,
                **shared,
            )
            asked = answerer if config.extend is None else ExtendingAnswerer.open(config.extend, answerer, lm)
            roles = Roles(config, store, run, load=model_for, stack=stack, limit=lm.cost_limit, **shared)
            progress.stage("asking")
            observer = RunObserver(lm, journal, progress)
            tools = ToolAnswerer(store, lm.fingerprint(), run=run, replay_outside=config.replay_outside)
            others = {"tool": tools.answer, **dict.fromkeys(config.roles, roles.answer_round)}
            result = run_pipeline(
                plan, asked, config, journal, observer=observer, answer_roles=roles.answer, others=others
            )
            store.flush()
            answers_from = "; ".join(filter(None, [own.summary(journal.counts), *roles.summaries(), tools.summary()]))
            journal.extra |= {"answers_from": answers_from} | ({"roles": roles.spent()} if config.roles else {})
            # By now a model that loads late has said what it is.
            journal.model = describe_model(lm, config, name, model)
        return replace(result, model=journal.model, answers_from=answers_from)


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

    No model is loaded, unless a scorer has something new for another one, such as a judge. What the models of `kept_roles` said
    in `source` is taken as said. Comes with what was requested of each role. `kept_only` requests nothing of anybody. With
    `docs`, no dataset is read: these are the docs, and prompts are taken as stored.
    """
    progress = progress or Quiet()
    earlier = Earlier(source, docs, is_sealed=kept_only)
    journal = Journal(config, Counts())
    journal.model = earlier.model or {"name": config.model, "args": {}}
    if target is not None:
        require_scores_of(target, config, source, journal.model["name"])
        target.clear()
    journal.directory = target
    with ExitStack() as stack:
        progress = stack.enter_context(watched(progress))
        prepared = prepare(config, stack, progress, manager=manager, earlier=earlier)
        journal.counts.docs_total = prepared.plan.doc_total()
        sends = bool(config.roles) and not kept_only
        store = stack.enter_context(ResponseStore(config.store, notify=progress.message)) if sends else None
        # Judging again may take hours: it can be stopped, and what was said is stored.
        stop = stack.enter_context(StopRequest(progress.message)) if sends else lambda: False
        roles = Roles(
            config,
            store,
            "" if target is None else str(target.path),
            load=model_for,
            stack=stack,
            stored=StoredVerdicts(source, kept_roles) if kept_roles else None,
            stored_only=kept_only,
            stop=stop,
            progress=progress,
            counts=journal.counts,
        )
        rebuilt = docs is None and not config.apply_chat_template
        answerer = StoredAnswerer(source, rebuilt=rebuilt, strict=kept_only)
        observer = RescoreObserver(journal.counts, progress)
        result = run_pipeline(
            prepared.plan, answerer, config, journal, observer=observer, answer_roles=roles.answer, to_the_end=True
        )
        spent = roles.spent()
    return replace(result, notes=(*result.notes, *prepared.notes)), spent


def reask(
    source: RunDirectory,
    config: RunConfig,
    lm: LM,
    chosen: Mapping[str, Sequence[int]],
    *,
    replays: int,
    docs: Mapping[str, Docs] | None = None,
    manager: TaskManager | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> list[AskedAgain]:
    """Send the first round of these docs again, `replays` times, past the store.

    With `docs` the prompts are those that the run stored; else they are built from the dataset, with the model's chat template.
    """
    earlier = None if docs is None else Earlier(source, docs, is_sealed=True)
    with ExitStack() as stack:
        prepared = prepare(config, stack, Quiet(), load=lambda: lm, manager=manager, earlier=earlier, scores=False)
        tasks = {task: replace(prepared.plan.tasks[task], doc_ids=sorted(ids)) for task, ids in chosen.items()}
        answerer = AgainAnswerer(lm, source, replays=replays, as_stored=docs is not None, stop=stop)
        answer_all(replace(prepared.plan, tasks=tasks), answerer)
    return answerer.found


def require_scores_of(target: RunDirectory, config: RunConfig, source: RunDirectory, model_name: str) -> None:
    """New scores go to a new directory, or over earlier ones of the same run and config; never over a run."""
    target.require_same_run(config, model_name)
    there = target.read_json("run.json")
    if there is not None and there.get("rescored_from") != str(source.path):
        raise ConfigError(
            f"{target.path} contains another run, not scores of {source.path}", hint="Use another --run_dir."
        )


# ---------------------------------------------------------------------- what is shown meanwhile


class RunObserver(Observer):
    """Tells the progress of a run to the screen, and writes it down."""

    def __init__(self, lm: LM, journal: Journal, progress: Progress) -> None:
        self.lm, self.journal, self.progress = lm, journal, progress
        self._shown: set[str] = set()
        self._lock = Lock()
        """Docs are answered on other threads while some are scored on this one."""

    def sending(self, window: list[DocWork]) -> None:
        """Name the tasks; with `--write_out`, show the first request of each as the model gets it."""
        first, *more = dict.fromkeys(work.task for work in window)
        with self._lock:
            self.journal.counts.sending = f"{first} and {len(more)} more" if more else first
            self._show()
            if self.journal.config.write_out:
                self._show_first(window)

    def _show_first(self, window: list[DocWork]) -> None:
        for work in window:
            if work.task not in self._shown:
                self._shown.add(work.task)
                doc = work.requests
                first, *rest = doc.instances[0].arguments
                where = f"── {work.task}, doc {doc.doc_id}"
                self.progress.message(f"{where}\n{context_text(first)}\n── then: {rest}; target: {doc.target!r}")

    def answered(self, work: DocWork) -> None:
        self.journal.counts.docs_done += work.is_first_round  # the answerer's lock is held
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
    """Nothing is sent: the docs are counted."""

    def __init__(self, counts: Counts, progress: Progress) -> None:
        self.counts, self.progress = counts, progress

    def answered(self, work: DocWork) -> None:
        self.counts.docs_done += work.is_first_round
        self.counts.reused += len(work.round)

    def scored(self, task: str, running: tuple[str, float, int] | None) -> None:
        self.progress.update(self.counts)
