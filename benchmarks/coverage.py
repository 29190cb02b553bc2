"""How often nominal 95 % intervals hold the truth, and how often tests and gates at 5 % err, on and off the beaten track.

    python benchmarks/coverage.py --minutes 60    # measures cells for an hour; again, until it says that all are there

Cells that were measured are in `benchmarks/coverage.jsonl` and measured again where the code they rest on has changed since. With all of
them there, the table is written to `benchmarks/RESULTS.md`. `--only TEXT` and `--times N` try some, and keep nothing.

A cell is 2,000 simulated data sets (400 where one is slow) with a seed of its own. It fails if the 99 % Monte Carlo interval of
its rate lies wholly outside 92 to 98.5 % (coverage; no upper limit where the method is on the safe side by design), or
wholly above 6 % (errors), and wholly above 22 % (differences that a plan for 80 % misses; 24 % where its variance comes from a
pilot). Withheld intervals are counted apart. Every other method of the registry, and those of `CANDIDATES`, get the same data where
they can be used: "wider" is the median width over that of the narrowest which holds in the cell.
"""

from __future__ import annotations

import argparse
import ast
import json
import math
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import cache
from hashlib import sha256
from math import comb
from pathlib import Path

import numpy as np

from _coverage_cell import Cell, Outcome, held, keys, run
from _coverage_draws import draw_cells
from _coverage_ends import end_cells
from _coverage_features import settings
from _coverage_floors import floor_cells
from _coverage_gold import gold_cells
from _coverage_groups import CANDIDATES as CANDIDATES
from _coverage_groups import group_cells
from _coverage_rows import row_cells
from assay.groups import GroupManager
from assay.metrics import AGGREGATIONS
from assay.results import MetricKey, Score
from assay.scoring import estimate
from assay.stats import (
    ConfidenceSequence,
    above_threshold,
    cluster_key,
    combined_estimate,
    holm,
    influence_difference,
    influence_of,
    mean_estimate,
    non_inferiority,
    paired_difference,
    ratio_estimate,
    stratified_estimate,
    summary_estimate,
    unpaired_difference,
)

Rng = np.random.Generator
Floats = np.ndarray
ACC = MetricKey("acc")


def cluster_p(rng: Rng, p: float, rho: float, count: int) -> Floats:
    k = (1 - rho) / rho
    return rng.beta(p * k, (1 - p) * k, size=count)


SIZES = {
    "20 of 10": [10] * 20,
    "40 of 1 to 60": np.round(np.geomspace(1, 60, 40)).astype(int).tolist(),
    "29, one with 30 %": [60] + [5] * 28,
}


# Means


def iid(p: float, n: int) -> Cell:
    def one(rng: Rng) -> tuple[float, float, float] | None:
        return held(mean_estimate((rng.random(n) < p).astype(float)), p)

    return Cell("mean", f"0/1, p {p:g}, n {n}", one)


def clustered(name: str, rho: float, p: float) -> Cell:
    sizes = np.array(SIZES[name])
    index = np.repeat(np.arange(len(sizes)), sizes)

    def one(rng: Rng) -> tuple[float, float, float] | None:
        x = rng.random(len(index)) < cluster_p(rng, p, rho, len(sizes))[index]
        return held(mean_estimate(x.astype(float), index), p)

    return Cell("mean", f"clusters {name}, ρ {rho:g}, p {p:g}", one)


def duplicates(copies: int, p: float, n: int = 60) -> Cell:
    def one(rng: Rng) -> tuple[float, float, float] | None:
        x, k = (rng.random(n) < p).astype(float), keys(rng, n)
        score = estimate(np.repeat(x, copies).tolist(), AGGREGATIONS["mean"], np.repeat(k, copies))
        return held(score.estimate, p)

    return Cell("mean", f"each doc {copies} times, {n} docs, p {p:g}", one)


def piled(p: float, n: int) -> Cell:
    def one(rng: Rng) -> tuple[float, float, float] | None:
        return held(mean_estimate(np.where(rng.random(n) < p, 1.0, rng.random(n))), p + (1 - p) / 2)

    return Cell("mean", f"{p:.0%} piled at 1, n {n}", one)


def pass_at_3(n: int) -> Cell:
    table = np.array([1 - comb(5 - c, 3) / comb(5, 3) for c in range(6)])
    truth = 1 - math.prod((1 + i) / (9 + i) for i in range(3))

    def one(rng: Rng) -> tuple[float, float, float] | None:
        return held(mean_estimate(table[rng.binomial(5, rng.beta(8, 1, size=n))]), truth)

    return Cell("mean", f"pass@3 near 1, n {n}", one)


def log_normal(sigma: float, n: int) -> Cell:
    def one(rng: Rng) -> tuple[float, float, float] | None:
        return held(mean_estimate(np.exp(sigma * rng.standard_normal(n))), math.exp(sigma**2 / 2))

    return Cell("mean", f"log-normal, σ {sigma:g}, n {n}", one, safe=sigma > 1)


def bits(sigma: float, n: int) -> Cell:
    """Bits per byte: long texts are a little easier, lengths spread."""

    def one(rng: Rng) -> tuple[float, float, float] | None:
        spread = rng.standard_normal(n)
        lengths = np.exp(sigma * spread + 5)
        per_byte = 1 + 0.2 * rng.standard_normal(n)
        return held(ratio_estimate(per_byte * lengths, lengths), 1.0)

    return Cell("ratio", f"bits per byte, lengths log-normal σ {sigma:g}, n {n}", one)


# f1, mcc


def pairs_of(cells: Sequence[float], n: int, rng: Rng) -> list[tuple[int, int]]:
    tp, fp, fn, tn = rng.multinomial(n, cells)
    return [(1, 1)] * tp + [(0, 1)] * fp + [(1, 0)] * fn + [(0, 0)] * tn


def of_labels(metric: str, name: str, cells: Sequence[float], n: int) -> Cell:
    tp, fp, fn, tn = cells
    truth = 2 * tp / (2 * tp + fp + fn)
    if metric == "matthews_corrcoef":
        truth = (tp * tn - fp * fn) / math.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))

    def one(rng: Rng) -> tuple[float, float, float] | None:
        found = estimate(pairs_of(cells, n, rng), AGGREGATIONS[metric], keys(rng, n)).estimate
        return held(found, truth)

    return Cell("labels", f"{'mcc' if metric != 'f1' else 'f1'} {truth:.2f}, {name}, n {n}", one)


def of_median(n: int) -> Cell:
    def one(rng: Rng) -> tuple[float, float, float] | None:
        found = estimate(rng.standard_normal(n).tolist(), AGGREGATIONS["median"], keys(rng, n)).estimate
        return held(found, 0.0)

    return Cell("bootstrap", f"median, n {n}", one, slow=True)


# Groups


def many_tasks(p: float) -> Cell:
    sizes = np.round(np.linspace(5, 50, 57)).astype(int)

    def one(rng: Rng) -> tuple[float, float, float] | None:
        members = [mean_estimate((rng.random(n) < p).astype(float)) for n in sizes]
        value = float(sizes @ [m.value or 0.0 for m in members]) / sizes.sum()
        return held(combined_estimate(value, members, sizes / sizes.sum(), int(sizes.sum())), p)

    return Cell("groups", f"mean by size, 57 tasks of 5 to 50, p {p:g}", one, slow=True)


def few_docs(k: int, n: int) -> Cell:
    def one(rng: Rng) -> tuple[float, float, float] | None:
        members = [mean_estimate(3 + rng.standard_normal(n)) for _ in range(k)]
        value = float(np.mean([m.value for m in members]))
        return held(combined_estimate(value, members, np.full(k, 1 / k), k * n), 3.0)

    return Cell("groups", f"macro mean of {k} tasks of {n} docs, t members", one)


def shared_passages() -> Cell:
    def one(rng: Rng) -> tuple[float, float, float] | None:
        p = cluster_p(rng, 0.7, 0.3, 40)
        labels = np.repeat(np.array([cluster_key("passage", i) for i in range(40)], dtype=np.uint64), 5)
        docs = [((rng.random(200) < np.repeat(p, 5)).astype(float), labels) for _ in range(2)]
        return held(stratified_estimate(docs, np.array([0.5, 0.5]), bounded=True), 0.7)

    return Cell("groups", "mean of two tasks on the same 40 passages", one)


def manager_of(aggregation: str, names: Sequence[str], rules: list[dict[str, object]] | None = None) -> GroupManager:
    from assay.config import GroupConfig
    from assay.groups import Group

    class Leaf:
        def __init__(self, name: str) -> None:
            self.task_name = name

    entry = {"metric": "acc", "aggregation": aggregation}
    body: dict[str, object] = {"group": "g", "task": list(names), "aggregate_metric_list": [entry]}
    group = Group.from_config(GroupConfig.model_validate(body | ({"group_filter": rules} if rules else {})))
    for name in names:
        group.add(Leaf(name))
    manager = GroupManager()
    manager.register_group(group)
    return manager


def chosen(
    aggregation: str, ps: Sequence[float], rules: list[dict[str, object]] | None, truth: float, label: str
) -> Cell:
    names = [f"t{i}" for i in range(len(ps))]
    manager = manager_of(aggregation, names, rules)

    def one(rng: Rng) -> tuple[float, float, float] | None:
        scores: dict[str, dict[MetricKey, Score]] = {}
        for name, p in zip(names, ps, strict=True):
            x = (rng.random(100) < p).astype(float).tolist()
            scores[name] = {ACC: estimate(x, AGGREGATIONS["mean"], keys(rng, 100), bootstrap_iters=300)}
        return held(manager.score_groups(scores)["g"][ACC].estimate, truth)

    return Cell("choice", label, one, slow=True, safe=rules is not None or aggregation in ("min", "max", "median"))


# Stopping


def sequence(clustered_by: int, p: float = 0.7) -> Cell:
    def one(rng: Rng) -> tuple[float, float, float] | None:
        watched = ConfidenceSequence(width=0.08, largest=max(1, clustered_by))
        for _ in range(60):
            if clustered_by:
                chances = cluster_p(rng, p, 0.3, 8)
                watched.update(rng.binomial(clustered_by, chances).astype(float), np.full(8, float(clustered_by)))
            else:
                watched.update((rng.random(32) < p).astype(float))
            if watched.half_width <= 0.08:
                break
        return (*watched.interval, p)

    what = f"clusters of {clustered_by}" if clustered_by else "docs alone"
    return Cell("stopping", f"--until ci=0.08, {what}", one, slow=True, safe=True)


# Two runs


def no_difference(name: str, draw: Callable[[Rng], tuple[Floats, Floats, Floats | None]]) -> Cell:
    def one(rng: Rng) -> bool:
        a, b, index = draw(rng)
        p = paired_difference(a, b, index).p_value
        return p is not None and p < 0.05

    return Cell("type I error", name, one)


def flips(n: int) -> Callable[[Rng], tuple[Floats, Floats, Floats | None]]:
    def draw(rng: Rng) -> tuple[Floats, Floats, Floats | None]:
        a = (rng.random(n) < 0.7).astype(float)
        flipped = rng.random(n) < 0.2
        return a, np.where(flipped, (rng.random(n) < 0.7).astype(float), a), None

    return draw


def in_clusters(name: str, copies: bool = False) -> Callable[[Rng], tuple[Floats, Floats, Floats | None]]:
    sizes = np.array(SIZES[name])
    index = np.repeat(np.arange(len(sizes)), sizes)

    def draw(rng: Rng) -> tuple[Floats, Floats, Floats | None]:
        p = cluster_p(rng, 0.7, 0.3, len(sizes))
        q = cluster_p(rng, 0.7, 0.3, len(sizes))
        if copies:
            return (
                (rng.random(len(sizes)) < 0.7).astype(float)[index],
                (rng.random(len(sizes)) < 0.7).astype(float)[index],
                index,
            )
        return (
            (rng.random(len(index)) < p[index]).astype(float),
            (rng.random(len(index)) < q[index]).astype(float),
            index,
        )

    return draw


def skewed(n: int) -> Callable[[Rng], tuple[Floats, Floats, Floats | None]]:
    def draw(rng: Rng) -> tuple[Floats, Floats, Floats | None]:
        a = rng.standard_normal(n)
        return a, a + np.exp(rng.standard_normal(n)) - math.exp(0.5), None

    return draw


def any_verdict() -> Cell:
    def one(rng: Rng) -> bool:
        rows = [paired_difference(*flips(200)(rng)[:2]) for _ in range(6)]
        whole = float(np.mean([r.estimate.value for r in rows]))
        spread = math.sqrt(sum((r.spread or 0.0) ** 2 for r in rows)) / 6
        group = math.erfc(abs(whole) / spread / math.sqrt(2)) if spread else 1.0
        return any(p is not None and p < 0.05 for p in holm([*[r.p_value for r in rows], group]))

    return Cell("type I error", "any verdict among 6 tasks and their group, Holm over all", one)


# Gates: a model that is worse by the margin passes


def gate(name: str, draw: Callable[[Rng], tuple[Floats, Floats, Floats | None]], margin: float) -> Cell:
    def one(rng: Rng) -> bool:
        a, b, index = draw(rng)
        return non_inferiority(paired_difference(a, b, index), margin).passed

    return Cell("false passes", name, one)


def rare_losses(n: int) -> Callable[[Rng], tuple[Floats, Floats, Floats | None]]:
    def draw(rng: Rng) -> tuple[Floats, Floats, Floats | None]:
        a = np.clip(0.8 + 0.1 * rng.standard_normal(n), 0, 1)
        return a, np.where(rng.random(n) < 0.02 / a.mean(), 0.0, a), None

    return draw


def worse_clusters(name: str, margin: float) -> Callable[[Rng], tuple[Floats, Floats, Floats | None]]:
    draw_equal = in_clusters(name)

    def draw(rng: Rng) -> tuple[Floats, Floats, Floats | None]:
        a, b, index = draw_equal(rng)
        return a, np.where(rng.random(len(b)) < margin / 0.7, 0.0, b), index

    return draw


def repeats(n: int, margin: float) -> Callable[[Rng], tuple[Floats, Floats, Floats | None]]:
    def draw(rng: Rng) -> tuple[Floats, Floats, Floats | None]:
        p = rng.beta(8, 1, size=n)
        return rng.binomial(5, p) / 5, rng.binomial(5, p * (1 - margin * 9 / 8)) / 5, None

    return draw


def threshold(name: str, make: Callable[[Rng], Score], limit: float) -> Cell:
    def one(rng: Rng) -> bool:
        score = make(rng)
        return above_threshold(score.bounds(0.9), limit, estimate=score.estimate).passed

    return Cell("false passes", name, one)


def f1_score(cells: Sequence[float], n: int) -> Callable[[Rng], Score]:
    return lambda rng: estimate(pairs_of(cells, n, rng), AGGREGATIONS["f1"], keys(rng, n))


def clustered_score(name: str) -> Callable[[Rng], Score]:
    sizes = np.array(SIZES[name])
    index = np.repeat(np.arange(len(sizes)), sizes)

    def make(rng: Rng) -> Score:
        x = (rng.random(len(index)) < cluster_p(rng, 0.8, 0.3, len(sizes))[index]).astype(float)
        return estimate(x.tolist(), AGGREGATIONS["mean"], keys(rng, len(index)), index)

    return make


def piled_score(n: int) -> Callable[[Rng], Score]:
    return lambda rng: estimate(
        np.where(rng.random(n) < 0.9, 1.0, rng.random(n)).tolist(), AGGREGATIONS["mean"], keys(rng, n)
    )


def f1_paired(n: int, margin: float) -> Cell:
    rule = AGGREGATIONS["f1"]

    def one(rng: Rng) -> bool:
        gold = rng.random(n) < 0.3
        a, b = (np.where(rng.random(n) < 0.1, ~gold, gold) for _ in range(2))
        # B loses so many hits that its F1 is lower by the margin on average.
        b = b & ~(gold & (rng.random(n) < F1_LOSS))
        found = []
        for side in (a, b):
            assert rule.statistics is not None
            assert rule.finish is not None
            table = rule.statistics(list(zip(gold.astype(int), side.astype(int), strict=True)))
            assert table is not None
            found.append((float(rule.finish(table.sum(axis=0))), influence_of(table, rule.finish)))
        (va, ia), (vb, ib) = found
        lost = max(float(np.abs(ia).max()), float(np.abs(ib).max()))
        return non_inferiority(influence_difference(va, vb, ib - ia, lost=lost), margin).passed

    return Cell("false passes", f"paired f1, n {n}", one)


F1_LOSS = 0.1
F1_MARGIN = 2 * 0.27 / (0.3 + 0.34) - 2 * 0.243 / (0.3 + 0.313)


def results_file(p: float, n: int, margin: float) -> Cell:
    def one(rng: Rng) -> bool:
        sides = []
        for chance in (p, p - margin):
            x = (rng.random(n) < chance).astype(float)
            sides.append(summary_estimate(float(x.mean()), float(x.std(ddof=1)) / math.sqrt(n), n))
        return non_inferiority(unpaired_difference(*sides), margin).passed

    return Cell("false passes", f"against a results file, p {p:g}, n {n}", one)


RARE, NEAR, EVEN = (0.04, 0.02, 0.01, 0.93), (0.297, 0.003, 0.003, 0.697), (0.27, 0.03, 0.06, 0.64)

CELLS: list[Cell] = [
    *[iid(p, n) for p in (0.5, 0.9, 0.98) for n in (20, 100, 500)],
    *[clustered(name, rho, p) for name in SIZES for rho, p in ((0.1, 0.5), (0.3, 0.9), (0.3, 0.97))],
    *[duplicates(copies, p) for copies in (2, 5) for p in (0.5, 0.9)],
    *[piled(p, n) for p in (0.8, 0.95) for n in (20, 100)],
    *[pass_at_3(n) for n in (20, 100)],
    *[log_normal(sigma, n) for sigma in (0.5, 1.0) for n in (20, 50, 200)],
    *[log_normal(2.0, n) for n in (50, 200)],
    *[bits(sigma, n) for sigma in (0.5, 1.0) for n in (50, 200)],
    *[
        of_labels(m, s, c, n)
        for m in ("f1", "matthews_corrcoef")
        for s, c in (("even", EVEN), ("near perfect", NEAR), ("rare positives", RARE))
        for n in (100, 400)
    ],
    *[of_median(n) for n in (41, 201)],
    many_tasks(0.7),
    many_tasks(0.95),
    few_docs(3, 5),
    few_docs(10, 5),
    shared_passages(),
    chosen("min", [0.7] * 6, None, 0.7, "min of 6 equal tasks of 100"),
    chosen("max", [0.5, 0.6, 0.7, 0.75], None, 0.75, "max of 4 tasks of 100"),
    chosen("mean", [0.7] * 6, [{"function": "top_k", "k": 2}], 0.7, "best 2 of 6 equal tasks"),
    chosen("median", [0.5, 0.6, 0.7, 0.75, 0.8], None, 0.7, "median of 5 tasks"),
    chosen("harmonic_mean", [0.5, 0.6, 0.7], None, 3 / (1 / 0.5 + 1 / 0.6 + 1 / 0.7), "harmonic mean of 3 tasks"),
    sequence(0),
    sequence(10),
    *[no_difference(f"0/1 (McNemar, mid-P), n {n}", flips(n)) for n in (50, 300)],
    *[no_difference(f"clusters {name}", in_clusters(name)) for name in SIZES],
    no_difference("each doc 10 times", in_clusters("20 of 10", copies=True)),
    *[no_difference(f"skewed differences, n {n}", skewed(n)) for n in (30, 200)],
    any_verdict(),
    threshold("f1 threshold, near perfect, n 100", f1_score(NEAR, 100), 2 * 0.297 / (0.594 + 0.006)),
    threshold("f1 threshold, rare positives, n 200", f1_score(RARE, 200), 0.08 / 0.11),
    *[threshold(f"threshold, clusters {name}", clustered_score(name), 0.8) for name in SIZES],
    threshold("threshold, 90 % piled at 1, n 100", piled_score(100), 0.95),
    *[gate(f"clusters {name}", worse_clusters(name, 0.05), 0.05) for name in SIZES],
    *[gate(f"rare large losses, n {n}", rare_losses(n), 0.02) for n in (100, 300)],
    *[gate(f"five draws a doc, n {n}", repeats(n, 0.02), 0.02) for n in (50, 300)],
    f1_paired(300, F1_MARGIN),
    *[results_file(p, n, 0.02) for p, n in ((0.98, 100), (0.9, 300))],
    *settings(),
    *group_cells(),
    *row_cells(),
    *end_cells(),
    *draw_cells(),
    *floor_cells(),
    *gold_cells(),
]


MEASURED = Path(__file__).with_name("coverage.jsonl")
ASSAY = Path(__file__).parents[1] / "src" / "assay"
ESTIMATORS = ("stats", "groups", "scoring/estimation.py")


@cache
def version(file: str) -> str:
    """What the cells of this file depend on, without its comments: the file, the estimators, and what it imports of runs and analyses."""
    text = Path(file).read_text(encoding="utf-8")
    imported = re.findall(r"^from assay\.((?:analyses|run)[\w.]*) import", text, re.MULTILINE)
    parts = [ASSAY / each for each in (*ESTIMATORS, *(name.replace(".", "/") for name in imported))]
    files = [Path(file), Path(file).with_name("_coverage_cell.py")]
    for part in parts:
        files += part.rglob("*.py") if part.is_dir() else [part.with_suffix(".py")]
    return sha256("".join(map(without_comments, sorted(files))).encode()).hexdigest()[:16]


def without_comments(file: Path) -> str:
    """Nor sentences, nor what leads to an error, for no interval comes of them."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr) and any(
            isinstance(part, ast.Constant) and " " in part.value for part in node.values
        ):
            node.values = []
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            node.value = ""
        if isinstance(getattr(node, "body", None), list):
            node.body = [
                each
                for each in node.body
                if not isinstance(getattr(each, "value", None), ast.Constant) or not isinstance(each, ast.Expr)
            ]
            if isinstance(node, (ast.If, ast.ExceptHandler)) and node.body and isinstance(node.body[-1], ast.Raise):
                node.body = [ast.Raise()]
    return ast.dump(tree)


def version_of(cell: Cell) -> str:
    return version(cell.one.__code__.co_filename)


def measured_before() -> dict[str, Outcome]:
    lines = MEASURED.read_text(encoding="utf-8").splitlines() if MEASURED.exists() else []
    entries = {entry["title"]: entry for entry in map(json.loads, lines)}
    known = [cell.title for cell in CELLS if entries.get(cell.title, {}).get("code") == version_of(cell)]
    return {title: Outcome(**entries[title]["outcome"]) for title in known}


def row_of(cell: Cell, found: Outcome) -> list[str]:
    rate = "–" if math.isnan(found.rate) else f"{found.rate:.1%} ± {found.error:.1%}"
    width = "" if found.width is None else f"{found.width:.3f}"
    judged = "FAILS" if found.fails else "safe side" if cell.safe else "holds"
    wider = "" if found.ratio is None else f"{found.ratio:.2f} × {found.rival}"
    return [cell.title, rate, f"{found.withheld:.0%}" if found.withheld else "", width, wider, judged]


def main() -> None:
    from _results import markdown_table, write_section

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="cells whose name holds this text; nothing is kept")
    parser.add_argument("--times", type=int, default=0, help="so many data sets a cell; nothing is kept")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no cell after so many minutes")
    arguments = parser.parse_args()
    trial = bool(arguments.only or arguments.times)
    started = time.monotonic()
    done = {} if trial else measured_before()
    chosen = [cell for cell in CELLS if arguments.only in cell.title]
    for cell in chosen:
        if cell.title in done:
            continue
        if time.monotonic() - started > 60 * arguments.minutes:
            sys.exit(f"{len(done)} of {len(chosen)} cells are there; run it again for the others")
        done[cell.title] = run(cell, arguments.times or cell.times)
        print(*row_of(cell, done[cell.title]), sep=" | ", file=sys.stderr, flush=True)
        if not trial:
            with MEASURED.open("a", encoding="utf-8") as file:
                entry = {"code": version_of(cell), "title": cell.title, "outcome": asdict(done[cell.title])}
                file.write(json.dumps(entry) + "\n")
    rows = [row_of(cell, done[cell.title]) for cell in chosen]
    table = markdown_table(["setting", "coverage, or errors", "withheld", "median width", "wider", ""], rows)
    print(table)
    if not trial:
        write_section("Coverage", f"{__doc__.split(chr(10) * 2, 3)[3]}\n{table}")


if __name__ == "__main__":
    main()
