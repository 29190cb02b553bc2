"""`assay noise`: how much does a server move by itself?"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from assay.analyses.noise import NoiseOptions
from assay.cli.emit import Outputs, emit, output_flags
from assay.cli.flags import option_flags
from assay.cli.foreign_flags import RunCommand
from assay.cli.options import RUN_OPTIONS, with_options
from assay.cli.output import echo


@click.command("noise", cls=RunCommand)
@with_options(RUN_OPTIONS)
@option_flags(NoiseOptions, verb="noise")
@click.option("--noise", "written", type=click.Path(dir_okay=False), metavar="FILE", help="Also write noise.json here.")
@output_flags(short=False)
def command(options: NoiseOptions, written: str | None, outputs: Outputs, **given: Any) -> None:
    """Ask the same docs again, in another order and in other batches, and show how far each score moves.

    \b
    assay noise --model local-completions --model_args base_url=http://127.0.0.1:8000/v1 --tasks gsm8k --limit 200
    assay noise --model local-completions --server http://a:8000/v1 --server http://b:8000/v1 --tasks gsm8k
    assay gate runs/new --baseline runs/main --noise runs/noise/…/noise.json

    Every replay is a run with its own store; if the command is stopped, run it again and it continues.
    """
    from assay.analyses.noise import findings, plan_replays, run_replays
    from assay.cli.display import show_progress
    from assay.cli.dry_run import forecast_findings, forecast_shown
    from assay.cli.options import resolve_config
    from assay.errors import ConfigError
    from assay.results import sanitize

    config = resolve_config(given)
    if not config.tasks:
        raise ConfigError("no tasks were named", hint="Add --tasks NAMES.")
    name = sanitize("_".join(config.tasks))[:80]
    model = sanitize(str(config.model_args.get("pretrained") or config.model_args.get("model") or config.model))
    directory = Path(config.run_dir or Path(config.output_path or "runs") / "noise" / model / name)
    if config.dry_run:
        times = options.replays * (1 + options.greedy)
        expected = forecast_shown(plan_replays(config, options, directory)[0].config, quiet=outputs.is_quiet)
        said = f"This is repeated {times} times. Nothing was sent."
        emit(forecast_findings(expected, "What one replay would send", said, replays=times), outputs)
        return
    directory.mkdir(parents=True, exist_ok=True)
    show, tell = partial(show_progress, quiet=outputs.is_quiet), partial(echo, err=True)
    noise = run_replays(config, options, directory, progress=show, notify=tell)
    if written:
        noise.save(Path(written))
    emit(findings(noise), outputs)
    if not outputs.is_quiet:
        echo(f"Stored in {written or directory / 'noise.json'}; pass it to gate, compare and power with --noise.")
