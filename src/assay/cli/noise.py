"""`assay noise`: how much does a server move by itself?"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli.foreign_flags import RunCommand
from assay.cli.options import RUN_OPTIONS, with_options
from assay.cli.output import echo, echo_json
from assay.show import Column, FittedTable
from assay.terminal_text import one_line

if TYPE_CHECKING:
    from assay.analyses.noise_file import NoiseFile, ScoreNoise


@click.command("noise", cls=RunCommand, short_help="How much does a server vary between replays?")
@with_options(RUN_OPTIONS)
@click.option(
    "--replays",
    default=5,
    show_default=True,
    type=click.IntRange(min=2),
    help="How many times to ask the docs; three or more estimate the noise, two only bound it.",
)
@click.option(
    "--server",
    "servers",
    multiple=True,
    metavar="URL",
    help="Address of a server with this model; if repeated, replays take turns on the servers.",
)
@click.option(
    "--concurrency",
    metavar="NUMBERS",
    help="Concurrent requests (servers) or batch sizes for the replays, in turn, such as 1,8,32.  [default: all, half, a quarter]",
)
@click.option(
    "--greedy",
    is_flag=True,
    help="Ask tasks that sample greedily as well; separates draws from serving noise, at twice the cost.",
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
    """Ask the same docs again, in another order and in other batches, and show how far each score moves.

    \b
    assay noise --model local-completions --model_args base_url=http://127.0.0.1:8000/v1 --tasks gsm8k --limit 200
    assay noise --model local-completions --server http://a:8000/v1 --server http://b:8000/v1 --tasks gsm8k
    assay gate runs/new --baseline runs/main --noise runs/noise/…/noise.json

    Every replay is a run with its own store; if the command is stopped, run it again and it continues.
    """
    from assay.analyses.noise import NoiseOptions, plan_replays, run_replays
    from assay.cli.display import show_progress
    from assay.cli.options import resolve_config
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
    show, tell = partial(show_progress, quiet=as_json), partial(echo, err=True)
    noise = run_replays(config, options, directory, progress=show, notify=tell)
    if written:
        noise.save(Path(written))
    if as_json:
        echo_json(noise.to_json(), indent=2)
    else:
        _show(noise)
        echo(f"Kept in {written or directory / 'noise.json'}; pass it to gate, compare and power with --noise.")


def _numbers(text: str | None) -> tuple[int, ...]:
    from assay.errors import ConfigError

    parts = [part.strip() for part in (text or "").split(",") if part.strip()]
    if wrong := [part for part in parts if not part.isdigit() or not int(part)]:
        raise ConfigError(
            f"--concurrency: {wrong[0]!r} is not a number of requests", hint="Write --concurrency 1,8,32, for example."
        )
    return tuple(map(int, parts))


def _forecast(config: Any, times: int, *, as_json: bool) -> None:
    from assay.cli.dry_run import forecast_dict, forecast_shown, show_forecast

    forecast = forecast_shown(config, quiet=as_json)
    if as_json:
        echo_json({"replays": times, **forecast_dict(forecast)}, indent=2)
        return
    show_forecast(forecast, "What one replay would ask")
    echo(f"This is repeated {times} times. Nothing was sent.")


COLUMNS = [
    Column("task", shrinks=True),
    Column("metric", shrinks=True),
    Column("score", right=True),
    Column("range", right=True, rank=2),
    Column("docs ±", right=True, rank=0, moves=True),
    Column("draws ±", right=True, rank=4, moves=True),
    Column("serving, by doc ±", right=True, rank=3, moves=True),
    Column("serving, whole run ±", right=True),
    Column("n", right=True, rank=5),
    Column("flips", right=True, rank=1),
]


def _show(noise: NoiseFile) -> None:
    from assay.cli.display import console

    table = FittedTable(COLUMNS, title=f"{one_line(noise.model)} · {len(noise.replays)} replays")
    for row in noise.rows:
        table.add(_cells(row), _flips(row), "dim")
    console().print(table)
    echo("± is the standard deviation of the score due to each source alone, with its 95 % interval.")
    for note in noise.notes:
        echo(f"note: {one_line(note)}")


def _cells(row: ScoreNoise) -> list[str]:
    mean = sum(row.scores) / len(row.scores)
    return [
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
    ]


def _draws(row: ScoreNoise) -> str:
    if row.kind == "group" or not row.sampled:
        return ""
    return "in the next; --greedy separates" if row.draws is None else str(row.draws)


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
