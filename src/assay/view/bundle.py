"""`assay view --bundle`: chosen runs as files that open from a disk or any web host."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations, islice
from pathlib import Path
from typing import Any

from assay.errors import ConfigError
from assay.finished import Run, open_run
from assay.scratch import scratch_directory
from assay.show import PALETTE_FILE
from assay.view.analysis_pages import analysis_page
from assay.view.background import SMALL
from assay.view.library import RunEntry
from assay.view.queries import SamplePage
from assay.view.render import render
from assay.view.server import plotly_file, static_directory
from assay.view.site import PageValues, Site, run_page, runs_page
from assay.view.task_pages import docs_page, place, place_with_samples, samples_page, task_page
from assay.view.trends import trend_page

MOST_COMPARISONS = 28
"""Pairs of runs that get a page: eight runs, each with each."""


def write_bundle(directories: Sequence[Path], target: Path, *, samples: int = 200, trend: str | None = None) -> int:
    """Write the site and return the number of pages. The first `samples` docs of each task are in it, on one page a task."""
    if target.exists() and any(target.iterdir()):
        raise ConfigError(f"{target} is not empty", hint="Use a new directory for the bundle.")
    target.mkdir(parents=True, exist_ok=True)
    with scratch_directory("bundle") as scratch:
        site = Site(directories, scratch)
        try:
            return _Bundle(site, target, samples, trend).write()
        finally:
            site.close()


class _Bundle:
    def __init__(self, site: Site, target: Path, samples: int, trend: str | None = None) -> None:
        self.site, self.target, self.samples, self.trend = site, target, samples, trend
        self.runs = [run for run in site.library.runs() if site.library.results(run) is not None]
        if not self.runs:
            raise ConfigError("there is no finished run to bundle", hint="Use directories with finished runs.")
        self.docs = {(run.id, task): self._doc_ids(run, task) for run in self.runs for task in self._tasks(run)}
        self.pairs = sorted(islice(self._comparable(), MOST_COMPARISONS))
        self.links = BundleLinks({key: frozenset(docs) for key, docs in self.docs.items()}, frozenset(self.pairs))
        self.opened = cache(_open_kept)
        self.pages = 0

    def write(self) -> int:
        shutil.copytree(static_directory(), self.target / "static")
        shutil.copyfile(PALETTE_FILE, self.target / "static" / "palette.css")
        shutil.copyfile(plotly_file(), self.target / "static" / "plotly.min.js")
        self._page("index.html", "runs.html", self._list())
        for run in self.runs:
            self._page(self.links.run(run.id), "run.html", run_page(self.site, run.id))
            for name in self._nodes(run):
                self._page(self.links.task(run.id, name), "task.html", task_page(self.site, run.id, name, {}))
        for (run_id, task), docs in self.docs.items():
            self._samples(run_id, task, docs)
        for pair in self.pairs:
            context = analysis_page(self.site, "compare", pair, self.links, {}, 600, self._opener(pair))
            self._page(self.links.compare(pair), "findings.html", context)
        if self.trend is not None:
            self._trend(self.trend)
        return self.pages

    def _opener(self, pair: tuple[str, str]) -> Callable[[str], Run] | None:
        """Small runs are read once for all their pairs; a large one leaves no trace in memory."""
        sizes = (self.site.library.summary(self.site.run_of(run_id)).samples for run_id in pair)
        return self.opened if sum(sizes) <= SMALL else None

    def _trend(self, by: str) -> None:
        """The page of all lines, and one for each."""
        context = trend_page(self.site, {"by": by}, patience=600)
        self._page(self.links.trend(by=by), "trend.html", context)
        for line in context["lines"]:
            at = {"by": by, "name": line.name, "key": line.key_text}
            self._page(self.links.trend(**at), "trend.html", context | {"line": line})

    def _page(self, name: str, template: str, context: PageValues) -> None:
        (self.target / name).write_text(
            render(template, link=self.links, **context), encoding="utf-8", errors="replace"
        )
        self.pages += 1

    def _list(self) -> PageValues:
        context = runs_page(self.site, {})
        kept = {run.id for run in self.runs}
        context["runs"] = [summary for summary in context["runs"] if summary.id in kept]
        names = {summary.id: summary for summary in context["runs"]}
        pairs = [(names[a], names[b], self.links.compare((a, b))) for a, b in self.pairs]
        trend = self.links.trend(by=self.trend) if self.trend is not None else ""
        return context | {"total": len(kept), "pairs": pairs, "any_running": False, "trend": trend}

    def _samples(self, run_id: str, task: str, docs: Sequence[int]) -> None:
        """One list, since a file cannot be asked for the next page, and one page with all its docs, read once."""
        at, file = place_with_samples(self.site, run_id, task)
        rows = self.site.samples.docs(file, docs)
        listed = [row for doc in docs for row in rows[doc] if row["filter"] == next(iter(file.filters), "")]
        context = samples_page(self.site, run_id, task, {}, page=SamplePage(listed, len(listed), file.rows))
        self._page(self.links.samples(run_id, task), "samples.html", context)
        if docs:
            self._page(self.links.docs(run_id, task), "docs.html", docs_page(self.site, at, rows))

    def _comparable(self) -> Iterator[tuple[str, str]]:
        """Pairs of runs with a task in common, the older one first."""
        ordered = sorted(self.runs, key=lambda run: self.site.library.summary(run).date)
        tasks = {run.id: {task for run_id, task in self.docs if run_id == run.id} for run in ordered}
        for a, b in combinations(ordered, 2):
            if tasks[a.id] & tasks[b.id]:
                yield a.id, b.id

    def _tasks(self, run: RunEntry) -> Iterator[str]:
        for task in self.site.results_of(run).tasks:
            if self.site.library.sample_file(run, task) is not None:
                yield task

    def _nodes(self, run: RunEntry) -> list[str]:
        shown = [node.name for _, node in self.site.results_of(run).tree()]
        return list(dict.fromkeys([*shown, *self._tasks(run)]))

    def _doc_ids(self, run: RunEntry, task: str) -> list[int]:
        at = place(self.site, run.id, task)
        if at.file is None or self.samples < 1:
            return []
        return self.site.samples.first_docs(at.file, self.samples)


def _open_kept(directory: str) -> Run:
    """A run whose columns are read once."""
    run = open_run(directory)
    return replace(run, read_columns=cache(run.columns))


class BundleLinks:
    """In place of `ServerLinks`: files beside each other in one folder. Queries are dropped, since a file answers none."""

    live = False

    def __init__(self, samples: Mapping[tuple[str, str], frozenset[int]], compared: frozenset[tuple[str, ...]]) -> None:
        self._samples = samples
        """(run, task) → the docs that have a page."""
        self._compared = compared

    def static(self, name: str) -> str:
        return f"static/{name}"

    def runs(self, **query: Any) -> str:
        return "index.html"

    def run(self, run_id: str, **query: Any) -> str:
        return f"run-{run_id}.html"

    def task(self, run_id: str, task: str, **query: Any) -> str:
        return f"task-{run_id}-{slug(task)}.html"

    def samples(self, run_id: str, task: str, **query: Any) -> str:
        return f"samples-{run_id}-{slug(task)}.html"

    def docs(self, run_id: str, task: str) -> str:
        return f"docs-{run_id}-{slug(task)}.html"

    def sample(self, run_id: str, task: str, doc_id: int, **query: Any) -> str:
        if doc_id not in self._samples.get((run_id, task), ()):
            return ""
        return f"{self.docs(run_id, task)}#doc-{doc_id}"

    def trend(self, by: str = "", name: str = "", key: str = "", **query: Any) -> str:
        return f"trend-{slug(f'{name} {key}')}.html" if name else "trend.html"

    def analysis(self, name: str, run_ids: Sequence[str], **query: Any) -> str:
        return self.compare(run_ids) if name == "compare" else ""

    def compare(self, run_ids: Sequence[str], **query: Any) -> str:
        return f"compare-{'-'.join(run_ids)}.html" if tuple(run_ids) in self._compared else ""


def slug(task: str) -> str:
    """A file name for any task name: readable where it can be, distinct always.

    >>> slug("mmlu/anatomy:cloze")
    'mmlu_anatomy_cloze-f2c54c'
    """
    readable = "".join(ch if ch.isascii() and ch.isalnum() else "_" for ch in task)[:60]
    return f"{readable}-{hashlib.sha256(task.encode('utf-8', 'surrogatepass')).hexdigest()[:6]}"
