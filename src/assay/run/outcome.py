"""A finished evaluation as data: what the report layer turns into files, tables and pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from assay.config import RunConfig
from assay.groups import GroupManager, GroupScore, MetricKey
from assay.results.directory import RunDirectory
from assay.run.progress import Counts
from assay.stats import Estimate, Score


@dataclass(frozen=True)
class Health:
    """What may be wrong with a score that its error bar does not show. Counts are docs."""

    docs: int = 0
    failed: int = 0
    truncated: int = 0
    empty: int = 0
    unparsed: dict[str, int] = field(default_factory=dict)
    """By filter."""
    tied: int = 0
    duplicate_prompts: int = 0
    filters_disagree: int = 0
    fewshot_leaks_avoided: int = 0
    bounds: dict[str, tuple[float, float]] = field(default_factory=dict)
    """`metric,filter` → the score if all unparsed answers were wrong, and if all were right."""
    chance: dict[str, float] | None = None
    """For choice tasks: the accuracy of guessing, and the p-value of the exact test against it."""
    withheld: str | None = None
    """Why the score must not be used: a share above the threshold the run was given."""

    def share(self, count: int) -> float:
        return count / self.docs if self.docs else 0.0

    @property
    def marks(self) -> list[str]:
        """Short marks for tables, worst first.

        >>> Health(docs=10, failed=1, truncated=5).marks
        ['1 failed', '50% truncated']
        """
        marks = [f"{self.failed} failed"] if self.failed else []
        unparsed = max(self.unparsed.values(), default=0)
        for name, count in (("truncated", self.truncated), ("unparsed", unparsed), ("empty", self.empty), ("tied", self.tied)):  # fmt: skip
            if count:
                marks.append(f"{self.share(count):.0%} {name}" if self.share(count) >= 0.01 else f"{count} {name}")
        if self.chance and self.chance["p_value"] > 0.05:
            marks.append("≈ chance")
        return marks


@dataclass(frozen=True)
class TaskOutcome:
    """One task: its scores and what they rest on."""

    name: str
    alias: str
    version: Any
    num_fewshot: int
    output_type: str
    config: dict[str, Any]
    higher_is_better: dict[str, bool | None]
    original: int
    """Docs in the split."""
    sample_len: int
    """The largest number of docs any metric was computed on."""
    scores: dict[MetricKey, Score]
    health: Health
    sample_file: str | None = None
    task_hash: str = ""
    data: dict[str, Any] = field(default_factory=dict)
    """Where the docs came from: path, revision or content hash."""


@dataclass(frozen=True)
class Outcome:
    """One evaluation."""

    config: RunConfig
    tasks: dict[str, TaskOutcome]
    groups: GroupManager
    group_scores: dict[str, dict[MetricKey, GroupScore]]
    model: dict[str, Any]
    environment: dict[str, Any]
    counts: Counts
    seconds: dict[str, float]
    date: float
    directory: RunDirectory | None = None
    stop_reasons: dict[str, str] = field(default_factory=dict)
    """Why a run with `--until` stopped asking each task."""
    notes: list[str] = field(default_factory=list)

    @property
    def withheld(self) -> list[str]:
        return [name for name, task in self.tasks.items() if task.health.withheld]

    def estimates(self, name: str) -> dict[MetricKey, Estimate]:
        """All numbers of a task or group."""
        scores: Mapping[MetricKey, Score] = self.tasks[name].scores if name in self.tasks else self.group_scores[name]
        return {key: score.estimate for key, score in scores.items()}
