"""Two or more runs to comparisons: align, subtract, climb the tree, correct for many tests, judge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from assay.comparison.groups import NotComparable, compare_group
from assay.comparison.model import Comparison, Options, Part, Refusal, Row
from assay.comparison.tasks import Alignments, Incomparable, TaskDifference, aggregation_for, compare_task
from assay.comparison.views import Column, RunView
from assay.errors import ConfigError, did_you_mean
from assay.stats import holm, judge, unpaired_difference


def compare_runs(runs: Sequence[RunView], options: Options | None = None) -> list[Comparison]:
    """Every further run against the first. The correction counts the tasks of all of them together."""
    options = options or Options()
    if len(runs) < 2:
        raise ConfigError("one run cannot be compared", hint="Name two or more.")
    return _judged([_Pair(runs[0], other, options).compare() for other in runs[1:]], options)


class _Pair:
    def __init__(self, a: RunView, b: RunView, options: Options) -> None:
        self.a, self.b, self.options = a, b, options
        self.parts: dict[str, dict[str, Part]] = {}
        """By key, then by task or group."""
        self.rows: dict[tuple[str, str], Row] = {}
        self.refusals: list[Refusal] = []
        self.refused: set[str] = set()

    def compare(self) -> Comparison:
        wanted = self._wanted()
        common = [task for task in self.a.tasks if task in self.b.tasks and (wanted is None or task in wanted)]
        if not common:
            raise ConfigError(
                f"no task in common: {self.a.path} has {_some(self.a.tasks)}; {self.b.path} has {_some(self.b.tasks)}",
                hint="Runs are compared task by task, by name.",
            )
        alone_a = [task for task in self.a.tasks if task not in self.b.tasks and (wanted is None or task in wanted)]
        alone_b = [task for task in self.b.tasks if task not in self.a.tasks and wanted is None]
        self.refusals += [Refusal(task, "only in A", "only_a") for task in alone_a]
        self.refusals += [Refusal(task, "only in B", "only_b") for task in alone_b]
        for task in common:
            self._task(task)
        if not self.rows:
            reasons = "; ".join(f"{r.name}: {r.reason}" for r in self.refusals[:5])
            raise ConfigError(f"nothing can be compared. {reasons}", hint=_hint(self.refusals))
        for name in dict.fromkeys(name for _, name in reversed(self.a.tree) if name in self.a.groups):
            if wanted is None or name in wanted:
                self._group(name)
        rows = [self.rows[name, key] for name in self._order() for key in self._keys_of(name)]
        return Comparison(self.a, self.b, tuple(_with_depth(rows, self.a)), tuple(self.refusals), self.options.alpha)

    def _wanted(self) -> set[str] | None:
        """The names asked for, and all below them."""
        if not self.options.tasks:
            return None
        known = {*self.a.tasks, *self.a.groups, *(name for _, name in self.a.tree)}
        wanted: set[str] = set()
        for name in self.options.tasks:
            if name not in known:
                raise ConfigError(f"{self.a.path} has no task or group {name!r}", hint=did_you_mean(name, known) or f"It has {_some(sorted(known))}.")  # fmt: skip
            wanted |= {name, *_below(self.a.tree, name)}
        return wanted

    def _task(self, task: str) -> None:
        columns_a, columns_b = self.a.columns(task), self.b.columns(task)
        known: Alignments = {}
        for key in (key for key in columns_a if key in columns_b and self.options.wants(key)):
            found = self._difference(task, key, columns_a[key], columns_b[key], known)
            if found is not None:
                self._add(task, "task", key, found)
        if not any(key in columns_b for key in columns_a):
            self.refusals.append(
                Refusal(task, f"no metric in common ({_some(list(columns_a))}; {_some(list(columns_b))})")
            )
            return
        alone = [key for key in columns_a if key not in columns_b and self.options.wants(key)]
        self.refusals += [Refusal(task, f"{key} is only in A", "only_a") for key in alone]

    def _difference(self, task: str, key: str, a: Column, b: Column, known: Alignments) -> TaskDifference | None:
        rules = {aggregation_for(run, task, key, column) for run, column in ((self.a, a), (self.b, b))}
        rule = rules.pop() if len(rules) == 1 else None
        if rule is None:
            return self._as_reported(task, key)
        try:
            return compare_task(a, b, rule, self.options, known)
        except Incomparable as error:
            if task not in self.refused:
                self.refusals.append(Refusal(task, str(error)))
            self.refused.add(task)
            return None

    def _as_reported(self, task: str, key: str) -> TaskDifference | None:
        """An aggregation that cannot be repeated here: the two numbers as they stand, errors added."""
        a, b = self.a.reported.get(task, {}).get(key), self.b.reported.get(task, {}).get(key)
        if a is None or b is None or a.value is None or b.value is None:
            self.refusals.append(Refusal(task, f"{key}: the docs' values do not give the reported number"))
            return None
        empty = np.empty(0)
        part = Part(unpaired_difference(a, b), b.n, np.empty(0, dtype=np.uint64), lambda: (empty, empty))
        return TaskDifference(part, False, 0, 0, ("as reported: its aggregation cannot be repeated here",), None)

    def _group(self, name: str) -> None:
        for key in (key for key in self.a.groups[name] if self.options.wants(key)):
            try:
                part = compare_group(name, key, self.a, self.b, self.parts.get(key, {}), self.refused)
            except NotComparable as error:
                self.refusals.append(Refusal(name, f"{key}: {error}", error.kind))
                continue
            self._add(name, "group", key, TaskDifference(part, True, 0, 0, (), None))

    def _add(self, name: str, kind: str, key: str, found: TaskDifference) -> None:
        self.parts.setdefault(key, {})[name] = found.part
        difference = found.part.difference
        self.rows[name, key] = Row(
            name=name,
            alias=self.a.aliases.get(name, name),
            kind=kind,
            depth=0,
            key=key,
            difference=difference,
            higher_is_better=self.a.higher_is_better(name, key.partition(",")[0]),
            margin=self.options.margin_for(difference.a, difference.b),
            paired=found.paired,
            only_a=found.only_a,
            only_b=found.only_b,
            notes=(*found.notes, *self._stopped(name), *self._withheld(name, key)),
            flips=found.flips,
        )

    def _stopped(self, name: str) -> list[str]:
        """A p-value for a fixed number of docs does not count the looks that ended the run."""
        return [f"{side} stopped early: p does not count its looks" for side, run in (("A", self.a), ("B", self.b)) if name in run.stopped and not run.stopped[name].startswith("all docs")]  # fmt: skip

    def _withheld(self, name: str, key: str) -> list[str]:
        return [f"{side} is withheld: {run.withheld[name, key]}" for side, run in (("A", self.a), ("B", self.b)) if (name, key) in run.withheld]  # fmt: skip

    def _order(self) -> Iterator[str]:
        names = dict.fromkeys([name for _, name in self.a.tree] + list(self.a.tasks))
        yield from (name for name in names if any(n == name for n, _ in self.rows))

    def _keys_of(self, name: str) -> list[str]:
        return [key for n, key in self.rows if n == name]


def _with_depth(rows: list[Row], run: RunView) -> Iterator[Row]:
    depth: dict[str, int] = {}
    for level, name in run.tree:
        depth.setdefault(name, level)
    for row in rows:
        yield replace(row, depth=depth.get(row.name, 0))


def _below(tree: Sequence[tuple[int, str]], name: str) -> set[str]:
    found: set[str] = set()
    inside: int | None = None
    for depth, each in tree:
        if inside is not None and depth > inside:
            found.add(each)
        else:
            inside = depth if each == name else None
    return found


def _judged(comparisons: list[Comparison], options: Options) -> list[Comparison]:
    """Holm over all task rows of all comparisons; groups, which sum them up, are a family of their own."""
    corrected: dict[tuple[int, str, str], float | None] = {}
    family: dict[str, int] = {}
    for kind in ("task", "group"):
        members = [(i, row) for i, c in enumerate(comparisons) for row in c.rows if row.kind == kind]
        family[kind] = sum(row.difference.p_value is not None for _, row in members)
        adjusted = holm([row.difference.p_value for _, row in members])
        corrected |= {(i, row.name, row.key): p for (i, row), p in zip(members, adjusted, strict=True)}

    def judged(i: int, row: Row) -> Row:
        p = corrected[i, row.name, row.key]
        verdict = judge(
            row.difference,
            margin=row.margin,
            alpha=options.alpha,
            p_value=p,
            tests=family[row.kind],
            higher_is_better=row.higher_is_better,
        )
        return replace(row, p_adjusted=p, verdict=verdict)

    return [
        replace(c, rows=tuple(judged(i, row) for row in c.rows), family=family["task"])
        for i, c in enumerate(comparisons)
    ]


def _hint(refusals: Sequence[Refusal]) -> str | None:
    if any("prompts differ" in r.reason for r in refusals):
        return "Use --unpaired to compare the scores as of different docs, or --ignore_prompts to pair the docs all the same."
    if any("no doc in common" in r.reason for r in refusals):
        return "Use --unpaired to compare the scores as of different docs."
    return None


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "") if names else "none"
