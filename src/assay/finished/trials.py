"""Several tries at one doc (epochs, rollouts, trials), put together: docs stay the units, and what failed is never wrong."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from assay.instance import Message
from assay.metrics import is_right_or_wrong, ks_for, pass_at_k, pass_hat_k


@dataclass(frozen=True)
class Trial:
    """One try. One that broke off, by an error or a limit, has a `failure` and no scores that count."""

    scores: Mapping[str, float] = field(default_factory=dict)
    answer: Any = None
    failure: str | None = None
    conversation: tuple[Message, ...] = ()


def metrics_of(trials: Sequence[Trial]) -> dict[str, float]:
    """The means over the trials that count; with several that are right or wrong, pass@k (some of k is right) and pass^k
    (all of k are right) beside them.

    >>> metrics_of([Trial({"match": 1.0}), Trial({"match": 0.0}), Trial(failure="out of time")])
    {'match': 0.5, 'pass@2(match)': 1.0, 'pass^2(match)': 0.0}
    """
    values: dict[str, list[float]] = defaultdict(list)
    for trial in trials:
        for name, value in trial.scores.items() if trial.failure is None else ():
            if value == value:
                values[name].append(value)
    metrics = {name: sum(drawn) / len(drawn) for name, drawn in values.items()}
    for name, drawn in values.items():
        if len(drawn) > 1 and all(map(is_right_or_wrong, drawn)):
            for k in ks_for(len(drawn)):
                if k > 1:
                    metrics[f"pass@{k}({name})"] = pass_at_k(drawn, k) or 0.0
                    metrics[f"pass^{k}({name})"] = pass_hat_k(drawn, k) or 0.0
    return metrics


def failures_of(trials: Sequence[Trial]) -> tuple[str, ...]:
    return tuple(trial.failure for trial in trials if trial.failure is not None)
