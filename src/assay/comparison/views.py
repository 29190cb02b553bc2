"""A finished run as comparison sees it, whoever wrote it: docs, prompts, scores, groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.errors import ConfigError, did_you_mean
from assay.stats import Estimate

Keys = NDArray[np.uint64]


@dataclass(frozen=True)
class Column:
    """One metric of one task, a value per doc. Numbers are float64 with NaN where there is none; else objects.

    `docs` and `requests` are the first 64 bits of the content hashes; `requests` is None where the format keeps no
    prompts.
    """

    docs: Keys
    requests: Keys | None
    values: NDArray[Any]
    doc_ids: NDArray[np.int64]
    clusters: NDArray[Any] | None = None

    def __len__(self) -> int:
        return len(self.docs)

    @property
    def numeric(self) -> bool:
        return self.values.dtype == np.float64

    def take(self, index: NDArray[np.int64]) -> Column:
        return Column(
            self.docs[index],
            None if self.requests is None else self.requests[index],
            self.values[index],
            self.doc_ids[index],
            None if self.clusters is None else self.clusters[index],
        )


@dataclass(frozen=True)
class GroupView:
    """How a group's number is made of its tasks: the rule, and each child's share of the whole where it has one."""

    aggregator: str
    shares: Mapping[str, float | None]


@dataclass(frozen=True)
class RunView:
    """One run. Columns of a task are read when they are asked for and not kept: runs may be large."""

    path: Path
    model: str
    format: str
    tasks: tuple[str, ...]
    read: Callable[[str], dict[str, Column]]
    """Task to columns, by `metric,filter`."""
    reported: Mapping[str, Mapping[str, Estimate]]
    """The numbers the run itself gives, for tasks and groups."""
    directions: Mapping[str, Mapping[str, bool | None]] = field(default_factory=dict)
    """By task or group, then by metric: whether higher is better."""
    aggregations: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By task, then by metric: the name of the aggregation where it is not the mean."""
    groups: Mapping[str, Mapping[str, GroupView]] = field(default_factory=dict)
    tree: tuple[tuple[int, str], ...] = ()
    """(depth, name) in the order of a table."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    repeats: Mapping[str, int] = field(default_factory=dict)
    stopped: Mapping[str, str] = field(default_factory=dict)
    """Tasks that `--until` ended, and why."""
    withheld: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """By name and `metric,filter`: numbers that must not be used, and why."""
    show_docs: Callable[[str, NDArray[np.int64]], list[dict[str, Any]]] | None = None
    """Task and doc ids to what was asked and answered, where the format keeps it."""

    @cached_property
    def label(self) -> str:
        name = self.path.resolve().name
        return f"{self.model} ({name})" if self.model else name

    def higher_is_better(self, name: str, metric: str) -> bool:
        """Unknown counts as yes."""
        return self.directions.get(name, {}).get(metric) is not False

    def columns(self, task: str) -> dict[str, Column]:
        if task not in self.tasks:
            raise ConfigError(f"{self.path} has no task {task!r}", hint=did_you_mean(task, self.tasks))
        return self.read(task)
