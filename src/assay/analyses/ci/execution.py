"""`assay ci`: more and more docs, until every rule is decided or the budget is used up."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from assay.analyses.ci.rules import RuleEvidence, decide, floor_checks
from assay.analyses.compare import CompareOptions, Comparison, compare_runs, repeatable_aggregation
from assay.analyses.gate import GateCheck, GateReport, noise_note
from assay.analyses.noise_file import NoiseFile
from assay.config import CIConfig, CIRule, RunConfig
from assay.data import doc_hash
from assay.errors import AssayError, ConfigError, did_you_mean
from assay.evaluation import evaluate
from assay.finished import Columns, DocColumn, Run, open_run
from assay.models import CostReached
from assay.results import MetricKey, matching, sanitize
from assay.run import Cell, draw_units, manager_for, model_for, units_of
from assay.stats import GateResult, content_key
from assay.tasks import Task

FIRST_LOOK = 32
TRIAL = 8
"""Docs of each task that tell what a doc takes, where there is a budget of minutes or cost."""
GROWTH = 2.0
WORTHWHILE = 1.1
"""Growth below which a further look is not worth its overhead."""
SEED = "assay ci"
MODEL_FILES = ("pretrained", "tokenizer", "peft", "delta", "text_file")
"""Arguments of models that may be paths."""


@dataclass(frozen=True)
class AskedDocs:
    """The docs of a task in the order in which CI asks them, and where a unit of docs ends."""

    order: tuple[int, ...]
    units: Mapping[int, int] | None

    @property
    def largest(self) -> int:
        """Docs in the largest unit."""
        return 1 if self.units is None else max(Counter(self.units.values()).values(), default=1)

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
    baseline: Run | None
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
    models = {name: _from_here(run, here) for name, run in config.run_configs(path).items()}
    places = {name: sanitize(name) for name in models}
    if shared := [name for name, place in places.items() if Counter(places.values())[place] > 1]:
        raise ConfigError(
            f"{path}: the models {' and '.join(map(repr, shared))} would be kept in one directory",
            hint="Give them names that differ in letters or digits.",
        )
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
    ruled = {rule.task for rule in config.rules}
    if idle := [name for name in loaded.tasks if not config.floors and not ruled & {None, name}]:
        hint = "Add one (`any task: …` is about all), or leave the task out."
        raise ConfigError(f"{path}: no rule is about the task {idle[0]!r}", hint=hint)
    docs = {}
    for name, task in loaded.tasks.items():
        ids = list(range(task.doc_count))
        units = units_of(task, ids)
        docs[name] = AskedDocs(tuple(draw_units(ids, units, len(ids), f"{SEED}:{name}")), units)
    baseline = None if record else _baseline(config, here, path)
    if baseline is not None:
        _require_shared_docs(config, baseline, loaded.tasks, path)
    noise = None if config.noise is None else NoiseFile.load(here / config.noise)
    return CIPlan(config, models, docs, baseline, noise, here / config.output)


def _from_here(run: RunConfig, here: Path) -> RunConfig:
    """Paths of a model's settings as seen from the file. What does not exist there may be a name on a hub, and stays."""

    def located(value: Any) -> Any:
        if not isinstance(value, str) or not value or here.samefile(Path.cwd()):
            return value
        return os.path.relpath(here / value) if (here / value).exists() else value

    file, is_class, name = run.model.rpartition(".py:") if isinstance(run.model, str) else ("", "", "")
    return run.model_copy(
        update={
            "include_path": [str(here / each) for each in run.include_path],
            "model": f"{located(f'{file}.py')}:{name}" if is_class else run.model,
            "model_args": {k: located(v) if k in MODEL_FILES else v for k, v in run.model_args.items()},
            "data_dir": located(run.data_dir),
        }
    )


def _baseline(config: CIConfig, here: Path, path: Path) -> Run | None:
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
    baseline = open_run(where)
    if needing:
        baseline.require("samples")
    return baseline


def _require_shared_docs(config: CIConfig, baseline: Run, tasks: Mapping[str, Task], path: Path) -> None:
    """A baseline on other data is known before anything is asked; docs are paired by content."""
    for rule in config.rules:
        for name in tasks if rule.task is None else [rule.task]:
            if rule.needs_baseline and name in baseline.tasks and (columns := baseline.columns(name)):
                theirs = next(iter(columns.values())).docs
                ours = np.array([content_key(doc_hash(doc)) for doc in tasks[name].eval_docs], dtype=np.uint64)
                if not np.isin(theirs, ours).any():
                    raise ConfigError(
                        f"{path}: the baseline {baseline.path} ({baseline.format}) has none of the docs of {name}",
                        hint="`assay ci --record` makes one. Docs are the same where their fields are; some harnesses log other fields.",
                    )


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
    """One report per model. The remaining time and cost are shared among the remaining models."""
    minutes, cost = plan.config.budget.minutes, plan.config.budget.cost
    ends = None if minutes is None else time.monotonic() + 60 * minutes
    reports = {}
    for number, (name, run) in enumerate(plan.models.items()):
        now, left = time.monotonic(), len(plan.models) - number
        until = None if ends is None else now + (ends - now) / left
        most = None if cost is None else cost / left
        with closing(model_for(run)) as lm:
            looks = _Looks(plan, name, run, lm, until, most, progress, notify)
            reports[name] = looks.run()
        if cost is not None:
            cost = max(0.0, cost - looks.cost)
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
        most_cost: float | None,
        progress: Callable[[], Any],
        notify: Callable[[str], None],
    ) -> None:
        self.plan, self.name, self.run_config, self.lm = plan, name, run, lm
        self.until, self.most_cost = until, most_cost
        self.progress, self.notify = progress, notify
        self.sent = dict.fromkeys(plan.docs, 0)
        self.decided: dict[tuple[str, str], GateCheck] = {}
        self.unchecked: dict[str, None] = {}
        """Notes on filters that a rule might have meant too."""
        self.cost = 0.0
        self.rate = 0.0
        """Seconds a doc took."""
        self.ended_by = ""
        """The part of the budget that allows no further look."""

    def run(self) -> GateReport:
        look, latest = 0, None
        while sizes := self._next_sizes():
            look += 1
            before, began = sum(self.sent.values()), time.monotonic()
            found = self._ask(sizes, look)
            if found is None:
                break
            latest = found
            self.rate = (time.monotonic() - began) / max(1, sum(self.sent.values()) - before)
            checks = self._checks(latest, last=False)
            opened = sum(check.outcome == "cannot tell" for check in checks) + len(self.plan.config.floors)
            docs = ", ".join(f"{task} {count:,}" for task, count in self.sent.items())
            decided = sum(check.outcome != "cannot tell" for check in checks)
            self.notify(f"{self.name}: {decided} of {len(checks)} rules decided after {docs} docs")
            if not opened:
                break
        if latest is None:
            return GateReport(tuple(self._unasked()), (f"the budget of {self.ended_by} allows no doc",))
        checks = [*self._checks(latest, last=True), *floor_checks(self.plan.config, latest)]
        return GateReport(tuple(checks), tuple(self._notes(latest)), self._comparisons(latest))

    def _notes(self, latest: Run) -> Iterator[str]:
        counts = (f"{task} {count:,} of {len(self.plan.docs[task].order):,}" for task, count in self.sent.items())
        yield f"docs asked: {', '.join(counts)}"
        if self.ended_by:
            yield f"the budget of {self.ended_by} ended it"
        yield from self.unchecked
        yield from noise_note(latest, self.plan.noise)
        if self.plan.noise is not None:
            there = {row.name for row in self.plan.noise.rows}
            for task in (task for task in self.plan.docs if task not in there):
                yield f"{task}: {self.plan.config.noise} does not have it, so no serving noise is included"

    def _unasked(self) -> Iterator[GateCheck]:
        for task in self.plan.docs:
            for rule in self.plan.rules_of(task):
                result = GateResult(False, None, rule.limit, self.plan.config.alpha, unclear=True)
                yield GateCheck(task, None, result, "the budget allows no doc", None, None, 0, rule.text)

    def _next_sizes(self) -> dict[str, int]:
        """More docs of the tasks with open rules: twice as many, or as many as time and cost allow; nothing when that is little."""
        open_tasks = [task for task in self.plan.docs if self._is_open(task) and self.sent[task] < self.plan.most(task)]
        if not open_tasks or self.ended_by:
            return {}
        now, sent = time.monotonic(), sum(self.sent.values())
        if self.until is not None and now >= self.until:
            self.ended_by = self._minutes()
            return {}
        unknown = not sent and (self.until is not None or self.most_cost is not None)
        least = TRIAL if unknown else FIRST_LOOK
        sizes = {task: min(self.plan.most(task), max(least, int(self.sent[task] * GROWTH))) for task in open_tasks}
        more = sum(sizes[task] - self.sent[task] for task in open_tasks)
        shares = {"": 1.0}
        if self.until is not None and self.rate:
            shares[self._minutes()] = (self.until - now) / (self.rate * more)
        if self.most_cost is not None and self.cost:
            shares[self._cost()] = (self.most_cost - self.cost) / (self.cost / sent * more)
        limit = min(shares, key=shares.__getitem__)
        grown = self._grown(sizes, shares[limit])
        if limit and not self._is_worthwhile(grown):
            self.ended_by = limit
            return {}
        return grown

    def _minutes(self) -> str:
        minutes = self.plan.config.budget.minutes
        return f"{minutes:g} minute{'' if minutes == 1 else 's'}"

    def _cost(self) -> str:
        return f"a cost of {self.plan.config.budget.cost:g}"

    def _grown(self, sizes: Mapping[str, int], share: float) -> dict[str, int]:
        return {task: self.sent[task] + int(share * (size - self.sent[task])) for task, size in sizes.items()}

    def _is_worthwhile(self, sizes: Mapping[str, int]) -> bool:
        """At least two docs of each task, and a tenth more than were sent already."""
        enough = all(size >= min(2, self.plan.most(task)) for task, size in sizes.items())
        return enough and sum(sizes.values()) >= WORTHWHILE * sum(self.sent[task] for task in sizes)

    def _is_open(self, task: str) -> bool:
        """Floors are looked at once, on all docs that the budget allows."""
        return bool(self.plan.config.floors) or any(
            (task, rule.text) not in self.decided for rule in self.plan.rules_of(task)
        )

    def _ask(self, sizes: Mapping[str, int], look: int) -> Run | None:
        """None where the cost does not allow these docs, nor the first half of them, nor the first quarter …

        What was answered before the limit was met is stored and costs nothing the second time.
        """
        while True:
            try:
                return self._answered(sizes, look)
            except CostReached:
                self.ended_by = self._cost()
                sizes = self._grown(sizes, 0.5)
                if not self._is_worthwhile(sizes):
                    return None
            finally:
                if self.lm.cost_limit is not None:
                    self.cost += self.lm.cost_limit.spent
                    self.lm.cost_limit = None

    def _answered(self, sizes: Mapping[str, int], look: int) -> Run:
        samples = {task: docs.first(sizes.get(task, self.sent[task])) for task, docs in self.plan.docs.items()}
        where = self.plan.root / sanitize(self.name) / f"look-{look}"
        run = self.run_config.model_copy(update={"floors": [*self.plan.config.floors]})
        if self.most_cost is not None:
            run = run.model_copy(update={"max_cost": max(0.0, self.most_cost - self.cost)})
        _evaluate(run, {task: sorted(ids) for task, ids in samples.items()}, where, self.lm, self.progress)
        self.sent = {task: len(ids) for task, ids in samples.items()}
        return open_run(where)

    def _checks(self, latest: Run, *, last: bool) -> list[GateCheck]:
        """One check a rule and task. What was decided at a look stays decided: it was shown at that look."""
        checks = []
        for task in self.plan.docs:
            for rule in self.plan.rules_of(task):
                known = self.decided.get((task, rule.text))
                check = known or decide(rule, self._evidence(rule, task, latest), self.plan.config.alpha, last=last)
                if check.outcome != "cannot tell" and not last:
                    self.decided[task, rule.text] = check
                checks.append(check)
        return checks

    def _evidence(self, rule: CIRule, task: str, latest: Run) -> RuleEvidence:
        columns = latest.columns(task)
        means = means_of(latest, task)
        keys = means if rule.metric is None else matching(rule.metric, means)
        if not keys:
            raise _no_mean(rule, task, columns, means)
        if others := [key for key in keys[1:] if key.metric == keys[0].metric]:
            named = ", ".join(map(str, others))
            note = f"{task}: {keys[0]} was checked, but not {named}; a rule can name METRIC,FILTER"
            self.unchecked.setdefault(note)
        before: DocColumn | None = None
        if self.plan.baseline is not None and task in self.plan.baseline.tasks:
            before = self.plan.baseline.columns(task).get(keys[0])
        place = {doc: at for at, doc in enumerate(self.plan.docs[task].order)}
        return RuleEvidence(task, columns[keys[0]], before, place, self.plan.noise, self.plan.docs[task].largest)

    def _comparisons(self, latest: Run) -> dict[str, Comparison]:
        """For the docs that are newly wrong."""
        if self.plan.baseline is None:
            return {}
        try:
            (comparison,) = compare_runs([self.plan.baseline, latest], CompareOptions(ignore_prompts=True))
        except AssayError:  # nothing in common: the checks say so already
            return {}
        return {"": comparison}


def means_of(run: Run, task: str) -> list[MetricKey]:
    """The metrics whose score is the mean of the docs' values; along the way no other number can be bounded."""
    return [
        key
        for key, column in run.columns(task).items()
        if column.is_numeric and repeatable_aggregation(column, run.score(task, key)) == "mean"
    ]


def _no_mean(rule: CIRule, task: str, columns: Columns, means: Sequence[MetricKey]) -> ConfigError:
    others = [] if rule.metric is None else matching(rule.metric, columns)
    if others or rule.metric is None:
        what = f"{task} {others[0]} is not" if others else f"no score of {task} is"
        hint = "`assay ci` checks means only; `assay gate RUN --baseline RUN` compares every score."
        return ConfigError(f"the rule {rule.text!r}: {what} a mean over docs", hint=hint)
    hint = f"It has {', '.join(map(str, means)) or 'none'}."
    return ConfigError(f"the rule {rule.text!r}: {task} has no metric {rule.metric}", hint=hint)


def joined(reports: Mapping[str, GateReport]) -> GateReport:
    """All models in one report, each check under its model's name where there are several."""
    if len(reports) == 1:
        return next(iter(reports.values()))
    checks: list[GateCheck] = []
    notes: list[str] = []
    comparisons: dict[str, Comparison] = {}
    for name, report in reports.items():
        checks += [replace(check, name=f"{name} · {check.name}") for check in report.checks]
        notes += [f"{name}: {note}" for note in report.notes]
        comparisons |= {f"{name} · {before}": comparison for before, comparison in report.comparisons.items()}
    return GateReport(tuple(checks), tuple(notes), comparisons)
