"""`assay explain`: why do these two numbers differ?"""

from __future__ import annotations

from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import click

from assay.cli.output import echo, echo_as_is, echo_json


@click.command("explain", short_help="Why do two numbers differ?")
@click.argument("run_a")
@click.argument("run_b")
@click.option("--task", "-t", metavar="NAME", help="The task, if the runs have several in common.")
@click.option("--metric", "-m", metavar="NAME", help="acc, or acc,none.  [the first that both have]")
@click.option("--metric_b", metavar="NAME", help="The metric of B, if its name differs.")
@click.option("--model", metavar="NAME", help="Ask this model again to separate causes that occur together.")
@click.option("--model_args", "-a", multiple=True, metavar="K=V,…", help="Its arguments, as for `assay run`.")
@click.option("--sample", default=200, show_default=True, type=click.IntRange(min=10), help="Docs to ask again.")
@click.option("--examples", default=2, show_default=True, type=click.IntRange(min=0), help="Docs shown for each cause.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@click.option("--html", type=click.Path(dir_okay=False), help="Write a page with the shares as bars.")
def command(
    run_a: str, run_b: str, model: str | None, model_args: tuple[str, ...], as_json: bool, html: str | None, **what: Any
) -> None:
    """Explain the difference between two runs of the same task: what differs, and how much each cause contributes.

    \b
    assay explain runs/ours lm_eval_output/ --task gsm8k
    assay explain runs/plain runs/chat --task gsm8k --model hf --model_args pretrained=smollm2-135m

    Requests are compared part by part and configs field by field; kept answers are scored again with each other's filter
    and metric. To separate causes that always occur together, a model is asked again with one thing changed at a time.
    """
    from assay.analyses.explain import ExplainOptions, explain, explanation_json, explanation_lines, explanation_page
    from assay.cli.options import load_named_model
    from assay.finished import open_run
    from assay.results import write_whole

    lm = None if model is None else load_named_model(model, model_args)
    with nullcontext() if lm is None else closing(lm):
        explanation = explain(open_run(run_a), open_run(run_b), ExplainOptions(**what), lm)
    if html:
        write_whole(Path(html), explanation_page(explanation).encode())
    if as_json:
        echo_json(explanation_json(explanation))
        return
    for line in explanation_lines(explanation):
        echo(line)
    if html:
        echo_as_is(html)
