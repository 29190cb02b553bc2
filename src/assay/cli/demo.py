"""`assay demo`: a first real evaluation, with a small model and data that come with the package."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import click

from assay.cli.output import echo_as_is

MODEL = "smollm2-135m"
RUN_DIR = "runs/demo"


@click.command("demo")
@click.option(
    "--model",
    default=MODEL,
    show_default=True,
    help="A model from `assay fetch --list-models`, a hub name or a directory.",
)
@click.option("--limit", type=int, help="At most this many docs per task.")
@click.option(
    "--run_dir", help=f"Where the run is stored.  [default: {RUN_DIR}, or next to it for another model or limit]"
)
def command(model: str, limit: int | None, run_dir: str | None) -> None:
    """Fetch a small model, evaluate it on the bundled group `demo`, and write the HTML report.

    The second time, every answer comes from the store.
    """
    from assay.cli.display import show_progress
    from assay.cli.emit import Outputs, emit
    from assay.cli.fetch import pull_shown
    from assay.config import RunConfig
    from assay.evaluation import evaluate
    from assay.models import CATALOG
    from assay.registry import missing_package
    from assay.results import RunDirectory
    from assay.show import run_findings

    for package in ("torch", "transformers"):  # before anything is downloaded
        if find_spec(package) is None:
            raise missing_package("the demo", ModuleNotFoundError(name=package))
    if model in CATALOG:
        pull_shown(model)
    place = run_dir or default_directory(model, limit)
    config = RunConfig(model="hf", model_args={"pretrained": model}, tasks=["demo"], limit=limit, run_dir=place)
    with show_progress() as progress:
        result = evaluate(config, progress=progress)
    assert result.path is not None
    found = run_findings(result, RunDirectory(result.path).read_json("run.json"))
    report = found.save(result.path / "report.html")
    emit(found, Outputs())
    echo_as_is(farewell(model, result.path, report))


def default_directory(model: str, limit: int | None) -> str:
    """One for each demo: a directory holds one run.

    >>> default_directory(MODEL, None), default_directory("org/tiny", 20)
    ('runs/demo', 'runs/demo-tiny-20')
    """
    from assay.results import sanitize

    parts = [RUN_DIR, "" if model == MODEL else sanitize(Path(model).name), "" if limit is None else str(limit)]
    return "-".join(part for part in parts if part)


def farewell(model: str, run: Path, report: Path) -> str:
    """Where the report is, and what to type next."""
    return f"""
The report is a web page: open {report.resolve().as_uri()}

Next:
  assay view {run}                      every question, prompt and answer
  assay run --model hf --model_args pretrained={model} --tasks demo_capitals_en:mc
                                          the same questions in another wording, or with your own model
  assay new task my_task                  a new task of your own, with a test"""
