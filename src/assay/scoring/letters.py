"""Scoring labels by the probability of the first token of an answer, of which a server lists the likeliest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from assay.config import TaskConfig
from assay.instance import Instance
from assay.scoring.base import Scorer, ScoringContext, ScoringResult
from assay.scoring.resolve import ResolvedMetric
from assay.scoring.results import MCResult, choices_of, filtered, gold_indices, has_gold

FORMS = 4
"""Tokens that can stand for one label: with and without a space before it, large and small."""


class LettersScorer(Scorer):
    """Labels against the index of the right one. A doc whose answer might be another if the server had listed more
    tokens is flagged `not_in_top`."""

    def score_doc(self, instances: Sequence[Instance], metric: ResolvedMetric, filter_name: str) -> Any:
        return metric.fn(letters_result(instances, filter_name), **metric.kwargs)

    def lacks_gold(self, instances: Sequence[Instance], task_config: TaskConfig) -> bool:
        return not has_gold(instances[0].target, choices_of(instances))

    def score_filter(self, context: ScoringContext, result: ScoringResult) -> None:
        for doc_id, instances in context.instances.items():
            doc = letters_result(instances, context.filter_name)
            if could_be_another(filtered(instances[0], context.filter_name)):
                result.flag(doc_id, "not_in_top")
            if len(doc.lls) > 1 and sum(ll == max(doc.lls) for ll in doc.lls) > 1:
                result.flag(doc_id, "tied")
        super().score_filter(context, result)


def letters_result(instances: Sequence[Instance], filter_name: str | None = None) -> MCResult:
    pairs = filtered(instances[0], filter_name)
    choices = choices_of(instances)
    lls = [float(ll) for ll, _ in pairs]
    best = max(lls, default=-math.inf)
    return MCResult(
        lls,
        [ll == best for ll in lls],
        gold_indices(instances[0].target, choices),
        instances,
        choices,
        filter_name=filter_name or "none",
    )


def could_be_another(pairs: Sequence[tuple[float, bool]]) -> bool:
    """Whether a label that was not listed may be likelier than all that were.

    Each of its forms is at most as likely as the bound that it was given; together they may be four times that.

    >>> could_be_another([(-0.1, True), (-9.0, False)]), could_be_another([(-8.5, True), (-9.0, False)])
    (False, True)
    """
    listed = max((ll for ll, is_listed in pairs if is_listed), default=-math.inf)
    unlisted = [ll for ll, is_listed in pairs if not is_listed]
    return bool(unlisted) and max(unlisted) + math.log(FORMS) >= listed
