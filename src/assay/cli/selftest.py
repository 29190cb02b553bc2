"""`assay selftest`: does a backend agree with itself?"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING

import click

from assay.show import Column, FittedTable
from assay.terminal_text import one_line

if TYPE_CHECKING:
    from assay.models import Capabilities, Check


@click.command("selftest", short_help="Check that a model gives the same answer however you ask.")
@click.argument("model")
@click.option("--model_args", "-a", multiple=True, metavar="K=V,…", help="Arguments of the model, as for `assay run`.")
@click.option("--device", help="Torch device.")
@click.option("--trust_remote_code", is_flag=True, help="Let a model run its own code.")
@click.option("--tolerance", type=float, help="Largest difference in log-likelihood.  [default: by the model's dtype]")
def command(
    model: str, model_args: tuple[str, ...], device: str | None, trust_remote_code: bool, tolerance: float | None
) -> None:
    """Ask MODEL the same questions in different ways and compare the answers.

    MODEL is a backend (see `assay ls models`), or what `pretrained=` takes: a hub name, a directory, a GGUF file.

    \b
    assay selftest smollm2-135m
    assay selftest local-completions --model_args base_url=http://localhost:8000/v1,model=m

    A check is skipped only if the backend does not offer it, such as likelihoods of a chat server. A failed request
    fails its check. Exit code 1 if a check fails or none applies.
    """
    from assay.cli.display import console
    from assay.cli.options import load_named_model
    from assay.models import run_checks
    from assay.run import abilities_of
    from assay.store import ResponseStore

    click.echo("loading the model", err=True)
    with closing(load_named_model(model, model_args, device=device, trust_remote_code=trust_remote_code)) as lm:
        checks = [*run_checks(lm, tolerance=tolerance, report=lambda step: click.echo(f"checking: {step}", err=True))]
        click.echo("asking what it can do", err=True)
        with ResponseStore() as store:
            able = abilities_of(lm, store)
    console().print(check_table(checks, model))
    click.echo()
    console().print(ability_table(able))
    verdicts = {check.passed for check in checks}
    if False in verdicts or True not in verdicts:
        raise SystemExit(1)


CHECKS = [
    Column("check", shrinks=True),
    Column(""),
    Column("largest difference", right=True, rank=1, moves=True),
    Column("flipped", right=True, rank=2, moves=True),
]


def check_table(checks: Sequence[Check], model: str) -> FittedTable:
    table = FittedTable(CHECKS, title=f"selftest of {one_line(model)}")
    for check in checks:
        verdict = {True: ("ok", "green"), False: ("failed", "red"), None: ("skipped", "")}[check.passed]
        difference = "" if check.difference is None else f"{check.difference:.2g}"
        flipped = "" if check.flipped is None else f"{check.flipped:.0%}"
        table.add([check.name, verdict, difference, flipped], one_line(check.note), "dim")
    return table


_WITHOUT = {
    "likelihoods": "choice tasks run as :letters, :gen or :cot",
    "top_logprobs": "no :letters; use :gen or :cot",
    "images": "tasks with doc_to_image are refused",
    "tools": "tasks with tools: are refused",
    "seeds": "a sampled draw cannot be reproduced",
    "stop_strings": "answers are cut here, after the server wrote them in full",
    "continues": "tasks with gen_prefix run without --apply_chat_template",
}


def ability_table(able: Capabilities) -> FittedTable:
    """One row for each thing that a model may be asked for, and what follows where it is missing."""
    table = FittedTable([Column("can it do this?"), Column("")], notes="without it")
    for name, there in able.named().items():
        table.add([name.replace("_", " "), "yes" if there else "no"], "" if there else _WITHOUT[name], "dim")
    return table
