"""pass@k from the counts of each problem: n draws, c of them right.

With n draws, 1 − C(n−c, k) / C(n, k) is the unbiased estimate of the chance that at least one of k draws is right (Chen
et al. 2021). The group's number is the mean over the problems of all its tasks, so tasks count by size.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from assay.config import AggMetricConfig
from assay.errors import ConfigError
from assay.groups.formulas import Floats
from assay.groups.keys import MetricKey
from assay.groups.members import Gathered, Member, Scores
from assay.stats import Score, bootstrap_replicates, doc_keys, mean_estimate

_NAME = re.compile(r"pass@(\d+)")


def pass_at_k(counts: NDArray[np.int64], k: int) -> Floats:
    """Per problem, the chance that at least one of k draws is right.

    >>> pass_at_k(np.array([[10, 3], [10, 0], [10, 8]]), 5).round(4).tolist()
    [0.9167, 0.0, 1.0]
    """
    pairs, inverse = np.unique(np.asarray(counts, dtype=np.int64), axis=0, return_inverse=True)
    chances = [1.0 - math.comb(int(n - c), k) / math.comb(int(n), k) for n, c in pairs]
    return np.asarray(chances, dtype=np.float64)[inverse.reshape(-1)]


def k_of(entry: AggMetricConfig) -> int:
    """`kwargs: {k: 10}`, else the number in the metric's name (`pass@10`), else 1."""
    named = _NAME.fullmatch(entry.metric)
    k = entry.kwargs.get("k", int(named[1]) if named else 1)
    if not isinstance(k, int) or isinstance(k, bool) or k < 1:
        raise ConfigError(f"metric {entry.metric!r}: pass@k with k = {k!r}", hint="k is a whole number from 1 on.")
    return k


def gather_counts(entry: AggMetricConfig, key: MetricKey, names: Sequence[str], scores: Scores) -> Gathered:
    """The children's pass@k, made from their counts.

    The counts of a task do not depend on k, so pass@10 may be asked of tasks that report only pass@1, or only one
    metric. A task without counts takes part if it reports this very pass@k.
    """
    k = k_of(entry)
    members: list[Member] = []
    missing: dict[str, str] = {}
    for name in names:
        found = _with_counts(name, scores.get(name, {}), key)
        counts = None if found is None else found.draw_counts
        ready = scores.get(name, {}).get(MetricKey(f"pass@{k}", key.filter))
        if found is not None and counts is not None:
            short = int((counts[:, 0] < k).sum())
            if not len(counts):
                missing[name] = "has no problems"
            elif short:
                missing[name] = f"has {short} of {len(counts)} problems with fewer than {k} draws"
            else:
                score = _score(found, counts, k, name)
                members.append(Member(name, score, score.size))
        elif ready is not None and ready.estimate.value is not None:
            members.append(Member(name, ready, ready.size))
        else:
            missing[name] = (
                "was not scored" if name not in scores else f"has no counts of draws under filter {key.filter!r}"
            )
    return Gathered(tuple(members), missing)


def _with_counts(name: str, found: Mapping[MetricKey, Score], key: MetricKey) -> Score | None:
    """The score whose right draws are meant: the one of this name, else the task's pass@…, else its only one."""
    counted = {other: s for other, s in found.items() if other.filter == key.filter and s.counts is not None}
    if key in counted:
        return counted[key]
    # pass@1 and pass@10 of one task count the same draws.
    named = [score for other, score in counted.items() if _NAME.fullmatch(other.metric)]
    if not named and len(counted) > 1:
        metrics = [other.metric for other in counted]
        raise ConfigError(
            f"{key.metric} of {name!r} could count the right draws of {', '.join(metrics[:-1])} or {metrics[-1]}",
            hint=f"Name one: {{metric: {metrics[0]}, aggregation: pass@k, kwargs: {{k: …}}}}.",
        )
    return next(iter([*named, *counted.values()]), None)


def _score(found: Score, counts: NDArray[np.int64], k: int, name: str) -> Score:
    chances = pass_at_k(counts, k)
    known = found.doc_keys
    keys = known if known is not None else doc_keys(f"{name}:{i}" for i in range(len(chances)))
    shared = len(np.unique(keys)) < len(keys)

    def replicates() -> Floats:
        table = np.column_stack([chances, np.ones(len(chances))])
        return bootstrap_replicates(table, lambda sums: sums[..., 0] / sums[..., 1], keys, B=len(found.draws))

    return Score(
        mean_estimate(chances, keys if shared else None),
        len(chances),
        replicates,
        counts=lambda: counts,
        samples=lambda: (chances, keys),
    )
