"""Several causes at once: a sample of docs is asked again with one thing changed at a time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, permutations
from typing import Any

import numpy as np

from assay.comparison.explanation.causes import RequestChange
from assay.comparison.explanation.rescoring import Rules, is_choice
from assay.comparison.model import Floats
from assay.comparison.runs import AskedDoc
from assay.instance import Instance, Response
from assay.models import LM

MOST_CAUSES = 4


def shapley_requests(
    lm: LM,
    docs: Sequence[AskedDoc],
    changes: Sequence[Sequence[RequestChange]],
    causes: frozenset[str],
    rules: Rules,
    known: tuple[Floats, Floats],
) -> dict[str, Floats]:
    """Of each doc's change the part of each cause. What was asked with none and with all of them is known already."""
    ordered = sorted(causes)
    values: dict[frozenset[str], Floats] = {frozenset(): known[0], causes: known[1]}
    for size in range(1, len(ordered)):
        for chosen in combinations(ordered, size):
            values[frozenset(chosen)] = _asked(lm, docs, changes, frozenset(chosen), rules)
    parts: dict[str, Floats] = {cause: np.zeros(len(docs)) for cause in ordered}
    orders = list(permutations(ordered))
    for order in orders:
        state: frozenset[str] = frozenset()
        for cause in order:
            following = state | {cause}
            parts[cause] += (values[following] - values[state]) / len(orders)
            state = following
    return parts


def _asked(
    lm: LM, docs: Sequence[AskedDoc], changes: Sequence[Sequence[RequestChange]], chosen: frozenset[str], rules: Rules
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
