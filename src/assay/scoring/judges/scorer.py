"""The scorer that asks judges: which questions are still to be sent about an answer, and the scores of what was said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from assay.config import MetricConfig, TaskConfig
from assay.data import doc_hash
from assay.errors import ConfigError, DataError, did_you_mean
from assay.instance import Instance, Response
from assay.metrics import AGGREGATIONS, get_reducer
from assay.results import MetricKey
from assay.scoring.base import ScoringContext
from assay.scoring.judges.cases import Cases
from assay.scoring.judges.kinds import JUDGE_KINDS, Case, JudgeKind, Part
from assay.scoring.judges.labels import Labels, answer_hash
from assay.scoring.judges.reading import read_verdict
from assay.scoring.judges.scales import Scale
from assay.scoring.outcome import InstancesByDoc, ScoringResult
from assay.scoring.resolve import aggregation_of, filters_of, higher_is_better_of, metric_configs
from assay.scoring.scorers import GenerateScorer
from assay.templates import compile_template

ONCE_MORE = (
    "\n\nYour last reply to this could not be read. Reply again, and end with a line of your verdict alone, which is "
    "{allowed}, in a tag: <verdict>…</verdict>."
)


@dataclass(frozen=True)
class Asking:
    """How judges are asked: who, how often, with what settings."""

    kind: JudgeKind
    judges: Sequence[str]
    repeats: int
    settings: Mapping[str, Any]
    template: str | None

    def next_questions(self, about: Instance, case: Case, filter_name: str, draw: int) -> list[Instance]:
        """Each part to each judge; and once more where a reply cannot be read. They stay with the answer."""
        questions = []
        for part in self.kind.parts(case):
            for judge in self.judges:
                place = {"filter": filter_name, "draw": draw, "part": part.name}
                earlier = [q for q in about.questions if q.role == judge and _is_at(q, place)]
                repeats = self.repeats if not earlier else _unread(earlier[0], part.scale)
                if len(earlier) < 2 and repeats and not any(question.failure for question in earlier):
                    # What a label of this answer goes by, and what it may say: `assay judge label` needs no more than the run.
                    label = {
                        "answer_hash": answer_hash(case.judged_texts),
                        "allowed": self.kind.label_scale(case).to_json(),
                    }
                    note = {**place, "attempt": len(earlier) + 1, **label}
                    questions.append(self._question(about, part, judge, repeats, note))
        about.questions += questions
        return questions

    def _question(self, about: Instance, part: Part, judge: str, repeats: int, note: dict[str, Any]) -> Instance:
        prompt = self.kind.prompt(part, self.template)
        if note["attempt"] > 1:
            prompt += ONCE_MORE.format(allowed=part.scale.words())
        settings = dict(self.settings)
        if note["attempt"] > 1:  # where the server can be held to a form, it cannot be unreadable again
            schema = {"type": "object", "properties": {"verdict": part.scale.schema()}, "required": ["verdict"]}
            settings["answer_schema"] = {**schema, "additionalProperties": False}
        arguments = (prompt, settings)
        return Instance(
            "generate_until",
            about.doc,
            arguments,
            0,
            about.doc_id,
            about.task_name,
            repeats=repeats,
            role=judge,
            note=note,
        )

    def verdicts(self, about: Instance, case: Case, judge: str, filter_name: str, draw: int) -> dict[str, float] | None:
        """Part to verdict, the mean over repeats; None where some part has none. What was read is noted with the question."""
        found: dict[str, float] = {}
        for part in self.kind.parts(case):
            place = {"filter": filter_name, "draw": draw, "part": part.name}
            read = [
                value for q in about.questions if q.role == judge and _is_at(q, place) for value in noted(q, part.scale)
            ]
            if not read:
                return None
            found[part.name] = sum(read) / len(read)
        return found


def _is_at(question: Instance, place: Mapping[str, Any]) -> bool:
    return all(question.note.get(name) == value for name, value in place.items())


def noted(question: Instance, scale: Scale) -> list[float]:
    """The verdicts that can be read; all of them, None for the others, stay with the question."""
    if question.failure is None:
        question.note["verdicts"] = list(_read(question, scale))
    return [value for value in question.note.get("verdicts", ()) if value is not None]


def _read(question: Instance, scale: Scale) -> Iterator[float | None]:
    responses: Sequence[Response | None] = question.responses or [None] * len(question.resps)
    for reply, response in zip(question.resps, responses):
        truncated = response is not None and response.stop_reason == "length"
        yield read_verdict(str(reply), scale, truncated=truncated)


def _unread(question: Instance, scale: Scale) -> int:
    """Replies that cannot be read."""
    return 0 if question.failure is not None else sum(value is None for value in _read(question, scale))


GREEDY = {"until": [], "max_gen_toks": 512, "do_sample": False, "temperature": 0.0}
SAMPLED = {**GREEDY, "do_sample": True, "temperature": 0.7}
"""Repeats of a greedy judge would say the same every time."""


class JudgeScorer(GenerateScorer):
    """Answers graded by other models of the run.

    In a task file:

        scorer:
          type: judge
          kind: correct            # or grade, rubric, pairwise, conversation
          judges: [judge]          # roles; several are a panel, put together by `panel: mean` or `majority`
          judge_repeats: 1
          labels: verdicts.jsonl   # verdicts of people on a random part of the docs

    A verdict that cannot be read is requested once more. An answer without one is *unjudged*: it has no score, and is
    counted. `metric_list` may give other metrics, which are computed beside the judge's, and say how the judge's own is
    aggregated; a filter's own list that does not name the judge's metric spares the judge that filter.
    """

    has_own_metrics: ClassVar[bool] = True

    def __init__(
        self,
        kind: str = "correct",
        *,
        judges: Sequence[str] | str = ("judge",),
        panel: str = "mean",
        judge_repeats: int = 1,
        template: str | None = None,
        question: str | None = None,
        reference: str | None = None,
        generation_kwargs: Mapping[str, Any] | None = None,
        labels: str | None = None,
        opponent: str | None = None,
        opponent_answer: str | None = None,
        multiple_target: bool | None = None,
        **of_kind: Any,
    ) -> None:
        super().__init__(multiple_target=multiple_target)
        self.kind = make_kind(kind, of_kind)
        self.roles = (judges,) if isinstance(judges, str) else tuple(judges)
        self.panel, self.labels_file = panel, labels
        _check_panel(judges, panel, judge_repeats)
        self.cases = Cases(self.kind, question, reference, opponent, opponent_answer)
        if template is not None:
            compile_template(template)
        settings = {**(SAMPLED if judge_repeats > 1 else GREEDY), **(generation_kwargs or {})}
        self.asking = Asking(self.kind, self.roles, judge_repeats, settings, template)
        by_judge = [f"{self.metric}_{role}" for role in self.roles] if len(self.roles) > 1 else []
        self.own_metrics = (self.metric, *self.kind.extra_scores(), *by_judge)
        self.wants_every_turn = self.kind.needs_turns
        self._more_labels: tuple[str, ...] = ()
        self._labels: dict[str, Labels] = {}

    @property
    def metric(self) -> str:
        return self.kind.metric

    def prepare(self, task_config: TaskConfig, labels: Sequence[str] = ()) -> None:
        self._more_labels = tuple(labels)
        self._labels.clear()
        self._labels_of(task_config.task)
        for each in self._judged_filters(task_config):
            self.cases.prepare(task_config.task, each)

    def has_labels(self, labels: Sequence[str] = ()) -> bool:
        return bool(self.labels_file or labels)

    # ------------------------------------------------------------------ asking

    def next_requests(self, instances_by_doc: InstancesByDoc, task_config: TaskConfig) -> list[Instance]:
        questions: list[Instance] = []
        for name in self._judged_filters(task_config):
            for instances in instances_by_doc.values():
                for draw, case in enumerate(self.cases.of(instances, name)):
                    questions += self.asking.next_questions(instances[-1], case, name, draw)
        return questions

    def _judged_filters(self, config: TaskConfig) -> Iterator[str]:
        for each in filters_of(config):
            if not each.metric_list or any(metric.name in self.own_metrics for metric in each.metric_list):
                yield each.name

    # ------------------------------------------------------------------ scoring

    def score_filter(self, context: ScoringContext, result: ScoringResult) -> None:
        if self.metrics_of(context):
            super().score_filter(context, result)
        name = context.filter_name
        if name not in set(self._judged_filters(context.task_config)):
            return
        listed = {each.name: each for each in metric_configs(context.task_config, context.filter)}
        keys = {metric: MetricKey(metric, name) for metric in self.own_metrics}
        for metric, key in keys.items():
            result.declare(key, *self._declared(metric, listed.get(metric)))
        opinions = [key for metric, key in keys.items() if metric != "position_flip"]
        for key in opinions:
            result.open_judged(key)
        labels = self._labels_of(context.task_config.task)
        for doc_id, instances in context.instances.items():
            cases = self.cases.of(instances, name)
            of_draws = [self._scores(instances[-1], case, name, draw) for draw, case in enumerate(cases)]
            if not of_draws or None in of_draws:
                result.flag(doc_id, "unjudged", name)
                continue
            known = [scores for scores in of_draws if scores is not None]
            for metric in known[0]:
                key = keys.get(metric) or MetricKey(metric, name)
                entry = listed.get(metric)
                result.declare(key, *self._declared(metric, entry))
                named = (entry.reducer if entry else None) or context.task_config.reducer
                reduce = _mean if named is None else get_reducer(named)
                result.add(key, doc_id, together([scores[metric] for scores in known], reduce))
            labelled = [
                key for key in opinions if key.metric in known[0] and key.metric not in self.kind.extra_scores()
            ]
            if not self._label(result, labelled, doc_id, cases, labels) and not self._is_label_of_another(
                instances, context.task_config, labels
            ):
                result.flag(doc_id, "unused_labels")

    def _declared(self, metric: str, listed: MetricConfig | None) -> tuple[Any, bool | None]:
        if listed is not None:
            return aggregation_of(listed), True if listed.higher_is_better is None else higher_is_better_of(listed)
        aggregation = self.kind.extra_scores().get(metric, "mean")
        return AGGREGATIONS[aggregation], metric != "position_flip"

    def _scores(self, about: Instance, case: Case, filter_name: str, draw: int) -> dict[str, Any] | None:
        """The scores of one answer; None where no judge of the panel gave a verdict."""
        by_judge: dict[str, dict[str, Any]] = {}
        for judge in self.roles:
            verdicts = self.asking.verdicts(about, case, judge, filter_name, draw)
            if verdicts is not None:
                by_judge[judge] = self.kind.scores(verdicts, case)
        if not by_judge:
            return None
        each = list(by_judge.values())
        put_together = majority if self.panel == "majority" else _mean
        scores = {metric: together([scores[metric] for scores in each], put_together) for metric in each[0]}
        if len(self.roles) > 1:
            scores |= {f"{self.metric}_{judge}": of_judge[self.metric] for judge, of_judge in by_judge.items()}
        return scores

    # ------------------------------------------------------------------ labels

    def _label(
        self, result: ScoringResult, keys: Sequence[MetricKey], doc_id: int, cases: Sequence[Case], labels: Labels
    ) -> bool:
        """A doc is labelled where all draws of its answer are. False where its labels are for other answers."""
        content = doc_hash(cases[0].doc)
        if content not in labels.docs:
            return True
        given = [labels.of(content, case.judged_texts) for case in cases]
        if not all(given):
            return False
        values = [[self._label_value(verdict, case) for verdict in of] for of, case in zip(given, cases)]
        for key in keys:
            result.label(key, doc_id, _mean([_mean(of) for of in values]))
        return True

    def _is_label_of_another(self, instances: Sequence[Instance], config: TaskConfig, labels: Labels) -> bool:
        """Whether the doc's labels are for what another filter made of the answer."""
        content = doc_hash(instances[-1].doc)
        cases = (case for name in self._judged_filters(config) for case in self.cases.of(instances, name))
        return any(labels.of(content, case.judged_texts) for case in cases)

    def _label_value(self, verdict: Any, case: Case) -> float:
        scale = self.kind.label_scale(case)
        value = scale.read(verdict)
        if value is None:
            raise DataError(f"labels: {verdict!r} is not a verdict of this judge", hint=f"Expected {scale.words()}.")
        return value

    def _labels_of(self, task: str) -> Labels:
        if task not in self._labels:
            paths = [*([self.labels_file] if self.labels_file else []), *self._more_labels]
            self._labels[task] = Labels.read(paths, task)
        return self._labels[task]


def _check_panel(judges: Sequence[str] | str, panel: str, repeats: int) -> None:
    if not judges or (not isinstance(judges, str) and len(set(judges)) < len(judges)):
        raise ConfigError(f"judges is {judges!r}", hint="Name each judge of the panel once: judges: [judge, second].")
    if panel not in ("mean", "majority"):
        raise ConfigError(f"panel is {panel!r}", hint="Use panel: mean or panel: majority.")
    if not isinstance(repeats, int) or repeats < 1:
        raise ConfigError(f"judge_repeats is {repeats!r}", hint="Use a number from 1 up.")


def make_kind(name: str, settings: Mapping[str, Any]) -> JudgeKind:
    """A kind by name, with its own settings; one that it does not know is an error."""
    import inspect

    cls = JUDGE_KINDS[name]
    known = list(inspect.signature(cls).parameters)
    for key in settings:
        if key not in known:
            common = [
                "judges",
                "panel",
                "judge_repeats",
                "template",
                "question",
                "reference",
                "labels",
                "opponent",
                "opponent_answer",
            ]
            hint = did_you_mean(key, [*known, *common]) or f"It takes: {', '.join([*known, *common])}."
            raise ConfigError(f"a judge of the kind {name} has no setting {key!r}", hint=hint)
    return cls(**settings)


def together(values: Sequence[Any], reduce: Callable[[list[float]], float]) -> Any:
    """One value of several; of pairs, place by place."""
    if isinstance(values[0], tuple):
        return tuple(reduce([value[i] for value in values]) for i in range(len(values[0])))
    return values[0] if len(values) == 1 else reduce(list(values))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def majority(values: Sequence[float]) -> float:
    """The verdict that most judges gave; where several lead, the mean of those.

    >>> majority([1.0, 0.0, 1.0]), majority([1.0, 0.0])
    (1.0, 0.5)
    """
    counts = Counter(values)
    most = max(counts.values())
    return _mean([value for value, count in counts.items() if count == most])
