"""`assay ci`: all rules of a repository's `assay.yaml`, decided with as few docs as it takes."""

from __future__ import annotations

from pathlib import Path

import click

from assay.cli.emit import Outputs, emit, output_flags
from assay.cli.gate import exit_code
from assay.cli.output import echo


@click.command("ci")
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
@output_flags(link=True)
@click.pass_context
def command(
    context: click.Context,
    /,
    file: Path,
    explain: bool,
    record: bool,
    cannot_tell: str | None,
    outputs: Outputs,
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
      - "any task: no more than 2 % newly wrong"
    budget: {docs: 400, minutes: 10}

    Docs come in a random order, and the rules are checked along the way, with intervals that hold at every check. The
    comment, JUnit XML and JSON are written to the file's `output` (assay-ci).
    """
    from assay.analyses.ci import explain_ci, joined, plan_ci, prospect_findings, record_baseline, run_ci
    from assay.analyses.gate import findings
    from assay.cli.display import show_progress
    from assay.config import load_ci

    config = load_ci(file)
    stated = {name: value for name, value in budget.items() if value is not None}
    config = config.model_copy(update={"budget": config.budget.model_copy(update=stated)})
    plan = plan_ci(config, file.absolute(), record=record)
    if record:
        echo(f"kept in {record_baseline(plan, progress=lambda: show_progress(quiet=outputs.is_quiet))}")
        return
    if explain:
        emit(prospect_findings(explain_ci(plan)), outputs)
        return
    decided = run_ci(
        plan, progress=lambda: show_progress(quiet=outputs.is_quiet), notify=lambda text: echo(text, err=True)
    )
    report = joined(decided)
    plan.root.mkdir(parents=True, exist_ok=True)
    found = findings(report, ", ".join(plan.models), f"{report.outcome}: reports in {plan.root}")
    emit(
        found,
        outputs.also(plan.root / "comment.md", plan.root / "junit.xml").reporting(
            plan.root / "report.json", config.link
        ),
    )
    if code := exit_code(report, cannot_tell or config.cannot_tell):
        context.exit(code)
