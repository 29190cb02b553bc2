"""`assay judge`: what a judge's verdicts are worth, and several runs on the scale that its preferences make."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli.output import echo, echo_json
from assay.show import Column, FittedTable
from assay.terminal_text import one_line

if TYPE_CHECKING:
    from assay.analyses.judging import CheckedJudge, WinScale
    from assay.stats import Estimate, Rate


@click.group("judge", short_help="Check how far to trust a judge's verdicts; place runs on one scale.")
def command() -> None:
    """Check how far to trust a judge's verdicts, and place several runs on one scale by its preferences."""


@command.command("check", short_help="Compare verdicts with labels, repeated verdicts, the panel, length and position.")
@click.argument("run", type=click.Path(exists=True, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def check(run: Path, as_json: bool) -> None:
    """Show how far the judges of RUN agree with people's labels and with each other, their calibration, and bias.

    \b
    assay label runs/mine -n 100
    assay score runs/mine --labels runs/mine/labels.jsonl --run_dir runs/mine-checked
    assay judge check runs/mine-checked
    """
    from dataclasses import asdict

    from assay.analyses.judging import check_judges
    from assay.errors import ConfigError

    found = check_judges(run)
    if not found:
        raise ConfigError(f"{run} has no judged scores", hint="Name a run of a task whose scorer is a judge.")
    if as_json:
        echo_json([asdict(each) for each in found], indent=2, default=str)
        return
    echo("\n\n".join("\n".join(_lines(each)) for each in found))


@command.command("scale", short_help="Place runs that were judged in pairs on one scale.")
@click.argument("runs", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--tasks", "-t", multiple=True, help="Only these tasks.")
@click.option("--bootstrap_iters", type=click.IntRange(min=0), default=1000, show_default=True, help="Replicates.")
@click.option("--json", "as_json", is_flag=True, help="Print the scale as JSON.")
def scale(runs: tuple[Path, ...], tasks: tuple[str, ...], bootstrap_iters: int, as_json: bool) -> None:
    """Place RUNS of a task with a judge of kind: pairwise, and their opponents, on one scale (Bradley and Terry).

    Strengths are in log-odds and average 0: a run that is 1 ahead wins 73 % of the games, one that is 2 ahead 88 %. Runs need
    not have met; a common opponent connects them. Games on one doc are one unit, and clusters stay together.
    """
    from dataclasses import asdict

    from assay.analyses.judging import win_scales
    from assay.cli.display import console

    found = win_scales(runs, tasks, replicates=bootstrap_iters)
    if as_json:
        echo_json([asdict(each) for each in found], indent=2, default=str)
        return
    for each in found:
        console().print(scale_table(each))
        for note in each.notes:
            echo(f"note: {note}")


SCALE = [
    Column("run", shrinks=True),
    Column("strength", right=True),
    Column("95 % interval", right=True),
    Column("games won", right=True, rank=2),
    Column("games", right=True, rank=1),
]


def scale_table(scale: WinScale) -> FittedTable:
    of_filter = "" if scale.filter == "none" else f", filter {scale.filter}"
    title = f"{', '.join(scale.tasks)}: {len(scale.players)} players, {scale.docs:,} docs{of_filter}"
    table = FittedTable(SCALE, title=one_line(title))
    for player in scale.players:
        e = player.strength
        interval = "" if e.low is None or e.high is None else f"[{e.low:+.2f}, {e.high:+.2f}]"
        note = e.undefined or "" if e.value is None else e.method if not interval else ""
        value = "–" if e.value is None else f"{e.value:+.2f}"
        won = f"{player.wins / player.games:.0%}"
        table.add([one_line(player.name), value, interval, won, f"{player.games:,}"], one_line(note))
    return table


def _lines(judge: CheckedJudge) -> list[str]:
    check, half = judge.check, judge.half_width
    lines = [f"{judge.task} · {judge.key}: {_number(judge.estimate)}  ({check.mark})"]
    lines += [f"  warning              {each}" for each in judge.warnings]
    if check.is_corrected:
        lines.append(f"  judge alone          {check.opinion:.4f}; its verdicts weigh {check.weight:.2f}")
    if judge.agreement is not None:
        agreement = f"  agreement            {judge.agreement:.1%} of {check.labels} labels"
        lines.append(agreement + ("" if judge.correlation is None else f", correlation {judge.correlation:.2f}"))
    for name in ("sensitivity", "specificity"):
        rate: Rate | None = getattr(check, name)
        if rate is not None:
            lines.append(f"  {name:<20} {rate.value:.3f} [{rate.low:.3f}, {rate.high:.3f}] of {rate.n}")
    for each in judge.calibration:
        lines.append(f"  verdict {each.verdict:<12g} people say {each.people:.3f} on {each.labels} docs")
    lines += _bias(judge)
    if judge.half_width_with_more is not None and half is not None:
        lines.append(f"  100 more labels      ± {judge.half_width_with_more:.4f} instead of ± {half:.4f}")
    if not check.is_corrected:
        lines.append("  no correction        label some answers: assay label RUN -n 100")
    return lines


def _bias(judge: CheckedJudge) -> list[str]:
    rows: list[tuple[str, Any]] = [
        ("length and error", None if judge.length is None else f"{judge.length:+.2f} (rank correlation)"),
        (
            "length and verdict",
            None if judge.opinion_length is None else f"{judge.opinion_length:+.2f} (rank correlation)",
        ),
        ("position flips", None if judge.position_flip is None else f"{judge.position_flip:.1%} of the pairs"),
        ("repeats, α", None if judge.repeats.value is None else _number(judge.repeats)),
        ("panel, α", None if judge.panel.value is None else _number(judge.panel)),
        ("could not be parsed", judge.unread or None),
    ]
    return [f"  {name:<20} {text}" for name, text in rows if text is not None]


def _number(estimate: Estimate) -> str:
    if estimate.value is None:
        return f"undefined: {estimate.undefined}"
    bounds = "" if estimate.low is None else f" [{estimate.low:.4f}, {estimate.high:.4f}]"
    return f"{estimate.value:.4f}{bounds}"
