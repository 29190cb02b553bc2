"""What one thing is worth, with all others left as they are: stored answers are scored again, their filter on our answers, our
metric on theirs; and where several causes always come together, a sample of docs is sent again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations
from typing import Any

import numpy as np

from assay.analyses.compare import Floats
from assay.analyses.explain.causes import RequestChange
from assay.config import FilterConfig
from assay.errors import AssayError, ScoringError
from assay.filters import FilterEnsemble
from assay.finished import AnsweredDoc
from assay.instance import Instance, Response
from assay.metrics import METRICS
from assay.models import LM
from assay.results import MetricKey
from assay.scoring import MCResult, gold_indices

Answers = Sequence[Sequence[Any]]
"""The draws of each request of a doc."""
_NOT_ARGUMENTS = {"metric", "aggregation", "higher_is_better", "kwargs"}


@dataclass(frozen=True)
class Rules:
    """How a run made values of answers: a chain of filters, and a metric with its arguments."""

    filter_steps: Any
    metric: str
    arguments: Mapping[str, Any]
    delimiter: str = ""
    """Before each choice."""

    @classmethod
    def of(cls, config: Mapping[str, Any], key: MetricKey) -> Rules:
        entry: Mapping[str, Any] = next((f for f in config.get("filter_list") or () if f.get("name") == key.filter), {})
        steps = entry.get("filter") or [{"function": "take_first"}]
        listed = entry.get("metric_list") or config.get("metric_list") or ()
        named: Mapping[str, Any] = next(
            (m for m in listed if isinstance(m, Mapping) and m.get("metric") == key.metric), {}
        )
        arguments = {k: v for k, v in named.items() if k not in _NOT_ARGUMENTS} | dict(named.get("kwargs") or {})
        return cls(steps, key.metric, arguments, str(config.get("target_delimiter", " ")))

    def filtered(self, docs: Sequence[AnsweredDoc], answers: Sequence[Answers]) -> list[Any]:
        """What the filters leave of these answers to the docs. Likelihoods of choices stay as they are."""
        if docs and is_choice(docs[0]):
            return [self._choices(doc, mine) for doc, mine in zip(docs, answers, strict=True)]
        ensemble = FilterEnsemble.from_config(
            FilterConfig.model_validate({"name": "again", "filter": self.filter_steps})
        )
        instances = []
        for doc, draws in zip(docs, answers, strict=True):
            instance = Instance("generate_until", dict(doc.doc), (doc.requests[0].prompt, {}), 0, doc.doc_id, "")
            instance.resps = list(draws[0]) if draws else []
            instances.append(instance)
        ensemble.apply(instances)
        return [instance.filtered_resps["again"] for instance in instances]

    def _choices(self, doc: AnsweredDoc, answers: Answers) -> MCResult:
        """The target is the doc's whose metric reads them."""
        if self.filter_steps != [{"function": "take_first"}]:
            raise ScoringError("a filter over likelihoods")
        sent = [request.continuation or "" for request in doc.requests]
        if len(set(sent)) == 1 < len(sent):  # the context varies: the choices stand there
            choices = [str(request.prompt) for request in doc.requests]
        else:
            choices = [text.removeprefix(self.delimiter) for text in sent]
        lls, greedy = zip(*(draws[0] for draws in answers), strict=True)
        return MCResult(lls, greedy, -1, choices=choices)

    def values(self, docs: Sequence[AnsweredDoc], filtered: Sequence[Any]) -> Floats:
        score = METRICS[self.metric].form("choice" if docs and is_choice(docs[0]) else "generation")
        if score is None:
            raise ScoringError(f"{self.metric} says nothing about these answers")
        return np.array([self._value(score, d.target, f) for d, f in zip(docs, filtered, strict=True)])

    def _value(self, score: Any, target: Any, filtered: Any) -> float:
        if isinstance(filtered, MCResult):
            value = score(replace(filtered, target=gold_indices(target, filtered.choices)), **self.arguments)
        else:
            prediction = filtered[0] if isinstance(filtered, list) and filtered else filtered
            references = target if isinstance(target, list) else [target]
            value = score(references=references, predictions=[prediction] * len(references), **self.arguments)
        if isinstance(value, Mapping):
            value = value[self.metric]
        return float(value)


def is_choice(doc: AnsweredDoc) -> bool:
    """Whether the doc was put as likelihoods of its choices."""
    return len(doc.requests) > 1 and all(request.continuation is not None for request in doc.requests)


def shapley_scores(
    docs: tuple[Sequence[AnsweredDoc], Sequence[AnsweredDoc]], rules: tuple[Rules, Rules], known: tuple[Floats, Floats]
) -> dict[str, Floats] | None:
    """Of each doc's difference the part of its answers, of the filter and of the metric; None where neither can be repeated.

    Each is switched from A to B in every order, and what it changes is averaged. Values that do not come out as the run
    recorded them cannot be taken apart.
    """
    try:
        table = _table(docs, rules)
    except (AssayError, KeyError, TypeError, ValueError, IndexError, AttributeError):
        return None  # rules that live in a task's own code, or in another harness: nothing to repeat here
    for side in (0, 1):
        if not np.allclose(table[side, side, side], known[side]):
            return None
    names = ("answers", "filter", "metric")
    return _shapley(names, lambda switched: table[tuple(int(name in switched) for name in names)])


def _shapley(names: Sequence[str], values: Callable[[frozenset[str]], Floats]) -> dict[str, Floats]:
    """What each changes when it is switched, averaged over every order in which they can be."""
    parts = {name: np.zeros_like(values(frozenset())) for name in names}
    orders = list(permutations(names))
    for order in orders:
        switched: frozenset[str] = frozenset()
        for name in order:
            parts[name] += (values(switched | {name}) - values(switched)) / len(orders)
            switched |= {name}
    return parts


def _table(
    docs: tuple[Sequence[AnsweredDoc], Sequence[AnsweredDoc]], rules: tuple[Rules, Rules]
) -> dict[tuple[int, ...], Floats]:
    """Values by whose answers, whose filter and whose metric."""
    table: dict[tuple[int, ...], Floats] = {}
    for whose in (0, 1):
        answers = [doc.responses for doc in docs[whose]]
        for filter_side in (0, 1):
            filtered = rules[filter_side].filtered(docs[whose], answers)
            for metric_side in (0, 1):
                table[whose, filter_side, metric_side] = rules[metric_side].values(docs[metric_side], filtered)
    return table


MOST_CAUSES = 4


def shapley_requests(
    lm: LM,
    docs: Sequence[AnsweredDoc],
    changes: Sequence[Sequence[RequestChange]],
    causes: frozenset[str],
    rules: Rules,
    known: tuple[Floats, Floats],
) -> dict[str, Floats]:
    """Of each doc's change the part of each cause. What was sent with none and with all of them is known already."""
    ordered = sorted(causes)
    values: dict[frozenset[str], Floats] = {frozenset(): known[0], causes: known[1]}
    for size in range(1, len(ordered)):
        for chosen in combinations(ordered, size):
            values[frozenset(chosen)] = _asked(lm, docs, changes, frozenset(chosen), rules)
    return _shapley(ordered, values.__getitem__)


def _asked(
    lm: LM,
    docs: Sequence[AnsweredDoc],
    changes: Sequence[Sequence[RequestChange]],
    chosen: frozenset[str],
    rules: Rules,
) -> Floats:
    by_likelihood = is_choice(docs[0])
    instances: list[Instance] = []
    for doc, mine in zip(docs, changes, strict=True):
        for change in mine if by_likelihood else mine[:1]:
            request = change.with_causes(chosen)
            rest = request.continuation if by_likelihood else dict(request.settings)
            kind = "loglikelihood" if by_likelihood else "generate_until"
            instances.append(Instance(kind, dict(doc.doc), (request.prompt, rest), len(instances), doc.doc_id, ""))
    given = iter(lm.loglikelihood(instances) if by_likelihood else lm.generate_until(instances))
    answers = [[[_answer(next(given))] for _ in (mine if by_likelihood else mine[:1])] for mine in changes]
    return rules.values(docs, rules.filtered(docs, answers))


def _answer(answer: Any) -> Any:
    return answer.answer if isinstance(answer, Response) else answer
