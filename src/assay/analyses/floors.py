"""What a task rewards without any ability: its floors that need no model, task by task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from assay.config import RunConfig
from assay.results import MetricKey
from assay.run import TaskFloors, floors_without_model
from assay.show import Column, Findings, Table, kinds
from assay.show.kinds import Name
from assay.stats import Estimate
from assay.tasks import FLOORS, TaskManager


@dataclass(frozen=True)
class FloorRow:
    """One score of a task, by every floor that has something to say about it."""

    task: str
    key: MetricKey
    docs: int
    floors: dict[str, Estimate]
    chance: float | None

    @property
    def highest(self) -> str:
        return max(self.floors, key=lambda name: self.floors[name].value or 0.0)

    @property
    def others(self) -> str:
        """The other floors, the highest first."""
        rest = sorted(self.floors.items(), key=lambda item: -(item[1].value or 0.0))
        return " · ".join(f"{_words(name)} {each.value:.2f}" for name, each in rest if name != self.highest)

    def to_dict(self) -> dict[str, Any]:
        floors = {name: estimate.to_dict() for name, estimate in self.floors.items()}
        about = {"task": self.task, "metric": self.key.metric, "filter": self.key.filter, "docs": self.docs}
        return {**about, "chance": self.chance, "highest": self.highest, "floors": floors}


class Floors(tuple[FloorRow, ...]):
    """Of some tasks."""

    without: Mapping[str, str | None] = {}
    """Tasks that no rule answers, and what they ask for."""

    def to_dict(self) -> list[dict[str, Any]]:
        return [row.to_dict() for row in self]


def measure(config: RunConfig, manager: TaskManager) -> Floors:
    """The floors of the config's tasks, answered by rules and scored by the tasks' own filters and metrics."""
    measured = [(found, list(rows_of(found))) for found in floors_without_model(config, manager)]
    floors = Floors(row for _, rows in measured for row in rows)
    floors.without = {found.task: found.kind for found, rows in measured if not rows}
    return floors


def rows_of(found: TaskFloors) -> Iterable[FloorRow]:
    keys = dict.fromkeys(key for scores in found.floors.values() for key in scores)
    for key in keys:
        floors = {name: scores[key].estimate for name, scores in found.floors.items() if key in scores}
        is_accuracy = key.metric.startswith("acc")
        yield FloorRow(found.task, key, found.docs, floors, found.chance if is_accuracy else None)


def findings(floors: Floors) -> Findings:
    columns: list[Column[FloorRow]] = [
        Column("task", kinds.NAME, lambda row: Name(row.task), "task", shrinks=True),
        Column("metric", kinds.TEXT, lambda row: str(row.key), "metric", shrinks=True),
        Column("docs", kinds.COUNT, lambda row: row.docs, rank=2),
        Column("chance", kinds.NUMBER, lambda row: row.chance),
        Column("highest floor", kinds.TEXT, lambda row: _words(row.highest), "highest"),
        Column("value", kinds.VALUE, lambda row: row.floors[row.highest]),
        Column("others", kinds.TEXT, lambda row: row.others, shrinks=True, rank=1),
    ]
    notes = [
        "Each floor answers every doc by a rule and is scored by the task's own filters and metrics. `blind`, which needs a model, "
        "is measured by `assay run --floors`."
    ]
    return Findings(
        "Floors",
        tables=(Table.of(columns, floors),) if floors else (),
        notes=(*(notes if floors else ()), *(_without(task, kind) for task, kind in floors.without.items())),
        result=floors,
    )


def _without(task: str, kind: str | None) -> str:
    if kind == "agents":
        return f"{task}: a model plays its user, so that no rule alone can answer it"
    if kind != "judged":
        return f"{task}: no rule can answer it"
    asked = ",".join(name for name in FLOORS if FLOORS[name].of == kind)
    return f"{task}: its answers are judged, and so are those of its floors: assay run --floors {asked}"


def _words(floor: str) -> str:
    return floor.replace("_", " ")
