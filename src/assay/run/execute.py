"""The run itself: plan, ask, score, aggregate, a window of requests at a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from assay.config import RunConfig
from assay.errors import AssayError, ConfigError
from assay.metrics.sandbox import allow_unsafe_code
from assay.models import LM, LazyLM, load_model, spec_key
from assay.results.directory import LAYOUT, RunDirectory, recorded
from assay.run.accumulate import Accumulator, collecting
from assay.run.aggregate import summarize
from assay.run.collector import rare_collections
from assay.run.docs import WINDOW_REQUESTS, by_task, settle, windows
from assay.run.environment import describe_environment, describe_model
from assay.run.executors import Executor, LocalExecutor
from assay.run.infer import Inference, Unit
from assay.run.interrupt import Interrupted, StopRequest
from assay.run.outcome import Outcome
from assay.run.plan import Plan, load_scoring_code, make_plan, seed_everything
from assay.run.progress import Counts, Progress, Quiet
from assay.run.until import Watch, watch_for
from assay.store import ResponseStore

if TYPE_CHECKING:
    from assay.tasks import TaskManager


def execute(
    config: RunConfig,
    *,
    model: LM | object | None = None,
    progress: Progress | None = None,
    manager: TaskManager | None = None,
    store: ResponseStore | None = None,
) -> Outcome:
    """Evaluate. `model` and `store` may be given ready-made; else they are what the config names."""
    return _Run(config, model, progress or Quiet(), manager, store).execute()


def model_for(config: RunConfig, notify: Callable[[str], None] = lambda text: None) -> LM:
    """The model that a config names: on the cluster, loaded when first asked (local files), or loaded now."""
    if config.executor == "ray":
        from assay.cluster.lm import load_on_cluster

        return load_on_cluster(config, notify)
    words: dict[str, Any] = {
        "device": config.device,
        "batch_size": config.batch_size,
        "trust_remote_code": config.trust_remote_code,
    }
    key = None if config.apply_chat_template else spec_key(config.model, config.model_args, words)
    if key is None:
        return load_model(config.model, config.model_args, **words)
    return LazyLM(key, lambda: load_model(config.model, config.model_args, **words))


class _Run:
    """One evaluation under way."""

    def __init__(
        self,
        config: RunConfig,
        model: LM | object | None,
        progress: Progress,
        manager: TaskManager | None,
        store: ResponseStore | None,
    ) -> None:
        self.config, self.model, self.progress, self.manager, self.store = config, model, progress, manager, store
        self.counts = Counts()
        self.watches: dict[str, Watch] = {}
        self.began = time.time()
        self.seconds: dict[str, float] = {}
        self._mark = time.perf_counter()
        self._wrote_progress = 0.0
        self._shown: set[str] = set()

    def execute(self) -> Outcome:
        if self.config.run_dir is not None:
            RunDirectory(self.config.run_dir).require_same_run(self.config, self._model_name())
        with ExitStack() as stack:
            self.stop = stack.enter_context(StopRequest(self.progress.message))
            stack.enter_context(rare_collections())
            seed_everything(self.config.seed)
            allow_unsafe_code(self.config.confirm_run_unsafe_code)
            self.progress.stage("loading the model")
            lm = self._load_model()
            if self.model is None:  # a model that was handed over may be used again by whoever did
                stack.callback(lm.close)
            self._lap("load_model")
            self.progress.stage("reading tasks")
            plan = settle(make_plan(self.config, lm, self.manager), self.config)
            self.counts.docs_total = plan.doc_total()
            load_scoring_code(plan)
            self._lap("load_tasks")
            self.directory = RunDirectory.create(self.config, self._model_name())
            self.about = describe_model(lm, self.config, self._model_name())
            if self.directory is not None:
                self.directory.clear()
            self._write_run(status="running")
            try:
                return self._evaluate(plan, lm, stack)
            except BaseException as error:
                self._write_end(error)
                raise

    def _evaluate(self, plan: Plan, lm: LM, stack: ExitStack) -> Outcome:
        store = self.store or stack.enter_context(ResponseStore(self.config.store, fresh=self.config.fresh, notify=self.progress.message))  # fmt: skip
        store.begin(run=str(self.directory.path) if self.directory else "", model=self._model_name())
        accumulators = self._ask(plan, lm, self._executor(lm), store)
        store.flush()
        return self._finish(plan, lm, accumulators)

    def _load_model(self) -> LM:
        if self.config.executor == "ray" and self.model is not None:
            from assay.cluster.lm import ClusterLM

            if not isinstance(self.model, ClusterLM):
                raise ConfigError("a model object cannot be sent to a cluster", hint="Name it: path/to/file.py:Class.")
        if self.model is not None:
            return load_model(self.model, self.config.model_args)
        return model_for(self.config, self.progress.message)

    def _model_name(self) -> str:
        """What people call it: the checkpoint, the served model, the class, or the backend."""
        args = self.config.model_args
        handed_over = None if self.model is None else type(self.model).__name__
        return str(
            args.get("pretrained") or args.get("model") or handed_over or self.config.model.rpartition(".py:")[2]
        )

    def _executor(self, lm: LM) -> Executor:
        return LocalExecutor(lm, stop=self.stop)

    def _ask(self, plan: Plan, lm: LM, executor: Executor, store: ResponseStore) -> dict[str, Accumulator]:
        self.progress.stage("asking")
        inference = Inference(executor, store, lm.fingerprint(), fresh=self.config.fresh, stop=self.stop, progress=self.progress, counts=self.counts)  # fmt: skip
        with collecting(plan, self.config, self.directory, score=not self.config.predict_only) as accumulators:
            if self.config.until:
                self._ask_until(plan, lm, inference, accumulators)
            else:
                # Many replicas need more at once, or each would get crumbs.
                for window in windows(plan, max(WINDOW_REQUESTS, getattr(lm, "window_requests", 0))):
                    self._answer(inference, lm, window, accumulators)
        self._lap("ask_and_score")
        return accumulators

    def _ask_until(self, plan: Plan, lm: LM, inference: Inference, accumulators: dict[str, Accumulator]) -> None:
        for name, planned in plan.tasks.items():
            watch = watch_for(planned, self.config)
            watch.run(accumulators[name], lambda batch: self._answer(inference, lm, batch, accumulators))
            self.watches[name] = watch

    def _answer(self, inference: Inference, lm: LM, window: list[Unit], accumulators: dict[str, Accumulator]) -> None:
        def done(unit: Unit) -> None:
            self.counts.docs_done += 1
            self._show(lm)

        if self.config.write_out:
            self._write_out(window)
        inference.answer(window, done)
        for task, units in by_task(window).items():
            accumulators[task].add(units)
            if (running := accumulators[task].running) is not None:
                self.counts.running[task] = running
        self._show(lm, force=True)

    def _write_out(self, window: list[Unit]) -> None:
        """Show the first request of each task as the model gets it."""
        for unit in window:
            if unit.task not in self._shown:
                self._shown.add(unit.task)
                first, *rest = unit.requests.instances[0].arguments
                self.progress.message(f"── {unit.task}, doc {unit.requests.doc_id}\n{first}\n── then: {rest}; target: {unit.requests.target!r}")  # fmt: skip

    def _show(self, lm: LM, force: bool = False) -> None:
        now = time.monotonic()
        if not force and now - self._wrote_progress < 1.0:
            return
        if (usage := lm.usage) is not None:
            self.counts.tokens_asked, self.counts.tokens_computed = usage.prompt_tokens, usage.computed_tokens
            self.counts.cost = usage.cost
        if callable(status := getattr(lm, "status", None)):
            self.counts.replicas = status()
        self.progress.update(self.counts)
        if self.directory is not None and now - self._wrote_progress >= 1.0:
            self.directory.write_json("progress.json", {**asdict(self.counts), "updated": time.time()})
        self._wrote_progress = now

    def _finish(self, plan: Plan, lm: LM, accumulators: dict[str, Accumulator]) -> Outcome:
        self.progress.stage("computing error bars")
        tasks, group_scores, notes = summarize(plan, accumulators, self.config, self.directory, self.watches)
        self._lap("aggregate")
        self.seconds["total"] = time.time() - self.began
        self.about = describe_model(lm, self.config, self._model_name())
        self._write_run(status="finished")
        return Outcome(
            config=self.config,
            tasks=tasks,
            groups=plan.groups,
            group_scores=group_scores,
            model=self.about,
            environment=describe_environment(),
            counts=replace(self.counts),
            seconds=dict(self.seconds),
            date=self.began,
            directory=self.directory,
            stop_reasons={name: watch.reason for name, watch in self.watches.items() if watch.reason},
            notes=notes,
        )

    def _write_end(self, error: BaseException) -> None:
        """Say that the run ended before its time. The error that ended it is the one to show."""
        stopped = isinstance(error, Interrupted | KeyboardInterrupt)
        try:
            self._write_run(status="interrupted" if stopped else "failed")
        except AssayError as second:
            error.add_note(str(second))

    def _write_run(self, status: str) -> None:
        if self.directory is None:
            return
        if status != "running":
            (self.directory.path / "progress.json").unlink(missing_ok=True)
        self.directory.write_json(
            "run.json",
            {
                "format": LAYOUT,
                "status": status,
                "config": recorded(self.config),
                "model": self.about,
                "environment": describe_environment(),
                "date": self.began,
                "seconds": self.seconds,
                "counts": asdict(self.counts),
            },
        )

    def _lap(self, name: str) -> None:
        now = time.perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._mark
        self._mark = now
