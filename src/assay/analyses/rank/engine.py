"""Runs to a ranking: what to rank them by, in which direction, and what each run's place may be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from assay.analyses.compare import CompareOptions, Floats
from assay.analyses.rank.evidence import Evidence
from assay.analyses.rank.gold import gold_order
from assay.config import CommandFlag, Names, Options, Texts, option
from assay.errors import ConfigError, did_you_mean
from assay.finished import Run, is_higher_better
from assay.results import MetricKey, matching
from assay.stats import Estimate, PairDraws, Ranks, rank_runs, replicate_spread


class RankOptions(Options):
    """How to rank."""

    tasks: Names = option((), "Rank by these tasks or groups.", flag=CommandFlag("-t", "NAMES", default="what was run"))
    metric: str | None = option(
        None, "acc, or acc,none.", flag=CommandFlag("-m", "NAME", default="the first that all runs have")
    )
    min_difference: float = option(0.0, "Count a run as ahead only if it is ahead by more than this.", ge=0)
    level: float = option(0.95, "Confidence level of all ranges together.", ge=0.5, lt=1)
    ignore_prompts: bool = option(False, "Pair docs by content even if their prompts differ.")
    labels: Texts = option(
        (), "Labels of gold answers, which calibrate --suspects; can be repeated.", flag=CommandFlag(metavar="FILE")
    )
    bootstrap_iters: int = option(2000, "Replicates.", ge=200)


@dataclass(frozen=True)
class GoldRank:
    """A run's number under the right gold answers, and the ranks that it may have there."""

    score: Estimate
    labels: int
    low: int
    high: int

    def to_dict(self) -> dict[str, Any]:
        return {**self.score.to_dict(), "labels": self.labels, "rank_low": self.low, "rank_high": self.high}


@dataclass(frozen=True)
class RankedRun:
    """One line of the leaderboard."""

    label: str
    place: int
    """Where the run was named on the command line, from 0: its row in the matrices of `Ranks`."""
    score: Estimate
    rank: int
    low: int
    high: int
    tier: int
    best: float
    """The share of replicates in which no other run is better."""
    path: str = ""
    """Where the run is stored."""
    gold: GoldRank | None = None
    """Its number and ranks under the right gold answers, as far as people checked them."""

    @classmethod
    def at(cls, place: int, ranks: Ranks, label: str, score: Estimate, path: str) -> Self:
        low, high, tier = int(ranks.low[place]), int(ranks.high[place]), int(ranks.tier[place])
        return cls(label, place, score, int(ranks.rank[place]), low, high, tier, float(ranks.best[place]), path)

    @property
    def range(self) -> str:
        return str(self.low) if self.low == self.high else f"{self.low}–{self.high}"

    def to_dict(self) -> dict[str, Any]:
        return {
            "run": self.label,
            "score": self.score.value,
            "stderr": self.score.stderr,
            "n": self.score.n,
            "rank": self.rank,
            "rank_low": self.low,
            "rank_high": self.high,
            "tier": self.tier,
            "probability_best": self.best,
            **({} if self.gold is None else {"gold": self.gold.to_dict()}),
        }


@dataclass(frozen=True)
class Ranking:
    """A leaderboard of one task or group under one metric, best first."""

    name: str
    alias: str
    key: MetricKey
    runs: tuple[RankedRun, ...]
    pairs: Ranks
    higher_is_better: bool
    level: float
    min_difference: float
    notes: tuple[str, ...] = ()

    def bounds(self, run: RankedRun, other: RankedRun) -> tuple[float, float, float]:
        """How far `run` is above `other` in score, with bounds that hold for all pairs together."""
        sign = 1.0 if self.higher_is_better else -1.0
        at = (run.place, other.place)
        low, high = sorted((sign * self.pairs.lower[at], sign * self.pairs.upper[at]))
        return float(sign * self.pairs.difference[at]), float(low), float(high)

    def to_dict(self) -> dict[str, Any]:
        pairs = [(a, b) for at, a in enumerate(self.runs) for b in self.runs[at + 1 :]]
        return {
            "name": self.name,
            "metric": self.key.metric,
            "filter": self.key.filter,
            "higher_is_better": self.higher_is_better,
            "level": self.level,
            "min_difference": self.min_difference,
            "runs": [run.to_dict() for run in self.runs],
            "pairs": [self._pair_dict(a, b) for a, b in pairs],
            "notes": list(self.notes),
        }

    def _pair_dict(self, a: RankedRun, b: RankedRun) -> dict[str, Any]:
        value, low, high = self.bounds(a, b)
        at = (a.place, b.place)
        return {
            "run": a.label,
            "other": b.label,
            "difference": value,
            "low": low,
            "high": high,
            "p_adjusted": float(self.pairs.p_adjusted[at]),
            "docs": int(self.pairs.common[at]),
        }


class Rankings(tuple[Ranking, ...]):
    """One for each task or group."""

    def to_dict(self) -> dict[str, Any]:
        return {"rankings": [ranking.to_dict() for ranking in self]}


def rank(runs: Sequence[Run], options: RankOptions | None = None) -> Rankings:
    """A ranking for each task or group that was asked for, under one metric each."""
    options = options or RankOptions()
    if len(runs) < 2:
        there = f"; there is one: {runs[0].label}" if runs else ""
        more = "".join(f" {note[0].upper()}{note[1:]}." for run in runs for note in run.result.notes)
        raise ConfigError(
            f"ranking needs two runs{there}",
            hint=f"Name two or more runs, a directory with logs of several models, or a table of scores.{more}",
        )
    for run in runs:
        run.require("samples", "scores")
    labels = distinct_labels(runs)
    return Rankings(_ranking(runs, labels, name, options) for name in _names(runs, options))


def _ranking(runs: Sequence[Run], labels: Sequence[str], name: str, options: RankOptions) -> Ranking:
    key = common_key(runs, name, options.metric)
    settings = CompareOptions(ignore_prompts=options.ignore_prompts, bootstrap_iters=options.bootstrap_iters)
    evidence = Evidence(runs, key, settings, labels)
    pairs = evidence.pairs(name)
    nothing_shared = np.flatnonzero(pairs.common == 0)
    if len(nothing_shared):
        raise ConfigError(
            f"{name}: {len(nothing_shared)} pairs of runs have no doc in common", hint="Rank runs on the same docs."
        )
    pairs, undefined = _defined(pairs, name, key)
    scores = [run.score(name, key) for run in runs]
    higher = all(is_higher_better(score) for score in scores)
    if not higher:
        pairs = _turned(pairs)
    ranks = rank_runs(pairs, level=options.level, min_difference=options.min_difference)
    order = np.lexsort((np.arange(len(runs)), -ranks.difference.mean(axis=1)))
    reported = [Estimate.missing("not reported") if score is None else score.estimate for score in scores]
    ranked = [RankedRun.at(at, ranks, labels[at], reported[at], str(runs[at].path)) for at in order.tolist()]
    if (gold := gold_order(evidence, runs, name, key, settings)) is not None:
        under = rank_runs(gold.pairs if higher else _turned(gold.pairs), level=options.level)
        ranked = [
            replace(
                each,
                gold=GoldRank(
                    gold.scores[each.place].estimate,
                    gold.scores[each.place].labels,
                    int(under.low[each.place]),
                    int(under.high[each.place]),
                ),
            )
            for each in ranked
        ]
    alias = runs[0].result[name].alias
    notes = (*evidence.notes, *undefined, *_warnings(runs, labels, name, key))
    return Ranking(name, alias, key, tuple(ranked), ranks, higher, options.level, options.min_difference, notes)


def _defined(pairs: PairDraws, name: str, key: MetricKey) -> tuple[PairDraws, list[str]]:
    """The replicates that have a number, as an estimate takes them: a few may be left out, many are a reason to refuse.

    A harmonic mean has none where a member is zero, and the ranks of such replicates would be anybody's guess.
    """
    there = np.asarray(np.isfinite(pairs.draws).all(axis=0))
    missing = float(1 - there.mean()) if len(there) else 0.0
    if not np.isfinite(pairs.difference).all() or replicate_spread(np.where(there, 0.0, np.nan)) is None:
        raise ConfigError(
            f"{name}: {key} is undefined in {missing:.0%} of the bootstrap replicates, so nothing can be said about ranks",
            hint="Rank its members with --tasks, or another metric with --metric.",
        )
    if not missing:
        return pairs, []
    defined = replace(
        pairs, draws=pairs.draws[:, there], of_runs=None if pairs.of_runs is None else pairs.of_runs[:, there]
    )
    return defined, [f"{name} is undefined in {missing:.1%} of the replicates, which are left out"]


def _turned(pairs: PairDraws) -> PairDraws:
    """Lower is better: first − second becomes second − first."""
    negative: dict[str, Floats | None] = {
        name: None if (each := getattr(pairs, name)) is None else -each
        for name in ("difference", "draws", "values", "of_runs")
    }
    return replace(pairs, **negative)  # type: ignore[arg-type]


def _names(runs: Sequence[Run], options: RankOptions) -> list[str]:
    """What was asked for; else the roots that all runs have, else their tasks."""
    for name in options.tasks:
        for run in runs:
            if name not in run.result:
                raise ConfigError(f"{run.label} has no task or group {name!r}", hint=did_you_mean(name, run.result))
    if options.tasks:
        return list(options.tasks)
    shared = [name for name in runs[0].result.roots or runs[0].tasks if all(name in run.result for run in runs)]
    shared = [name for name in shared if all(run.result[name].scores for run in runs)]
    shared = shared or [task for task in runs[0].tasks if all(task in run.tasks for run in runs)]
    if not shared:
        raise ConfigError(
            f"no task in common: {runs[0].label} has {', '.join(runs[0].tasks[:5])}; "
            f"{runs[1].label} has {', '.join(runs[1].tasks[:5])}",
            hint="Runs are ranked task by task, by name.",
        )
    return shared


def common_key(runs: Sequence[Run], name: str, metric: str | None) -> MetricKey:
    keys = [key for key in runs[0].result[name].scores if all(key in run.result[name].scores for run in runs)]
    chosen = keys if metric is None else [key for key in keys if key in matching(metric, keys)]
    if not chosen:
        have = ", ".join(map(str, keys)) or "none"
        what = "no metric is in all runs" if metric is None else f"the metric {metric} is not in all runs"
        raise ConfigError(f"{name}: {what}; in common: {have}", hint="Choose with --metric.")
    return chosen[0]


def distinct_labels(runs: Iterable[Run]) -> list[str]:
    """The model's name; where two runs share it, with the run's own."""
    listed = list(runs)
    names = [run.result.model_name or run.path.name for run in listed]
    labels = [run.label if names.count(name) > 1 else name for run, name in zip(listed, names, strict=True)]
    return [label if labels.count(label) == 1 else f"{label} #{at + 1}" for at, label in enumerate(labels)]


def _warnings(runs: Sequence[Run], labels: Sequence[str], name: str, key: MetricKey) -> list[str]:
    """What the runs say about the number itself."""
    looks = "its range does not account for that"
    by_run = [run.cautions(name, key, label, looks=looks) for run, label in zip(runs, labels, strict=True)]
    under = dict(zip(labels, (run.overlay(name) for run in runs), strict=True))
    several = [f"{name}: other gold answers: {_listed(under)}"] if len({*under.values()}) > 1 else []
    return several + [text for of_run in by_run for text in of_run if text]


def _listed(under: Mapping[str, str]) -> str:
    return "; ".join(f"{label} {overlay}" for label, overlay in [*under.items()][:5]) + (
        "; …" if len(under) > 5 else ""
    )
