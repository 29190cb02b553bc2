"""What the pages about runs show, as plain values. The server and the bundle both render these."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from dataclasses import asdict, dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

from assay.errors import AssayError
from assay.report import Axis, Bar, bars_of
from assay.results import MetricKey, RunResult, write_key
from assay.run import Counts
from assay.view.database import Database
from assay.view.library import Library, RunEntry, RunSummary
from assay.view.queries import Samples
from assay.view.task_statistics import TaskStatistics

PageValues = dict[str, Any]
Result = TypeVar("Result")
PATIENCE = 0.25
"""Seconds a page waits before it says that the comparison is under way."""
SMALL = 30_000
"""Samples up to which a comparison runs in a thread; larger ones get a process, and their memory goes when it ends."""


class NotFound(Exception):
    """There is no such run, task or doc."""


class Site:
    """Runs below some directories, with all that pages about them are made of."""

    def __init__(self, directories: Sequence[Path], scratch: Path) -> None:
        self.library = Library(directories, scratch)
        self.database = Database([*self.library.roots, scratch])
        self.samples = Samples(self.database)
        self.statistics = TaskStatistics(self.database)
        self.comparisons = Comparisons()

    def close(self) -> None:
        self.comparisons.close()
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


def runs_page(site: Site, query: Mapping[str, str]) -> PageValues:
    """The list, narrowed and sorted as the URL says."""
    everything = [site.library.summary(run) for run in site.library.runs()]
    shown = [summary for summary in everything if matches(summary, query)]
    column, descending = query.get("sort", "date"), query.get("dir", "desc") == "desc"
    shown.sort(key=SORTS.get(column, SORTS["date"]), reverse=descending)
    return {
        "runs": shown,
        "total": len(everything),
        "models": sorted({summary.model for summary in everything}),
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
        "rows": tree_rows(bars_of(result)),
        "counts": about.counts,
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


def tree_rows(bars: Sequence[Bar]) -> list[dict[str, Any]]:
    """Rows of the score table with what opening and closing needs: the row's parent, and whether it has children."""
    rows: list[dict[str, Any]] = []
    above: list[int] = []
    for number, bar in enumerate(bars):
        depth = bar.row.depth
        if bar.row.first:
            above = [*above[:depth], number]
        parent = above[depth - 1] if depth else None
        rows.append({"bar": bar, "row": bar.row, "id": number, "parent": parent, "node": above[depth]})
    parents = {row["parent"] for row in rows}
    for row in rows:
        row["has_children"] = row["row"].first and row["id"] in parents
    return rows


def saved_share(counts: Counts | None) -> float | None:
    """The part of the prompt tokens that did not have to be computed."""
    return 1 - counts.tokens_computed / counts.tokens_asked if counts is not None and counts.tokens_asked else None


@dataclass(frozen=True)
class Compared:
    """Rows ready to show, or why there are none."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    refusals: list[dict[str, str]] = field(default_factory=list)
    tests: int = 0
    problem: str | None = None
    hint: str | None = None


class Comparisons:
    """Comparisons are computed beside the server, kept, and never waited for longer than a moment."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(1, "compare")
        self._known: OrderedDict[tuple[Any, ...], Future[Any]] = OrderedDict()
        self._lock = threading.Lock()

    def get(
        self,
        work: Callable[[Sequence[str]], Result],
        directories: Sequence[Path],
        samples: int,
        patience: float = PATIENCE,
    ) -> Result | None:
        """What `work` (`compare`, `rank_here`) says of these runs; None while it is computed."""
        stamps = tuple((directory / "results.json").stat().st_mtime_ns for directory in directories)
        key = (work.__name__, *directories, *stamps)
        with self._lock:
            if key not in self._known:
                chosen = work if samples <= SMALL else partial(apart, work)
                self._known[key] = self._threads.submit(chosen, [str(path) for path in directories])
                while len(self._known) > 32:
                    self._known.popitem(last=False)
            future: Future[Result] = self._known[key]
        try:
            return future.result(timeout=patience)
        except NotYet:
            return None

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def apart(work: Callable[[Sequence[str]], Result], directories: Sequence[str]) -> Result:
    """In a process that ends with it."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(work, directories).result()


def compare(directories: Sequence[str]) -> Compared:
    """Runs in a process of its own for large runs, so it takes and gives plain values."""
    from assay.comparison import compare_runs, open_run

    try:
        comparisons = compare_runs([open_run(directory) for directory in directories])
    except AssayError as error:
        return Compared(problem=error.message, hint=error.hint)
    rows = [plain_row(row, number) for number, comparison in enumerate(comparisons) for row in comparison.rows]
    refusals = [{"name": r.name, "reason": r.reason} for comparison in comparisons for r in comparison.refusals]
    return Compared(rows, refusals, max((comparison.family for comparison in comparisons), default=0))


def plain_row(row: Any, number: int) -> dict[str, Any]:
    difference, estimate = row.difference, row.difference.estimate
    return {
        "against": number + 1,
        "name": row.name,
        "alias": row.alias,
        "kind": row.kind,
        "depth": row.depth,
        "metric": row.key.metric,
        "filter": row.key.filter,
        "a": difference.a,
        "b": difference.b,
        "value": estimate.value,
        "stderr": estimate.stderr,
        "low": estimate.low,
        "high": estimate.high,
        "n": estimate.n,
        "method": estimate.method,
        "p": difference.p_value,
        "p_adjusted": row.p_adjusted,
        "gained": difference.gained,
        "lost": difference.lost,
        "verdict": None if row.verdict is None else row.verdict.kind,
        "verdict_text": None if row.verdict is None else str(row.verdict),
        "higher_is_better": row.higher_is_better,
        "paired": row.paired,
        "notes": list(row.notes),
    }


def compare_page(site: Site, run_ids: Sequence[str], key: str = "", patience: float = PATIENCE) -> PageValues:
    """Every further run against the first. `key` is the text of one of the comparison's own metrics, or shows all."""
    runs = [site.run_of(run_id) for run_id in dict.fromkeys(run_ids)]
    summaries = [site.library.summary(run) for run in runs]
    context = {"runs": summaries, "rows": [], "compared": None, "key": "", "keys": [], "all_runs": site.choices()}
    if len(runs) < 2:
        return context
    for run in runs:
        site.results_of(run)
    directories = [site.library.directory(run) for run in runs]
    compared = site.comparisons.get(compare, directories, max(s.samples for s in summaries), patience)
    if compared is None:
        return context | {"pending": True}
    problem = compared.problem
    for directory, summary in zip(directories, summaries):
        # The page may be shared; where things lie on this machine is nobody's business.
        problem = problem and problem.replace(str(directory), summary.model)
    keys = {write_key(key_of(row)): key_of(row) for row in compared.rows}
    return context | {
        "compared": asdict(compared) | {"problem": problem},
        "keys": list(keys),
        "key": key if key in keys else "",
        "rows": forest([row for row in compared.rows if keys.get(key) in (None, key_of(row))], len(runs)),
    }


def key_of(row: Mapping[str, Any]) -> MetricKey:
    return MetricKey(row["metric"], row["filter"])


def forest(rows: Sequence[dict[str, Any]], runs: int) -> list[dict[str, Any]]:
    """One line per node and metric; for each further run its value, difference and where that lies on the axis."""
    ends = [abs(row[side]) for row in rows for side in ("low", "high") if row[side] is not None]
    reach = 1.05 * (max(ends, default=0.0) or 1.0)
    axis = Axis(-reach, reach)
    lines: dict[tuple[str, MetricKey], dict[str, Any]] = {}
    for row in rows:
        fresh = {**row, "others": [None] * (runs - 1), "marks": [None] * (runs - 1)}
        line = lines.setdefault((row["name"], key_of(row)), fresh)
        line["others"][row["against"] - 1] = row
        line["marks"][row["against"] - 1] = {
            side: None if row[side] is None else axis.percent(row[side]) for side in ("low", "value", "high")
        }
    last = None
    for line in lines.values():
        line["first"] = line["name"] != last
        last = line["name"]
    return list(lines.values())
