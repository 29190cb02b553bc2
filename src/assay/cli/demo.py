"""`assay demo`: a first real evaluation, with a small model and data that come with the package."""

from __future__ import annotations

from pathlib import Path

import click

MODEL = "smollm2-135m"
RUN_DIR = "runs/demo"


@click.command("demo", short_help="A first real evaluation, offline.")
@click.option("--model", default=MODEL, show_default=True, help="A model of `assay models ls`, a hub name or a directory.")  # fmt: skip
@click.option("--limit", type=int, help="At most this many docs a task.")
@click.option(
    "--run_dir", help=f"Where the run is kept.  [default: {RUN_DIR}, or beside it for another model or limit]"
)
def command(model: str, limit: int | None, run_dir: str | None) -> None:
    """Fetch a small model, evaluate it on the bundled group `demo`, and write the HTML report.

    The second time, every answer comes from the store.
    """
    from assay.cli.display import console, show_progress
    from assay.cli.models import pull_shown
    from assay.config import RunConfig
    from assay.models.catalog import CATALOG
    from assay.report import evaluate, html_report, screen_table
    from assay.run import write_whole

    if model in CATALOG:
        pull_shown(model)
    config = RunConfig(model="hf", model_args={"pretrained": model}, tasks=["demo"], limit=limit, run_dir=run_dir or default_directory(model, limit))  # fmt: skip
    with show_progress() as progress:
        results = evaluate(config, progress=progress)
    assert results.directory is not None
    report = results.directory.path / "report.html"
    run = results.directory.read_json("run.json") or {}
    write_whole(report, html_report(results.data, run).encode())
    out = console()
    out.print(screen_table(results.data))
    for line in results.remarks:
        out.print(line, style="yellow", highlight=False, markup=False)
    click.echo(farewell(model, results.directory.path, report))


def default_directory(model: str, limit: int | None) -> str:
    """One for each demo: a directory holds one run.

    >>> default_directory(MODEL, None), default_directory("org/tiny", 20)
    ('runs/demo', 'runs/demo-tiny-20')
    """
    from assay.run import sanitize

    parts = [RUN_DIR, "" if model == MODEL else sanitize(Path(model).name), "" if limit is None else str(limit)]
    return "-".join(part for part in parts if part)


def farewell(model: str, run: Path, report: Path) -> str:
    """Where the report is, and what to type next."""
    return f"""
The report is a web page: open {report.resolve().as_uri()}

Next:
  assay view {run}                      every question, prompt and answer
  assay run --model hf --model_args pretrained={model} --tasks demo_capitals_en:mc
                                          the same questions in another wording; or name your own model
  assay new task my_task                  a task of your own, with its test"""
