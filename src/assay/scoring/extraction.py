"""Scorers that bring the filter and the metric that belong together: read the answer, then compare it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from assay.scoring.scorers import GenerateScorer


class ExtractingScorer(GenerateScorer):
    """Reads an answer by its filter, and compares it by `exact_match` without regard to case and punctuation.

    Both are defaults: a task's own `filter_list` and `metric_list` go before them. Options are those of the filter.
    """

    FILTER: ClassVar[str] = "noop"
    default_metrics: ClassVar[Sequence[Any]] = (
        {"metric": "exact_match", "ignore_case": True, "ignore_punctuation": True},
    )

    def __init__(self, *, multiple_target: bool | None = None, **options: Any) -> None:
        super().__init__(multiple_target=multiple_target)
        self.options = options

    def default_filter(self) -> list[Any]:
        return [{"function": self.FILTER, "kwargs": self.options}]


class FirstTokenScorer(ExtractingScorer):
    """The whole answer, stripped at both ends: `  paris. ` is `Paris`, and `Paris is it` is not. The name is
    lm-evaluation-harness's."""

    FILTER = "remove_whitespace"


class RegexScorer(ExtractingScorer):
    """What a pattern finds first; by default the number after `#### `."""

    FILTER = "regex"


class ChoiceMatchScorer(ExtractingScorer):
    """The answer as it is: leading spaces count."""


class ChoiceScorer(ExtractingScorer):
    """The choice that an answer states, wherever it says so: `The best answer is C, because …`."""

    FILTER = "choice"
