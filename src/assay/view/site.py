"""What each page shows, as plain values. The server and the bundle both render these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from assay.report.html import Axis, Bar, bars_of
from assay.view.comparisons import PATIENCE, Comparisons
from assay.view.database import Database
from assay.view.library import Library, Run, Summary
from assay.view.queries import Samples
from assay.view.taskstats import TaskStatistics

Context = dict[str, Any]


class NotFound(Exception):
    """There is no such run, task or doc."""


class Site:
    """Runs below some directories, and the pages about them."""

    def __init__(self, directories: Sequence[Path], scratch: Path) -> None:
        self.library = Library(directories, scratch)
        self.database = Database([*self.library.roots, scratch])
        self.samples = Samples(self.database)
        self.statistics = TaskStatistics(self.database)
        self.comparisons = Comparisons()

    def close(self) -> None:
        self.comparisons.close()
        self.database.close()

    def run_of(self, run_id: str) -> Run:
        run = self.library.get(run_id)
        if run is None:
            raise NotFound("There is no such run here. It may have been moved or deleted.")
        return run

    def results_of(self, run: Run) -> dict[str, Any]:
        data = self.library.results(run)
        if data is None or "assay" not in data:
            raise NotFound("This run has no results yet.")
        return data

    def runs_page(self, query: Mapping[str, str]) -> Context:
        """The list, narrowed and sorted as the URL says."""
        everything = [self.library.summary(run) for run in self.library.runs()]
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

    def run_page(self, run_id: str) -> Context:
        run = self.run_of(run_id)
        data, about = self.library.results(run), self.library.run_file(run)
        summary = self.library.summary(run)
        context: Context = {"run": run, "summary": summary, "about": about, "data": data, "rows": [], "progress": None}
        if data is None:
            return context | {"progress": self.live_part(run_id)["progress"]}
        counts = about.get("counts") or {}
        return context | {
            "rows": tree_rows(bars_of(data)),
            "counts": counts,
            "saved": saved_share(counts),
            "has_samples": set(data["assay"].get("samples") or {}),
            "notes": data["assay"].get("notes") or [],
            "health": data["assay"].get("health") or {},
        }

    def live_part(self, run_id: str) -> Context:
        """How far a run is, and its running scores."""
        run = self.run_of(run_id)
        progress = self.library.progress(run) or {}
        total, done = progress.get("docs_total") or 0, progress.get("docs_done") or 0
        running = [
            {"task": task, "metric": found[0], "value": found[1], "n": found[2]}
            for task, found in (progress.get("running") or {}).items()
        ]
        return {
            "run": run,
            "summary": self.library.summary(run),
            "progress": {**progress, "share": done / total if total else None, "scores": running},
            "finished": self.library.results(run) is not None,
        }

    def compare_page(self, run_ids: Sequence[str], key: str = "", patience: float = PATIENCE) -> Context:
        """Every further run against the first."""
        runs = [self.run_of(run_id) for run_id in dict.fromkeys(run_ids)]
        summaries = [self.library.summary(run) for run in runs]
        context: Context = {
            "runs": summaries,
            "rows": [],
            "compared": None,
            "key": "",
            "keys": [],
            "all_runs": self.choices(),
        }
        if len(runs) < 2:
            return context
        for run in runs:
            self.results_of(run)
        directories = [self.library.directory(run) for run in runs]
        compared = self.comparisons.get(directories, max(s.samples for s in summaries), patience)
        if compared is None:
            return context | {"pending": True}
        problem = compared.problem
        for directory, summary in zip(directories, summaries):
            # The page may be shared; where things lie on this machine is nobody's business.
            problem = problem and problem.replace(str(directory), summary.model)
        keys = list(dict.fromkeys(row["key"] for row in compared.rows))
        chosen = key if key in keys else ""
        return context | {
            "compared": asdict(compared) | {"problem": problem},
            "keys": keys,
            "key": chosen,
            "rows": forest(compared.rows, len(runs), chosen),
        }

    def choices(self) -> list[Summary]:
        """Finished runs, newest first, for menus."""
        found = [self.library.summary(run) for run in self.library.runs()]
        return sorted((s for s in found if s.status in ("finished", "imported")), key=lambda s: -s.date)


SORTS: dict[str, Any] = {
    "date": lambda s: s.date,
    "model": lambda s: s.model.lower(),
    "tasks": lambda s: len(s.tasks),
    "samples": lambda s: s.samples,
    "time": lambda s: s.seconds or 0.0,
    "score": lambda s: (s.headline[0]["value"] or 0.0) if s.headline else -1.0,
}


def matches(summary: Summary, query: Mapping[str, str]) -> bool:
    """Whether a run is in the list: by words, model, task, and first and last day."""
    import time

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


def tree_rows(bars: Sequence[Bar]) -> list[dict[str, Any]]:
    """Rows of the score table with what opening and closing needs: the row's parent, and whether it has children."""
    rows: list[dict[str, Any]] = []
    above: list[int] = []
    for number, bar in enumerate(bars):
        depth = bar.row.depth
        if bar.row.first:
            above = [*above[:depth], number]
        rows.append(
            {
                "bar": bar,
                "row": bar.row,
                "id": number,
                "parent": above[depth - 1] if depth else None,
                "node": above[depth],
            }
        )
    parents = {row["parent"] for row in rows}
    for row in rows:
        row["has_children"] = row["row"].first and row["id"] in parents
    return rows


def saved_share(counts: Mapping[str, Any]) -> float | None:
    """The part of the prompt tokens that did not have to be computed."""
    asked, computed = counts.get("tokens_asked") or 0, counts.get("tokens_computed") or 0
    return 1 - computed / asked if asked else None


def forest(rows: Sequence[dict[str, Any]], runs: int, key: str) -> list[dict[str, Any]]:
    """One line per node and metric; for each further run its value, difference and where that lies on the axis."""
    lines: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        if key and row["key"] != key:
            continue
        line = lines.setdefault((row["name"], row["key"]), {**row, "others": [None] * (runs - 1)})
        line["others"][row["against"] - 1] = row
    spread = max([abs(row[side]) for row in rows for side in ("low", "high") if row[side] is not None and (not key or row["key"] == key)] or [1.0])  # fmt: skip
    axis = Axis(-(spread or 1.0) * 1.05, (spread or 1.0) * 1.05)
    for line in lines.values():
        line["marks"] = [None if other is None else mark(other, axis) for other in line["others"]]
    last = None
    for line in lines.values():
        line["first"] = line["name"] != last
        last = line["name"]
    return list(lines.values())


def mark(row: Mapping[str, Any], axis: Axis) -> dict[str, float | None]:
    return {side: None if row[side] is None else axis.percent(row[side]) for side in ("low", "value", "high")}
