"""`assay noise`: how much does a server move by itself?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli.foreign_flags import RunCommand
from assay.cli.options import RUN_OPTIONS, with_options
from assay.cli.output import echo, echo_json
from assay.signs import one_line
from assay.tables import Column, FittedTable

if TYPE_CHECKING:
    from assay.comparison import NoiseFile, ScoreNoise


@click.command("noise", cls=RunCommand, short_help="How much does a server move by itself?")
@with_options(RUN_OPTIONS)
@click.option(
    "--replays",
    default=5,
    show_default=True,
    type=click.IntRange(min=2),
    help="How often the docs are asked; three or more estimate the noise, two only bound it.",
)
@click.option(
    "--server",
    "servers",
    multiple=True,
    metavar="URL",
    help="Address of a server of this model; given many times, replays take them in turn.",
)
@click.option(
    "--concurrency",
    metavar="NUMBERS",
    help="Requests at once (servers), or batch sizes, that replays take in turn, as in 1,8,32.  [default: all, half, a quarter]",
)
@click.option(
    "--greedy", is_flag=True, help="Ask tasks that sample greedily too: tells draws from serving, asks twice."
)
@click.option("--noise", "written", type=click.Path(dir_okay=False), metavar="FILE", help="Also write noise.json here.")
@click.option("--json", "as_json", is_flag=True, help="Print noise.json.")
def command(
    replays: int,
    servers: tuple[str, ...],
    concurrency: str | None,
    greedy: bool,
    written: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Ask the same docs again, in another order and other company, and say how far each score moves.

    \b
    assay noise --model local-completions --model_args base_url=http://127.0.0.1:8000/v1 --tasks gsm8k --limit 200
    assay noise --model local-completions --server http://a:8000/v1 --server http://b:8000/v1 --tasks gsm8k
    assay gate runs/new --baseline runs/main --noise runs/noise/…/noise.json

    Every replay is a run with a store of its own; a command that was stopped goes on where it was when it is given again.
    """
    from assay.cli.display import show_progress
    from assay.cli.options import resolve_config
    from assay.comparison import NoiseOptions, plan_replays, run_replays
    from assay.errors import ConfigError
    from assay.results import sanitize

    config = resolve_config(given)
    if not config.tasks:
        raise ConfigError("no tasks were named", hint="Add --tasks NAMES.")
    options = NoiseOptions(replays, servers, _numbers(concurrency), greedy)
    name = sanitize("_".join(config.tasks))[:80]
    model = sanitize(str(config.model_args.get("pretrained") or config.model_args.get("model") or config.model))
    directory = Path(config.run_dir or Path(config.output_path or "runs") / "noise" / model / name)
    if config.dry_run:
        _forecast(plan_replays(config, options, directory)[0].config, options.replays * (1 + greedy), as_json=as_json)
        return
    directory.mkdir(parents=True, exist_ok=True)
    found = run_replays(
        config,
        options,
        directory,
        progress=lambda: show_progress(quiet=as_json),
        notify=lambda text: echo(text, err=True),
    )
    if written:
        found.save(Path(written))
    if as_json:
        echo_json(found.to_json(), indent=2)
    else:
        _show(found)
        echo(f"Kept in {written or directory / 'noise.json'}: give it to gate, compare and power with --noise.")


def _numbers(text: str | None) -> tuple[int, ...]:
    from assay.errors import ConfigError

    parts = [part.strip() for part in (text or "").split(",") if part.strip()]
    if wrong := [part for part in parts if not part.isdigit() or not int(part)]:
        raise ConfigError(
            f"--concurrency: {wrong[0]!r} is not a number of requests", hint="Write --concurrency 1,8,32."
        )
    return tuple(map(int, parts))


def _forecast(config: Any, times: int, *, as_json: bool) -> None:
    from assay.cli.dry_run import forecast_dict, forecast_shown, show_forecast

    forecast = forecast_shown(config, quiet=as_json)
    if as_json:
        echo_json({"replays": times, **forecast_dict(forecast)}, indent=2)
        return
    show_forecast(forecast, "What one replay would ask")
    echo(f"The same {times} times. Nothing was sent.")


COLUMNS = [
    Column("task", shrinks=True),
    Column("metric", shrinks=True),
    Column("score", right=True),
    Column("range", right=True, rank=2),
    Column("docs ±", right=True),
    Column("draws ±", right=True, rank=4),
    Column("serving, by doc ±", right=True, rank=3),
    Column("serving, whole run ±", right=True),
    Column("n", right=True, rank=5),
    Column("flips", right=True),
]


def _show(found: NoiseFile) -> None:
    from assay.cli.display import console

    table = FittedTable(COLUMNS, title=f"{one_line(found.model)} · {len(found.replays)} replays")
    for row in found.rows:
        mean = sum(row.scores) / len(row.scores)
        table.add(
            [
                one_line(row.name),
                one_line(row.metric),
                f"{mean:.4f}",
                f"{min(row.scores):.4f} to {max(row.scores):.4f}",
                "" if row.docs is None else f"{row.docs.value:.4f}",
                _draws(row),
                "" if row.by_doc is None else str(row.by_doc),
                f"≤ {row.most:.4f}" if row.whole_run is None else str(row.whole_run),
                f"{row.n:,}",
                "" if row.flip_share is None else f"{len(row.flips):,}",
            ],
            _flips(row),
            "dim",
        )
    console().print(table)
    echo("± is the standard deviation of the score that each source makes by itself, with its 95 % interval.")
    for note in found.notes:
        echo(f"note: {one_line(note)}")


def _draws(row: ScoreNoise) -> str:
    if row.kind == "group" or not row.sampled:
        return ""
    return "in the next; --greedy tells" if row.draws is None else str(row.draws)


def _flips(row: ScoreNoise) -> str:
    """Which docs: the first of them, most undecided first."""
    if not row.flips or row.flip_share is None:
        return ""
    half = len(row.scores) / 2
    worst = sorted(row.flips, key=lambda flip: abs(flip[1] - half))
    shown = ", ".join(f"{doc} (right {times} of {len(row.scores)})" for doc, times in worst[:5])
    share, low, high = row.flip_share
    more = f" and {len(worst) - 5:,} more" if len(worst) > 5 else ""
    return f"two runs differ on {share:.2%} of docs [{low:.2%}, {high:.2%}]; docs {shown}{more}"
