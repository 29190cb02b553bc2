"""`assay ci`: all rules of a repository's `assay.yaml`, decided with as few docs as it takes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli.gate import exit_code, write_files
from assay.cli.output import echo, echo_json

if TYPE_CHECKING:
    from assay.analyses.ci import Prospect
    from assay.analyses.gate import GateReport


@click.command("ci", short_help="Check the rules in assay.yaml.")
@click.option(
    "--file",
    "-f",
    default="assay.yaml",
    show_default=True,
    type=click.Path(path_type=Path),
    help="The file with the rules.",
)
@click.option("--explain", is_flag=True, help="Say what the budget can detect; send nothing.")
@click.option(
    "--record", is_flag=True, help="Ask the first model every doc in the budget and keep the run as the baseline."
)
@click.option("--docs", type=click.IntRange(min=2), help="Docs per task, instead of the file's budget.")
@click.option(
    "--minutes", type=click.FloatRange(0, min_open=True), help="Minutes for everything, instead of the file's budget."
)
@click.option(
    "--cost",
    type=click.FloatRange(0, min_open=True),
    help="Cost in the currency of the model's prices, instead of the file's budget.",
)
@click.option("--cannot_tell", type=click.Choice(["pass", "fail"]), help="Exit with 0 or 1 if a rule is undecided.")
@click.option("--link", metavar="URL", help="Link for the comment.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON (`assay schema gate`).")
@click.pass_context
def command(
    context: click.Context,
    /,
    file: Path,
    explain: bool,
    record: bool,
    cannot_tell: str | None,
    link: str | None,
    as_json: bool,
    **budget: float | None,
) -> None:
    """Run the models in assay.yaml until every rule is decided or the budget is used up. Exit code: 0 passed, 1 failed, 4 cannot tell.

    \b
    models:
      - {name: small, model: hf, model_args: {pretrained: smollm2-135m}}
    tasks: [arc_easy, gsm8k]
    baseline: baseline
    rules:
      - "arc_easy acc: not worse than 0.01"
      - "gsm8k: at least 0.4"
      - "any task: no more than 2 % newly failed"
    budget: {docs: 400, minutes: 10}

    Docs come in a random order, and the rules are checked along the way, with intervals that hold at every check. The
    comment, JUnit XML and JSON are written to the file's `output` (assay-ci).
    """
    from assay.analyses.ci import explain_ci, joined, plan_ci, record_baseline, run_ci
    from assay.cli.display import show_progress
    from assay.config import load_ci

    config = load_ci(file)
    stated = {name: value for name, value in budget.items() if value is not None}
    config = config.model_copy(update={"budget": config.budget.model_copy(update=stated)})
    plan = plan_ci(config, file.absolute(), record=record)
    if record:
        echo(f"kept in {record_baseline(plan, progress=lambda: show_progress(quiet=as_json))}")
        return
    if explain:
        _explain(explain_ci(plan), as_json=as_json)
        return
    decided = run_ci(plan, progress=lambda: show_progress(quiet=as_json), notify=lambda text: echo(text, err=True))
    report = joined(decided)
    plan.root.mkdir(parents=True, exist_ok=True)
    places = {kind: str(plan.root / name) for kind, name in REPORTS.items()}
    write_files(report, ", ".join(plan.models), link=link or config.link, **places)
    _show(report, plan.root, as_json=as_json)
    if code := exit_code(report, cannot_tell or config.cannot_tell):
        context.exit(code)


REPORTS = {"markdown": "comment.md", "junit": "junit.xml", "report_file": "report.json"}


def _show(report: GateReport, root: Path, *, as_json: bool) -> None:
    if as_json:
        echo_json(report.to_dict(), indent=2)
        return
    for check in report.checks:
        echo(f"{check.line()}  [{check.rule}]")
    for note in report.notes:
        echo(f"note: {note}")
    echo(f"{report.outcome}: reports in {root}")


def _explain(prospects: list[Prospect], *, as_json: bool) -> None:
    from dataclasses import asdict

    if as_json:
        echo_json([asdict(each) for each in prospects], indent=2)
        return
    for each in prospects:
        echo(f"{each.task}: {each.rule}")
        echo(f"  {each.words}.")
    echo(
        "At 80 % power; models are assumed to correlate by 0.5 over docs. Time and cost may allow fewer docs. Nothing was sent."
    )
