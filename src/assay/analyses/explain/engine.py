"""Two runs to an explanation: what differs, how much each difference is worth, and what stays unexplained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.analyses.compare import Floats
from assay.analyses.explain.branches import StepSuccess, first_apart, success_by_step
from assay.analyses.explain.causes import Hints, RequestChange, causes_of, compare_requests, with_tokens
from assay.analyses.explain.facts import FieldDifference, config_differences, hints_of, model_differences, settings_of
from assay.analyses.explain.intervals import Alone, docs_estimate, share_estimate
from assay.analyses.explain.rescoring import MOST_CAUSES, Rules, shapley_requests, shapley_scores
from assay.config import CommandFlag, Options, option
from assay.errors import ConfigError, did_you_mean
from assay.finished import AnsweredDoc, DocColumn, Run, align
from assay.instance import is_chat
from assay.models import LM
from assay.results import MetricKey, matching
from assay.stats import Estimate, unit_index, unit_keys

UNEXPLAINED = "unexplained"


class ExplainOptions(Options):
    """Which number is explained, and how closely."""

    task: str | None = option(None, "The task, if the runs have several in common.", flag=CommandFlag("-t", "NAME"))
    metric: str | None = option(
        None, "acc, or acc,none.", flag=CommandFlag("-m", "NAME", default="the first that both have")
    )
    metric_b: str | None = option(None, "The metric of B, if its name differs.", flag=CommandFlag(metavar="NAME"))
    sample: int = option(200, "Docs to ask a model again, for each set of causes.", ge=10)
    examples: int = option(2, "Docs shown for each cause.", ge=0)


@dataclass(frozen=True)
class CauseShare:
    """How much one cause contributes to B − A."""

    cause: str
    estimate: Estimate
    docs: int
    """Docs that it touches."""
    detail: str = ""
    examples: tuple[int, ...] = ()
    """Ids in A of docs whose value it changed."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "cause": self.cause,
            **{name: getattr(self.estimate, name) for name in ("value", "low", "high")},
            "docs": self.docs,
            "detail": self.detail,
            "examples": list(self.examples),
        }


@dataclass(frozen=True)
class Explanation:
    """Why B's number is not A's."""

    a: Run
    b: Run
    task: str
    key_a: MetricKey
    key_b: MetricKey
    score_a: float
    score_b: float
    shares: tuple[CauseShare, ...]
    """The largest first; `unexplained` last."""
    fields: tuple[FieldDifference, ...]
    shown: dict[int, tuple[AnsweredDoc, AnsweredDoc]] = field(default_factory=dict)
    """The docs of the examples, by their id in A."""
    notes: tuple[str, ...] = ()
    steps: tuple[StepSuccess, ...] = ()
    """Where B is a branch of trajectories at each of their steps."""

    @property
    def difference(self) -> float:
        return self.score_b - self.score_a

    def share(self, cause: str) -> CauseShare | None:
        return next((share for share in self.shares if share.cause == cause), None)

    def to_dict(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "metric_a": str(self.key_a),
            "metric_b": str(self.key_b),
            "a": self.score_a,
            "b": self.score_b,
            "difference": self.difference,
            "shares": [share.to_dict() for share in self.shares],
            "fields": [{"name": each.name, "a": each.a, "b": each.b} for each in self.fields],
            "notes": list(dict.fromkeys(self.notes)),
            **(
                {"steps": [step.to_dict() for step in self.steps], "first": first_apart(self.steps)}
                if self.steps
                else {}
            ),
        }


def explain(a: Run, b: Run, options: ExplainOptions | None = None, lm: LM | None = None) -> Explanation:
    """Why do A and B differ on one task under one metric? `lm` answers requests that are sent anew, where several causes meet."""
    options = options or ExplainOptions()
    for run in (a, b):
        run.require("samples", "scores")
    task = _task(a, b, options)
    key_a, key_b = _keys(a, b, task, options)
    return _Inquiry(a, b, task, key_a, key_b, options, lm).explanation()


PairedDocs = tuple[list[AnsweredDoc], list[AnsweredDoc]]
"""Docs of both runs that are the same, in the same order."""


class _Inquiry:
    def __init__(
        self,
        a: Run,
        b: Run,
        task: str,
        key_a: MetricKey,
        key_b: MetricKey,
        options: ExplainOptions,
        lm: LM | None,
    ) -> None:
        self.runs, self.task, self.keys, self.options, self.lm = (a, b), task, (key_a, key_b), options, lm
        self.columns = (a.columns(task)[key_a].scored(), b.columns(task)[key_b].scored())
        for run, column in zip(self.runs, self.columns, strict=True):
            if not column.is_numeric or len(column) == 0:
                raise ConfigError(
                    f"{run.label}: {task} {column.key} has no number for each doc", hint="Choose another with --metric."
                )
        self.pairs = align(*self.columns)
        if len(self.pairs) == 0:
            raise ConfigError("the runs have no doc in common", hint="There is nothing to compare doc by doc.")
        self.values = (self.columns[0].values[self.pairs.shared[0]], self.columns[1].values[self.pairs.shared[1]])
        self.clusters = self._clusters()
        self.bounded = all(bool(((values >= 0) & (values <= 1)).all()) for values in self.values)
        self.parts: dict[str, Floats] = {}
        """Cause to what it adds to each common doc's difference."""
        self.touched: dict[str, NDArray[np.bool_]] = {}
        self.notes: list[str] = []

    def _clusters(self) -> NDArray[np.int64] | None:
        column: DocColumn = self.columns[0]
        at = self.pairs.shared[0]
        return unit_index(unit_keys(column.docs[at], None if column.clusters is None else column.clusters[at]))

    def _shares(self, means: Sequence[float], reported: Sequence[float]) -> list[CauseShare]:
        """All causes, the largest first and what nobody can explain last."""
        shares = [self._share(cause, part) for cause, part in self.parts.items()]
        shares += self._of_docs()
        rest = (reported[1] - means[1]) - (reported[0] - means[0])
        if abs(rest) > 1e-9:
            names = [self._aggregation(side) for side in (0, 1)]
            bare = Estimate.bare(rest, len(self.columns[1]), "two ways to sum up the same docs")
            shares.append(CauseShare("aggregation", bare, bare.n, " → ".join(names)))
        shares = [share for share in shares if share.docs or share.cause == UNEXPLAINED]
        return sorted(shares, key=lambda share: (share.cause == UNEXPLAINED, -abs(share.estimate.value or 0.0)))

    def explanation(self) -> Explanation:
        means = [float(column.values.mean()) for column in self.columns]
        reported = [self._reported(side, means[side]) for side in (0, 1)]
        docs = self._paired_docs()
        fields = config_differences(*self.runs, self.task)
        if docs is None:
            self.notes.append(
                "one of the formats does not keep requests, so only docs and aggregation can be separated"
            )
            self._add(UNEXPLAINED, self.values[1] - self.values[0])
        else:
            hints = with_tokens(hints_of(*self.runs, self.task), *docs)
            self._take_apart(docs, hints)
        shares = self._shares(means, reported)
        wanted = {i for share in shares for i in share.examples}
        shown = {} if docs is None else {a.doc_id: (a, b) for a, b in zip(*docs, strict=True) if a.doc_id in wanted}
        return Explanation(
            a=self.runs[0],
            b=self.runs[1],
            task=self.task,
            key_a=self.keys[0],
            key_b=self.keys[1],
            score_a=reported[0],
            score_b=reported[1],
            shares=tuple(shares),
            fields=tuple(fields),
            shown=shown,
            notes=tuple(self.notes),
            steps=success_by_step(self.runs[1], self.task, self.keys[1]),
        )

    def _reported(self, side: int, mean: float) -> float:
        score = self.runs[side].score(self.task, self.keys[side])
        value = None if score is None else score.estimate.value
        return mean if value is None else value

    def _aggregation(self, side: int) -> str:
        return self.columns[side].aggregation

    def _paired_docs(self) -> PairedDocs | None:
        """Both runs' docs in the order of the pairs."""
        found = []
        for run, key, column, places in zip(self.runs, self.keys, self.columns, self.pairs.shared, strict=True):
            if not run.has("prompts"):
                return None
            by_id = {doc.doc_id: doc for doc in run.docs(self.task, key.filter)}
            ids = column.doc_ids[places].tolist()
            if any(i not in by_id for i in ids):
                return None
            found.append([by_id[i] for i in ids])
        return found[0], found[1]

    def _take_apart(self, docs: PairedDocs, hints: Hints) -> None:
        changes = [compare_requests(x, y, hints) for x, y in zip(*docs, strict=True)]
        causes = [causes_of(x, y, each) for x, y, each in zip(*docs, changes, strict=True)]
        rules = tuple(
            Rules.of(run.result.tasks[self.task].config, key) for run, key in zip(self.runs, self.keys, strict=True)
        )
        scored = shapley_scores(docs, (rules[0], rules[1]), self.values)
        if scored is None:
            scored = self._by_stored_answers(docs)
        # A metric reads the target, so what another target does shows in the metric's part.
        targets = np.array([x.target != y.target for x, y in zip(*docs, strict=True)])
        if targets.any():
            same_metric = (rules[0].metric, rules[0].arguments) == (rules[1].metric, rules[1].arguments)
            self._add(
                "targets" if same_metric else "metric and targets", np.where(targets, scored["metric"], 0.0), targets
            )
            scored["metric"] = np.where(targets, 0.0, scored["metric"])
        for name in ("filter", "metric"):
            if scored[name].any():
                self._add(name, scored[name])
        answers = scored["answers"]
        self._of_answers(answers, causes, changes, docs, rules[0])

    def _by_stored_answers(self, docs: PairedDocs) -> dict[str, Floats]:
        """Where rules cannot be repeated: the same answer with another value is the filter's doing, or the metric's."""
        difference = self.values[1] - self.values[0]
        same = np.array([x.responses == y.responses for x, y in zip(*docs, strict=True)])
        same_left = np.array([x.filtered == y.filtered for x, y in zip(*docs, strict=True)])
        return {
            "answers": np.where(same, 0.0, difference),
            "filter": np.where(same & ~same_left, difference, 0.0),
            "metric": np.where(same & same_left, difference, 0.0),
        }

    def _of_answers(
        self,
        answers: Floats,
        causes: Sequence[frozenset[str]],
        changes: Sequence[Sequence[RequestChange]],
        docs: PairedDocs,
        rules: Rules,
    ) -> None:
        """What other answers are worth goes to what was requested otherwise; to the model where nothing was. Where both
        differ they cannot be told apart, and are named together."""
        model = next(iter(model_differences(*self.runs, names_only=True)), None)
        if self._has_chats_on_one_side(docs):
            self.notes.append(
                "one run was sent messages and the other text: whether the server's chat template is the same cannot be told"
            )
        for group in sorted(set(causes), key=sorted):
            here = np.array([each == group for each in causes])
            if not group:
                # Two models differ in much that follows from that; the table of differing settings has it all.
                facts = model_differences(*self.runs) if model is None else [model.removeprefix("model ")]
                name = "the model: " + ", ".join(facts) if facts else UNEXPLAINED
                self._add(name, np.where(here, answers, 0.0), here)
            elif model is not None:
                self._add(f"the {model}, and {' and '.join(sorted(group))}", np.where(here, answers, 0.0), here)
                self.notes.append(
                    "two models were sent different requests: what is due to the model and what to the requests cannot be told apart"
                )
            elif len(group) == 1:
                self._add(next(iter(group)), np.where(here, answers, 0.0), here)
            elif self.lm is not None and self._can_ask_again(group, here, changes, docs):
                self._ask_again(group, here, answers, changes, docs, rules)
            else:
                self._add(" and ".join(sorted(group)), np.where(here, answers, 0.0), here)
                if self.lm is None:
                    self.notes.append("to separate causes that always occur together, ask a model again with --model")

    def _has_chats_on_one_side(self, docs: PairedDocs) -> bool:
        kinds = [{is_chat(request.prompt) for doc in side for request in doc.requests} for side in docs]
        return kinds[0] != kinds[1]

    def _can_ask_again(
        self,
        group: frozenset[str],
        here: NDArray[np.bool_],
        changes: Sequence[Sequence[RequestChange]],
        docs: PairedDocs,
    ) -> bool:
        """Whether requests with some of these causes and not the others can be made at all."""
        places = np.flatnonzero(here).tolist()
        hidden = {cause for i in places for change in changes[i] for cause in change.hidden}
        if hidden:
            self.notes.append(
                f"{', '.join(sorted(hidden))}: done by the backend after the request was built, so it cannot be asked again"
            )
        same_requests = all(len(docs[0][i].requests) == len(docs[1][i].requests) for i in places)
        return len(group) <= MOST_CAUSES and not hidden and same_requests and "repeats" not in group

    def _ask_again(
        self,
        group: frozenset[str],
        here: NDArray[np.bool_],
        answers: Floats,
        changes: Sequence[Sequence[RequestChange]],
        docs: PairedDocs,
        rules: Rules,
    ) -> None:
        assert self.lm is not None
        places = np.flatnonzero(here)
        count = min(len(places), self.options.sample)
        chosen = places[np.linspace(0, len(places) - 1, count).astype(np.int64)]
        known = (self.values[0][chosen], self.values[0][chosen] + answers[chosen])
        first = [docs[0][i] for i in chosen]
        parts = shapley_requests(self.lm, first, [changes[i] for i in chosen], group, rules, known)
        scale, total = len(places) / count, np.zeros(len(here))
        for cause, values in parts.items():
            spread = np.zeros(len(here))
            spread[chosen] = scale * values
            self._add(cause, spread, here)
            total += spread
        if count < len(places):
            self.notes.append(f"{count:,} of {len(places):,} docs were asked again")
            self._add(UNEXPLAINED, np.where(here, answers, 0.0) - total, here)

    def _add(self, cause: str, part: Floats, touched: NDArray[np.bool_] | None = None) -> None:
        there = part != 0 if touched is None else touched
        self.parts[cause] = self.parts.get(cause, np.zeros(len(part))) + part
        self.touched[cause] = self.touched.get(cause, np.zeros(len(part), dtype=bool)) | there

    def _share(self, cause: str, part: Floats) -> CauseShare:
        estimate = share_estimate(part, self.clusters, self.bounded)
        order = np.argsort(-np.abs(part), kind="stable")[: self.options.examples]
        ids = self.columns[0].doc_ids[self.pairs.shared[0]]
        examples = tuple(int(ids[i]) for i in order if part[i])
        detail = settings_of(cause, *self.runs, self.task)
        return CauseShare(cause, estimate, int(self.touched[cause].sum()), detail, examples)

    def _of_docs(self) -> list[CauseShare]:
        """Docs that only one run has move its mean."""
        only_a, only_b = self.pairs.missing_elsewhere(0), self.pairs.missing_elsewhere(1)
        if not only_a + only_b:
            return []
        sides = []
        for column, places in zip(self.columns, self.pairs.shared, strict=True):
            alone = np.delete(np.arange(len(column)), places)
            units = unit_keys(column.docs, column.clusters)
            sides.append(
                Alone(column.values[places], column.values[alone], unit_index(units[places]), unit_index(units[alone]))
            )
        estimate = docs_estimate(sides)
        detail = f"{only_a:,} only in A, {only_b:,} only in B"
        return [CauseShare("docs", estimate, estimate.n, detail)]


def _task(a: Run, b: Run, options: ExplainOptions) -> str:
    common = [task for task in a.tasks if task in b.tasks]
    if options.task is not None:
        if options.task not in common:
            raise ConfigError(f"{options.task!r} is not a task of both runs", hint=did_you_mean(options.task, common))
        return options.task
    if not common:
        raise ConfigError(
            f"no task in common: {', '.join(a.tasks[:5])}; {', '.join(b.tasks[:5])}", hint="Name runs of the same task."
        )
    if len(common) > 1:
        raise ConfigError(f"{len(common)} tasks in common", hint=f"Name one with --task: {', '.join(common[:8])}.")
    return common[0]


def _keys(a: Run, b: Run, task: str, options: ExplainOptions) -> tuple[MetricKey, MetricKey]:
    """The number to explain, by its name in each run; the first that both have, else the first of the same metric."""
    of_a, of_b = list(a.columns(task)), list(b.columns(task))
    first = _named(options.metric, of_a, a) if options.metric else None
    other = _named(options.metric_b or options.metric, of_b, b) if options.metric_b or options.metric else None
    if first is not None and other is not None:
        return first, other
    for key in of_a:
        if key in of_b:
            return key, key
    for key in of_a:
        for theirs in of_b:
            if key.metric == theirs.metric:
                return key, theirs
    raise ConfigError(
        f"no metric in common: {', '.join(map(str, of_a))}; {', '.join(map(str, of_b))}",
        hint="Name them: --metric and --metric_b.",
    )


def _named(name: str | None, keys: Sequence[MetricKey], run: Run) -> MetricKey:
    found: Sequence[Any] = matching(str(name), list(keys))
    if not found:
        raise ConfigError(
            f"{run.label} has no metric {name!r}; it has {', '.join(map(str, keys))}", hint="Choose one of them."
        )
    return next(key for key in keys if key in found)
