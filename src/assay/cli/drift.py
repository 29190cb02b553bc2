"""`assay drift`: did the model change, without labels?"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.analyses.drift import DriftOptions
from assay.cli.emit import Outputs, emit, output_flags
from assay.cli.flags import option_flags
from assay.cli.options import load_named_model, resolve_config
from assay.config import task_names_in

if TYPE_CHECKING:
    from assay.analyses.drift import Passage


@click.command("drift")
@click.argument("a")
@click.argument("b")
@click.option(
    "--a_args", multiple=True, metavar="K=V,…", help="Model arguments of A, like --model_args of `assay run`."
)
@click.option("--b_args", multiple=True, metavar="K=V,…", help="Model arguments of B.")
@click.option(
    "--texts", multiple=True, type=click.Path(exists=True, dir_okay=False), help="Files to read: text, or JSON lines."
)
@click.option("--tasks", "-t", multiple=True, metavar="NAMES", help="Read the prompts of these tasks.")
@click.option("--limit", type=click.IntRange(min=1), help="Docs per task.")
@option_flags(DriftOptions, verb="drift")
@click.option("--device", help="Torch device.")
@click.option("--trust_remote_code", is_flag=True, help="Let a model run its own code.")
@output_flags(earlier=("html",))
def command(
    a: str,
    b: str,
    a_args: tuple[str, ...],
    b_args: tuple[str, ...],
    texts: tuple[str, ...],
    tasks: tuple[str, ...],
    limit: int | None,
    options: DriftOptions,
    device: str | None,
    trust_remote_code: bool,
    outputs: Outputs,
) -> None:
    """Compare the next-token distributions of B with those of A on the same texts.

    \b
    assay drift org/model org/model-finetuned
    assay drift smollm2-135m smollm2-135m --b_args dtype=bfloat16 --max_kl 0.01
    assay drift smollm2-135m local-completions --b_args base_url=http://localhost:8080/v1,model=m

    A and B are backends (see `assay ls models`), or what `pretrained=` takes: a hub name, a directory, a GGUF file. Two local
    models are compared exactly; a server that lists only its most likely tokens gives bounds. Without --texts or --tasks, a
    sample that ships with Assay is used. Exit code with --max_kl: 0 shown to be within, 1 shown to be beyond, 4 neither.
    """
    from assay.analyses.drift import findings, measure_drift

    passages = _passages(texts, tasks, limit)
    load = partial(load_named_model, device=device, trust_remote_code=trust_remote_code)
    with closing(load(a, a_args)) as model_a, closing(load(b, b_args)) as model_b:
        drift = measure_drift(model_a, model_b, passages, options)
    if code := emit(findings(replace(drift, a=_label(a, a_args), b=_label(b, b_args))), outputs):
        raise SystemExit(code)


def _passages(texts: tuple[str, ...], tasks: tuple[str, ...], limit: int | None) -> list[Passage]:
    from assay.analyses.drift import bundled_passages, passages_of_file, passages_of_tasks

    passages = [passage for file in texts for passage in passages_of_file(Path(file))]
    if names := task_names_in(tasks, between=","):
        passages += passages_of_tasks(names, limit)
    return passages or bundled_passages()


def _label(name: str, arguments: tuple[str, ...]) -> str:
    """As it was named, with what tells it from the other: A and B are often one model in two precisions."""
    from assay.secret_texts import without_secrets

    given = without_secrets(resolve_config({"model_args": arguments}).model_args)
    return " ".join([name, *(f"{key}={value}" for key, value in given.items())])
