"""Is a choice task's accuracy better than guessing?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from assay.stats import chance_p_value


@dataclass(frozen=True)
class Chance:
    """The accuracy of guessing, and the probability that guessing gets at least as many right as were seen."""

    accuracy: float
    p_value: float


def chance_test(right: int, choice_counts: Mapping[int, int]) -> Chance:
    """An exact test. `choice_counts` says how many docs have how many choices; docs may differ.

    >>> chance_test(10, {4: 10}).accuracy
    0.25
    """
    chances = [1 / choices for choices, docs in choice_counts.items() for _ in range(docs)]
    return Chance(sum(chances) / len(chances), chance_p_value(right, chances))
