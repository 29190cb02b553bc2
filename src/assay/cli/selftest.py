"""`assay selftest`: does a backend agree with itself?"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING

import click

from assay.show import Column, Findings, Table, kinds
from assay.show.kinds import Word

if TYPE_CHECKING:
    from assay.models import Capabilities, Check


@click.command("selftest")
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
    from assay.cli.emit import Outputs, emit
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
    emit(findings(checks, able, model), Outputs())
    verdicts = {check.passed for check in checks}
    if False in verdicts or True not in verdicts:
        raise SystemExit(1)


VERDICTS = {True: Word("ok", "good"), False: Word("failed", "bad"), None: Word("skipped")}
CHECKS: tuple[Column[Check], ...] = (
    Column("check", kinds.TEXT, lambda check: check.name, shrinks=True),
    Column("", kinds.WORD, lambda check: VERDICTS[check.passed], "passed"),
    Column("largest difference", kinds.SMALL, lambda check: check.difference, rank=1, moves=True),
    Column("flipped", kinds.SHARE, lambda check: check.flipped, rank=2, moves=True),
)
_WITHOUT = {
    "likelihoods": "choice tasks run as :letters, :gen or :cot",
    "top_logprobs": "no :letters; use :gen or :cot",
    "images": "tasks with doc_to_image are refused",
    "tools": "tasks with tools: are refused",
    "seeds": "a sampled draw cannot be reproduced",
    "stop_strings": "answers are cut here, after the server wrote them in full",
    "continues": "tasks with gen_prefix run without --apply_chat_template",
}
ABILITIES: tuple[Column[tuple[str, bool]], ...] = (
    Column("can it do this?", kinds.TEXT, lambda item: item[0].replace("_", " ")),
    Column("", kinds.WORD, lambda item: Word("yes" if item[1] else "no"), "there"),
)


def findings(checks: Sequence[Check], able: Capabilities, model: str) -> Findings:
    """What was checked, and each thing that a model may be asked for, with what follows where it is missing."""
    return Findings(
        title=f"selftest of {model}",
        tables=(
            Table.of(CHECKS, checks, row=lambda check: {"note": check.note}, title=f"selftest of {model}"),
            Table.of(
                ABILITIES,
                able.named().items(),
                row=lambda item: {"note": "" if item[1] else _WITHOUT[item[0]]},
                notes_name="without it",
            ),
        ),
    )
