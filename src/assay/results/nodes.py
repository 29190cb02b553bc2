"""What a run found about one task, or about one group of tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from assay.results.health import Health
from assay.results.keys import MetricKey, the_one
from assay.results.scores import GroupScore, Score, read_group_scores, read_scores, write_scores
from assay.stats import Estimate


class _Numbers:
    """`task["acc"]`, `task["exact_match,strict-match"]` and `task["acc", "none"]` are estimates."""

    name: str
    scores: Mapping[MetricKey, Score]

    def __getitem__(self, metric: str | tuple[str, str]) -> Estimate:
        return self.scores[the_one(metric, self.scores, self.name)].estimate

    def __contains__(self, key: object) -> bool:
        return key in self.scores or key in [str(each) for each in self.scores]

    def __iter__(self) -> Iterator[MetricKey]:
        return iter(self.scores)

    def __len__(self) -> int:
        return len(self.scores)


@dataclass(frozen=True)
class AppliedOverlay:
    """What an overlay does to the docs that a task would send."""

    name: str
    sha256: str
    excluded: int
    corrected: int

    def __str__(self) -> str:
        """
        >>> str(AppliedOverlay("mmlu-pro-2026.1", "", 41, 1))
        'without 41 docs, 1 corrected: overlay mmlu-pro-2026.1'
        """
        parts = [f"without {self.excluded:,} doc{'' if self.excluded == 1 else 's'}"] if self.excluded else []
        parts += [f"{self.corrected:,} corrected"] if self.corrected else []
        return f"{', '.join(parts) or 'no doc changed'}: overlay {self.name}"


@dataclass(frozen=True)
class TaskResult(_Numbers):
    """One task: its scores, health and provenance."""

    name: str
    alias: str
    scores: dict[MetricKey, Score]
    health: Health = field(default_factory=Health)
    version: Any = None
    num_fewshot: int | None = None
    output_type: str | None = None
    config: dict[str, Any] = field(default_factory=dict)
    """The task's config as the results file shows it."""
    higher_is_better: dict[str, bool | None] = field(default_factory=dict)
    """By metric alone, as lm-evaluation-harness has it; None where filters disagree. Each score carries its own."""
    original: int = 0
    """Docs in the split."""
    sample_len: int = 0
    """The largest number of docs any metric was computed on."""
    sample_file: str | None = None
    """Relative to the run directory."""
    task_hash: str = ""
    data: dict[str, Any] = field(default_factory=dict)
    """Where the docs came from: path, revision or content hash."""
    stop_reason: str | None = None
    """Why `--until` stopped asking."""

    @property
    def overlays(self) -> tuple[AppliedOverlay, ...]:
        """The overlays that it was scored under."""
        return tuple(AppliedOverlay(**each) for each in self.data.get("overlays", ()))

    def to_json(self) -> dict[str, Any]:
        """All but the config, which the results file has under `configs`."""
        entry = {name: value for name, value in vars(self).items() if name not in ("name", "config")}
        return {**entry, "scores": write_scores(self.scores), "health": self.health.to_json()}

    @classmethod
    def from_json(cls, name: str, entry: Mapping[str, Any], config: Mapping[str, Any]) -> TaskResult:
        read = {"scores": read_scores(entry["scores"]), "health": Health.from_json(entry["health"])}
        return cls(**{**entry, **read, "name": name, "config": dict(config)})


@dataclass(frozen=True)
class GroupResult(_Numbers):
    """One group: its numbers and members."""

    name: str
    alias: str
    scores: dict[MetricKey, GroupScore]
    children: tuple[str, ...] = ()
    version: str = "N/A"
    has_aggregation: bool = True

    def to_json(self) -> dict[str, Any]:
        entry = {name: value for name, value in vars(self).items() if name != "name"}
        return {**entry, "scores": write_scores(self.scores), "children": list(self.children)}

    @classmethod
    def from_json(cls, name: str, entry: Mapping[str, Any]) -> GroupResult:
        read = {"scores": read_group_scores(entry["scores"]), "children": tuple(entry["children"])}
        return cls(**{**entry, **read, "name": name})
