"""Serving noise as findings: how far each score moved, and by what."""

from __future__ import annotations

from assay.analyses.noise_file import Deviation, NoiseFile, ScoreNoise
from assay.show import Column, Findings, Table, kinds
from assay.show.kinds import Kind, Name

DEVIATION = Kind(str, ("", "low", "high"), lambda each: (each.value, each.low, each.high), right=True)
BOUND = Kind(lambda most: f"≤ {most:.4f}", right=True)
SPAN = Kind(lambda pair: f"{pair[0]:.4f} to {pair[1]:.4f}", ("low", "high"), tuple, right=True)


def _draws(row: ScoreNoise) -> Deviation | str | None:
    if row.kind == "group" or not row.sampled:
        return None
    return "included in serving; --greedy separates them" if row.draws is None else row.draws


COLUMNS: tuple[Column[ScoreNoise], ...] = (
    Column("task", kinds.NAME, lambda row: Name(row.name), shrinks=True),
    Column("metric", kinds.TEXT, lambda row: row.metric, shrinks=True),
    Column("score", kinds.NUMBER, lambda row: sum(row.scores) / len(row.scores)),
    Column("range", SPAN, lambda row: (min(row.scores), max(row.scores)), rank=2),
    Column("docs ±", kinds.NUMBER, lambda row: None if row.docs is None else row.docs.value, rank=0, moves=True),
    Column("draws ±", Kind(str, right=True), _draws, rank=4, moves=True),
    Column("serving, by doc ±", DEVIATION, lambda row: row.by_doc, rank=3, moves=True),
    Column("serving, whole run ±", DEVIATION, lambda row: row.whole_run),
    Column("serving, at most", BOUND, lambda row: row.most if row.whole_run is None else None),
    Column("n", kinds.COUNT, lambda row: row.n, rank=5),
    Column("flips", kinds.COUNT, lambda row: None if row.flip_share is None else len(row.flips), rank=1),
)


def findings(noise: NoiseFile) -> Findings:
    said = "± is the standard deviation of the score due to each source alone, with its 95 % interval."
    return Findings(
        title=f"{noise.model} · {len(noise.replays)} replays",
        tables=(Table.of(COLUMNS, noise.rows, row=lambda row: {"note": _flips(row)}),),
        notes=(said, *(f"note: {note}" for note in noise.notes)),
        result=noise,
    )


def _flips(row: ScoreNoise) -> str:
    """Which docs: the first of them, most undecided first."""
    if not row.flips or row.flip_share is None:
        return ""
    half = len(row.scores) / 2
    worst = sorted(row.flips, key=lambda flip: abs(flip[1] - half))
    shown = ", ".join(f"{doc} (right {times} of {len(row.scores)})" for doc, times in worst[:5])
    share, low, high = row.flip_share
    more = f" and {len(worst) - 5:,} more" if len(worst) > 5 else ""
    return f"two runs differ on {share:.2%} of docs [{low:.2%}, {high:.2%}]; docs {shown}{more}"
