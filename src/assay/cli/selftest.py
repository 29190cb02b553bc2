"""`assay selftest`: does a backend agree with itself?"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from assay.models import Capabilities


@click.command("selftest", short_help="Check that a model gives the same answer however it is asked.")
@click.argument("model")
@click.option("--model_args", "-a", multiple=True, metavar="K=V,…", help="Arguments of the model, as for `assay run`.")
@click.option("--device", help="Torch device.")
@click.option("--trust_remote_code", is_flag=True, help="Let a model bring its own code.")
@click.option("--tolerance", type=float, help="Largest difference in log-likelihood.  [default: by the model's dtype]")
def command(
    model: str, model_args: tuple[str, ...], device: str | None, trust_remote_code: bool, tolerance: float | None
) -> None:
    """Ask MODEL the same in different ways and compare the answers.

    MODEL is a backend (see `assay ls models`), or what `pretrained=` takes: a hub name, a directory, a GGUF file.

    \b
    assay selftest smollm2-135m
    assay selftest local-completions --model_args base_url=http://localhost:8000/v1,model=m

    A check is skipped only where the backend has nothing of the kind, such as a chat server's likelihoods. A request
    that fails fails its check. Exit code 1 if a check fails, or if none applies.
    """
    from rich.markup import escape
    from rich.table import Table

    from assay.cli.display import console
    from assay.cli.options import resolve_config
    from assay.models import MODELS, load_model, run_checks

    name, arguments = model, resolve_config({"model_args": model_args}).model_args
    if model not in MODELS and ".py:" not in model and not model.endswith(".py"):
        name, arguments = "hf", {"pretrained": model, **arguments}
    lm = load_model(name, arguments, device=device, trust_remote_code=trust_remote_code)
    title = f"selftest of {escape(model)}"
    table = Table("check", "", "largest difference", "flipped", "", title=title, title_justify="left")
    try:
        checks = list(run_checks(lm, tolerance=tolerance))
        able = lm.capabilities()
    finally:
        lm.close()
    for check in checks:
        verdict = {True: "[green]ok[/green]", False: "[red]failed[/red]", None: "skipped"}[check.passed]
        difference = "" if check.difference is None else f"{check.difference:.2g}"
        flipped = "" if check.flipped is None else f"{check.flipped:.0%}"
        table.add_row(check.name, verdict, difference, flipped, escape(check.note))
    console().print(table)
    console().print(f"It can be asked for: {abilities(able)}.")
    verdicts = {check.passed for check in checks}
    if False in verdicts or True not in verdicts:
        raise SystemExit(1)


def abilities(able: Capabilities) -> str:
    """
    >>> from assay.models import Capabilities
    >>> abilities(Capabilities(likelihoods=False, top_logprobs=True, seeds=False))
    'likelihoods no, top logprobs yes, images no, tools no, seeds no, stop strings yes, continues yes'
    """
    return ", ".join(f"{name.replace('_', ' ')} {'yes' if value else 'no'}" for name, value in asdict(able).items())
