"""Scores again from kept responses: filters, metrics, reducers, groups and statistics, with no model loaded.

The docs are read and the requests built anew, so that an edited task file is taken as it is now. A doc whose requests
came out different is left out and counted: its kept answer was given to another question.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass

from assay.config import RunConfig
from assay.errors import ConfigError
from assay.metrics.sandbox import allow_unsafe_code
from assay.run.accumulate import Accumulator
from assay.run.aggregate import summarize
from assay.run.directory import RunDirectory
from assay.run.environment import describe_environment
from assay.run.execute import by_task, windows
from assay.run.hashes import request_hash
from assay.run.infer import Unit
from assay.run.outcome import Outcome
from assay.run.plan import load_scoring_code, make_plan, seed_everything
from assay.run.progress import Counts, Progress, Quiet
from assay.run.samples import SampleWriter, read_samples, unpack_arguments

KEPT_COLUMNS = ["doc_id", "doc_hash", "request_hash", "filter", "arguments", "resps", "stops", "tokens"]


@dataclass(frozen=True, slots=True)
class Kept:
    """What a run kept of one doc."""

    doc_hash: str
    request_hash: str
    arguments: str
    resps: str
    stops: str | None
    tokens: str | None


def rescore(
    source: RunDirectory, config: RunConfig, *, target: RunDirectory | None = None, progress: Progress | None = None
) -> Outcome:
    """Score the responses of `source` under `config`, which may name other task files than the run did."""
    progress = progress or Quiet()
    began = time.time()
    run = source.read_json("run.json") or {}
    seed_everything(config.seed)
    allow_unsafe_code(config.confirm_run_unsafe_code)
    plan = make_plan(config, None)
    counts = Counts(docs_total=plan.doc_total())
    load_scoring_code(plan)
    replay = Replay(source, rebuilt=not config.apply_chat_template)
    accumulators = {
        name: Accumulator(planned.task, SampleWriter(target.sample_file(name)) if target else None)
        for name, planned in plan.tasks.items()
    }
    for window in windows(plan):
        for unit in window:
            replay.answer(unit)
        counts.docs_done += len(window)
        counts.reused += sum(len(unit.requests.instances) for unit in window)
        for task, units in by_task(window).items():
            accumulators[task].add(units)
        progress.update(counts)
    for accumulator in accumulators.values():
        accumulator.finish()
    tasks, group_scores, notes = summarize(plan, accumulators, config, target)
    return Outcome(
        config=config,
        tasks=tasks,
        groups=plan.groups,
        group_scores=group_scores,
        model=run.get("model") or {"name": config.model, "args": {}},
        environment=describe_environment(),
        counts=counts,
        seconds={"total": time.time() - began},
        date=began,
        directory=target,
        notes=[*notes, *replay.notes()],
    )


class Replay:
    """Gives docs their kept responses back."""

    def __init__(self, source: RunDirectory, *, rebuilt: bool) -> None:
        self.source = source
        self.rebuilt = rebuilt
        """Whether prompts can be built as they were: a chat template needs the model, so there they are taken as kept."""
        self.differing: dict[str, list[int]] = {}
        self.missing: dict[str, list[int]] = {}
        self._kept: dict[str, dict[int, Kept]] = {}

    def answer(self, unit: Unit) -> None:
        doc = unit.requests
        unit.asked = request_hash(doc.instances)
        kept = self._of(unit.task).get(doc.doc_id)
        if kept is None or kept.doc_hash != doc.doc_hash:
            self.missing.setdefault(unit.task, []).append(doc.doc_id)
            return self._leave_out(unit, "the run kept no answer for this doc")
        if self.rebuilt and kept.request_hash != unit.asked:
            self.differing.setdefault(unit.task, []).append(doc.doc_id)
            return self._leave_out(unit, "the request would differ from the one that was answered")
        arguments, resps = unpack_arguments(kept.arguments), json.loads(kept.resps)
        if len(resps) != len(doc.instances):
            self.differing.setdefault(unit.task, []).append(doc.doc_id)
            return self._leave_out(unit, "the number of requests would differ")
        unit.asked = kept.request_hash
        stops = json.loads(kept.stops) if kept.stops else [[] for _ in resps]
        tokens = json.loads(kept.tokens) if kept.tokens else [[] for _ in resps]
        for instance, given, answers, reasons, counts in zip(doc.instances, arguments, resps, stops, tokens):
            instance.arguments = tuple(given)
            instance.resps = [tuple(a) if isinstance(a, list) else a for a in answers]
            instance.stop_reasons = reasons
            instance.tokens = [tuple(count) if count else None for count in counts]
        return None

    def notes(self) -> list[str]:
        """What was left out, in words."""
        words = []
        for reason, found in (("requests would differ", self.differing), ("no kept answer", self.missing)):
            for task, ids in found.items():
                shown = ", ".join(map(str, ids[:5])) + (", …" if len(ids) > 5 else "")
                words.append(f"{task}: {reason} for {len(ids)} docs ({shown}); they are left out")
        if not self.rebuilt:
            words.append("prompts made with a chat template were taken as kept, not built anew")
        return words

    def _leave_out(self, unit: Unit, reason: str) -> None:
        for instance in unit.requests.instances:
            instance.failure = reason

    def _of(self, task: str) -> dict[int, Kept]:
        if task not in self._kept:
            path = self.source.sample_file(task)
            if not path.is_file():
                raise ConfigError(f"{self.source.path} kept no samples of {task!r}", hint="Name tasks that the run evaluated, or run it.")  # fmt: skip
            self._kept[task] = {
                row["doc_id"]: Kept(
                    row["doc_hash"],
                    row["request_hash"],
                    row["arguments"],
                    row["resps"],
                    row["stops"],
                    row.get("tokens"),
                )
                for row in read_samples(path, KEPT_COLUMNS)
            }
        return self._kept[task]
