"""`assay label`: judge some answers yourself, so that judged scores can be corrected."""

from __future__ import annotations

from pathlib import Path

import click

from assay.cli.output import echo


@click.command("label", short_help="Label some answers of a run yourself, in a browser.")
@click.argument("run", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("-n", "docs", type=click.IntRange(min=1), default=100, show_default=True, help="Docs per judged task.")
@click.option("--tasks", "-t", multiple=True, help="Only these tasks.")
@click.option(
    "--labels",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File for the labels.  [default: RUN/labels.jsonl]",
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port to listen on.  [default: a free port]")
@click.option("--open/--no-open", "open_browser", default=True, help="Open the browser.")
def command(run: Path, docs: int, tasks: tuple[str, ...], labels: Path | None, port: int, open_browser: bool) -> None:
    """Pick docs of RUN at random and show their answers, without the judge's verdicts, for you to judge with the keyboard.

    \b
    assay label runs/mine -n 100
    assay score runs/mine --labels runs/mine/labels.jsonl --run_dir runs/mine-checked

    Every label is saved immediately; the same command picks up where you stopped. Runs of one task get the same docs.
    """
    from assay.errors import ConfigError, install_hint

    try:
        from assay.view import LabelBook, draw_items, serve_labels
    except ModuleNotFoundError as error:
        raise ConfigError(f"labelling needs the package {error.name!r}", hint=install_hint("view")) from error
    from assay.results import RunDirectory

    path = labels or run / "labels.jsonl"
    book = LabelBook(path, draw_items(RunDirectory.open(run), docs, tasks))

    def ready(address: str) -> None:
        echo(f"{len(book.items):,} answers to label at {address}  (labels are saved to {path}; press Ctrl-C to stop)")

    serve_labels(book, port=port, open_browser=open_browser, ready=ready)
