"""Kept answers scored again: their filter on our answers, our metric on theirs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np

from assay.comparison.model import Floats
from assay.comparison.runs import AskedDoc
from assay.config import FilterConfig
from assay.errors import AssayError
from assay.filters import FilterEnsemble
from assay.instance import Instance
from assay.metrics import METRICS
from assay.results import MetricKey

_NOT_ARGUMENTS = {"metric", "aggregation", "higher_is_better"}


@dataclass(frozen=True)
class Rules:
    """How a run made values of answers: a chain of filters, and a metric with its arguments."""

    filter_steps: Any
    metric: str
    arguments: Mapping[str, Any]

    @classmethod
    def of(cls, config: Mapping[str, Any], key: MetricKey) -> Rules:
        entry: Mapping[str, Any] = next((f for f in config.get("filter_list") or () if f.get("name") == key.filter), {})
        steps = entry.get("filter") or [{"function": "take_first"}]
        listed = entry.get("metric_list") or config.get("metric_list") or ()
        named: Mapping[str, Any] = next(
            (m for m in listed if isinstance(m, Mapping) and m.get("metric") == key.metric), {}
        )
        return cls(steps, key.metric, {k: v for k, v in named.items() if k not in _NOT_ARGUMENTS})

    def filtered(self, docs: Sequence[AskedDoc], answers: Sequence[Sequence[Any]]) -> list[Any]:
        """What the filters leave of these answers to the docs."""
        ensemble = FilterEnsemble.from_config(
            FilterConfig.model_validate({"name": "asked", "filter": self.filter_steps})
        )
        instances = []
        for doc, draws in zip(docs, answers, strict=True):
            instance = Instance("generate_until", dict(doc.doc), (doc.requests[0].prompt, {}), 0, doc.doc_id, "")
            instance.resps = list(draws)
            instances.append(instance)
        ensemble.apply(instances)
        return [instance.filtered_resps["asked"] for instance in instances]

    def values(self, docs: Sequence[AskedDoc], filtered: Sequence[Any]) -> Floats:
        score = METRICS[self.metric].form("generation")
        assert score is not None
        return np.array([float(self._value(score, d.target, f)) for d, f in zip(docs, filtered, strict=True)])

    def _value(self, score: Any, target: Any, filtered: Any) -> float:
        prediction = filtered[0] if isinstance(filtered, list) and filtered else filtered
        references = target if isinstance(target, list) else [target]
        value = score(references=references, predictions=[prediction] * len(references), **self.arguments)
        if isinstance(value, Mapping):
            value = value[self.metric]
        return float(value)


def first_draws(docs: Sequence[AskedDoc]) -> list[tuple[Any, ...]]:
    return [doc.responses[0] if doc.responses else () for doc in docs]


def shapley_scores(
    docs: tuple[Sequence[AskedDoc], Sequence[AskedDoc]], rules: tuple[Rules, Rules], known: tuple[Floats, Floats]
) -> dict[str, Floats] | None:
    """Of each doc's difference the part of its answers, of the filter and of the metric; None where neither can be repeated.

    Each is switched from A to B in every order, and what it changes is averaged. Values that do not come out as the run
    recorded them cannot be taken apart.
    """
    answers = (first_draws(docs[0]), first_draws(docs[1]))
    try:
        table = _table(docs, rules, answers)
    except (AssayError, KeyError, TypeError, ValueError, IndexError, AssertionError, AttributeError):
        return None  # rules that live in a task's own code, or in another harness: nothing to repeat here
    for side in (0, 1):
        if not np.allclose(table[side, side, side], known[side]):
            return None
    names = ("answers", "filter", "metric")
    parts = {name: np.zeros(len(known[0])) for name in names}
    orders = list(permutations(range(3)))
    for order in orders:
        state = [0, 0, 0]
        for factor in order:
            before = table[state[0], state[1], state[2]]
            state[factor] = 1
            parts[names[factor]] += (table[state[0], state[1], state[2]] - before) / len(orders)
    return parts


def _table(
    docs: tuple[Sequence[AskedDoc], Sequence[AskedDoc]], rules: tuple[Rules, Rules], answers: tuple[Any, Any]
) -> dict[tuple[int, int, int], Floats]:
    """Values by whose answers, whose filter and whose metric."""
    table = {}
    for whose in (0, 1):
        for filter_side in (0, 1):
            filtered = rules[filter_side].filtered(docs[whose], answers[whose])
            for metric_side in (0, 1):
                table[whose, filter_side, metric_side] = rules[metric_side].values(docs[metric_side], filtered)
    return table
