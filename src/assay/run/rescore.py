"""Scores again from kept responses: filters, metrics, reducers, groups and statistics, with no model loaded.

The docs are read and the requests built anew, so that an edited task file is taken as it is now. A doc whose requests
came out different is left out and counted: its kept answer was given to another question.
"""

from __future__ import annotations

import time

from assay.config import RunConfig
from assay.errors import ConfigError
from assay.metrics.sandbox import allow_unsafe_code
from assay.results.directory import RunDirectory
from assay.run.accumulate import collecting
from assay.run.aggregate import summarize
from assay.run.collector import rare_collections
from assay.run.docs import by_task, settle_kept, windows
from assay.run.environment import describe_environment
from assay.run.hashes import request_hash
from assay.run.infer import Unit
from assay.run.kept import KeptDocs
from assay.run.outcome import Outcome
from assay.run.plan import load_scoring_code, make_plan, seed_everything
from assay.run.progress import Counts, Progress, Quiet
from assay.run.until import watch_for

WINDOW_REQUESTS = 4096
"""Requests held in memory at once; no prefixes are to be shared, so a few do."""


def rescore(
    source: RunDirectory, config: RunConfig, *, target: RunDirectory | None = None, progress: Progress | None = None
) -> Outcome:
    """Score the responses of `source` under `config`, which may name other task files than the run did."""
    progress = progress or Quiet()
    began = time.time()
    model = (source.read_json("run.json") or {}).get("model") or {"name": config.model, "args": {}}
    if target is not None:
        check_target(target, config, source, model["name"])
        target.clear()
    seed_everything(config.seed)
    allow_unsafe_code(config.confirm_run_unsafe_code)
    plan, said = settle_kept(make_plan(config, None), config, source)
    counts = Counts(docs_total=plan.doc_total())
    load_scoring_code(plan)
    replay = Replay(source, rebuilt=not config.apply_chat_template)
    watches = {name: watch_for(planned, config) for name, planned in plan.tasks.items()} if config.until else {}
    with rare_collections(), collecting(plan, config, target) as accumulators:

        def answer(window: list[Unit]) -> None:
            replay.answer(window)
            counts.docs_done += len(window)
            counts.reused += sum(len(unit.requests.instances) for unit in window)
            for task, units in by_task(window).items():
                accumulators[task].add(units)
            progress.update(counts)

        for name, watch in watches.items():
            watch.run(accumulators[name], answer, to_the_end=True)
        for window in windows(plan, WINDOW_REQUESTS) if not watches else ():
            answer(window)
    tasks, group_scores, notes = summarize(plan, accumulators, config, target, watches)
    return Outcome(
        config=config,
        tasks=tasks,
        groups=plan.groups,
        group_scores=group_scores,
        model=model,
        environment=describe_environment(),
        counts=counts,
        seconds={"total": time.time() - began},
        date=began,
        directory=target,
        stop_reasons={name: watch.reason for name, watch in watches.items() if watch.reason},
        notes=[*notes, *said, *replay.notes()],
    )


def check_target(target: RunDirectory, config: RunConfig, source: RunDirectory, model_name: str) -> None:
    """New scores go to a new directory, or over earlier ones of the same run in the same words; never over a run."""
    target.require_same_run(config, model_name)
    there = target.read_json("run.json")
    if there is not None and there.get("rescored_from") != str(source.path):
        raise ConfigError(
            f"{target.path} holds another run, not scores of {source.path}", hint="Give another --run_dir."
        )


class Replay:
    """Gives docs their kept responses back."""

    def __init__(self, source: RunDirectory, *, rebuilt: bool) -> None:
        self.source = source
        self.rebuilt = rebuilt
        """Whether prompts can be built as they were: a chat template needs the model, so there they are taken as kept."""
        self.differing: dict[str, list[int]] = {}
        self.missing: dict[str, list[int]] = {}
        self._docs: dict[str, KeptDocs] = {}

    def answer(self, window: list[Unit]) -> None:
        for unit in window:
            self._answer(unit)

    def _answer(self, unit: Unit) -> None:
        doc = unit.requests
        unit.asked = request_hash(doc.instances)
        kept = self._docs_of(unit.task).take(doc.doc_id)
        if kept is None or kept.doc_hash != doc.doc_hash:
            self.missing.setdefault(unit.task, []).append(doc.doc_id)
            return self._leave_out(unit, "the run kept no answer for this doc")
        if self.rebuilt and kept.request_hash != unit.asked:
            self.differing.setdefault(unit.task, []).append(doc.doc_id)
            return self._leave_out(unit, "the request would differ from the one that was answered")
        if not kept.give_answers(doc.instances):
            self.differing.setdefault(unit.task, []).append(doc.doc_id)
            return self._leave_out(unit, "the number of requests would differ")
        if not self.rebuilt:
            kept.give_arguments(doc.instances)
        unit.asked, unit.kept = kept.request_hash, kept
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

    def _docs_of(self, task: str) -> KeptDocs:
        if task not in self._docs:
            self._docs[task] = KeptDocs(self.source.sample_file(task))
        return self._docs[task]
