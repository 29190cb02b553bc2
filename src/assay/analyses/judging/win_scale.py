"""Several runs on one scale, by how often a judge preferred the answers of each (Bradley and Terry)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from assay.config import CommandFlag, Names, Options, option
from assay.errors import ConfigError
from assay.finished import DocColumn, Run, open_run
from assay.stats import B_DEFAULT, Estimate, Floats, Games, bradley_terry

WIN_RATE = "win_rate"
DATA_SET = "the data set's own answers"


@dataclass(frozen=True)
class Player:
    """A run, or what runs were compared with."""

    name: str
    strength: Estimate
    """Log-odds, 0 on average over the players."""
    games: int
    wins: float

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "strength": self.strength.to_dict()}


@dataclass(frozen=True)
class WinScale:
    """The players of one filter, the strongest first."""

    filter: str
    players: tuple[Player, ...]
    tasks: tuple[str, ...]
    docs: int
    labels: int
    notes: tuple[str, ...] = ()


class WinScales(tuple[WinScale, ...]):
    """One per filter."""

    def to_dict(self) -> list[dict[str, Any]]:
        return [{**asdict(each), "players": [player.to_dict() for player in each.players]} for each in self]


class ScaleOptions(Options):
    """Which games count."""

    tasks: Names = option((), "Only these tasks.", flag=CommandFlag("-t", "NAMES", default="all"))
    bootstrap_iters: int = option(B_DEFAULT, "Replicates.", ge=0)


@dataclass
class _Pairs:
    """Games by pair, and the players in the order in which they were met."""

    players: dict[str, str] = field(default_factory=dict)
    """By what tells them apart, a path: their names."""
    columns: dict[tuple[int, int], list[DocColumn]] = field(default_factory=dict)
    tasks: dict[str, None] = field(default_factory=dict)

    def place(self, key: str, name: str) -> int:
        self.players.setdefault(key, name)
        return list(self.players).index(key)


def win_scales(paths: Sequence[str | Path], options: ScaleOptions | None = None) -> WinScales:
    """One scale per filter, over all docs of all tasks that were judged in pairs."""
    options = options or ScaleOptions()
    runs = [open_run(Path(path)) for path in paths]
    by_filter: dict[str, _Pairs] = {}
    for run in runs:
        for task in run.tasks:
            if not options.tasks or task in options.tasks:
                _add(run, task, by_filter)
    if not by_filter:
        raise ConfigError(
            "none of these runs were judged in pairs",
            hint="A scale needs runs of tasks whose judge is of kind: pairwise.",
        )
    notes = _notes(runs)
    return WinScales(_scale(name, pairs, options.bootstrap_iters, notes) for name, pairs in by_filter.items())


def _add(run: Run, task: str, by_filter: dict[str, _Pairs]) -> None:
    scorer = run.result.tasks[task].config.get("scorer")
    if not isinstance(scorer, Mapping):
        return
    for key, column in run.columns(task).items():
        if key.metric == WIN_RATE and column.is_numeric:
            pairs = by_filter.setdefault(key.filter, _Pairs())
            pairs.tasks[task] = None
            mine = pairs.place(str(run.path.resolve()), run.label)
            theirs = pairs.place(*_opponent(scorer.get("kwargs") or {}))
            pairs.columns.setdefault((mine, theirs), []).append(column.scored())


def _opponent(settings: Mapping[str, Any]) -> tuple[str, str]:
    """What tells the opponent from others, and its name."""
    given = settings.get("opponent")
    if given is None:
        return f"\0{settings.get('opponent_answer')}", DATA_SET
    path = Path(str(given)).expanduser()
    if path.is_dir():
        return str(path.resolve()), open_run(path).label
    return str(path.resolve()), path.name


def _notes(runs: Sequence[Run]) -> tuple[str, ...]:
    judges = {str(run.result.config.get("roles")) for run in runs}
    return ("the runs were judged by different judges, so their games are not comparable",) if len(judges) > 1 else ()


def _scale(filter_name: str, pairs: _Pairs, replicates: int, notes: tuple[str, ...]) -> WinScale:
    games = [_games(first, second, columns) for (first, second), columns in pairs.columns.items()]
    strengths = bradley_terry(games, len(pairs.players), replicates=replicates)
    players = [
        Player(
            name,
            strength,
            sum(len(each.wins) for each in games if at in (each.first, each.second)),
            sum(_won(each, at) for each in games),
        )
        for at, (name, strength) in enumerate(zip(pairs.players.values(), strengths))
    ]
    corrected = [each for each in games if each.judged is not None]
    unchecked = () if len(corrected) == len(games) else ("judge, unchecked: some pairs have too few labels",)
    return WinScale(
        filter_name,
        tuple(sorted(players, key=lambda player: -(player.strength.value or 0.0))),
        tuple(pairs.tasks),
        len(np.unique(np.concatenate([each.docs for each in games]))),
        sum(each.judged.n for each in corrected if each.judged is not None),
        (*notes, *unchecked),
    )


def _won(games: Games, player: int) -> float:
    if player == games.first:
        return float(games.wins.sum())
    return float((1 - games.wins).sum()) if player == games.second else 0.0


def _games(first: int, second: int, columns: Sequence[DocColumn]) -> Games:
    """Of all tasks on which the two met. Docs without a cluster are clusters of their own."""
    clustered = any(column.clusters is not None for column in columns)
    labelled = any(column.labels is not None for column in columns)
    return Games(
        first,
        second,
        np.concatenate([column.docs for column in columns]),
        np.concatenate([column.values for column in columns]),
        np.concatenate([_labels(column) for column in columns]) if labelled else None,
        np.concatenate([column.docs if column.clusters is None else column.clusters for column in columns])
        if clustered
        else None,
    )


def _labels(column: DocColumn) -> Floats:
    return np.full(len(column), np.nan) if column.labels is None else column.labels
