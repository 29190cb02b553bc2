"""`assay judge check`: what a judge's verdicts are worth."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli.output import echo, echo_json

if TYPE_CHECKING:
    from assay.comparison import CheckedJudge
    from assay.stats import Estimate, Rate


@click.group("judge", short_help="What a judge's verdicts are worth.")
def command() -> None:
    """What a judge's verdicts are worth."""


@command.command("check", short_help="Verdicts beside labels, repeats, panel, length and place.")
@click.argument("run", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def check(run: Path, as_json: bool) -> None:
    """Agreement of the judges of RUN with people's labels and with each other, calibration, and bias.

    \b
    assay label runs/mine -n 100
    assay score runs/mine --labels runs/mine/labels.jsonl --run_dir runs/mine-checked
    assay judge check runs/mine-checked
    """
    from dataclasses import asdict

    from assay.comparison import check_judges
    from assay.errors import ConfigError

    found = check_judges(run)
    if not found:
        raise ConfigError(f"{run} has no judged scores", hint="Name a run of a task whose scorer is a judge.")
    if as_json:
        echo_json([asdict(each) for each in found], indent=2, default=str)
        return
    echo("\n\n".join("\n".join(_lines(each)) for each in found))


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
        ("could not be read", judge.unread or None),
    ]
    return [f"  {name:<20} {text}" for name, text in rows if text is not None]


def _number(estimate: Estimate) -> str:
    if estimate.value is None:
        return f"undefined: {estimate.undefined}"
    bounds = "" if estimate.low is None else f" [{estimate.low:.4f}, {estimate.high:.4f}]"
    return f"{estimate.value:.4f}{bounds}"
