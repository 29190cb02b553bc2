"""What the pages about runs show, as plain values. The server and the bundle both render these."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

from assay.results import RunResult
from assay.run import Counts
from assay.show import command_of, health_table, score_table
from assay.view.background import Background, Computed, Result, Work
from assay.view.database import Database
from assay.view.library import Library, RunEntry, RunSummary
from assay.view.notes import Notes
from assay.view.queries import Samples
from assay.view.task_statistics import TaskStatistics

PageValues = dict[str, Any]


class NotFound(Exception):
    """There is no such run, task or doc."""


class Site:
    """Runs below some directories, with all that pages about them are made of."""

    def __init__(self, directories: Sequence[Path], scratch: Path) -> None:
        self.library = Library(directories, scratch)
        self.database = Database([*self.library.roots, scratch], scratch)
        self.samples = Samples(self.database)
        self.statistics = TaskStatistics(self.database)
        self.background = Background()
        self.notes = Notes(self.library)

    def close(self) -> None:
        self.background.close()
        self.database.close()

    def run_of(self, run_id: str) -> RunEntry:
        run = self.library.get(run_id)
        if run is None:
            raise NotFound("There is no such run here. It may have been moved or deleted.")
        return run

    def results_of(self, run: RunEntry) -> RunResult:
        result = self.library.results(run)
        if result is None:
            raise NotFound("This run has no results yet.")
        return result

    def choices(self) -> list[RunSummary]:
        """Finished runs, newest first, for menus."""
        summaries = [self.library.summary(run) for run in self.library.runs()]
        return sorted((s for s in summaries if s.status in ("finished", "imported")), key=lambda s: -s.date)

    def computed(
        self, work: Work[Result], runs: Sequence[RunSummary], patience: float, key: Hashable = None
    ) -> Computed[Result] | None:
        """What `work` makes of finished runs; None while it is computed."""
        for run in runs:
            self.results_of(self.run_of(run.id))
        names = self.names(runs)
        found = self.background.get(work, [*names], sum(run.samples for run in runs), patience, key)
        return found and found.naming(names)

    def names(self, runs: Sequence[RunSummary]) -> dict[Path, str]:
        """What people call the runs, by directory."""
        return {self.library.directory(self.run_of(run.id)): run.model for run in runs}


def several_runs_page(
    site: Site, run_ids: Sequence[str], work: Work[Any], patience: float, *, least: int = 2, key: Hashable = None
) -> PageValues:
    """What pages about some runs together have in common: `found` is what `work` makes of at least so many of them."""
    runs = [site.library.summary(site.run_of(run_id)) for run_id in dict.fromkeys(run_ids)]
    found = site.computed(work, runs, patience, key) if len(runs) >= least else Computed()
    return {"runs": runs, "all_runs": site.choices(), "found": found or Computed(), "pending": found is None}


def runs_page(site: Site, query: Mapping[str, str]) -> PageValues:
    """The list, narrowed and sorted as the URL says."""
    everything = [site.library.summary(run) for run in site.library.runs()]
    shown = [summary for summary in everything if matches(summary, query)]
    column, descending = query.get("sort", "date"), query.get("dir", "desc") == "desc"
    shown.sort(key=SORTS.get(column, SORTS["date"]), reverse=descending)
    return {
        "runs": shown,
        "total": len(everything),
        "models": sorted({summary.model for summary in everything} - {""}),
        "query": {key: query.get(key, "") for key in ("q", "model", "task", "from", "to")},
        "sort": column if column in SORTS else "date",
        "descending": descending,
        "any_running": any(summary.status == "running" for summary in shown),
    }


SORTS: dict[str, Any] = {
    "date": lambda s: s.date,
    "model": lambda s: s.model.lower(),
    "tasks": lambda s: len(s.tasks),
    "samples": lambda s: s.samples,
    "time": lambda s: s.seconds or 0.0,
    "score": lambda s: (s.headline[0].estimate.value or 0.0) if s.headline else -1.0,
}


def matches(summary: RunSummary, query: Mapping[str, str]) -> bool:
    """Whether a run is in the list: by words, model, task, and first and last day."""
    day = time.strftime("%Y-%m-%d", time.localtime(summary.date))
    words = query.get("q", "").lower().split()
    text = " ".join([summary.model, summary.name, summary.status, *summary.tasks]).lower()
    return (
        all(word in text for word in words)
        and query.get("model", "") in ("", summary.model)
        and (not query.get("task") or any(query["task"].lower() in task.lower() for task in summary.tasks))
        and (not query.get("from") or day >= query["from"])
        and (not query.get("to") or day <= query["to"])
    )


def run_page(site: Site, run_id: str) -> PageValues:
    run = site.run_of(run_id)
    result = site.library.results(run)
    if result is None:
        return live_part(site, run_id) | {"result": None}
    about = site.library.run_file(run)
    return {
        "run": run,
        "summary": site.library.summary(run),
        "about": about,
        "result": result,
        "scores": score_table(result),
        "health": health_table({name: task.health for name, task in result.tasks.items()}),
        "counts": about.counts,
        "noted": Counter(note.task for note in site.notes.of(run).notes),
        "command": command_of(about.config, about.model) if about.config.get("tasks") else None,
        "saved": saved_share(about.counts),
    }


def live_part(site: Site, run_id: str) -> PageValues:
    """How far a run is, and its running scores."""
    run = site.run_of(run_id)
    progress = site.library.progress(run)
    counts = None if progress is None else progress.counts
    return {
        "run": run,
        "summary": site.library.summary(run),
        "counts": counts,
        "share": counts.docs_done / counts.docs_total if counts is not None and counts.docs_total else None,
        "finished": site.library.results(run) is not None,
    }


def saved_share(counts: Counts | None) -> float | None:
    """The part of the prompt tokens that did not have to be computed."""
    return 1 - counts.tokens_computed / counts.tokens_asked if counts is not None and counts.tokens_asked else None
