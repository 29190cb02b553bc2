"""`assay ci`: more and more docs, until every rule is decided or the budget is used up."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from assay.comparison.ci.rules import RuleEvidence, decide
from assay.comparison.engine import compare_runs
from assay.comparison.gate import GateCheck, GateReport
from assay.comparison.model import CompareOptions, Comparison
from assay.comparison.noise_file import NoiseFile
from assay.comparison.runs import Columns, ComparedRun, SampleColumn, open_run
from assay.config import CIConfig, CIRule, RunConfig
from assay.errors import AssayError, ConfigError, did_you_mean
from assay.report import evaluate
from assay.results import matching, sanitize
from assay.run import Cell, draw_units, manager_for, model_for, units_of

FIRST_LOOK = 32
GROWTH = 2.0
SEED = "assay ci"


@dataclass(frozen=True)
class AskedDocs:
    """The docs of a task in the order in which CI asks them, and where a unit of docs ends."""

    order: tuple[int, ...]
    units: Mapping[int, int] | None

    def first(self, count: int) -> list[int]:
        """The first docs, whole units."""
        count = min(count, len(self.order))
        while 0 < count < len(self.order) and self.units is not None:
            if self.units[self.order[count]] != self.units[self.order[count - 1]]:
                break
            count += 1
        return list(self.order[:count])


@dataclass(frozen=True)
class CIPlan:
    """Everything that is known before the first request."""

    config: CIConfig
    models: Mapping[str, RunConfig]
    docs: Mapping[str, AskedDocs]
    baseline: ComparedRun | None
    noise: NoiseFile | None
    root: Path

    def rules_of(self, task: str) -> list[CIRule]:
        return [rule for rule in self.config.rules if rule.task in (None, task)]

    def most(self, task: str) -> int:
        there = len(self.docs[task].order)
        return there if self.config.budget.docs is None else min(there, self.config.budget.docs)


def plan_ci(config: CIConfig, path: Path, *, record: bool = False) -> CIPlan:
    """Find tasks, docs and baseline. Paths in the file are as seen from it."""
    here = path.parent
    models = {
        name: run.model_copy(update={"include_path": [str(here / each) for each in run.include_path]})
        for name, run in config.run_configs(path).items()
    }
    first = next(iter(models.values()))
    data_dir = Path(first.data_dir) if first.data_dir else None
    names = [str(here / name) if (here / name).is_file() else name for name in config.tasks]
    models = {name: run.model_copy(update={"tasks": names}) for name, run in models.items()}
    loaded = manager_for(first).load(names, data_dir=data_dir)
    for rule in config.rules:
        if rule.task is not None and rule.task not in loaded.tasks:
            group = "It is a group; name its tasks, or write `any task`." if rule.task in loaded.groups else None
            hint = group or did_you_mean(rule.task, loaded.tasks) or f"There are: {', '.join(loaded.tasks)}."
            raise ConfigError(f"{path}: the rule {rule.text!r} names no task of this file", hint=hint)
    docs = {}
    for name, task in loaded.tasks.items():
        ids = list(range(task.doc_count))
        units = units_of(task, ids)
        docs[name] = AskedDocs(tuple(draw_units(ids, units, len(ids), f"{SEED}:{name}")), units)
    baseline = None if record else _baseline(config, here, path)
    noise = None if config.noise is None else NoiseFile.load(here / config.noise)
    return CIPlan(config, models, docs, baseline, noise, here / config.output)


def _baseline(config: CIConfig, here: Path, path: Path) -> ComparedRun | None:
    needing = [rule for rule in config.rules if rule.needs_baseline]
    if config.baseline is None:
        if needing:
            raise ConfigError(
                f"{path}: the rule {needing[0].text!r} needs a baseline", hint="Add `baseline: DIRECTORY` to the file."
            )
        return None
    where = here / config.baseline
    if not where.exists():
        raise ConfigError(f"{path}: there is no baseline {where}", hint="`assay ci --record` creates it.")
    return open_run(where)


def record_baseline(plan: CIPlan, *, progress: Callable[[], Any]) -> Path:
    """Ask the first model what CI would ask at most, and keep it as the baseline."""
    if plan.config.baseline is None:
        raise ConfigError("--record: the file names no baseline", hint="Add `baseline: DIRECTORY` to it.")
    where = plan.root.parent / plan.config.baseline
    run = next(iter(plan.models.values()))
    samples = {task: sorted(docs.first(plan.most(task))) for task, docs in plan.docs.items()}
    _evaluate(run, samples, where, None, progress)
    return where


def _evaluate(
    run: RunConfig, samples: Mapping[str, list[int]], where: Path, lm: Any, progress: Callable[[], Any]
) -> None:
    places = {"samples": dict(samples), "run_dir": str(where), "output_path": None}
    config = run.model_copy(update=places)
    Cell(run.model, where.name, config).make_room()
    with progress() as shown:
        evaluate(config, model=lm, progress=shown)


def run_ci(plan: CIPlan, *, progress: Callable[[], Any], notify: Callable[[str], None]) -> dict[str, GateReport]:
    """One report per model. The remaining time is shared among the remaining models."""
    minutes = plan.config.budget.minutes
    ends = None if minutes is None else time.monotonic() + 60 * minutes
    reports = {}
    for number, (name, run) in enumerate(plan.models.items()):
        now = time.monotonic()
        until = None if ends is None else now + (ends - now) / (len(plan.models) - number)
        with closing(model_for(run)) as lm:
            reports[name] = _Looks(plan, name, run, lm, until, progress, notify).run()
    return reports


class _Looks:
    """One model: look after look."""

    def __init__(
        self,
        plan: CIPlan,
        name: str,
        run: RunConfig,
        lm: Any,
        until: float | None,
        progress: Callable[[], Any],
        notify: Callable[[str], None],
    ) -> None:
        self.plan, self.name, self.run_config, self.lm, self.until = plan, name, run, lm, until
        self.progress, self.notify = progress, notify
        self.asked = dict.fromkeys(plan.docs, 0)
        self.decided: dict[tuple[str, str], GateCheck] = {}
        self.cost = 0.0
        self.rate = 0.0
        """Seconds a doc took."""

    def run(self) -> GateReport:
        look, why = 0, ""
        while True:
            sizes = self._next_sizes()
            if not sizes:
                why = why or "every rule is decided or the docs of the budget are used up"
                break
            look += 1
            before, began = sum(self.asked.values()), time.monotonic()
            latest = self._ask(sizes, look)
            fresh = max(1, sum(self.asked.values()) - before)
            self.rate = (time.monotonic() - began) / fresh
            checks = self._checks(latest, last=False)
            opened = sum(check.outcome == "cannot tell" for check in checks)
            docs = ", ".join(f"{task} {count:,}" for task, count in self.asked.items())
            self.notify(
                f"{self.name}: look {look} at {docs} docs: {len(checks) - opened} of {len(checks)} rules decided"
            )
            if not opened:
                break
        if not look:
            raise ConfigError("the budget does not allow a single doc", hint="Raise `docs`, `minutes` or `cost`.")
        checks = self._checks(latest, last=True)
        notes = [
            f"docs asked: {', '.join(f'{task} {count:,} of {len(self.plan.docs[task].order):,}' for task, count in self.asked.items())}"
        ]
        if self.until is not None and time.monotonic() + self.rate * FIRST_LOOK > self.until:
            notes.append(f"the budget of {self.plan.config.budget.minutes:g} minutes ran out")
        return GateReport(tuple(checks), tuple(notes), self._comparison(latest))

    def _next_sizes(self) -> dict[str, int]:
        """More docs of the tasks with open rules: twice as many, or as many as the time allows; nothing when that is little."""
        open_tasks = [
            task for task in self.plan.docs if self._is_open(task) and self.asked[task] < self.plan.most(task)
        ]
        if not open_tasks:
            return {}
        sizes = {
            task: min(self.plan.most(task), max(FIRST_LOOK, int(self.asked[task] * GROWTH))) for task in open_tasks
        }
        more = sum(sizes[task] - self.asked[task] for task in open_tasks)
        share = 1.0
        if self.until is not None and self.rate:
            share = min(share, (self.until - time.monotonic()) / (self.rate * more))
        limit = self.plan.config.budget.cost
        if limit is not None and self.cost:
            share = min(share, (limit - self.cost) / (self.cost / sum(self.asked.values()) * more))
        grown = {task: self.asked[task] + int(share * (sizes[task] - self.asked[task])) for task in open_tasks}
        if (
            sum(self.asked.values())
            and share < 1
            and sum(grown.values()) < 1.1 * sum(self.asked[t] for t in open_tasks)
        ):
            return {}
        return grown

    def _is_open(self, task: str) -> bool:
        return any((task, rule.text) not in self.decided for rule in self.plan.rules_of(task))

    def _ask(self, sizes: Mapping[str, int], look: int) -> ComparedRun:
        samples = {}
        for task, docs in self.plan.docs.items():
            ids = docs.first(sizes.get(task, self.asked[task]))
            self.asked[task] = len(ids)
            samples[task] = sorted(ids)
        where = self.plan.root / sanitize(self.name) / f"look-{look}"
        run = self.run_config
        if self.plan.config.budget.cost is not None:
            run = run.model_copy(update={"max_cost": self.plan.config.budget.cost})
        _evaluate(run, samples, where, self.lm, self.progress)
        usage = self.lm.usage
        self.cost = 0.0 if usage is None or usage.cost is None else float(usage.cost)
        return open_run(where)

    def _checks(self, latest: ComparedRun, *, last: bool) -> list[GateCheck]:
        """One check a rule and task. What was decided at a look stays decided: it was shown at that look."""
        checks = []
        for task in self.plan.docs:
            columns = latest.columns(task)
            for rule in self.plan.rules_of(task):
                known = self.decided.get((task, rule.text))
                check = known or decide(rule, self._evidence(rule, task, columns), self.plan.config.alpha, last=last)
                if check.outcome != "cannot tell" and not last:
                    self.decided[task, rule.text] = check
                checks.append(check)
        return checks

    def _evidence(self, rule: CIRule, task: str, columns: Columns) -> RuleEvidence:
        numeric = [key for key, column in columns.items() if column.is_numeric]
        keys = numeric[:1] if rule.metric is None else matching(rule.metric, numeric)
        if not keys:
            known = ", ".join(map(str, numeric)) or "none"
            raise ConfigError(
                f"the rule {rule.text!r}: {task} has no metric {rule.metric or ''}", hint=f"It has {known}."
            )
        before: SampleColumn | None = None
        if self.plan.baseline is not None and task in self.plan.baseline.tasks:
            before = self.plan.baseline.columns(task).get(keys[0])
        place = {doc: at for at, doc in enumerate(self.plan.docs[task].order)}
        return RuleEvidence(task, columns[keys[0]], before, place, self.plan.noise)

    def _comparison(self, latest: ComparedRun) -> Comparison | None:
        """For the docs that are newly wrong."""
        if self.plan.baseline is None:
            return None
        try:
            (comparison,) = compare_runs([self.plan.baseline, latest], CompareOptions(ignore_prompts=True))
        except AssayError:  # nothing in common: the checks say so already
            return None
        return comparison


def joined(reports: Mapping[str, GateReport]) -> GateReport:
    """All models in one report, each check under its model's name where there are several."""
    if len(reports) == 1:
        return next(iter(reports.values()))
    checks: list[GateCheck] = []
    notes: list[str] = []
    for name, report in reports.items():
        checks += [replace(check, name=f"{name} · {check.name}") for check in report.checks]
        notes += [f"{name}: {note}" for note in report.notes]
    return GateReport(tuple(checks), tuple(notes))
