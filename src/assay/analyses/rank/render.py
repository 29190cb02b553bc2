"""A ranking as a table, as Markdown, as JSON and as an HTML page, and what to know beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from assay.analyses.compare import page_template, signed
from assay.analyses.rank.engine import RankedRun, Ranking
from assay.results import format_number
from assay.show import Column, FittedTable
from assay.terminal_text import one_line, with_signs

_COLUMNS = [
    Column("rank", right=True),
    Column("run", shrinks=True),
    Column("score ± stderr", right=True),
    Column("tier", right=True, rank=1),
    Column("P(best)", right=True, rank=2),
    Column("n", right=True, rank=3),
]
_HEAD = tuple(column.name for column in _COLUMNS)


def _metric(ranking: Ranking) -> str:
    key = ranking.key
    return (key.metric if key.filter == "none" else f"{key.metric} ({key.filter})") + (
        "" if ranking.higher_is_better else " ↓"
    )


def ranking_table(ranking: Ranking) -> FittedTable:
    table = FittedTable(_COLUMNS, title=one_line(f"{ranking.alias} · {_metric(ranking)}"))
    tier = 1
    for run in ranking.runs:
        if run.tier != tier:
            table.section()
        tier = run.tier
        table.add([one_line(cell) for cell in _cells(run)])
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
    over = "one pair" if pairs == 1 else f"{pairs:,} pairs"
    matters = f"; ahead means by more than {ranking.min_difference:g}" if ranking.min_difference else ""
    yield f"rank: the ranks a run may have; {'both' if runs == 2 else f'all {runs}'} ranges hold together at {ranking.level:.0%} (max-t over {over} on the same docs{matters})."
    yield (
        f"tier: runs that cannot be told apart from their tier's first run (Holm over {over}). "
        "P(best): share of bootstrap replicates in which no run is better."
    )
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


@dataclass(frozen=True)
class RankMark:
    """One bar; places are percent of the width, which has a step for each rank."""

    run: RankedRun
    left: float
    width: float
    dot: float
    pairs: tuple[str, ...]
    """A line for each other run."""
    cells: tuple[tuple[str, str], ...]
    """For the matrix: which of the two is ahead (`ahead`, `behind`, `open`, `self`), and what the pair says."""

    @property
    def best(self) -> str:
        return best_share(self.run.best)


def rank_marks(ranking: Ranking) -> list[RankMark]:
    step = 100.0 / len(ranking.runs)
    marks = []
    for run in ranking.runs:
        cells = tuple(_cell(ranking, run, other) for other in ranking.runs)
        pairs = tuple(text for kind, text in cells if kind != "self")
        left, width = (run.low - 1) * step, (run.high - run.low + 1) * step
        marks.append(RankMark(run, left, width, (run.rank - 0.5) * step, pairs, cells))
    return marks


def _cell(ranking: Ranking, run: RankedRun, other: RankedRun) -> tuple[str, str]:
    if run.place == other.place:
        return "self", run.label
    value, low, high = ranking.bounds(run, other)
    least = ranking.min_difference
    above = "ahead" if ranking.higher_is_better else "behind"
    below = "behind" if ranking.higher_is_better else "ahead"
    kind = above if low > least else below if high < -least else "open"
    names = with_signs(f"{run.label} − {other.label}")
    return kind, f"{names}: {signed(value)} [{signed(low)}, {signed(high)}]"


def ranking_page(rankings: Sequence[Ranking]) -> str:
    return page_template("rank.html").render(sections=[(r, rank_marks(r), list(ranking_legend(r))) for r in rankings])
