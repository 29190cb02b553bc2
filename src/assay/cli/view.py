"""`assay view`: runs and samples in a browser."""

from __future__ import annotations

from pathlib import Path

import click

from assay.cli.output import echo


@click.command("view", short_help="View runs and samples in a browser.")
@click.argument("directories", nargs=-1, type=click.Path(exists=True, path_type=Path), metavar="[PLACE]...")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port to listen on.  [default: a free port]")
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on; any other than the default adds a token to the URL.",
)
@click.option("--open/--no-open", "open_browser", default=True, help="Open the browser.")
@click.option(
    "--bundle",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write a static site to this directory instead of serving.",
)
@click.option(
    "--bundle_samples",
    type=click.IntRange(0),
    default=200,
    show_default=True,
    help="Docs per task that get a page in the bundle.",
)
@click.option(
    "--trend",
    metavar="NAME",
    help="Open the page of scores over time, ordered by date or by a model argument such as step or revision.",
)
def command(
    directories: tuple[Path, ...],
    port: int,
    host: str,
    open_browser: bool,
    bundle: Path | None,
    bundle_samples: int,
    trend: str | None,
) -> None:
    """Show the runs in each PLACE (default: the current directory), ours and those of other harnesses.

    \b
    assay view runs
    assay view runs --trend step
    assay view runs/a runs/b --bundle site
    """
    from assay.errors import ConfigError, install_hint

    try:
        from assay.view import LINKS, serve, write_bundle
    except ModuleNotFoundError as error:
        raise ConfigError(f"the viewer needs the package {error.name!r}", hint=install_hint("view")) from error

    chosen = [*directories] or [Path()]
    if bundle is not None:
        pages = write_bundle(chosen, bundle, samples=bundle_samples, trend=trend)
        echo(f"{pages:,} pages; open {bundle / 'index.html'}")
        return

    def ready(address: str) -> None:
        echo(f"Viewing {', '.join(str(path) for path in chosen)} at {address}  (press Ctrl-C to stop)")

    serve(
        chosen,
        host=host,
        port=port,
        open_browser=open_browser,
        ready=ready,
        first=LINKS.trend(by=trend) if trend else "/",
    )
