"""The same docs, sent again and again: every replay is a run of its own, with a store of its own.

So the answers of one replay never stand in for another's, and a replay that was killed goes on where it was.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.analyses.noise.measurement import measure_noise
from assay.analyses.noise_file import NoiseFile
from assay.config import CommandFlag, Options, RunConfig, Texts, WholeNumbers, option
from assay.errors import ConfigError
from assay.evaluation import check_first, evaluate
from assay.finished import read_assay
from assay.models import MODELS
from assay.run import Cell, Progress, model_for

SEEDS = 20_261
"""Orders of the replays: the first goes in the tasks' own."""


class NoiseOptions(Options):
    """How replays differ in what should not matter."""

    replays: int = option(
        5, "How many times to ask the docs; three or more estimate the noise, two only bound it.", ge=2
    )
    servers: Texts = option(
        (),
        "Address of a server with this model; if repeated, replays take turns on the servers.",
        flag=CommandFlag(metavar="URL", name="server"),
    )
    concurrency: WholeNumbers = option(
        (),
        "Concurrent requests (servers) or batch sizes for the replays, in turn, such as 1,8,32.",
        flag=CommandFlag(metavar="NUMBERS", default="all, half, a quarter"),
    )
    greedy: bool = option(
        False, "Ask tasks that sample greedily as well; separates draws from serving noise, at twice the cost."
    )


@dataclass(frozen=True)
class Replay:
    """One replay: how it is sent, in words, and as a run."""

    name: str
    how: dict[str, Any]
    config: RunConfig


def plan_replays(config: RunConfig, options: NoiseOptions, directory: Path, *, greedy: bool = False) -> list[Replay]:
    """Order, company and server of every replay. Those beyond the first differ from it in all that should not matter."""
    _refuse(config, options)
    takes = _parameters(config.model)
    if options.servers and "base_url" not in takes:
        raise ConfigError(
            f"--server: the model {config.model} has no address", hint="Use local-completions or another server."
        )
    company = options.concurrency or _company(config, takes)
    replays = []
    for number in range(options.replays):
        server = (
            options.servers[number % len(options.servers)] if options.servers else config.model_args.get("base_url")
        )
        # Servers change fastest, so that each meets every company in time.
        at_once = company[number // max(1, len(options.servers)) % len(company)] if company else None
        how = {"server": server, "at_once": at_once, "order": None if number == 0 else SEEDS + number}
        name = f"{'greedy' if greedy else 'replay'}-{number + 1}"
        args = {**config.model_args, **({"base_url": server} if options.servers else {})}
        changes: dict[str, Any] = {"shuffle": how["order"]}
        if at_once is not None and "num_concurrent" in takes:
            args["num_concurrent"] = at_once
        elif at_once is not None:
            changes["batch_size"] = at_once
        if greedy:
            changes["gen_kwargs"] = {**config.gen_kwargs, "do_sample": False, "temperature": 0.0}
        places = {"run_dir": str(directory / name), "output_path": None, "store": str(directory / f"{name}.answers")}
        # Whether the server is still the same model is what is being measured.
        changes |= {"model_args": args, "reuse": "always", "fresh": False, **places}
        replays.append(Replay(name, how, config.model_copy(update=changes)))
    return replays


def _refuse(config: RunConfig, options: NoiseOptions) -> None:
    for name in ("until", "control", "predict_only", "offline"):
        if getattr(config, name):
            raise ConfigError(f"--{name} cannot be replayed", hint=f"Leave out --{name}.")


def _parameters(model: str) -> set[str]:
    """What the model's class takes, in its constructor or a parent's."""
    if model not in MODELS:
        return set()
    makers = [vars(each).get("__init__") for each in MODELS[model].__mro__]
    return {name for maker in makers if inspect.isfunction(maker) for name in inspect.signature(maker).parameters}


def _company(config: RunConfig, takes: set[str]) -> tuple[int, ...]:
    """As many at once as was asked for, half, and a quarter of it."""
    if "num_concurrent" in takes:
        most = int(config.model_args.get("num_concurrent") or 16)
    elif config.batch_size != "auto":
        most = int(config.batch_size)
    else:
        return ()
    return tuple(dict.fromkeys(max(1, most // part) for part in (1, 2, 4)))


def run_replays(
    config: RunConfig,
    options: NoiseOptions,
    directory: Path,
    *,
    progress: Callable[[], Any],
    notify: Callable[[str], None],
) -> NoiseFile:
    """Ask what is missing, measure, and keep `noise.json` in the directory."""
    check_first(config)
    replays = plan_replays(config, options, directory)
    twins = plan_replays(config, options, directory, greedy=True) if options.greedy else []
    for replay in [*replays, *twins]:
        _ask(replay, fresh=config.fresh, progress=progress, notify=notify)
    runs, greedy = (_read(each) for each in (replays, twins))
    found = measure_noise(runs, [replay.how for replay in replays], greedy)
    found.save(directory / "noise.json")
    return NoiseFile.load(directory)


def _read(replays: Sequence[Replay]) -> list[Any]:
    return [read_assay(Path(str(replay.config.run_dir))) for replay in replays]


def _ask(replay: Replay, *, fresh: bool, progress: Callable[[], Any], notify: Callable[[str], None]) -> None:
    cell = Cell(replay.config.model, replay.name, replay.config)
    if cell.is_done() and not fresh:
        notify(f"{replay.name}: already done")
        return
    if fresh or cell.make_room():
        for left in _files_of(Path(str(replay.config.store))):
            left.unlink()
    words = [f"{name.replace('_', ' ')} {value}" for name, value in replay.how.items() if value is not None]
    notify(f"{replay.name}: {', '.join(words) or 'as given'}")
    shown: Progress
    with closing(model_for(replay.config)) as lm, progress() as shown:
        evaluate(replay.config, model=lm, progress=shown)


def _files_of(store: Path) -> Iterator[Path]:
    """A store and what SQLite keeps beside it."""
    return (path for path in (store, *(store.with_name(store.name + end) for end in ("-wal", "-shm"))) if path.exists())
