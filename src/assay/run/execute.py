"""The run itself: plan, ask, score, aggregate, a window of requests at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from assay.config import RunConfig
from assay.errors import ConfigError
from assay.metrics.sandbox import allow_unsafe_code
from assay.models import LM, LazyLM, load_model, spec_key
from assay.run.accumulate import Accumulator
from assay.run.aggregate import summarize
from assay.run.collector import rare_collections
from assay.run.control import draw_docs
from assay.run.directory import FORMAT, RunDirectory
from assay.run.environment import describe_environment, describe_model
from assay.run.executors import Executor, LocalExecutor
from assay.run.infer import Inference, Unit
from assay.run.interrupt import StopRequest
from assay.run.outcome import Outcome
from assay.run.plan import Plan, load_scoring_code, make_plan, seed_everything
from assay.run.progress import Counts, Progress, Quiet
from assay.run.samples import SampleWriter
from assay.run.until import Watch, watch_for
from assay.store import ResponseStore

if TYPE_CHECKING:
    from assay.tasks import TaskManager

WINDOW_REQUESTS = 16_384
"""Requests held in memory at once. Large enough that prefixes are shared, small enough that memory stays flat."""


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
        from assay.run.executors.ray import load_on_cluster

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
        with ExitStack() as stack:
            self.stop = stack.enter_context(StopRequest())
            stack.enter_context(rare_collections())
            seed_everything(self.config.seed)
            allow_unsafe_code(self.config.confirm_run_unsafe_code)
            self.progress.stage("loading the model")
            lm = self._load_model()
            if self.model is None:  # a model that was handed over may be used again by whoever did
                stack.callback(lm.close)
            self._lap("load_model")
            self.progress.stage("reading tasks")
            plan = draw_docs(make_plan(self.config, lm, self.manager), self.config)
            self.counts.docs_total = plan.doc_total()
            load_scoring_code(plan)
            self._lap("load_tasks")
            self.directory = RunDirectory.create(self.config, self._model_name())
            self._write_run(lm, status="running")
            store = self.store or stack.enter_context(ResponseStore(self.config.store, fresh=self.config.fresh, notify=self.progress.message))  # fmt: skip
            store.begin(run=str(self.directory.path) if self.directory else "", model=self._model_name())
            executor = self._executor(lm)
            accumulators = self._ask(plan, lm, executor, store)
            store.flush()
            return self._finish(plan, lm, accumulators)

    def _load_model(self) -> LM:
        if self.config.executor == "ray" and self.model is not None:
            from assay.run.executors.ray import ClusterLM

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
        accumulators = {name: self._accumulator(plan, name) for name in plan.tasks}
        inference = Inference(executor, store, lm.fingerprint(), fresh=self.config.fresh, stop=self.stop, progress=self.progress, counts=self.counts)  # fmt: skip
        try:
            if self.config.until:
                self._ask_until(plan, lm, inference, accumulators)
            else:
                # Many replicas need more at once, or each would get crumbs.
                for window in windows(plan, max(WINDOW_REQUESTS, getattr(lm, "window_requests", 0))):
                    self._answer(inference, lm, window, accumulators)
            for accumulator in accumulators.values():
                accumulator.finish()
        except BaseException:
            for accumulator in accumulators.values():
                accumulator.abandon()
            raise
        self._lap("ask_and_score")
        return accumulators

    def _ask_until(self, plan: Plan, lm: LM, inference: Inference, accumulators: dict[str, Accumulator]) -> None:
        for name, planned in plan.tasks.items():
            watch = watch_for(planned, self.config)
            watch.run(accumulators[name], lambda batch: self._answer(inference, lm, batch, accumulators), self.config.seed.fewshot)  # fmt: skip
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

    def _accumulator(self, plan: Plan, name: str) -> Accumulator:
        writer = SampleWriter(self.directory.sample_file(name)) if self.directory is not None else None
        return Accumulator(plan.tasks[name].task, writer, score=not self.config.predict_only, keep_hashes=self.config.control is not None)  # fmt: skip

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
        self._write_run(lm, status="finished")
        if self.directory is not None:
            (self.directory.path / "progress.json").unlink(missing_ok=True)
        return Outcome(
            config=self.config,
            tasks=tasks,
            groups=plan.groups,
            group_scores=group_scores,
            model=describe_model(lm, self.config, self._model_name()),
            environment=describe_environment(),
            counts=replace(self.counts),
            seconds=dict(self.seconds),
            date=self.began,
            directory=self.directory,
            stop_reasons={name: watch.reason for name, watch in self.watches.items() if watch.reason},
            notes=notes,
        )

    def _write_run(self, lm: LM, status: str) -> None:
        if self.directory is None:
            return
        self.directory.write_json(
            "run.json",
            {
                "format": FORMAT,
                "status": status,
                "config": self.config.model_dump(mode="json"),
                "model": describe_model(lm, self.config, self._model_name()),
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


def by_task(window: list[Unit]) -> dict[str, list[Unit]]:
    found: dict[str, list[Unit]] = {}
    for unit in window:
        found.setdefault(unit.task, []).append(unit)
    return found


def windows(plan: Plan, size: int = WINDOW_REQUESTS) -> Iterator[list[Unit]]:
    """All docs of all tasks, in order, cut so that about `size` requests are held at once.

    A quarter of them where every request has a doc and a prompt of its own: the choices of a question share theirs.
    """
    window: list[Unit] = []
    requests = 0
    for name, planned in plan.tasks.items():
        for doc in planned.task.iter_requests(planned.options):
            window.append(Unit(name, doc))
            requests += len(doc.instances)
            if requests >= size or len(window) >= size // 4:
                yield window
                window, requests = [], 0
    if window:
        yield window
