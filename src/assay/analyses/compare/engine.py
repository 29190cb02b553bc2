"""Two or more runs to comparisons: align, subtract, climb the tree, correct for many tests, judge."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Literal

import numpy as np

from assay.analyses.compare.group_difference import compare_group
from assay.analyses.compare.model import (
    CompareOptions,
    Comparison,
    ComparisonRow,
    Comparisons,
    MemberDifference,
    NotComparable,
    Refusal,
)
from assay.analyses.compare.task_difference import (
    Alignments,
    TaskDifference,
    compare_task,
    pass_at_k_column,
    repeatable_aggregation,
)
from assay.errors import ConfigError, did_you_mean
from assay.finished import DocColumn, Run, is_higher_better, named_like, perturbations_in, same_questions
from assay.results import MetricKey
from assay.stats import decide, holm, interval_beside, unpaired_difference


def compare_runs(runs: Sequence[Run], options: CompareOptions | None = None) -> Comparisons:
    """Compares every other run with the first. The correction covers the tasks of all of them together."""
    options = options or CompareOptions()
    if len(runs) < 2:
        raise ConfigError("a comparison needs two runs", hint="Name two or more.")
    for run in runs:
        run.require("samples", "scores")
    return Comparisons(_judged([_Pair(runs[0], other, options).compare() for other in runs[1:]], options))


class _Pair:
    def __init__(self, a: Run, b: Run, options: CompareOptions) -> None:
        self.a, self.options = a, options
        self.b, self.perturbed = named_like(a, b)
        self.members: dict[MetricKey, dict[str, MemberDifference]] = {}
        """By key, then by task or group."""
        self.rows: dict[str, list[ComparisonRow]] = {}
        self.refusals: list[Refusal] = []
        self.refused: set[str] = set()
        self.same_questions: Callable[[str], str | None] = cache(partial(same_questions, a, self.b))
        self.depths: dict[str, int] = {}
        for depth, node in a.result.tree():
            self.depths.setdefault(node.name, depth)

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
        for name in dict.fromkeys(node.name for _, node in reversed(list(self.a.result.tree()))):
            if name in self.a.result.groups and (wanted is None or name in wanted):
                self._group(name)
        rows = [row for name in dict.fromkeys([*self.depths, *self.a.tasks]) for row in self.rows.get(name, ())]
        return Comparison(self.a, self.b, tuple(rows), tuple(self.refusals), self.options.alpha)

    def _wanted(self) -> set[str] | None:
        """The names asked for, and all below them."""
        if not self.options.tasks:
            return None
        known = self.a.result
        wanted: set[str] = set()
        for name in self.options.tasks:
            if name not in known:
                raise ConfigError(
                    f"{self.a.path} has no task or group {name!r}",
                    hint=did_you_mean(name, known) or f"It has {_some(sorted(known))}.",
                )
            wanted |= {name, *known.below(name)}
        return wanted

    def _task(self, task: str) -> None:
        columns_a, columns_b = self.a.columns(task), self.b.columns(task)
        alignments: Alignments = {}
        for key in (key for key in columns_a if key in columns_b and self.options.wants(key)):
            difference = self._difference(task, columns_a[key], columns_b[key], alignments)
            if difference is not None:
                self._add(task, "task", key, difference, is_higher_better(columns_a[key]))
        if not any(key in columns_b for key in columns_a):
            both = f"{_some(map(str, columns_a))}; {_some(map(str, columns_b))}"
            self.refusals.append(Refusal(task, f"no metric in common ({both})"))
            return
        alone = [key for key in columns_a if key not in columns_b and self.options.wants(key)]
        self.refusals += [Refusal(task, f"{key} is only in A", "only_a") for key in alone]

    def _difference(self, task: str, a: DocColumn, b: DocColumn, alignments: Alignments) -> TaskDifference | None:
        rule = repeatable_aggregation(a, self.a.score(task, a.key))
        if rule is None or rule != repeatable_aggregation(b, self.b.score(task, b.key)):
            return self._as_reported(task, a.key)
        try:
            return self._paired(task, a, b, rule, alignments)
        except NotComparable as error:
            if task not in self.refused:
                self.refusals.append(Refusal(task, str(error)))
            self.refused.add(task)
            return None

    def _paired(self, task: str, a: DocColumn, b: DocColumn, rule: str, alignments: Alignments) -> TaskDifference:
        # A perturbation changes prompts and nothing else: its docs are those of the clean run.
        alike = self.options.model_copy(update={"ignore_prompts": True})
        options = alike if task in self.perturbed else self.options
        try:
            return compare_task(a, b, rule, options, alignments)
        except NotComparable:
            if options is alike or (why := self.same_questions(task)) is None:
                raise
            found = compare_task(a, b, rule, alike, alignments)
            return replace(found, notes=tuple(why if "prompts differ" in n else n for n in found.notes))

    def _as_reported(self, task: str, key: MetricKey) -> TaskDifference | None:
        """An aggregation that cannot be repeated here: the two numbers as they stand, errors added."""
        a, b = self.a.score(task, key), self.b.score(task, key)
        if a is None or b is None or a.estimate.value is None or b.estimate.value is None:
            self.refusals.append(Refusal(task, f"{key}: the docs' values do not give the reported number"))
            return None
        if (a.judge is not None and a.judge.is_corrected) != (b.judge is not None and b.judge.is_corrected):
            self.refusals.append(Refusal(task, f"{key}: only one of the two numbers is corrected by people's labels"))
            return None
        difference = unpaired_difference(a.estimate, b.estimate)
        no_docs, no_draws = np.empty(0, dtype=np.uint64), np.empty(0)
        member = MemberDifference(difference, b.estimate.n, no_docs, lambda: (no_draws, no_draws))
        return TaskDifference(member, False, notes=("as reported; its aggregation cannot be repeated here",))

    def _group(self, name: str) -> None:
        for key, score in self.a.result.groups[name].scores.items():
            if not self.options.wants(key):
                continue
            try:
                members = {**self._draws_of_members(name, key), **self.members.get(key, {})}
                member = compare_group(name, key, self.a, self.b, members, self.refused)
            except NotComparable as error:
                self.refusals.append(Refusal(name, f"{key}: {error}", error.kind))
                continue
            self._add(name, "group", key, TaskDifference(member, True), is_higher_better(score))

    def _draws_of_members(self, name: str, key: MetricKey) -> dict[str, MemberDifference]:
        """Members without a number of their own under this key, from whose draws the group makes one (pass@k)."""
        right = self.b.result.groups[name].scores.get(key) if name in self.b.result.groups else None
        numbers = [
            {share.name: share.value for share in score.children}
            for score in (self.a.result.groups[name].scores[key], right)
            if score is not None
        ]
        found: dict[str, MemberDifference] = {}
        for task in numbers[0]:
            if (
                len(numbers) < 2
                or task in self.members.get(key, {})
                or task not in self.a.tasks
                or task not in self.b.tasks
            ):
                continue
            columns = [
                pass_at_k_column(run, task, key, of.get(task))
                for run, of in zip((self.a, self.b), numbers, strict=True)
            ]
            if columns[0] is not None and columns[1] is not None:
                found[task] = self._paired(task, columns[0], columns[1], "mean", {}).member
        return found

    def _add(
        self, name: str, kind: Literal["task", "group"], key: MetricKey, of_node: TaskDifference, higher: bool
    ) -> None:
        self.members.setdefault(key, {})[name] = of_node.member
        # Groups are made of members without it: their own serving noise is measured, for a shift that a run shares is no
        # sum of independent parts.
        difference, served = of_node.member.difference, []
        if self.options.noise is not None:
            difference, said = self.options.noise.add_to(difference, name, key)
            served = [said]
        reported = self.a.result[name].scores.get(key)  # a file may have docs' values of more than it reports
        row = ComparisonRow(
            name=name,
            alias=self.a.result[name].alias,
            kind=kind,
            depth=self.depths.get(name, 0),
            key=key,
            difference=difference,
            higher_is_better=higher,
            margin=self.options.margin_for(difference.a, difference.b),
            paired=of_node.paired,
            is_quality=reported is None or reported.aggregation != "per_solved",
            only_a=of_node.only_a,
            only_b=of_node.only_b,
            notes=(*of_node.notes, *served, *self._warnings(name, key)),
            flips=of_node.flips,
            gold=None if of_node.member.gold is None else of_node.member.gold.difference,
        )
        self.rows.setdefault(name, []).append(row)

    def _warnings(self, name: str, key: MetricKey) -> list[str]:
        """What the runs say about the number itself."""
        notes = []
        if name in self.perturbed:
            sides = [perturbations_in(name), perturbations_in(self.perturbed[name])]
            notes.append(f"perturbed: {sides[0]} in A, {sides[1]} in B")
        golds = [run.overlay(name) for run in (self.a, self.b)]
        if golds[0] != golds[1]:
            notes.append(f"other gold answers: A {golds[0]}, B {golds[1]}")
        # A p-value for a fixed number of docs does not count the looks that ended the run.
        looks = "p does not account for that"
        by_side = [run.cautions(name, key, side, looks=looks) for side, run in (("A", self.a), ("B", self.b))]
        return notes + [text for of_a_kind in zip(*by_side) for text in of_a_kind if text]


def _judged(comparisons: list[Comparison], options: CompareOptions) -> list[Comparison]:
    """Holm over all rows of all comparisons, tasks and groups together: any false verdict is one too many. Intervals and "no
    difference larger than" belong to the same family. What a solved doc took is another question, and a family of its own."""
    corrected: dict[tuple[int, str, MetricKey], float | None] = {}
    families = {}
    for is_quality in (True, False):
        members = [(i, row) for i, c in enumerate(comparisons) for row in c.rows if row.is_quality == is_quality]
        families[is_quality] = sum(row.difference.p_value is not None for _, row in members)
        adjusted = holm([row.difference.p_value for _, row in members])
        corrected |= {(i, row.name, row.key): p for (i, row), p in zip(members, adjusted, strict=True)}

    def judged(i: int, row: ComparisonRow) -> ComparisonRow:
        p, family = corrected[i, row.name, row.key], families[row.is_quality]
        verdict = decide(
            row.difference,
            margin=row.margin,
            alpha=options.alpha,
            p_value=p,
            tests=family,
            higher_is_better=row.higher_is_better,
        )
        shown = interval_beside(row.difference, verdict, alpha=options.alpha, p_value=p, tests=family)
        return replace(row, p_adjusted=p, verdict=verdict, shown=shown)

    return [
        replace(
            c,
            rows=tuple(judged(i, row) for row in c.rows),
            family=families[True] or families[False],
            efforts=families[False],
        )
        for i, c in enumerate(comparisons)
    ]


def _hint(refusals: Sequence[Refusal]) -> str | None:
    unpaired = "Use --unpaired to compare the scores as if on different docs"
    if any("prompts differ" in r.reason for r in refusals):
        return f"{unpaired}, or --ignore_prompts to pair the docs anyway."
    if any("no doc in common" in r.reason for r in refusals):
        return f"{unpaired}."
    return None


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - 5} more" if len(listed) > 5 else ""
    return ", ".join(listed[:5]) + more if listed else "none"
