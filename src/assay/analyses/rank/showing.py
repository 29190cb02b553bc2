"""Rankings as findings: a line a run with the ranks it may have, and every pair of runs."""

from __future__ import annotations

from collections.abc import Iterator

from assay.analyses.rank.engine import RankedRun, Ranking, Rankings
from assay.show import Axis, Column, Findings, Table, Whisker, kinds
from assay.show.kinds import Link, Name, Word


def findings(rankings: Rankings) -> Findings:
    legends = [[*_legend(ranking)] for ranking in rankings]
    common = [line for line in legends[0] if all(line in legend for legend in legends)] if legends else []
    tables = [
        _table(ranking, tuple(line for line in legend if line not in common))
        for ranking, legend in zip(rankings, legends)
    ]
    return Findings(
        title=f"Ranks of {len(rankings[0].runs)} runs" if rankings else "Ranks",
        tables=tuple(tables),
        details=lambda: tuple(map(_pairs, rankings)),
        notes=tuple(common),
        result=rankings,
    )


def _metric(ranking: Ranking) -> str:
    key = ranking.key
    named = key.metric if key.filter == "none" else f"{key.metric} ({key.filter})"
    return named + ("" if ranking.higher_is_better else " ↓")


def _table(ranking: Ranking, notes: tuple[str, ...]) -> Table:
    axis = Axis(0.5, len(ranking.runs) + 0.5, has_steps=True)
    above = dict(zip((run.place for run in ranking.runs), [1, *(run.tier for run in ranking.runs)]))

    def whisker(run: RankedRun) -> Whisker:
        pairs = "\n".join(_pair_text(ranking, run, other) for other in ranking.runs if other is not run)
        return Whisker(run.rank, run.low - 0.5, run.high + 0.5, axis, label=pairs, text=f"rank {run.range}")

    columns: tuple[Column[RankedRun], ...] = (
        Column("rank", kinds.RANKS, lambda run: (run.low, run.high)),
        Column("run", kinds.NAME, lambda run: Name(run.label, link=Link(run.path)), shrinks=True),
        Column("score ± stderr", kinds.WITH_ERROR, lambda run: run.score, "score"),
        Column(f"rank 1 … {len(ranking.runs)}", kinds.WHISKER, whisker),
        Column("tier", kinds.COUNT, lambda run: run.tier, rank=1),
        Column("P(best)", kinds.PROBABILITY, lambda run: run.best, "probability_best", rank=2),
        *_gold_columns(ranking),
        Column("n", kinds.COUNT, lambda run: run.score.n, rank=3),
    )
    return Table.of(
        columns,
        ranking.runs,
        row=lambda run: {"begins": run.tier != above[run.place]},
        title=f"{ranking.alias} · {_metric(ranking)}",
        notes=notes,
    )


def _gold_columns(ranking: Ranking) -> Iterator[Column[RankedRun]]:
    if any(run.gold is not None for run in ranking.runs):
        yield Column("gold checked", kinds.WITH_ERROR, lambda run: None if run.gold is None else run.gold.score, "gold")
        yield Column("its rank", kinds.RANKS, lambda run: None if run.gold is None else (run.gold.low, run.gold.high))


def _legend(ranking: Ranking) -> Iterator[str]:
    """What the reader must know beside the table."""
    runs, pairs = len(ranking.runs), len(ranking.runs) * (len(ranking.runs) - 1) // 2
    over = "one pair" if pairs == 1 else f"{pairs:,} pairs"
    matters = f"; ahead means by more than {ranking.min_difference:g}" if ranking.min_difference else ""
    yield f"rank: the ranks a run may have; {'both' if runs == 2 else f'all {runs}'} ranges hold together at {ranking.level:.0%} (max-t over {over} on the same docs{matters})."
    yield (
        f"tier: runs that cannot be told apart from their tier's first run (Holm over {over}). "
        "P(best): share of bootstrap replicates in which no run is better."
    )
    if labels := [run.gold.labels for run in ranking.runs if run.gold is not None]:
        yield (
            f"gold checked: scores under the right gold answers, by people's labels on {max(labels):,} docs; with the ranks that hold there."
        )
    # Holm steps down and max-t bounds all at once, so a tier may divide what the ranges leave open.
    yield from ranking.notes


def _pair_text(ranking: Ranking, run: RankedRun, other: RankedRun) -> str:
    value, low, high = ranking.bounds(run, other)
    ends = f"[{kinds.signed(low)}, {kinds.signed(high)}]"
    return f"{run.label} − {other.label}: {kinds.signed(value)} {ends}"


def _pairs(ranking: Ranking) -> Table:
    """Row against column: which of the two is ahead."""

    def against(other: RankedRun) -> Column[RankedRun]:
        return Column(other.label, kinds.WORD, lambda run: _standing(ranking, run, other))

    columns = (Column("row − column", kinds.TEXT, lambda run: run.label), *map(against, ranking.runs))
    return Table.of(columns, ranking.runs, title=f"{ranking.alias}: every pair")


def _standing(ranking: Ranking, run: RankedRun, other: RankedRun) -> Word | None:
    if run.place == other.place:
        return None
    value, low, high = ranking.bounds(run, other)
    least = ranking.min_difference
    above, below = ("good", "bad") if ranking.higher_is_better else ("bad", "good")
    tone = above if low > least else below if high < -least else "quiet"
    return Word(f"{kinds.signed(value)} [{kinds.signed(low)}, {kinds.signed(high)}]", tone)  # type: ignore[arg-type]
