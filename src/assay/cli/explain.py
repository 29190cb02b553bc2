"""`assay explain`: why do these two numbers differ?"""

from __future__ import annotations

from contextlib import closing, nullcontext

import click

from assay.analyses.explain import ExplainOptions
from assay.cli.emit import Outputs, emit, output_flags
from assay.cli.flags import option_flags


@click.command("explain")
@click.argument("run_a")
@click.argument("run_b")
@option_flags(ExplainOptions, verb="explain")
@click.option("--model", metavar="NAME", help="Ask this model again to separate causes that occur together.")
@click.option("--model_args", "-a", multiple=True, metavar="K=V,…", help="Its arguments, as for `assay run`.")
@output_flags(earlier=("html",))
def command(
    run_a: str, run_b: str, options: ExplainOptions, model: str | None, model_args: tuple[str, ...], outputs: Outputs
) -> None:
    """Explain the difference between two runs of the same task: what differs, and how much each cause contributes.

    \b
    assay explain runs/ours lm_eval_output/ --task gsm8k
    assay explain runs/plain runs/chat --task gsm8k --model hf --model_args pretrained=smollm2-135m

    Requests are compared part by part and configs field by field; stored answers are scored again with each other's filter
    and metric. To separate causes that always occur together, a model is asked again with one thing changed at a time.
    """
    from assay.analyses.explain import explain, findings
    from assay.cli.options import load_named_model
    from assay.finished import open_run

    lm = None if model is None else load_named_model(model, model_args)
    with nullcontext() if lm is None else closing(lm):
        emit(findings(explain(open_run(run_a), open_run(run_b), options, lm)), outputs)
