"""What the pages about one task and its samples show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from assay.results import (
    METRIC_COLUMN,
    GroupResult,
    GroupScore,
    Health,
    RunResult,
    TableRow,
    TaskResult,
    numbers_of,
    rows_of,
)
from assay.show import Axis, Whisker
from assay.view.conversations import two_ways
from assay.view.database import SAMPLES, SampleRecord
from assay.view.library import RunEntry
from assay.view.notes import LONGEST_TAG, Note
from assay.view.queries import FLAGS, ONLY, SampleFile, SamplePage, SampleQuery
from assay.view.sample_view import SampleView, answer_of, present, question_of, target_of
from assay.view.site import NotFound, PageValues, Site
from assay.view.task_statistics import health_lines

SIZES = (25, 50, 100, 200)


@dataclass(frozen=True)
class TaskPlace:
    """A task or group of a run, with what all its pages need."""

    run: RunEntry
    result: RunResult
    node: TaskResult | GroupResult
    file: SampleFile | None

    @property
    def rows(self) -> list[TableRow]:
        """The node's numbers as the run page has them. What sits in several groups is shown once."""
        rows = [row for row in rows_of(self.result) if row.name == self.node.name]
        return rows[: max(1, len(self.node))]

    @property
    def shots(self) -> int:
        if isinstance(self.node, TaskResult):
            return self.node.num_fewshot or 0
        return next((row.shots or 0 for row in self.rows), 0)

    @property
    def config(self) -> dict[str, Any]:
        return self.node.config if isinstance(self.node, TaskResult) else {}

    @property
    def falling(self) -> frozenset[str]:
        """Metrics of which less is better: their numbers are neither right nor wrong."""
        return frozenset(key.metric for key, score in self.node.scores.items() if score.higher_is_better is False)

    @property
    def delimiter(self) -> str:
        return str(self.config.get("fewshot_delimiter") or "\n\n")


def place(site: Site, run_id: str, task: str) -> TaskPlace:
    run = site.run_of(run_id)
    result = site.results_of(run)
    if task not in result:
        raise NotFound(f"This run has no task {task!r}.")
    path = site.library.sample_file(run, task)
    return TaskPlace(run, result, result[task], None if path is None else site.samples.open(path))


def place_with_samples(site: Site, run_id: str, task: str) -> tuple[TaskPlace, SampleFile]:
    at = place(site, run_id, task)
    if at.file is None:
        raise NotFound("No samples of this task were stored.")
    return at, at.file


def base(site: Site, at: TaskPlace) -> PageValues:
    return {
        "run": at.run,
        "summary": site.library.summary(at.run),
        "task": at.node.name,
        "alias": at.node.alias,
        "config": at.config,
        "file": at.file,
        "shots": at.shots,
        "falling": at.falling,
    }


def task_page(site: Site, run_id: str, task: str, params: Mapping[str, str]) -> PageValues:
    """Scores by filter, health, and the plots."""
    at = place(site, run_id, task)
    health = at.node.health if isinstance(at.node, TaskResult) else Health()
    context = base(site, at) | {
        "cards": [card(row, at, health) for row in at.rows if row.key is not None],
        "health": health,
        "stats": None,
        "plots": {},
        "flags": [],
        "provenance": at.node.data if isinstance(at.node, TaskResult) else {},
    }
    if at.file is None or not at.file.filters:
        return context
    filter_name = params.get("filter", "")
    filter_name = filter_name if filter_name in at.file.filters else at.file.filters[0]
    metric = params.get("metric", "")
    metric = metric if metric in at.file.metrics else next(iter(at.file.metrics), "")
    stats = site.statistics.of(at.file, filter_name, metric, choices=at.config.get("output_type") == "multiple_choice")
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


def card(row: TableRow, at: TaskPlace, health: Health) -> dict[str, Any]:
    """One number, what is to be known about it, and for a group what it is made of."""
    assert row.key is not None
    score = at.node.scores[row.key]
    axis = Axis.around(each.estimate for each in rows_of(at.result) if each.metric == row.metric)
    return {
        "whisker": Whisker.of(row.estimate, axis, reference=row.chance, ticks=row.floors),
        "row": row,
        "estimate": row.estimate,
        "marks": health.filter_marks(row.filter),
        "bounds": health.bounds.get(row.key),
        "parts": score if isinstance(score, GroupScore) else None,
        "members": list(members_of(score, row, at.result)) if isinstance(score, GroupScore) else [],
    }


def members_of(score: GroupScore, row: TableRow, result: RunResult) -> Iterator[dict[str, Any]]:
    """The numbers a group was made of, drawn on one axis with it; intervals where the member has that very number."""
    key = row.key
    assert key is not None
    known = {
        share.name: result[share.name].scores[key].estimate
        for share in score.children
        if share.name in result and key in result[share.name].scores
    }
    numbers = [n for e in (row.estimate, *known.values()) for n in (e.value, e.low, e.high)]
    axis = Axis.over([*numbers, *(share.value for share in score.children)])
    for share in score.children:
        e = known.get(share.name)
        is_same = e is not None and e.value == share.value
        yield {
            "share": share,
            "alias": result[share.name].alias if share.name in result else share.name,
            "estimate": e if is_same else None,
            "whisker": Whisker(share.value, e.low if e and is_same else None, e.high if e and is_same else None, axis),
        }


def query_of(params: Mapping[str, str], file: SampleFile) -> SampleQuery:
    """The query a URL asks for. Anything that is not one of the known words falls back to the default."""
    only = params.get("only", "")
    sort = params.get("sort", "doc")
    chosen = params.get("filter", "")
    return SampleQuery(
        filter="" if chosen == "*" else chosen if chosen in file.filters else next(iter(file.filters), ""),
        only=only if only in ONLY else "",
        metric=params.get("metric", "") if params.get("metric", "") in file.metrics else next(iter(file.metrics), ""),
        text=params.get("q", "")[:500],
        sort=sort if sort in ("doc", "length") or (sort.startswith(METRIC_COLUMN) and sort in file.columns) else "doc",
        descending=params.get("dir") == "desc",
        page=whole(params.get("page"), 1, 1, 10_000_000),
        size=min(SIZES, key=lambda size: abs(size - whole(params.get("size"), 50, 1, 200))),
        deep=params.get("deep") == "1",
    )


def asked_query(site: Site, at: TaskPlace, params: Mapping[str, str], file: SampleFile) -> SampleQuery:
    """The query of a URL, with the docs that have the tag it names."""
    query = query_of(params, file)
    tag = params.get("tag", "")[:LONGEST_TAG]
    return replace(query, tag=tag, docs=site.notes.of(at.run).docs(at.node.name, tag)) if tag else query


def whole(text: str | None, default: int, low: int, high: int) -> int:
    try:
        return max(low, min(high, int(text))) if text is not None else default
    except ValueError:
        return default


def other_file(site: Site, params: Mapping[str, str], task: str) -> tuple[RunEntry | None, SampleFile | None]:
    """The same task of the run that `against` names."""
    run = site.library.get(params.get("against", ""))
    if run is None:
        return None, None
    path = site.library.sample_file(run, task)
    return run, None if path is None else site.samples.open(path)


def samples_page(
    site: Site, run_id: str, task: str, params: Mapping[str, str], *, page: SamplePage | None = None
) -> PageValues:
    """One page of the list: what the URL asks for, or `page`."""
    at, own = place_with_samples(site, run_id, task)
    query = asked_query(site, at, params, own)
    notes = site.notes.of(at.run)
    other, file = other_file(site, params, task)
    page = page or site.samples.page(own, query, file)
    noted = notes.of_task(task)
    rows = [list_row(row, at, query.offset + i, noted.get(row["doc_id"])) for i, row in enumerate(page.rows)]
    return base(site, at) | {
        "query": query,
        "params": url_params(query, other, own),
        "page": page,
        "pages": page.last(query.size),
        "rows": rows,
        "metrics": own.metrics,
        "flag_names": FLAGS,
        "tags": notes.tags(task),
        "noted": len(noted),
        "against": None if other is None else site.library.summary(other),
        "others": [s for s in site.choices() if s.id != run_id and task in s.tasks],
        "sizes": SIZES,
    }


def list_row(row: dict[str, Any], at: TaskPlace, position: int, note: Note | None = None) -> dict[str, Any]:
    return {
        "note": note,
        "doc_id": row["doc_id"],
        "position": position,
        "filter": row["filter"],
        "question": question_of(row, at.shots, at.delimiter).strip() or "(empty prompt)",
        "target": target_of(row, at.config),
        "answer": answer_of(row),
        "metrics": numbers_of(row),
        "flags": row.get("flags") or [],
    }


def url_params(query: SampleQuery, other: RunEntry | None, file: SampleFile) -> dict[str, Any]:
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
        "tag": query.tag,
    }


def sample_page(site: Site, run_id: str, task: str, doc_id: int, params: Mapping[str, str]) -> PageValues:
    """One doc: prompt, responses or choices, filters, target, metrics; beside another run if asked."""
    at, own = place_with_samples(site, run_id, task)
    rows = site.samples.doc(own, doc_id)
    if not rows:
        raise NotFound(f"There is no doc {doc_id} in {task!r}.")
    query = asked_query(site, at, params, own)
    other, file = other_file(site, params, task)
    twin = None if other is None or file is None else twin_of(site, other, file, task, rows[0])
    sample = present(rows, at.config, at.shots)
    position = whole(params.get("at"), -1, -1, 10**9) if "at" in params else None
    if position is not None and position >= 0:
        neighbours = {
            "previous": site.samples.at(own, query, position - 1, file),
            "next": site.samples.at(own, query, position + 1, file),
        }
    else:
        neighbours = neighbours_by_id(site, own, doc_id)
    return base(site, at) | {
        "sample": sample,
        "twin": twin,
        "ways": () if twin is None else two_ways(sample.conversations, twin.conversations),
        "twin_run": None if other is None else site.library.summary(other),
        "query": query,
        "params": url_params(query, other, own),
        "position": position,
        "neighbours": neighbours,
        "as_markdown": params.get("markdown") == "1",
        "note": site.notes.of(at.run).by_doc.get((task, doc_id)),
        "can_note": site.notes.path(at.run) is not None,
        "others": [s for s in site.choices() if s.id != run_id and task in s.tasks],
    }


def docs_page(site: Site, at: TaskPlace, rows: Mapping[int, Sequence[SampleRecord]]) -> PageValues:
    """Several docs on one page, which shows the one that its address names."""
    samples = [present(of_doc, at.config, at.shots) for of_doc in rows.values()]
    notes = site.notes.of(at.run).of_task(at.node.name)
    return base(site, at) | {"samples": samples, "as_markdown": False, "notes": notes}


def twin_of(site: Site, other: RunEntry, file: SampleFile, task: str, row: dict[str, Any]) -> SampleView | None:
    rows = site.samples.twin(file, row)
    there = place(site, other.id, task)
    return present(rows, there.config, there.shots) if rows else None


def neighbours_by_id(site: Site, file: SampleFile, doc_id: int) -> dict[str, int | None]:
    sides = "max(doc_id) FILTER (doc_id < ?) AS previous, min(doc_id) FILTER (doc_id > ?) AS next"
    return site.database.one(f"SELECT {sides} FROM {SAMPLES}", [doc_id, doc_id, file.path])
