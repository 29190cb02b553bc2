"""May this run pass? Every number of a baseline, or of a list of thresholds, must hold.

A number may be shown to be good enough, shown not to be, or there are too few docs to tell.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

from assay.analyses.compare import CompareOptions, Comparison, ComparisonRow, compare_runs, repeatable_aggregation
from assay.analyses.gate.options import GateOptions
from assay.analyses.noise_file import NoiseFile
from assay.errors import ConfigError, did_you_mean
from assay.finished import Run, is_higher_better, open_results, open_run
from assay.metrics import AGGREGATIONS
from assay.paths import parse_json
from assay.results import MetricKey, Score, matching
from assay.scoring import estimate as estimate_of
from assay.stats import GateResult, above_threshold, non_inferiority, unpaired_difference

GateOutcome = Literal["passed", "failed", "cannot tell"]


@dataclass(frozen=True)
class GateCheck:
    """One number that must hold."""

    name: str
    key: MetricKey | None
    """None where a whole task or group could not be checked."""
    result: GateResult
    kind: str
    """`paired`, `unpaired`, `the same answers`, `threshold`, `newly wrong`, or why there is nothing to check: then it has failed."""
    value: float | None
    against: float | None
    n: int
    rule: str = ""
    """As `assay.yaml` has it."""

    @classmethod
    def failed(cls, name: str, key: MetricKey | None, reason: str, options: CompareOptions) -> GateCheck:
        """What has no number has not been shown to be good enough."""
        return cls(name, key, GateResult(False, None, -options.margin, options.alpha), reason, None, None, 0)

    @property
    def outcome(self) -> GateOutcome:
        return "passed" if self.result.passed else "cannot tell" if self.result.unclear else "failed"

    def line(self) -> str:
        """For the log of a build."""
        word = {"passed": "PASS", "failed": "FAIL", "cannot tell": "CANNOT TELL"}[self.outcome]
        return f"{word}  {self.name} {self.key or ''}".rstrip() + f": {self.reason}"

    @property
    def is_measured(self) -> bool:
        """Whether there are numbers; else `kind` says why there is nothing to check."""
        return self.kind in ("paired", "unpaired", "the same answers", "threshold", "newly wrong")

    @property
    def reason(self) -> str:
        """What was measured and what was required, or why there is nothing to check."""
        if not self.is_measured:
            return self.kind
        return "; ".join(part for part in (self._numbers(), self.too_few) if part)

    def _numbers(self) -> str:
        result, value = self.result, "undefined" if self.value is None else f"{self.value:.4f}"
        # Of what failed, the best that the data allow: it is this that lies beyond the limit.
        side = ", at best" if self.outcome == "failed" and result.best is not None else ""

        def bound(form: str, of: str = "") -> str:
            found = result.deciding_bound
            return "no error bar" if found is None else f"{1 - result.alpha:.0%} bound{of}{side} {found:{form}}"

        if self.kind == "newly wrong":
            share = "undefined" if self.value is None else f"{self.value:.2%}"
            return f"{share} of {self.n:,} docs newly wrong, {bound('.2%')}, at most {result.limit:.2%}"
        if self.kind == "threshold":
            return f"{value} (n = {self.n:,}), {bound('.4f')}, threshold {result.limit:g}"
        shown = bound("+.4f", " on the difference")
        return f"{value} vs {self.against:.4f} (n = {self.n:,}, {self.kind}), {shown}, margin {result.limit:+g}"

    @property
    def too_few(self) -> str:
        """Where it cannot be told: how many docs would tell."""
        needed = self.result.docs_needed
        if not self.result.unclear:
            return ""
        if needed is None:
            return f"cannot tell with {self.n:,} doc{'' if self.n == 1 else 's'}"
        return f"about {needed:,} docs would decide it, if the value stays the same"

    def to_dict(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "key": "" if self.key is None else str(self.key),
            "outcome": self.outcome,
            "reason": self.reason,
        }


@dataclass(frozen=True)
class GateReport:
    checks: tuple[GateCheck, ...]
    notes: tuple[str, ...] = ()
    comparisons: Mapping[str, Comparison] = field(default_factory=dict)
    """Where the baseline is a run: doc by doc, under what the names of its checks begin with (a model, where there are several)."""

    @property
    def outcome(self) -> GateOutcome:
        """One number that is not good enough fails the whole; one that cannot be told leaves it open."""
        outcomes = {check.outcome for check in self.checks} or {"failed"}
        return "failed" if "failed" in outcomes else "cannot tell" if "cannot tell" in outcomes else "passed"

    @property
    def passed(self) -> bool:
        return self.outcome == "passed"

    def to_dict(self) -> dict[str, Any]:
        return {
            "passed": self.passed,
            "outcome": self.outcome,
            "checks": [c.to_dict() for c in self.checks],
            "notes": list(self.notes),
        }

    def to_report(self, title: str, link: str | None) -> dict[str, Any]:
        """What `assay show --schema gate` describes."""
        return {"format": 1, "title": title, "link": link, **self.to_dict()}


def gate(run: str | Path, options: GateOptions) -> GateReport:
    """Against a baseline or a threshold, whichever the options name."""
    if options.baseline is not None and options.threshold is None:
        return gate_against(run, options.baseline, options)
    if options.threshold is None:
        raise ConfigError("a gate needs --baseline or --threshold", hint="Name the run to compare with, or a score.")
    if options.baseline is not None:
        raise ConfigError("a gate takes --baseline or --threshold, not both")
    if not options.tasks:
        raise ConfigError("--threshold needs --tasks", hint="Name the tasks that must reach it.")
    least = {(name, metric): options.threshold for name in options.tasks for metric in options.metric or ("",)}
    return gate_thresholds(run, least, options)


def gate_against(run: str | Path, baseline: str | Path, options: CompareOptions) -> GateReport:
    """Against a baseline: a run (paired), a results file (unpaired), or a JSON file of thresholds."""
    where = Path(baseline)
    if not where.exists():
        raise ConfigError(
            f"the baseline {baseline} does not exist",
            hint="Use a run directory, a results file, or a JSON file of thresholds.",
        )
    if not (where.is_file() and where.suffix == ".json"):
        base = open_run(where)
        against = _against_run if base.has("samples") else _against_results
        return against(open_run(run), base, options)
    data = _read_json(where)
    if "results" in data:
        return _against_results(open_run(run), open_results(data, where), options)
    return gate_thresholds(run, thresholds_of(data, where), options)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        data = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(data, dict):
        hint = 'Expected {"task": {"acc,none": 0.5}} or a results file.'
        raise ConfigError(f"{path} is not a JSON object", hint=hint)
    return data


def _require_names(names: Iterable[str], run: Run) -> None:
    for name in names:
        if name not in run.result:
            hint = did_you_mean(name, run.result) or f"It has {', '.join(run.result)}."
            raise ConfigError(f"{run.path} has no task or group {name!r}", hint=hint)


def _listed(keys: Iterable[MetricKey]) -> str:
    return ", ".join(map(str, keys))


def noise_note(run: Run, noise: NoiseFile | None) -> Iterator[str]:
    """Another model may be served otherwise; whoever gives the file must know."""
    if noise is not None and noise.model != run.result.model_name:
        yield f"serving noise was measured on {noise.model}, this is {run.result.model_name}"


# Against a run


def _against_run(new: Run, base: Run, options: CompareOptions) -> GateReport:
    wanted = _wanted(base, options)
    (comparison,) = compare_runs([base, new], options)
    named = set(options.tasks)
    rows = [row for row in comparison.rows if _must_hold(base.score(row.name, row.key), options)]
    checks = [_paired(row, new, base, options) for row in rows if not named or row.name in named]
    # What cannot be compared has not been shown to be no worse; a number that is new, or that nobody has, is no loss.
    refusals = [r for r in comparison.refusals if not named or r.name in named]
    lost = [r for r in refusals if r.kind in ("differs", "only_a")]
    checks += [
        GateCheck.failed(r.name, None, r.reason.replace("only in A", "only in the baseline"), options) for r in lost
    ]
    seen = {(check.name, check.key) for check in checks}
    refused = {r.name for r in refusals}
    rest = [(name, key) for name, key in wanted if name not in refused and (name, key) not in seen]
    unpaired = _as_reported(rest, new, base, options)
    notes = [*noise_note(new, options.noise)]
    notes += [f"{r.name}: {r.reason}" for r in refusals if r.kind in ("only_b", "undefined")]
    return GateReport((*checks, *unpaired.checks), (*notes, *unpaired.notes), {"": comparison})


def _must_hold(score: Score | None, options: CompareOptions) -> bool:
    """What a solved doc took (seconds, tokens, …) is no quality of the answers: it is checked where it is named."""
    return bool(options.metric) or score is None or score.aggregation != "per_solved"


def _wanted(base: Run, options: CompareOptions) -> list[tuple[str, MetricKey]]:
    """Every number of the baseline that must hold. A name or metric that was asked for must be among them."""
    _require_names(options.tasks, base)
    names = options.tasks or tuple(base.result)
    wanted = [
        (name, key)
        for name in names
        for key in base.result[name].scores
        if options.wants(key) and _must_hold(base.score(name, key), options)
    ]
    for name in options.tasks:
        if not any(each == name for each, _ in wanted):
            what = " or ".join(options.metric) or "number"
            known = _listed(base.result[name].scores) or "none"
            raise ConfigError(f"{base.path} has no {what} of {name}", hint=f"It has {known}.")
    for metric in options.metric:
        if not matching(metric, (key for _, key in wanted)):
            metrics = dict.fromkeys(key.metric for node in base.result.nodes() for key in node.scores)
            hint = did_you_mean(metric, metrics) or f"It has {', '.join(metrics)}."
            raise ConfigError(f"{base.path} has no metric {metric!r}", hint=hint)
    return wanted


def _paired(row: ComparisonRow, new: Run, base: Run, options: CompareOptions) -> GateCheck:
    reason = _unusable(new.score(row.name, row.key), base.score(row.name, row.key))
    if reason is not None:
        return GateCheck.failed(row.name, row.key, reason, options)
    result = non_inferiority(row.difference, row.margin, alpha=options.alpha, higher_is_better=row.higher_is_better)
    kind = "paired" if row.paired else "unpaired"
    if result.unclear and row.difference.estimate.value == 0 and not row.difference.floor:
        tasks = [name for name in (row.name, *base.result.below(row.name)) if name in base.tasks]
        if tasks and all(_same_answers(new, base, task) for task in tasks):
            result = GateResult(True, 0.0, -row.margin, options.alpha)
            kind = "the same answers"
    return GateCheck(row.name, row.key, result, kind, row.difference.b, row.difference.a, row.difference.estimate.n)


def _same_answers(new: Run, base: Run, task: str) -> bool:
    """Whether both runs got the same answers to the same requests, doc by doc: such runs do not differ, however few docs."""
    if task not in new.tasks or not (new.has("answers") and base.has("answers")):
        return False
    pairs = zip_longest(new.docs(task), base.docs(task))
    return all(
        a is not None
        and b is not None
        and a.responses
        and (a.doc_hash, a.request_hash, a.filter, a.responses, a.filtered)
        == (b.doc_hash, b.request_hash, b.filter, b.responses, b.filtered)
        for a, b in pairs
    )


def _unusable(new: Score | None, base: Score | None) -> str | None:
    """Why a number cannot decide anything: it is withheld, here or in the baseline."""
    if new is not None and new.withheld:
        return f"withheld: {new.withheld}"
    if base is not None and base.withheld:
        return f"withheld in the baseline: {base.withheld}"
    return None


# Against scores


def _against_results(new: Run, base: Run, options: CompareOptions) -> GateReport:
    """Only scores and standard errors are known: the errors add up."""
    wanted = _wanted(base, options)
    if all(new.score(name, key) is None for name, key in wanted):
        raise ConfigError(f"{base.path} and {new.path} have no score in common")
    report = _as_reported(wanted, new, base, options)
    only = f"{base.path} has only scores; with its samples the comparison would be paired and more sensitive"
    return GateReport(report.checks, (*noise_note(new, options.noise), only, *report.notes))


def _as_reported(wanted: Sequence[tuple[str, MetricKey]], new: Run, base: Run, options: CompareOptions) -> GateReport:
    """Numbers without docs to pair. What the baseline itself does not have is no loss."""
    checks, notes = [], []
    for name, key in wanted:
        before = base.result[name].scores[key]
        if before.withheld is None and not _is_number(before):
            notes.append(f"{name} {key}: undefined in the baseline")
        else:
            checks.append(_unpaired(name, key, new.score(name, key), before, options))
    return GateReport(tuple(checks), tuple(notes))


def _unpaired(name: str, key: MetricKey, now: Score | None, before: Score, options: CompareOptions) -> GateCheck:
    if reason := _unusable(now, before):
        return GateCheck.failed(name, key, reason, options)
    if now is None:
        return GateCheck.failed(name, key, "only in the baseline", options)
    if not _is_number(now):
        return GateCheck.failed(name, key, f"undefined: {now.estimate.undefined or 'not a number'}", options)
    if any(each.judge is not None and each.judge.is_corrected for each in (now, before)) and not all(
        each.judge is not None and each.judge.is_corrected for each in (now, before)
    ):
        lacking = "this run" if before.judge is not None and before.judge.is_corrected else "the baseline"
        unclear = GateResult(False, None, -options.margin, options.alpha, unclear=True)
        kind = f"cannot tell: {lacking} has no labels of people beside its judge's verdicts, and the other has"
        return GateCheck(name, key, unclear, kind, now.estimate.value, before.estimate.value, now.estimate.n)
    difference = unpaired_difference(before.estimate, now.estimate)
    if options.noise is not None:
        difference, _ = options.noise.add_to(difference, name, key)
    margin = options.margin_for(difference.a, difference.b)
    result = non_inferiority(difference, margin, alpha=options.alpha, higher_is_better=is_higher_better(now))
    return GateCheck(name, key, result, "unpaired", now.estimate.value, before.estimate.value, now.estimate.n)


def _is_number(score: Score) -> bool:
    return score.estimate.value is not None and score.estimate.value == score.estimate.value


# Against thresholds

Thresholds = Mapping[tuple[str, str], float]
"""By task or group and by metric as people name it: `acc`, `acc,none`, or nothing for the task's first."""


def thresholds_of(data: Mapping[str, Any], path: Path) -> Thresholds:
    """`{"task": 0.5}` or `{"task": {"acc,none": 0.5}}`."""
    thresholds: dict[tuple[str, str], float] = {}
    for task, entry in data.items():
        for metric, value in entry.items() if isinstance(entry, Mapping) else [("", entry)]:
            if not isinstance(value, int | float) or isinstance(value, bool):
                raise ConfigError(f"{path}: the threshold of {task} {metric} is {value!r}, not a number")
            thresholds[task, str(metric)] = float(value)
    if not thresholds:
        raise ConfigError(f"{path} contains no thresholds", hint='Expected {"task": {"acc,none": 0.5}}.')
    return thresholds


def gate_thresholds(run: str | Path, thresholds: Thresholds, options: CompareOptions) -> GateReport:
    """One check per named metric, under each filter; if none is named, the task's first."""
    opened = open_run(run)
    _require_names((task for task, _ in thresholds), opened)
    checks, notes = [], [*noise_note(opened, options.noise)]
    for (task, metric), limit in thresholds.items():
        scores = opened.result[task].scores
        keys = [key for key in (matching(metric, scores) if metric else scores) if options.wants(key)]
        if not keys:
            raise ConfigError(f"{task} has no metric {metric!r}", hint=f"It has {_listed(scores)}.")
        if not metric and len(keys) > 1:
            notes.append(f"{task}: {keys[0]} was checked, but not {_listed(keys[1:])}; --metric names others")
            keys = keys[:1]
        checks += [_reaches(opened, task, key, limit, options) for key in keys]
    return GateReport(tuple(checks), tuple(notes))


def _reaches(run: Run, task: str, key: MetricKey, limit: float, options: CompareOptions) -> GateCheck:
    """A one-sided bound; the exact one for docs that are right or wrong."""
    score = run.result[task].scores[key]
    if score.withheld:
        return GateCheck.failed(task, key, f"withheld: {score.withheld}", options)
    estimate = score.estimate
    if estimate.value is None or not _is_number(score):
        return GateCheck.failed(task, key, f"undefined: {estimate.undefined or 'not a number'}", options)
    up = is_higher_better(score)
    level, floor = 1 - 2 * options.alpha, 0.0
    bounds = _own_interval(run, task, key, level)
    if options.noise is not None and bounds is not None:
        freedom = estimate.df or math.inf
        bounds, floor = options.noise.widen(estimate.value, bounds, freedom, task, key, level, estimate.n)
    result = above_threshold(bounds, limit, alpha=options.alpha, higher_is_better=up, estimate=estimate, floor=floor)
    return GateCheck(task, key, result, "threshold", estimate.value, None, estimate.n)


def _own_interval(run: Run, task: str, key: MetricKey, level: float) -> tuple[float, float] | None:
    """The interval of the score's own method at this level: from the docs where they give the number, else rescaled."""
    score = run.result[task].scores[key]
    column = run.columns(task).get(key) if task in run.tasks else None
    rule = None if column is None else repeatable_aggregation(column, score)
    if column is None or rule is None or not score.estimate.is_recomputable:
        return score.bounds(level)
    scored = column.scored()
    made = estimate_of(scored.values.tolist(), AGGREGATIONS[rule], scored.docs, scored.clusters)
    return made.bounds(level)
