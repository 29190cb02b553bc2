"""`assay seal`: a run as one file from which anyone derives every number again."""

from __future__ import annotations

import click

from assay.cli.output import echo
from assay.cli.sealing import sealing


@click.command("seal", short_help="Write a run as one file that anyone can check.")
@click.argument("run", type=click.Path(exists=True))
@click.option("--output", "-o", type=click.Path(dir_okay=False), help="The file to write.  [default: RUN/bundle.zip]")
@click.option(
    "--no_docs", is_flag=True, help="Write hashes in place of docs and prompts; whoever verifies it needs the dataset."
)
def command(run: str, output: str | None, no_docs: bool) -> None:
    """Write RUN as a bundle: settings, task files, hashes of requests and data, every answer and every score.

    \b
    assay seal runs/my-model/2026-01-01T12-00-00 -o my-model.zip
    assay verify my-model.zip

    The bundle is verified before it is written. The same run gives the same bytes; publish its seal (a hash) where it
    cannot be changed, and nobody can change the bundle unnoticed.
    """
    from assay.cli.display import show_progress

    with show_progress() as progress:
        path, found = sealing("seal_run")(run, output, docs=not no_docs, progress=progress, notify=progress.message)
    echo(f"{path}  {path.stat().st_size:,} bytes")
    echo(f"seal {found.about['seal']}")
    echo(f"{found.docs:,} docs; {found.compared:,} values were computed again and are equal.")
    if not found.about["docs"]:
        echo("It contains hashes in place of docs, so verifying it needs the dataset.")
