"""A branch: a run that takes the first steps of its trajectories from a finished run, and goes on from there by itself."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from assay.agents import BranchPoint
from assay.config import RunConfig
from assay.errors import ConfigError, did_you_mean
from assay.finished import stored_docs
from assay.results import RunDirectory, Trajectory, trajectories_stored, unpack_responses
from assay.run.doc_work import DocWork, StoredDoc
from assay.run.plan import Plan, PlannedTask
from assay.run.stored import StoredDocs


class OtherResult(BaseModel):
    """A line of the file of `tool_result`: what a tool is taken to have said in a step."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    doc: int
    step: int
    result: str
    draw: int | None = None
    """Needed where the doc has several."""
    call: int | None = None
    """Counted from 1; needed where the step made several."""
    task: str | None = None
    """Needed where the run has several."""


@dataclass(frozen=True)
class ResultLine:
    """Such a line, and where it stands."""

    where: str
    row: OtherResult

    def wrong(self, found: str, hint: str | None) -> ConfigError:
        return ConfigError(f"{self.where}: {found}", hint=hint)


class Branch:
    """Where each trajectory of a finished run is left, and by how many."""

    def __init__(self, source: RunDirectory, config: RunConfig, lines: Sequence[ResultLine]) -> None:
        self.source, self.at, self.lines = source, config.at, lines
        self.repeats = config.repeats or 1
        self._docs: dict[str, StoredDocs] = {}
        self._results: dict[tuple[str, int, int], dict[tuple[int, int], str]] = {}
        """By task, doc and draw."""
        self._lock = Lock()
        """Windows of docs come on several threads."""

    @classmethod
    def open(cls, run: str, config: RunConfig) -> Branch:
        file = config.replace.get("tool_result")
        return cls(RunDirectory.open(run), config, [] if file is None else list(read_lines(Path(file))))

    def of(self, plan: Plan) -> Plan:
        """The plan with the docs that the finished run has, and a word on others; what is replaced is found there now."""
        tasks, notes = {}, []
        by_task = self._lines_by_task(plan)
        for name, planned in plan.tasks.items():
            there = self._look_at(planned, by_task.get(name, ()))
            missing = [doc_id for doc_id in planned.doc_ids if doc_id not in there]
            if missing:
                shown = ", ".join(map(str, missing[:5])) + (", …" if len(missing) > 5 else "")
                notes.append(
                    f"{name}: {self.source.path} has no trajectories of {len(missing)} docs ({shown}); they are left out"
                )
            tasks[name] = replace(planned, doc_ids=[doc_id for doc_id in planned.doc_ids if doc_id in there])
        return replace(plan, tasks=tasks, notes=(*plan.notes, *notes), branches=self.points)

    def points(self, work: DocWork) -> list[BranchPoint]:
        """Of a doc: each of its trajectories, as often as it is to be left."""
        with self._lock:
            if work.task not in self._docs:
                self._docs[work.task] = StoredDocs(self.source.sample_file(work.task))
            stored = self._docs[work.task].take(work.requests.doc_id)
        assert stored is not None, "the plan has only docs that were found"
        kept = trajectories_in(stored)
        if stored.doc_hash != work.requests.doc_hash or not kept:
            reason = f"{self.source.path} has " + ("another doc in its place" if kept else "no trajectory of the doc")
            failed = [replace(each, ended="failed", reason=reason) for each in kept or [Trajectory()]]
            return [BranchPoint(str(self.source.path), each, each.draw) for each in failed]
        free = max(each.draw for each in kept) + 1
        found = []
        for place, each in enumerate(kept):
            results = self._results.get((work.task, work.requests.doc_id, each.draw), {})
            steps = self._steps(each, results)
            if not steps:
                found.append(BranchPoint(str(self.source.path), each, each.draw))
            for step in steps:
                for again in range(self.repeats):
                    draw = free + again * len(kept) + place
                    found.append(BranchPoint(str(self.source.path), each, draw, step, results, self.at == "each"))
        return found

    def _steps(self, kept: Trajectory, results: Mapping[tuple[int, int], str]) -> Sequence[int]:
        """The steps at which it is left; none where it stays as it was."""
        if self.lines and not results:
            return []
        if self.at is None:
            return [max(step for step, _ in results) + 1]
        if self.at == "each":
            return range(1 + max((step for step, _ in results), default=0), kept.steps + 1)
        if self.at == "first_error":
            return [call["step"] for call in kept.calls if call.get("error")][:1]
        return [self.at] if self.at <= kept.steps else []

    def _look_at(self, planned: PlannedTask, lines: Sequence[ResultLine]) -> set[int]:
        """The docs of a task that the finished run has; what is replaced in them is checked against what they did."""
        file = self.source.sample_file(planned.name)
        if not planned.task.acts:
            raise ConfigError(
                f"task {planned.name!r} is not an agent", hint="Only trajectories of agents have branches."
            )
        if not file.is_file():
            raise ConfigError(
                f"{self.source.path} has no samples of {planned.name!r}", hint="Name tasks that the run evaluated."
            )
        there, by_doc = set(), {line.row.doc: line for line in lines}
        for doc_id, stored in stored_docs(file):
            there.add(doc_id)
            if doc_id in by_doc:
                mine = [line for line in lines if line.row.doc == doc_id]
                self._place(planned.name, trajectories_in(StoredDoc(*stored)), mine)
        for doc_id, line in by_doc.items():
            if doc_id not in there:
                raise line.wrong(f"{self.source.path} has no doc {doc_id} of {planned.name}", "Use ids of its docs.")
        return there

    def _place(self, task: str, kept: Sequence[Trajectory], lines: Sequence[ResultLine]) -> None:
        """Each line at the call that it is about."""
        by_draw = {each.draw: each for each in kept}
        for line in lines:
            row = line.row
            draw = next(iter(by_draw)) if row.draw is None and len(by_draw) == 1 else row.draw
            if draw not in by_draw:
                raise line.wrong(
                    f"doc {row.doc} has no draw {draw}" if draw is not None else f"doc {row.doc} has several draws",
                    f"Add `draw`; there are {', '.join(map(str, by_draw))}.",
                )
            calls = [call for call in by_draw[draw].calls if call["step"] == row.step]
            place = 1 if row.call is None and len(calls) == 1 else row.call
            if place is None or not 1 <= place <= len(calls):
                raise line.wrong(
                    f"step {row.step} of doc {row.doc} made {len(calls)} calls",
                    "Name a step that made one, and with `call` which.",
                )
            if type(self.at) is int and row.step >= self.at:
                raise line.wrong(
                    f"step {row.step} is not before step {self.at}, where the branch begins", "Use an earlier one."
                )
            others = self._results.setdefault((task, row.doc, draw), {})
            if (row.step, place - 1) in others:
                raise line.wrong(
                    f"the result of step {row.step} of doc {row.doc} is replaced twice", "Remove one line."
                )
            others[row.step, place - 1] = row.result

    def _lines_by_task(self, plan: Plan) -> dict[str, list[ResultLine]]:
        found: dict[str, list[ResultLine]] = {}
        for line in self.lines:
            task = line.row.task or (next(iter(plan.tasks)) if len(plan.tasks) == 1 else None)
            if task is None:
                raise line.wrong(
                    "the run has several tasks, and the line names none", f"Add `task`: {', '.join(plan.tasks)}."
                )
            if task not in plan.tasks:
                raise line.wrong(f"{task!r} is not among the tasks of this run", did_you_mean(task, plan.tasks))
            found.setdefault(task, []).append(line)
        return found


def read_lines(path: Path) -> Iterator[ResultLine]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"--replace tool_result: {path} cannot be read: {error}", hint="Name a file of JSON lines."
        ) from error
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        where = f"{path}, line {number}"
        try:
            row: Any = json.loads(text)
            yield ResultLine(where, OtherResult.model_validate(row, strict=True))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            named = ".".join(map(str, first["loc"])) or "the line"
            raise ConfigError(f"{where}: {named}: {first['msg']}", hint=_FORM) from error
        except ValueError as error:
            raise ConfigError(f"{where}: no JSON: {error}", hint=_FORM) from error


_FORM = 'Write one JSON object a line: {"doc": 0, "draw": 0, "step": 2, "result": "…"}; with `task` and `call` where there are several.'


def trajectories_in(stored: StoredDoc) -> list[Trajectory]:
    """All draws of a doc, those that failed too, in their order."""
    responses = unpack_responses(stored.resps, stored.stops, stored.tokens, stored.extras)
    return trajectories_stored(responses[0])
