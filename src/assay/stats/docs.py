"""From the values of docs to an estimate, by the first interval method that holds or by the one that is named."""

from __future__ import annotations

from dataclasses import replace

from assay.stats.bootstrap import bootstrap_estimate
from assay.stats.closed_form import mean_stderr, transformed
from assay.stats.estimate import Basis, Estimate
from assay.stats.methods import (
    BUILT_IN,
    INTERVAL_METHODS,
    DocEvidence,
    IntervalMethod,
    first_that_holds,
    method_for_docs,
    methods_of,
)


def estimate_from_docs(evidence: DocEvidence, level: float = 0.95, *, method: str | None = None) -> Estimate:
    """The number with its interval. Where the conditions of a `method` that is named do not hold, there is none."""
    if method is None:
        chosen, made = first_that_holds(methods_of("docs"), evidence, level)
        made = made if chosen.rank >= BUILT_IN else replace(made, basis=Basis.OTHER)
    else:
        chosen = method_for_docs(method)
        found = chosen.estimate(evidence, level) if chosen.holds(evidence) else None
        if found is None:
            return Estimate.bare(evidence.value, evidence.n, f"{method} does not hold here; it is for: {chosen.when}")
        usual = next(row for row in methods_of("docs") if row.rank >= BUILT_IN and row.holds(evidence))
        made = found if chosen is usual else replace(found, basis=Basis.OTHER)
    if chosen.of_ratio and evidence.transform is not None:
        return transformed(made, evidence.transform, evidence.value)
    if chosen.of_ratio and evidence.is_mean and evidence.clusters is None and made.stderr is not None:
        made = replace(made, stderr=mean_stderr(evidence.values))  # to lm-evaluation-harness's last digit
    return made if made.value is None else replace(made, value=evidence.value)


INTERVAL_METHODS.add(
    "formula",
    IntervalMethod(
        "formula",
        "the aggregation has a formula of its own (f1, Matthews' correlation)",
        lambda evidence: evidence.formula is not None,
        lambda evidence, level: evidence.formula(level),
        rank=100,
    ),
)
INTERVAL_METHODS.add(
    "bootstrap",
    IntervalMethod(
        "bootstrap",
        "any number that can be computed again from docs drawn with replacement",
        lambda evidence: True,
        lambda e, level: bootstrap_estimate(
            e.value, e.draws(), e.n, units=e.units, level=level, requested=e.requested_draws
        ),
        rank=190,
    ),
)
