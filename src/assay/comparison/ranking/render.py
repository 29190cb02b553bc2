"""A ranking as a table, as Markdown, as JSON, and what to know beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from assay.comparison.ranking.engine import RankedRun, Ranking
from assay.report import format_number
from assay.signs import with_signs

if TYPE_CHECKING:
    from rich.table import Table

_HEAD = ("rank", "run", "score", "tier", "P(best)", "n")


def _metric(ranking: Ranking) -> str:
    key = ranking.key
    return (key.metric if key.filter == "none" else f"{key.metric} ({key.filter})") + (
        "" if ranking.higher_is_better else " ↓"
    )


def ranking_table(ranking: Ranking) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    title = escape(with_signs(f"{ranking.alias} · {_metric(ranking)}"))
    table = Table(title=title, title_justify="left", header_style="bold", pad_edge=False, box=SIMPLE_HEAD)
    for name in _HEAD:
        table.add_column(name, justify="left" if name == "run" else "right", overflow="fold", no_wrap=name != "run")
    tier = 1
    for run in ranking.runs:
        if run.tier != tier:
            table.add_section()
        tier = run.tier
        table.add_row(*(escape(with_signs(cell)) for cell in _cells(run)))
    return table


def _cells(run: RankedRun) -> tuple[str, ...]:
    score = run.score
    error = "" if score.stderr is None else f" ± {format_number(score.stderr)}"
    value = "" if score.value is None else format_number(score.value) + error
    return run.range, run.label, value, str(run.tier), best_share(run.best), f"{score.n:,}"


def best_share(share: float) -> str:
    """
    >>> [best_share(x) for x in (0.0, 0.0004, 0.25, 0.9996, 1.0)]
    ['<0.001', '<0.001', '0.250', '>0.999', '>0.999']
    """
    return "<0.001" if share < 0.001 else ">0.999" if share > 0.999 else f"{share:.3f}"


def ranking_markdown(ranking: Ranking) -> str:
    lines = [f"### {_escaped(ranking.alias)} · {_escaped(_metric(ranking))}", ""]
    lines += [
        "| " + " | ".join(_HEAD) + " |",
        "|" + "|".join("---" if name == "run" else "---:" for name in _HEAD) + "|",
    ]
    lines += ["| " + " | ".join(_escaped(cell) for cell in _cells(run)) + " |" for run in ranking.runs]
    return "\n".join([*lines, "", *(f"- {_escaped(line)}" for line in ranking_legend(ranking))]) + "\n"


def _escaped(text: str) -> str:
    return with_signs(text).replace("|", "\\|").replace("\n", " ")


def ranking_legend(ranking: Ranking) -> Iterator[str]:
    """What the reader must know beside the table."""
    runs, pairs = len(ranking.runs), len(ranking.runs) * (len(ranking.runs) - 1) // 2
    matters = f"; ahead means by more than {ranking.min_difference:g}" if ranking.min_difference else ""
    yield f"rank: the places a run may have; all {runs} ranges hold together at {ranking.level:.0%} (max-t over {pairs:,} pairs on the same docs{matters})."
    yield f"tier: runs not told apart from their tier's first run (Holm over {pairs:,} pairs). P(best): share of bootstrap replicates in which no run is better."
    # Holm steps down and max-t bounds all at once, so a tier may divide what the ranges leave open.
    yield from map(with_signs, ranking.notes)


def ranking_dict(ranking: Ranking) -> dict[str, Any]:
    return {
        "name": ranking.name,
        "metric": ranking.key.metric,
        "filter": ranking.key.filter,
        "higher_is_better": ranking.higher_is_better,
        "level": ranking.level,
        "min_difference": ranking.min_difference,
        "runs": [_run_dict(run) for run in ranking.runs],
        "pairs": [_pair_dict(ranking, a, b) for at, a in enumerate(ranking.runs) for b in ranking.runs[at + 1 :]],
        "notes": list(ranking.notes),
    }


def _run_dict(run: RankedRun) -> dict[str, Any]:
    score = run.score
    return {
        "run": run.label,
        "score": score.value,
        "stderr": score.stderr,
        "n": score.n,
        "rank": run.rank,
        "rank_low": run.low,
        "rank_high": run.high,
        "tier": run.tier,
        "probability_best": run.best,
    }


def _pair_dict(ranking: Ranking, a: RankedRun, b: RankedRun) -> dict[str, Any]:
    value, low, high = ranking.bounds(a, b)
    at = (a.place, b.place)
    return {
        "run": a.label,
        "other": b.label,
        "difference": value,
        "low": low,
        "high": high,
        "p_adjusted": float(ranking.pairs.p_adjusted[at]),
        "docs": int(ranking.pairs.common[at]),
    }


def ranking_json(rankings: Sequence[Ranking]) -> str:
    return json.dumps({"rankings": [ranking_dict(ranking) for ranking in rankings]}, ensure_ascii=False, indent=1)
