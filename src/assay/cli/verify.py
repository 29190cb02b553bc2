"""`assay verify`: derive every number of a sealed run again, without a model."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from assay.cli.output import echo, echo_json
from assay.cli.task_files import TaskFilesCommand
from assay.terminal_text import hanging, one_line

if TYPE_CHECKING:
    from assay.sealing import ModelChoice, Reasked, SealVerification

SHOWN = 10


@click.command("verify", cls=TaskFilesCommand, short_help="Compute every number of a sealed run again.")
@click.argument("bundle", type=click.Path(exists=True, dir_okay=False))
@click.option("--data_dir", metavar="DIR", envvar="ASSAY_DATA_DIR", help="A mirror with the tasks' data.")
@click.option(
    "--docs",
    type=click.Choice(["auto", "dataset", "bundle"]),
    default="auto",
    show_default=True,
    help="Where to read docs from; auto uses the bundle's if the dataset is not available.",
)
@click.option("--include_path", multiple=True, metavar="DIR", help="Your own task files in place of the bundle's.")
@click.option("--lm_eval", metavar="[DIR]", help="Task files of lm-evaluation-harness in place of the bundle's.")
@click.option("--trust", is_flag=True, help="Run the Python code in the bundle's task files; you have read it.")
@click.option("--confirm_run_unsafe_code", is_flag=True, help="Run code written by the model if a task needs it.")
@click.option("--reask", type=click.IntRange(min=1), metavar="N", help="Ask N random docs again; needs --model.")
@click.option("--model", "-M", metavar="NAME", help="The model to ask, as for `assay run`.")
@click.option("--model_args", "-a", multiple=True, metavar="K=V,…", help="Its arguments.")
@click.option(
    "--replays", type=click.IntRange(min=2), default=2, show_default=True, help="How many times to ask each doc."
)
@click.option("--seed", type=int, help="Pick the same docs as an earlier --reask.  [default: at random]")
@click.option("--json", "as_json", is_flag=True, help="Print all findings as JSON.")
@click.pass_context
def command(
    context: click.Context,
    /,
    bundle: str,
    lm_eval: str | None,
    reask: int | None,
    model: str | None,
    model_args: tuple[str, ...],
    replays: int,
    seed: int | None,
    as_json: bool,
    **own: Any,
) -> None:
    """Check BUNDLE, written by `assay seal`: every file, and every number computed from its answers.

    \b
    assay verify my-model.zip
    assay verify my-model.zip --reask 50 --model hf --model_args pretrained=my-model

    Without --reask, no model or judge is asked. Exit code 0 if everything is as the bundle says, 1 if anything is not, 2 if it
    is not a bundle, 4 if answers differ in a way that the model's own noise may explain.
    """
    from assay.cli.display import show_progress
    from assay.sealing import Sources, reask_bundle, verify_bundle

    sources = Sources(lm_eval=True if lm_eval == "true" else lm_eval, **own)
    choice = _choice(model, model_args) if model is not None else None
    if (choice is None) != (reask is None):
        raise click.UsageError("--reask N and --model NAME go together: that model is asked N docs.")
    with show_progress(quiet=as_json) as progress:
        verification = verify_bundle(bundle, sources, progress)
    asked = None
    if choice is not None and reask is not None:
        with show_progress(quiet=as_json) as progress:
            progress.stage(f"asking {reask} docs again")
            asked = reask_bundle(bundle, choice, reask, sources, replays=replays, seed=seed)
    if as_json:
        reasked = {} if asked is None else {"reask": asked.to_dict()}
        echo_json(json.dumps({**verification.to_dict(), **reasked}, indent=1))
    else:
        print_verification(verification, reasked=asked is not None)
        if asked is not None:
            print_reasked(asked)
    if not verification.passed or (asked is not None and asked.beyond_noise):
        context.exit(1)
    if asked is not None and asked.changed:
        context.exit(4)


def _choice(model: str, model_args: tuple[str, ...]) -> ModelChoice:
    from assay.cli.options import resolve_config
    from assay.sealing import ModelChoice

    return ModelChoice(model, resolve_config({"model_args": model_args}).model_args)


def print_verification(verification: SealVerification, *, reasked: bool = False) -> None:
    model = verification.about.get("model") or {}
    echo(f"seal {verification.about.get('seal')}")
    echo(f"model {one_line(str(model.get('name')))}, fingerprint {one_line(str(model.get('fingerprint')))[:16]}")
    for kind, good, bad in LINES:
        wrong = [each for each in verification.differences if each.kind in kind]
        echo(f"✗ {bad}: {len(wrong):,}" if wrong else f"✓ {good(verification)}")
        for each in wrong[:SHOWN]:
            echo(f"    {hanging(one_line(str(each)))}")
        if len(wrong) > SHOWN:
            echo(f"    and {len(wrong) - SHOWN:,} more (--json shows all)")
    for note in verification.notes:
        echo(hanging(f"! {note}"))
    echo("Verified: every number follows from the answers in the bundle." if verification.passed else "Not verified.")
    if verification.passed and not reasked:
        echo("This does not show that the model gave these answers; --reask 50 --model … asks it again.")


def print_reasked(asked: Reasked) -> None:
    """What asking again found, and what it would have found."""
    k, noisy, changed = len(asked.docs), asked.noisy, asked.changed
    echo()
    echo(
        f"{k:,} of {asked.total:,} docs asked again, each {asked.replays} times (--seed {asked.seed} picks the same ones)"
    )
    if asked.left_out:
        echo(
            f"! {asked.left_out:,} more docs were picked whose answers cannot be compared, because they were sampled or failed"
        )
    if not asked.same_model:
        echo("! the model's fingerprint is not the sealed one, so different answers may be its own")
    if noisy:
        echo(f"! on {len(noisy):,} docs the model does not agree with itself; they say nothing about the kept answers")
    if not changed:
        echo(f"✓ answers: as sealed on all {asked.conclusive:,} docs where the model agrees with itself")
    else:
        _print_changed(asked)
    echo("If this share of all answers had been changed, at least one change would have shown with this probability:")
    echo("    " + "   ".join(f"{share:.0%}: {chance:.1%}" for share, chance in asked.chances().items()))
    if asked.smallest_share is not None:
        echo(f"    a share of {asked.smallest_share:.1%} or more: at least 95 %")


def _print_changed(asked: Reasked) -> None:
    changed = asked.changed
    echo(f"✗ answers: different from the sealed ones on {len(changed):,} docs where the model agrees with itself")
    for doc in changed[:SHOWN]:
        echo(f"    {one_line(doc.task)}, doc {doc.doc_id}: sealed {_brief(doc.kept)}, now {_brief(doc.now[0])}")
    echo(
        hanging(
            f"  Noise alone would do this with probability {asked.p_value:.2g}. "
            "Different answers are evidence, not proof: the server may have changed since, or its answers may depend on the batch."
        )
    )


def _brief(answers: list[Any]) -> str:
    shown = [f"{each[0]:.3f}" if isinstance(each, tuple) else each for each in answers]
    text = one_line(", ".join(map(str, shown)))
    return text if len(text) <= 60 else f"{text[:59]}…"


def _docs_line(verification: SealVerification) -> str:
    if verification.from_dataset:
        return f"docs: {verification.docs:,}, those of the dataset"
    why = f" ({one_line(verification.why_not)})" if verification.why_not else ""
    return f"docs: {verification.docs:,}, as in the bundle; not compared with the dataset{why}"


def _requests_line(verification: SealVerification) -> str:
    if verification.rebuilt:
        return "requests: built again from the docs, with the same hashes"
    return "requests: as in the bundle, with the hashes it states"


def _numbers_line(verification: SealVerification) -> str:
    rounded = f", {verification.rounded:,} of them up to rounding in the tenth digit" if verification.rounded else ""
    return f"numbers: {verification.compared:,} values computed again are equal{rounded}"


LINES = (
    (("file",), lambda verification: f"files: {len(verification.about['members']):,}, as sealed", "files"),
    (("setting",), lambda verification: "settings: those that the results were computed with", "settings"),
    (("doc",), _docs_line, "docs"),
    (("request",), _requests_line, "requests"),
    (("answer", "number"), _numbers_line, "numbers and answers"),
)
