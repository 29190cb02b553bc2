"""Pages that show what an analysis finds in some runs, each by one row of a registry; a package may add its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from assay.finished import Run, open_run
from assay.registry import Registry
from assay.show import Findings
from assay.view.background import PATIENCE
from assay.view.findings import Addresses, Links, ShownFindings, shown_findings
from assay.view.site import PageValues, Site, several_runs_page


@dataclass(frozen=True)
class AnalysisPage:
    """One page: what it is called, and what it makes of runs and the page's query."""

    title: str
    make: Callable[[Sequence[Run], Mapping[str, str]], Findings]
    least: int = 2
    """Runs that it needs."""
    failure: str = "Nothing can be shown of these runs"
    about: str = ""
    """How to read it."""
    asks: tuple[str, ...] = ()
    """Words of the query that a reader fills in."""


def _compare(runs: Sequence[Run], query: Mapping[str, str]) -> Findings:
    from assay.analyses.compare import compare_runs, findings

    return findings(compare_runs(runs))


def _rank(runs: Sequence[Run], query: Mapping[str, str]) -> Findings:
    from assay.analyses.rank import findings, rank

    return findings(rank(runs))


def _explain(runs: Sequence[Run], query: Mapping[str, str]) -> Findings:
    from assay.analyses.explain import ExplainOptions, explain, findings

    return findings(explain(runs[0], runs[1], ExplainOptions(task=query.get("task") or None)))


def _by_field(runs: Sequence[Run], query: Mapping[str, str]) -> Findings:
    from assay.analyses.by_field import ByFieldOptions, by_field, findings

    named = tuple(name.strip() for name in query.get("fields", "").split(",") if name.strip())
    return findings(by_field(runs[0], ByFieldOptions(by=named)))


PAGES: Registry[AnalysisPage] = Registry("viewer page", group="assay.pages")
"""Name, which is its address, to page."""

PAGES.add(
    "compare",
    AnalysisPage(
        "Compare",
        _compare,
        failure="These runs cannot be compared",
        about="Differences are on the same docs, each run − A, with 95 % intervals, each metric on its own scale; the band is "
        "the margin that does not matter.",
    ),
)
PAGES.add(
    "rank",
    AnalysisPage(
        "Rank",
        _rank,
        failure="These runs cannot be ranked",
        about="A bar spans the ranks a run may have, first on the left; the dot is its rank by score. Point at a bar for its "
        "pairs.",
    ),
)
PAGES.add(
    "explain",
    AnalysisPage("Explain", _explain, failure="This difference cannot be explained", asks=("task",)),
)
PAGES.add(
    "by_field",
    AnalysisPage(
        "By field",
        _by_field,
        least=1,
        failure="The scores of this run cannot be split",
        about="A score for the docs with equal values in these fields, such as max_length, depth; empty: those that tasks name.",
        asks=("fields",),
    ),
)


def show_analysis(
    directories: Sequence[str],
    *,
    name: str,
    address: Addresses,
    query: Mapping[str, str],
    open_one: Callable[[str], Run] = open_run,
) -> ShownFindings:
    """What a page shows of the runs in these directories; it may be computed in a process of its own."""
    findings = PAGES[name].make([open_one(directory) for directory in directories], query)
    return shown_findings(findings, address, query.get("metric", ""))


def analysis_page(
    site: Site,
    name: str,
    run_ids: Sequence[str],
    links: Links,
    query: Mapping[str, str],
    patience: float = PATIENCE,
    open_one: Callable[[str], Run] | None = None,
) -> PageValues:
    """The page of one analysis: the runs, what was found of them, or why nothing was."""
    page = PAGES[name]
    chosen = {key: query[key] for key in ("metric", *page.asks) if query.get(key)}
    address = Addresses(
        links, {str(site.library.directory(site.run_of(each))): each for each in dict.fromkeys(run_ids)}
    )
    work = partial(show_analysis, name=name, address=address, query=chosen, open_one=open_one or open_run)
    key = (name, *sorted(chosen.items()))
    context = several_runs_page(site, run_ids, work, patience, least=page.least, key=key)
    return context | {"name": name, "page": page, "query": chosen, "shown": context["found"].value or ShownFindings()}
