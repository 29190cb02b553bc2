"""Cells of the coverage grid in which features meet: stopping early, control runs, groups above both, plans, chance."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np

from _coverage_cell import Cell, Found, held, keys
from assay.groups import GroupManager
from assay.metrics import AGGREGATIONS
from assay.results import MetricKey, Score
from assay.run.until import _controlled_draws
from assay.scoring import chance_test, estimate
from assay.stats import (
    ConfidenceSequence,
    DiscordantEvidence,
    Estimate,
    PairedNoise,
    control_estimate,
    docs_needed,
    ends,
    holm,
    mean_estimate,
    paired_difference,
)

Rng = np.random.Generator
Floats = np.ndarray
ACC = MetricKey("acc")


def of_mean(values: Floats, rng: Rng, replicates: int = 200) -> Score:
    return estimate(values.astype(float).tolist(), AGGREGATIONS["mean"], keys(rng, len(values)), None, replicates)


class Leaf:
    def __init__(self, name: str) -> None:
        self.task_name = name


def tree(
    leaves: list[str], groups: dict[str, list[str]], entry: dict[str, Any], rules: list[dict[str, Any]] | None = None
) -> GroupManager:
    manager = GroupManager()
    for name in leaves:
        manager.register_task(Leaf(name))
    bodies = {name: {"group": name, "task": list(below)} for name, below in groups.items()}
    for name, body in bodies.items():
        if name == "root" or entry.get("over") == "subgroups":
            body["aggregate_metric_list"] = [{"metric": "acc", **entry}]
            body |= {"group_filter": rules} if rules else {}
    manager.build_hierarchy(bodies)
    return manager


def root(manager: GroupManager, scores: dict[str, Score]) -> Estimate:
    return manager.score_groups({name: {ACC: score} for name, score in scores.items()})["root"][ACC].estimate


# A part of the docs


def stopped(rng: Rng, p: float, size: int, width: float) -> Score:
    """A task of so many docs, asked until the interval is narrow enough."""
    docs, watched = (rng.random(size) < p).astype(float), ConfidenceSequence(width=width)
    for start in range(0, size, 32):
        watched.update(docs[start : start + 32])
        if watched.half_width <= width:
            break
    found = mean_estimate(docs[: watched.n])
    low, high = watched.interval
    return Score(replace(found, low=low, high=high, method="confidence sequence"), size)


def group_after_stopping() -> Cell:
    tasks = {"large": (4000, 0.8), "small": (600, 0.3)}
    manager = tree(list(tasks), {"root": list(tasks)}, {"aggregation": "mean"})
    truth = sum(n * p for n, p in tasks.values()) / sum(n for n, _ in tasks.values())

    def one(rng: Rng) -> Found:
        return held(root(manager, {t: stopped(rng, p, n, 0.08) for t, (n, p) in tasks.items()}), truth)

    return Cell("a part of the docs", "mean by size after --until ci=0.08, 4,000 and 600 docs", one, True, True)


def group_after_limit(limit: int) -> Cell:
    tasks = {"large": (4000, 0.8), "small": (600, 0.3)}
    manager = tree(list(tasks), {"root": list(tasks)}, {"aggregation": "mean"})
    truth = sum(n * p for n, p in tasks.values()) / sum(n for n, _ in tasks.values())

    def one(rng: Rng) -> Found:
        scores = {t: replace(of_mean(rng.random(limit) < p, rng), size=n) for t, (n, p) in tasks.items()}
        return held(root(manager, scores), truth)

    return Cell("a part of the docs", f"mean by size after --limit {limit}, 4,000 and 600 docs", one)


def too_narrow() -> Cell:
    """The rule is never satisfied: the interval must still say what 400 docs say."""

    def one(rng: Rng) -> Found:
        watched = ConfidenceSequence(width=0.005)
        watched.update((rng.random(400) < 0.7).astype(float))
        return (*watched.interval, 0.7)

    return Cell("stopping", "--until ci=0.005, only 400 docs there", one, True, True)


def decided() -> Cell:
    def one(rng: Rng) -> bool:
        seen = DiscordantEvidence()
        a = (rng.random(1000) < 0.7).astype(float)
        b = np.where(rng.random(1000) < 0.3, (rng.random(1000) < 0.7).astype(float), a)
        seen.update(a, b)
        return seen.p_value <= 0.05

    return Cell("stopping", "decided, though equal, looked at after each of 1,000 docs", one)


# Control runs


def two_runs(rng: Rng, p: float, total: int, sizes: int) -> tuple[Floats, Floats, Floats | None]:
    """This run and an earlier one that agrees on most docs; docs, or clusters of docs, are hard for both."""
    units = total // sizes
    index = np.repeat(np.arange(units), sizes)
    k = 3.0
    hard = rng.beta(p * k, (1 - p) * k, units)[index]
    now = rng.random(total) < hard
    earlier = np.where(rng.random(total) < 0.8, now, rng.random(total) < hard)
    return now.astype(float), earlier.astype(float), index if sizes > 1 else None


def control(n: int, p: float, sizes: int = 1) -> Cell:
    def one(rng: Rng) -> Found:
        y, f, index = two_runs(rng, p, 2000, sizes)
        return held(control_estimate(y[:n], f[:n], f, None if index is None else index[:n]).estimate, p)

    def plain(rng: Rng) -> Found:
        y, _, index = two_runs(rng, p, 2000, sizes)
        return held(mean_estimate(y[:n], None if index is None else index[:n]), p)

    what = f"--control, {n} of 2,000 docs, p {p:g}" + (f", clusters of {sizes}" if sizes > 1 else "")
    # The residual of full range that is added weighs most where units are few or docs nearly all right.
    safe = n // sizes < 100 or p >= 0.95
    return Cell("a part of the docs", what, one, safe=safe, rivals={"without the earlier run": plain})


def group_above_control(n: int = 150) -> Cell:
    names = ["a", "b", "c"]
    manager = tree(names, {"root": names}, {"aggregation": "harmonic_mean"})
    ps = (0.5, 0.6, 0.7)
    truth = 3 / sum(1 / p for p in ps)

    def score(rng: Rng, p: float) -> Score:
        y, f, _ = two_runs(rng, p, 1000, 1)
        found, where = control_estimate(y[:n], f[:n], f), keys(rng, 1000)
        draws = partial(_controlled_draws, y[:n], f[:n], where[:n], f, where, found.slope, 300)
        return Score(found.estimate, n, replicates=draws, keys=lambda: where[:n])

    def one(rng: Rng) -> Found:
        return held(root(manager, {name: score(rng, p) for name, p in zip(names, ps, strict=True)}), truth)

    return Cell("a part of the docs", f"harmonic mean above --control, {n} of 1,000 docs a task", one, True)


# What holds on the beaten track


@cache
def corpus() -> list[tuple[list[str], list[str]]]:
    """Pairs of sentences, hypotheses with words exchanged; some sentences suffer more than others."""
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(300)]
    pairs = []
    for _ in range(1500):
        reference = [words[i] for i in rng.zipf(1.4, rng.integers(6, 25)) % 300]
        noise = rng.beta(1, 2)
        changed = [words[rng.integers(300)] if rng.random() < noise else word for word in reference]
        pairs.append((" ".join(reference), " ".join(changed)))
    return pairs  # type: ignore[return-value]


def bleu(n: int) -> Cell:
    @cache
    def truth() -> float:
        return float(AGGREGATIONS["bleu"].fn(corpus()))

    def one(rng: Rng) -> Found:
        chosen = [corpus()[i] for i in rng.integers(0, 1500, n)]
        return held(estimate(chosen, AGGREGATIONS["bleu"], keys(rng, n), None, 500).estimate, truth())

    return Cell("bootstrap", f"BLEU, n {n}", one, True)


LEAVES = {"a": (80, 0.3), "b": (200, 0.55), "c": (150, 0.68), "d": (90, 0.8), "e": (120, 0.62)}
BELOW = {"root": ["left", "right"], "left": ["a", "b"], "right": ["inner", "e"], "inner": ["c", "d"]}


def exact(manager: GroupManager) -> float:
    scores = {t: Score(Estimate(p, 0.0, p, p, n, "truth"), n) for t, (n, p) in LEAVES.items()}
    return float(root(manager, scores).value or 0.0)


def of_tree(label: str, entry: dict[str, Any]) -> Cell:
    manager = tree(list(LEAVES), BELOW, entry)
    truth = exact(manager)

    def one(rng: Rng) -> Found:
        return held(root(manager, {t: of_mean(rng.random(n) < p, rng) for t, (n, p) in LEAVES.items()}), truth)

    return Cell("groups", f"three levels, {label}", one, True)


def shared_task() -> Cell:
    """One task in two subgroups: their means move together."""
    below = {"root": ["left", "right"], "left": ["a", "c"], "right": ["b", "c"]}
    manager = tree(["a", "b", "c"], below, {"aggregation": "mean", "over": "subgroups", "weight_by_size": False})

    def one(rng: Rng) -> Found:
        scores = {t: of_mean(rng.random(LEAVES[t][0]) < LEAVES[t][1], rng, 500) for t in ("a", "b", "c")}
        return held(root(manager, scores), (LEAVES["a"][1] + LEAVES["b"][1] + 2 * LEAVES["c"][1]) / 4)

    return Cell("groups", "mean of two groups that share a task", one, True)


# Plans


def plan(tests: int) -> Cell:
    effect, discordant = 0.06, 0.2
    n = docs_needed(effect, PairedNoise(discordant - effect**2), alpha=0.05 / tests)

    def one(rng: Rng) -> bool:
        up, down, _ = rng.multinomial(n, [(discordant + effect) / 2, (discordant - effect) / 2, 1 - discordant])
        p = paired_difference(*flips(n, up, down)).p_value
        others = rng.random(tests - 1).tolist()
        return not (holm([p, *others])[0] or 0.0) < 0.05

    return Cell("missed differences", f"planned for 80 %, 0/1, {tests} tests", one, most=0.22)


def flips(n: int, up: int, down: int) -> tuple[Floats, Floats]:
    counts = [up, down, n - up - down]
    return np.repeat([0.0, 1.0, 1.0], counts), np.repeat([1.0, 0.0, 1.0], counts)


def planned_with_clusters() -> Cell:
    """The variance comes from an earlier pair of runs on 60 clusters of ten docs, with the noise of that."""
    effect = 0.06

    def pair(rng: Rng, clusters: int) -> tuple[Floats, Floats, Floats]:
        index = np.repeat(np.arange(clusters), 10)
        hard, shift = 0.05 + 0.75 * rng.beta(2.1, 0.9, clusters), rng.uniform(effect - 0.1, effect + 0.1, clusters)
        a = (rng.random(len(index)) < hard[index]).astype(float)
        return a, (rng.random(len(index)) < (hard + shift)[index]).astype(float), index

    def one(rng: Rng) -> bool:
        noise = PairedNoise(paired_difference(*pair(rng, 60)).doc_variance or 0.0)
        p = paired_difference(*pair(rng, math.ceil(docs_needed(effect, noise) / 10))).p_value
        return not (p is not None and p < 0.05)

    return Cell("missed differences", "planned for 80 % from a pilot of 60 clusters of 10", one, most=0.24)


# Chance


def chance(name: str, p: float, wrong: set[str], tests: int, sizes: int) -> Cell:
    index = np.repeat(np.arange(600 // sizes), sizes)

    def one(rng: Rng) -> bool:
        said = set()
        for _ in range(tests):
            hard = np.full(600, p) if sizes == 1 else rng.beta(4 * p, 4 * (1 - p), 600 // sizes)[index]
            right = (rng.random(600) < hard).astype(float)
            at_level = partial(mean_estimate, right, index if sizes > 1 else None)
            score = Score(at_level(), 600, interval=lambda level, at_level=at_level: ends(at_level(level=level)))
            said.add(chance_test(score, {4: 600}, tests=tests).shown)
        return bool(said & wrong)

    what = "clusters of 10" if sizes > 1 else "docs alone"
    return Cell("false notes", f"{name}, {tests} tasks of 600, {what}", one, slow=tests > 1)


def settings() -> Iterator[Cell]:
    yield group_after_stopping()
    yield from (group_after_limit(limit) for limit in (40, 200))
    yield from (control(n, p) for n, p in ((30, 0.7), (200, 0.7), (60, 0.95), (200, 0.98)))
    yield from (control(n, p, sizes=10) for n in (200, 600) for p in (0.7, 0.95))
    yield group_above_control()
    yield from (too_narrow(), decided())
    yield from (bleu(n) for n in (50, 200))
    yield of_tree("mean by size", {"aggregation": "mean"})
    yield of_tree("mean of subgroups", {"aggregation": "mean", "over": "subgroups", "weight_by_size": False})
    yield of_tree("harmonic mean", {"aggregation": "harmonic_mean"})
    yield shared_task()
    yield from (plan(tests) for tests in (1, 10))
    yield planned_with_clusters()
    for sizes in (1, 10):
        yield chance("above or below, and at chance", 0.25, {"above", "below"}, 10, sizes)
        yield chance("≈ chance, and 0.05 above it", 0.3, {"equal"}, 10, sizes)
