"""`assay judge`: what a judge's verdicts are worth, labels to check them by, and runs on the scale of its preferences."""

from __future__ import annotations

from pathlib import Path

import click

from assay.analyses.judging import ScaleOptions
from assay.cli.emit import Outputs, emit, output_flags
from assay.cli.flags import option_flags
from assay.cli.output import echo


@click.group("judge")
def command() -> None:
    """Check how far to trust a judge's verdicts, label answers yourself, and place several runs on one scale."""


@command.command("check", short_help="Compare verdicts with labels, repeated verdicts, the panel, length and position.")
@click.argument("run", type=click.Path(exists=True, path_type=Path))
@output_flags()
def check(run: Path, outputs: Outputs) -> None:
    """Show how far the judges of RUN agree with people's labels and with each other, their calibration, and bias.

    \b
    assay judge label runs/mine -n 100
    assay score runs/mine --labels runs/mine/labels.jsonl --run_dir runs/mine-checked
    assay judge check runs/mine-checked
    """
    from assay.analyses.judging import check_findings, check_judges

    emit(check_findings(check_judges(run)), outputs)


@command.command("scale", short_help="Place runs that were judged in pairs on one scale.")
@click.argument("runs", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@option_flags(ScaleOptions, verb="judge")
@output_flags()
def scale(runs: tuple[Path, ...], options: ScaleOptions, outputs: Outputs) -> None:
    """Place RUNS of a task with a judge of kind: pairwise, and their opponents, on one scale (Bradley and Terry).

    Strengths are in log-odds and average 0: a run that is 1 ahead wins 73 % of the games, one that is 2 ahead 88 %. Runs need
    not have met; a common opponent connects them. Games on one doc are one unit, and clusters stay together.
    """
    from assay.analyses.judging import scale_findings, win_scales

    emit(scale_findings(win_scales(runs, options)), outputs)


@command.command("label", short_help="Label some answers of a run yourself, in a browser.")
@click.argument("run", type=click.Path(exists=True, path_type=Path))
@click.option("--gold", is_flag=True, help="Check the published gold answers, blind to what models answered.")
@click.option(
    "-n",
    "docs",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="Docs per judged task; with --gold, of all tasks together.",
)
@click.option(
    "--chances",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="With --gold: a JSON file of chances by doc hash, as `assay rank --suspects_docs` writes it.",
)
@click.option("--tasks", "-t", multiple=True, help="Only these tasks.")
@click.option(
    "--labels",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File for the labels.  [default: RUN/labels.jsonl; with --gold, RUN/gold.jsonl]",
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port to listen on.  [default: a free port]")
@click.option("--open/--no-open", "open_browser", default=True, help="Open the browser.")
def label(
    run: Path,
    gold: bool,
    docs: int,
    chances: Path | None,
    tasks: tuple[str, ...],
    labels: Path | None,
    port: int,
    open_browser: bool,
) -> None:
    """Pick docs of RUN at random and show their answers, without the judge's verdicts, for you to judge with the keyboard.

    \b
    assay judge label runs/mine -n 100
    assay score runs/mine --labels runs/mine/labels.jsonl --run_dir runs/mine-checked

    With --gold you check the benchmark instead: whether the answer that is published as right is right. Labels of gold answers
    serve all runs on the same docs:

    \b
    assay judge label runs/mine --gold -n 100
    assay score runs/mine --labels runs/mine/gold.jsonl --run_dir runs/mine-checked

    Every label is saved immediately; the same command picks up where you stopped. Runs of one task get the same docs.
    """
    from assay.errors import ConfigError, install_hint

    try:
        from assay.view import LabelBook, draw_gold_items, draw_items, read_chances, serve_labels
    except ModuleNotFoundError as error:
        raise ConfigError(f"labelling needs the package {error.name!r}", hint=install_hint("view")) from error
    from assay.results import RunDirectory

    if chances is not None and not gold:
        raise click.UsageError("--chances is for --gold; answers are drawn with equal chances")
    path, source = labels or run / ("gold.jsonl" if gold else "labels.jsonl"), RunDirectory.open(run)
    if gold:
        given = None if chances is None else read_chances(chances)
        book = LabelBook(path, draw_gold_items(source, docs, tasks, given))
    else:
        book = LabelBook(path, draw_items(source, docs, tasks))

    def ready(address: str) -> None:
        echo(f"{len(book.items):,} answers to label at {address}  (labels are saved to {path}; press Ctrl-C to stop)")

    serve_labels(book, port=port, open_browser=open_browser, ready=ready)
