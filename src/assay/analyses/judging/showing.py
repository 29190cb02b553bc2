"""What a judge is worth, and the scale of its preferences, as findings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from assay.analyses.judging.check import CheckedJudge, CheckedJudges
from assay.analyses.judging.win_scale import Player, WinScale, WinScales
from assay.show import Column, Findings, Table, kinds
from assay.show.kinds import Name
from assay.stats import Estimate, Rate


class Fact(NamedTuple):
    """One thing that is known of a judge."""

    what: str
    text: str
    value: float | None = None
    note: str = ""


FACTS: tuple[Column[Fact], ...] = (
    Column("", kinds.TEXT, lambda fact: fact.what, "what"),
    Column("found", kinds.TEXT, lambda fact: fact.text),
    Column("value", kinds.NUMBER, lambda fact: fact.value, for_people=False),
)


def check_findings(judges: CheckedJudges) -> Findings:
    tables = [
        Table.of(
            FACTS, _facts(judge), title=f"{judge.task} · {judge.key}: {_number(judge.estimate)}  ({judge.check.mark})"
        )
        for judge in judges
    ]
    return Findings("How far to trust the judge", tables=tuple(tables), result=judges)


def _facts(judge: CheckedJudge) -> Iterator[Fact]:
    check = judge.check
    yield from (Fact("warning", "", note=each) for each in judge.warnings)
    if check.is_corrected and check.opinion is not None:
        yield Fact("judge alone", f"{check.opinion:.4f}; its verdicts weigh {check.weight:.2f}", check.opinion)
    if judge.agreement is not None:
        also = "" if judge.correlation is None else f", correlation {judge.correlation:.2f}"
        yield Fact("agreement", f"{judge.agreement:.1%} of {check.labels} labels{also}", judge.agreement)
    for name in ("sensitivity", "specificity"):
        rate: Rate | None = getattr(check, name)
        if rate is not None:
            yield Fact(name, f"{rate.value:.3f} [{rate.low:.3f}, {rate.high:.3f}] of {rate.n}", rate.value)
    for each in judge.calibration:
        yield Fact(f"verdict {each.verdict:g}", f"people say {each.people:.3f} on {each.labels} docs", each.people)
    yield from _bias(judge)
    half, more = judge.half_width, judge.half_width_with_more
    if more is not None and half is not None:
        yield Fact("100 more labels", f"half an interval of {more:.4f} instead of {half:.4f}", more)
    if not check.is_corrected:
        yield Fact("no correction", "too few labels", note="label some answers: assay judge label RUN -n 100")


def _bias(judge: CheckedJudge) -> Iterator[Fact]:
    for name, value in (("length and error", judge.length), ("length and verdict", judge.opinion_length)):
        if value is not None:
            yield Fact(name, f"{value:+.2f} (rank correlation)", value)
    if judge.position_flip is not None:
        yield Fact("position flips", f"{judge.position_flip:.1%} of the pairs", judge.position_flip)
    for name, alpha in (("repeats, α", judge.repeats), ("panel, α", judge.panel)):
        if alpha.value is not None:
            yield Fact(name, _number(alpha), alpha.value)
    if judge.unread:
        yield Fact("could not be parsed", str(judge.unread), judge.unread)


def _number(estimate: Estimate) -> str:
    if estimate.value is None:
        return f"undefined: {estimate.undefined}"
    bounds = "" if estimate.low is None else f" [{estimate.low:.4f}, {estimate.high:.4f}]"
    return f"{estimate.value:.4f}{bounds}"


STRENGTH = kinds.value_kind(lambda value: f"{value:+.2f}")
PLAYERS: tuple[Column[Player], ...] = (
    Column("run", kinds.NAME, lambda player: Name(player.name), shrinks=True),
    Column("strength", STRENGTH, lambda player: player.strength),
    Column("95 % interval", kinds.interval_kind(lambda end: f"{end:+.2f}"), lambda player: player.strength, ""),
    Column("games won", kinds.SHARE, lambda player: player.wins / player.games, rank=2),
    Column("games", kinds.COUNT, lambda player: player.games, rank=1),
)


def scale_findings(scales: WinScales) -> Findings:
    return Findings("Runs on one scale", tables=tuple(map(_scale, scales)), result=scales)


def _scale(scale: WinScale) -> Table:
    of_filter = "" if scale.filter == "none" else f", filter {scale.filter}"
    return Table.of(
        PLAYERS,
        scale.players,
        row=lambda player: {"note": player.strength.undefined or player.strength.withheld_reason or ""},
        title=f"{', '.join(scale.tasks)}: {len(scale.players)} players, {scale.docs:,} docs{of_filter}",
        notes=tuple(f"note: {note}" for note in scale.notes),
    )
