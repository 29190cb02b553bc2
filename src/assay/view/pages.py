"""The pages about one task and its samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assay.report.html import Axis
from assay.report.rows import estimate_of
from assay.report.withheld import withheld_in
from assay.stats import Estimate
from assay.view.database import SAMPLES
from assay.view.library import Run
from assay.view.present import Sample, answer_of, present, question_of, target_of
from assay.view.queries import METRIC, ONLY, Query, SampleFile, metrics_of
from assay.view.site import Context, NotFound, Site
from assay.view.taskstats import health_lines

SIZES = (25, 50, 100, 200)


@dataclass(frozen=True)
class TaskPlace:
    """A task of a run, with what all its pages need."""

    run: Run
    task: str
    data: dict[str, Any]
    config: Mapping[str, Any]
    file: SampleFile | None
    shots: int

    @property
    def delimiter(self) -> str:
        return str(self.config.get("fewshot_delimiter") or "\n\n")

    @property
    def alias(self) -> str:
        return next((n["alias"] for n in self.data["assay"]["tree"] if n["name"] == self.task), self.task)


def place(site: Site, run_id: str, task: str) -> TaskPlace:
    run = site.run_of(run_id)
    data = site.results_of(run)
    if task not in data["assay"]["estimates"] and task not in data.get("configs", {}):
        raise NotFound(f"This run has no task {task!r}.")
    path = site.library.sample_file(run, task)
    return TaskPlace(
        run=run,
        task=task,
        data=data,
        config=(data.get("configs") or {}).get(task) or {},
        file=None if path is None else site.samples.open(path),
        shots=int((data.get("n-shot") or {}).get(task) or 0),
    )


def base(site: Site, at: TaskPlace) -> Context:
    return {"run": at.run, "summary": site.library.summary(at.run), "task": at.task, "alias": at.alias, "config": at.config, "file": at.file, "shots": at.shots}  # fmt: skip


def task_page(site: Site, run_id: str, task: str, params: Mapping[str, str]) -> Context:
    """Scores by filter, health, and the plots."""
    at = place(site, run_id, task)
    estimates = at.data["assay"]["estimates"].get(task, {})
    withheld = withheld_in(at.data["assay"])
    cards = [card(key, entry, withheld.get((task, key))) for key, entry in estimates.items()]
    context = base(site, at) | {
        "cards": cards,
        "health": at.data["assay"]["health"].get(task, {}),
        "stats": None,
        "plots": {},
        "flags": [],
        "provenance": (at.data["assay"].get("data") or {}).get(task) or {},
    }
    if at.file is None or not at.file.filters:
        return context
    filter_name = params.get("filter") if params.get("filter") in at.file.filters else at.file.filters[0]
    metric = params.get("metric") if params.get("metric") in at.file.metrics else next(iter(at.file.metrics), "")
    stats = site.statistics.of(
        at.file, str(filter_name), str(metric), choices=at.config.get("output_type") == "multiple_choice"
    )
    return context | {
        "filter": filter_name,
        "metric": metric,
        "stats": stats,
        "flags": health_lines(stats.flags, stats.rows),
        "plots": {
            "distribution": stats.distribution,
            "calibration": stats.calibration,
            "lengths": stats.lengths,
            "metric": metric,
        },
    }


def card(key: str, entry: Mapping[str, Any], withheld: str | None = None) -> dict[str, Any]:
    """One number with its place on an axis."""
    metric, _, filter_name = key.rpartition(",")
    e = Estimate.missing(withheld, entry["n"]) if withheld else estimate_of(dict(entry))
    numbers = [n for n in (e.value, e.low, e.high) if n is not None]
    axis = Axis(0.0, 1.0) if not numbers or (min(numbers) >= 0 and max(numbers) <= 1) else Axis(min(numbers) - abs(min(numbers)) * 0.1, max(numbers) + abs(max(numbers)) * 0.1 + 1e-9)  # fmt: skip
    where = [None if n is None else axis.percent(n) for n in (e.value, e.low, e.high)]
    return {"key": key, "metric": metric, "filter": filter_name, "estimate": e, "dot": where[0], "left": where[1], "right": where[2], "children": entry.get("children") or [], "aggregator": entry.get("aggregator"), "missing": entry.get("missing") or {}, "filtered_out": entry.get("filtered_out") or []}  # fmt: skip


def query_of(params: Mapping[str, str], file: SampleFile) -> Query:
    """The query a URL asks for. Anything that is not one of the known words falls back to the default."""
    only = params.get("only", "")
    sort = params.get("sort", "doc")
    chosen = params.get("filter", "")
    return Query(
        filter="" if chosen == "*" else chosen if chosen in file.filters else next(iter(file.filters), ""),
        only=only if only in ONLY else "",
        metric=params.get("metric", "") if params.get("metric", "") in file.metrics else next(iter(file.metrics), ""),
        text=params.get("q", "")[:500],
        sort=sort if sort in ("doc", "length") or (sort.startswith(METRIC) and sort in file.columns) else "doc",
        descending=params.get("dir") == "desc",
        page=whole(params.get("page"), 1, 1, 10_000_000),
        size=min(SIZES, key=lambda size: abs(size - whole(params.get("size"), 50, 1, 200))),
        deep=params.get("deep") == "1",
    )


def whole(text: str | None, default: int, low: int, high: int) -> int:
    try:
        return max(low, min(high, int(text))) if text is not None else default
    except ValueError:
        return default


def other_file(site: Site, params: Mapping[str, str], task: str) -> tuple[Run | None, SampleFile | None]:
    """The same task of the run that `against` names."""
    run = site.library.get(params.get("against", ""))
    if run is None:
        return None, None
    path = site.library.sample_file(run, task)
    return run, None if path is None else site.samples.open(path)


def samples_page(site: Site, run_id: str, task: str, params: Mapping[str, str]) -> Context:
    """One page of the list."""
    at = place(site, run_id, task)
    if at.file is None:
        raise NotFound("No samples were kept of this task.")
    query = query_of(params, at.file)
    other, file = other_file(site, params, task)
    page = site.samples.page(at.file, query, file)
    rows = [list_row(row, at, query.offset + i) for i, row in enumerate(page.rows)]
    return base(site, at) | {
        "query": query,
        "params": url_params(query, other, at.file),
        "page": page,
        "pages": page.last(query.size),
        "rows": rows,
        "metrics": at.file.metrics,
        "against": None if other is None else site.library.summary(other),
        "others": [s for s in site.choices() if s.id != run_id and task in s.tasks],
        "sizes": SIZES,
    }


def list_row(row: dict[str, Any], at: TaskPlace, position: int) -> dict[str, Any]:
    return {
        "doc_id": row["doc_id"],
        "position": position,
        "filter": row["filter"],
        "question": question_of(row, at.shots, at.delimiter).strip() or "(empty prompt)",
        "target": target_of(row),
        "answer": answer_of(row),
        "metrics": metrics_of(row),
        "flags": row.get("flags") or [],
    }


def url_params(query: Query, other: Run | None, file: SampleFile) -> dict[str, Any]:
    """The query as it stands in URLs; defaults are left out."""
    default = next(iter(file.filters), "")
    return {
        "q": query.text,
        "filter": "*" if not query.filter else "" if query.filter == default else query.filter,
        "only": query.only,
        "metric": "" if query.metric == next(iter(file.metrics), "") else query.metric,
        "sort": "" if query.sort == "doc" else query.sort,
        "dir": "desc" if query.descending else "",
        "size": "" if query.size == 50 else query.size,
        "against": "" if other is None else other.id,
    }


def sample_page(site: Site, run_id: str, task: str, doc_id: int, params: Mapping[str, str]) -> Context:
    """One doc: prompt, responses or choices, filters, target, metrics; beside another run if asked."""
    at = place(site, run_id, task)
    if at.file is None:
        raise NotFound("No samples were kept of this task.")
    rows = site.samples.doc(at.file, doc_id)
    if not rows:
        raise NotFound(f"There is no doc {doc_id} in {task!r}.")
    query = query_of(params, at.file)
    other, file = other_file(site, params, task)
    twin = None if other is None or file is None else twin_of(site, other, file, task, rows[0])
    position = whole(params.get("at"), -1, -1, 10**9) if "at" in params else None
    neighbours = {}
    if position is not None and position >= 0:
        neighbours = {"previous": site.samples.at(at.file, query, position - 1, file), "next": site.samples.at(at.file, query, position + 1, file)}  # fmt: skip
    else:
        neighbours = neighbours_by_id(site, at.file, doc_id)
    return base(site, at) | {
        "sample": present(rows, at.config, at.shots),
        "twin": twin,
        "twin_run": None if other is None else site.library.summary(other),
        "query": query,
        "params": url_params(query, other, at.file),
        "position": position,
        "neighbours": neighbours,
        "as_markdown": params.get("markdown") == "1",
        "others": [s for s in site.choices() if s.id != run_id and task in s.tasks],
    }


def twin_of(site: Site, other: Run, file: SampleFile, task: str, row: dict[str, Any]) -> Sample | None:
    rows = site.samples.twin(file, row)
    there = place(site, other.id, task)
    return present(rows, there.config, there.shots) if rows else None


def neighbours_by_id(site: Site, file: SampleFile, doc_id: int) -> dict[str, int | None]:
    sides = "max(doc_id) FILTER (doc_id < ?) AS previous, min(doc_id) FILTER (doc_id > ?) AS next"
    found: dict[str, int | None] = site.database.one(f"SELECT {sides} FROM {SAMPLES}", [doc_id, doc_id, str(file.path)])
    return found
