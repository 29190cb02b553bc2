"""Cells near the ends: agreement near the ceiling, exact gates, thresholds in filters, dominant clusters, few replays, plans, looks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from _coverage_cell import Cell, Found, Rng, held, keys
from _coverage_features import of_mean, root, tree
from assay.analyses.power import PowerOptions, plan_without_runs
from assay.stats import (
    ServingNoise,
    StoppingRule,
    above_threshold,
    cohen_kappa,
    control_estimate,
    draw_agreement,
    ends,
    mcnemar,
    mean_estimate,
    mean_pairs,
    paired_difference,
    rank_runs,
    replay_variance,
    shrunken,
    with_serving,
)


def kappa(truth: float, p: float, n: int) -> Cell:
    def one(rng: Rng) -> Found:
        a = (rng.random(n) < p).astype(float)
        b = np.where(rng.random(n) < truth, a, rng.random(n) < p).astype(float)
        return held(cohen_kappa(a, b, keys(rng, n)), truth)

    def normal(rng: Rng) -> Found:
        """Cohen's own formula of 1960."""
        a = (rng.random(n) < p).astype(float)
        b = np.where(rng.random(n) < truth, a, rng.random(n) < p).astype(float)
        agreed, by_chance = float((a == b).mean()), float(a.mean() * b.mean() + (1 - a.mean()) * (1 - b.mean()))
        if by_chance == 1:
            return None
        found, reach = (agreed - by_chance) / (1 - by_chance), math.sqrt(agreed * (1 - agreed) / n) / (1 - by_chance)
        return found - 1.96 * reach, found + 1.96 * reach, truth

    rivals = {"Cohen's formula": normal}
    return Cell("agreement", f"κ {truth:g}, p {p:g}, n {n}", one, slow=True, safe=True, rivals=rivals)


def alpha_of_draws(a: float, b: float, n: int, draws: int) -> Cell:
    middle = a / (a + b)
    truth = a * b / ((a + b) ** 2 * (a + b + 1)) / (middle * (1 - middle))

    def one(rng: Rng) -> Found:
        right = rng.binomial(draws, rng.beta(a, b, n))
        return held(draw_agreement(np.column_stack([np.full(n, draws), right]), keys(rng, n)), truth)

    return Cell("agreement", f"α {truth:.2f} among {draws} draws, mean {middle:.2f}, n {n}", one, slow=True, safe=True)


def exact_gate(n: int, p: float) -> Cell:
    def one(rng: Rng) -> bool:
        found = mean_estimate((rng.random(n) < p).astype(float), level=0.9)
        return above_threshold(ends(found), p, estimate=found).passed

    return Cell("false passes", f"threshold {p:g}, 0/1, n {n}", one)


def beyond_a_threshold(tasks: int, n: int) -> Cell:
    chances, limit = np.linspace(0.3, 0.9, tasks), 0.605
    names = [f"t{i}" for i in range(tasks)]
    rule = {"function": "threshold", "threshold": limit}
    manager = tree(names, {"root": names}, {"aggregation": "mean"}, [rule])
    truth = float(chances[chances >= limit].mean())

    def one(rng: Rng) -> Found:
        scores = {name: of_mean(rng.random(n) < p, rng, 100) for name, p in zip(names, chances, strict=True)}
        return held(root(manager, scores), truth)

    return Cell("choice", f"mean of those beyond a threshold, {tasks} tasks of {n}", one, slow=True, safe=True)


def skewed_control(n: int) -> Cell:
    def one(rng: Rng) -> Found:
        shared = rng.standard_normal(500)
        now, earlier = (np.exp(0.8 * shared + 0.6 * rng.standard_normal(500)) for _ in range(2))
        return held(control_estimate(now[:n], earlier[:n], earlier).estimate, math.exp(0.5))

    return Cell("a part of the docs", f"--control, log-normal σ 1, {n} of 500 docs", one)


def tiers(name: str, sizes: list[int], runs: int) -> Cell:
    index = np.repeat(np.arange(len(sizes)), sizes)

    def one(rng: Rng) -> bool:
        units = keys(rng, len(sizes))[index]
        hard = [rng.beta(0.7 * 2.33, 0.3 * 2.33, len(sizes))[index] for _ in range(runs)]
        values = np.array([(rng.random(len(index)) < p).astype(float) for p in hard])
        return bool(rank_runs(mean_pairs(values, units, 400)).tier.max() > 1)

    return Cell("false verdicts", f"tiers of {runs} equal runs, clusters {name}", one, slow=True)


def few_docs_replayed(few: int, replays: int, shift: float) -> Cell:
    def one(rng: Rng) -> bool:
        hard = rng.random(2000)
        scores = (hard < 0.6 + shift * rng.choice([-1.0, 1.0], (replays + 2, 1))).astype(float)
        scores = np.where(rng.random(scores.shape) < 0.01, 1 - scores, scores)
        seen = scores[2:, :few]
        variance, freedom = replay_variance(seen.mean(axis=1).tolist(), [0] * replays)
        own = float((seen - seen.mean(axis=1, keepdims=True)).var(axis=0, ddof=1).mean()) / few
        noise = replace(ServingNoise(variance, freedom, own), doc_part=own * few / 2000)
        p = with_serving(paired_difference(scores[0], scores[1]), noise).p_value
        return p is not None and p < 0.05

    return Cell(
        "false verdicts", f"serving noise ± {shift:g} from {replays} replays of {few} of 2,000 docs", one, slow=True
    )


def planned(accuracy: float, effect: float, correlation: float) -> Cell:
    n = plan_without_runs("t", None, PowerOptions(effect=effect, accuracy=accuracy, correlation=correlation)).needed
    other = accuracy - effect
    both = accuracy * other + correlation * math.sqrt(accuracy * (1 - accuracy) * other * (1 - other))

    def one(rng: Rng) -> bool:
        won, lost, _ = rng.multinomial(n or 1, [other - both, accuracy - both, 1 - accuracy - other + 2 * both])
        return not mcnemar(int(won), int(lost)) < 0.05

    name = f"planned without runs, accuracy {accuracy:g}, effect {effect:g}, correlation {correlation:g}"
    return Cell("missed differences", name, one, most=0.22)


def last_look(clusters: int, size: int) -> Cell:
    """All docs of a task in clusters are asked: bets, and a last look."""
    index = np.repeat(np.arange(clusters), size)

    def one(rng: Rng) -> Found:
        scores = (rng.random(len(index)) < rng.beta(0.7 * 2.33, 0.3 * 2.33, clusters)[index]).astype(float)
        rule = StoppingRule("ci=0.02", width=0.02, largest=size)
        rule.update(scores, units=index.tolist())
        low, high = rule.interval or (0.0, 1.0)
        last = mean_estimate(scores, index, level=1 - rule.last_look)
        return max(low, last.low or 0.0), min(high, 1.0 if last.high is None else last.high), 0.7

    return Cell("stopping", f"--until ci=0.02, all of {clusters} clusters of {size} asked", one, slow=True, safe=True)


def drawn_together(tasks: int, n: int, middle: float, spread: float) -> Cell:
    """Of a task that is drawn at random."""
    size = middle * (1 - middle) / spread**2 - 1

    def one(rng: Rng) -> Found:
        truth = rng.beta(middle * size, (1 - middle) * size, tasks)
        found = shrunken([mean_estimate((rng.random(n) < p).astype(float)) for p in truth])
        return None if found is None else held(found[0], float(truth[0]))

    return Cell("shrunken", f"{tasks} tasks of {n}, p {middle:g} ± {spread:g}", one, safe=True)


def end_cells() -> Iterator[Cell]:
    yield from (kappa(truth, p, n) for truth in (0.98, 0.9, 0.5) for p in (0.5, 0.8) for n in (30, 100))
    yield from (alpha_of_draws(a, b, n, m) for a, b in ((0.1, 0.1), (5.0, 5.0)) for n in (20, 100) for m in (2, 5))
    yield from (exact_gate(n, p) for n in (3, 10, 12, 60, 300) for p in (0.1, 0.5, 0.9))
    yield from (beyond_a_threshold(tasks, n) for tasks, n in ((57, 20), (20, 50), (6, 100)))
    yield from (skewed_control(n) for n in (10, 20, 60))
    dominant = {"300 and 100 of 2": [300] + [2] * 100, "300 and 140 of 5": [300] + [5] * 140, "20 of 10": [10] * 20}
    yield from (tiers(name, sizes, runs) for name, sizes in dominant.items() for runs in (2, 4))
    yield from (
        few_docs_replayed(few, m, shift) for few, m, shift in ((200, 8, 0.01), (200, 8, 0.005), (1000, 5, 0.01))
    )
    yield from (planned(*each) for each in ((0.9, 0.05, 0.5), (0.95, 0.02, 0.0), (0.7, 0.1, 0.3), (0.5, 0.05, 0.5)))
    yield from (last_look(clusters, size) for clusters, size in ((20, 10), (60, 5)))
    yield from (
        drawn_together(k, n, *law) for k, n in ((10, 30), (57, 10)) for law in ((0.7, 0.05), (0.9, 0.05), (0.5, 0.25))
    )
