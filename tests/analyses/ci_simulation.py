"""Simulated runs of `assay ci` with a known truth: how often does it pass what it must not, or fail what it must not?

Docs are drawn, answered and looked at as `assay ci` does: after 32, 64, 128, … docs, then the last look at all of them. Seeds are
those of the cells' places in the list, fixed before anything was run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.analyses.ci.execution import FIRST_LOOK, GROWTH
from assay.analyses.ci.rules import RuleEvidence, decide
from assay.analyses.gate import GateReport
from assay.analyses.noise_file import NoiseFile, ScoreNoise
from assay.config import CIRule
from assay.finished.run import DocColumn
from assay.results import MetricKey
from assay.stats import replay_variance

Floats = NDArray[np.float64]
ALPHA = 0.05
KEY = MetricKey("acc", "none")


@dataclass(frozen=True)
class Drawn:
    """One baseline and one run on the same docs."""

    before: Floats
    after: Floats
    clusters: NDArray[np.uint64] | None = None
    noise: NoiseFile | None = None


@dataclass(frozen=True)
class SimulatedCell:
    name: str
    rules: Sequence[str]
    draw: Callable[[np.random.Generator], Drawn]
    wrong: str
    """The outcome that would be false: `passed` where a rule is violated by as little as can be, `failed` where all hold."""
    allowed: float = ALPHA


def losing(
    lost: float, gained: float = 0.0, n: int = 400, level: float = 0.7, cluster: int = 1
) -> Callable[..., Drawn]:
    """The model loses and gains these shares of all docs; docs of a cluster go the same way."""

    def draw(rng: np.random.Generator) -> Drawn:
        units = math.ceil(n / cluster)
        spread = [np.repeat(rng.random(units), cluster)[:n] for _ in range(2)]
        before = (spread[0] < level).astype(np.float64)
        after = np.where(before == 1, spread[1] >= lost / level, spread[1] < gained / (1 - level)).astype(np.float64)
        labels = None if cluster == 1 else np.arange(n, dtype=np.uint64) // np.uint64(cluster)
        return Drawn(before, after, labels)

    return draw


def served(deviation: float, lost: float, replays: int = 5, n: int = 400) -> Callable[..., Drawn]:
    """Every run of either model is moved up or down as a whole; replays measured by how much."""

    def draw(rng: np.random.Generator) -> Drawn:
        difficulty, level = rng.random(n), 0.7
        shifts = rng.normal(scale=deviation, size=replays + 2)
        runs = [(difficulty < level + shift).astype(np.float64) for shift in shifts[:-1]]
        after = (difficulty < level + shifts[-1] - lost).astype(np.float64)
        scores = tuple(float(run.mean()) for run in runs[1:])
        variance, freedom = replay_variance(scores, [0] * replays)
        spread = np.stack(runs[1:])
        by_doc = float((spread - spread.mean(axis=1)[:, None]).var(axis=0, ddof=1).mean()) / n
        row = ScoreNoise("t", "task", str(KEY), n, scores, variance, freedom, by_doc)
        return Drawn(runs[0], after, None, NoiseFile("m", ({},) * replays, (row,)))

    return draw


NOT_WORSE, AT_LEAST, NEWLY = "t acc: not worse than 0.05", "t acc: at least 0.65", "t: no more than 5 % newly wrong"
CELLS = [
    SimulatedCell("not worse than 0.05; loses 5 points", [NOT_WORSE], losing(0.05), "passed"),
    SimulatedCell("… loses 12 and gains 7", [NOT_WORSE], losing(0.12, 0.07), "passed"),
    SimulatedCell("… loses 5, docs in clusters of 4", [NOT_WORSE], losing(0.05, cluster=4), "passed"),
    SimulatedCell("… loses 5, only 60 docs", [NOT_WORSE], losing(0.05, n=60), "passed"),
    SimulatedCell("at least 0.65; has 0.65", [AT_LEAST], losing(0.05), "passed"),
    SimulatedCell("at least 0.95; has 0.95", ["t: at least 0.95"], losing(0.02, level=0.97), "passed"),
    SimulatedCell("5 % newly wrong; 5 % are", [NEWLY], losing(0.05, 0.05), "passed"),
    SimulatedCell("three rules, all at the limit", [NOT_WORSE, AT_LEAST, NEWLY], losing(0.05), "passed"),
    SimulatedCell("not worse than 0.05, serving ± 1 point; loses 5", [NOT_WORSE], served(0.01, 0.05), "passed"),
    SimulatedCell("… three replays", [NOT_WORSE], served(0.01, 0.05, replays=3), "passed"),
    SimulatedCell("not worse than 0.05; loses 5 points", [NOT_WORSE], losing(0.05), "failed"),
    SimulatedCell("three rules; changes 2 % of answers, both ways alike", [NOT_WORSE, AT_LEAST, NEWLY],
                  losing(0.01, 0.01), "failed"),
    SimulatedCell("three rules, all at the limit", [NOT_WORSE, AT_LEAST, NEWLY], losing(0.05), "failed", 3 * ALPHA),
]  # fmt: skip


def outcome(cell: SimulatedCell, drawn: Drawn) -> str:
    """What `assay ci` says: each rule as soon as it is decided, and at the end what is left."""
    n = len(drawn.after)
    docs = np.arange(n, dtype=np.uint64) * np.uint64(7919) + np.uint64(1)
    largest = 1 if drawn.clusters is None else int(np.bincount(drawn.clusters.astype(np.int64)).max())
    looks, size = [], FIRST_LOOK
    while size < n:
        looks.append(size)
        size = int(size * GROWTH)
    decided = []
    for text in cell.rules:
        rule = CIRule.parse(text)
        for count, last in [*((count, False) for count in [*looks, n]), (n, True)]:
            count = math.ceil(count / largest) * largest if not last else n
            clusters = None if drawn.clusters is None else drawn.clusters[:count]
            now = DocColumn(KEY, docs[:count], None, drawn.after[:count], np.arange(min(count, n)), clusters)
            before = DocColumn(KEY, docs, None, drawn.before, np.arange(n), drawn.clusters)
            evidence = RuleEvidence("t", now, before, {i: i for i in range(n)}, drawn.noise, largest)
            check = decide(rule, evidence, ALPHA, last=last)
            if check.outcome != "cannot tell":
                break
        decided.append(check)
    return GateReport(tuple(decided)).outcome


def shares(cell: SimulatedCell, times: int, seed: int) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    found = [outcome(cell, cell.draw(rng)) for _ in range(times)]
    return {word: found.count(word) / times for word in ("passed", "failed", "cannot tell")}
