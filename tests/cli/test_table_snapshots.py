"""Tables of the smaller verbs, as they stand in windows of five widths: `tables/NAME.txt` holds what is printed.

After a change that is meant, delete the file, run the test and read what it wrote.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from assay.analyses.agreement import Agreement
from assay.analyses.drift import Drift, drift_table
from assay.analyses.drift.engine import DriftPart
from assay.analyses.judging import Player, WinScale
from assay.analyses.power import PowerAssumptions, SizePlan
from assay.analyses.rank import Ranking, ranking_table
from assay.analyses.rank.engine import RankedRun
from assay.analyses.sweep import SweepCondition, SweptTask
from assay.cli.agreement import agreement_table
from assay.cli.judge import scale_table
from assay.cli.power import plan_table
from assay.cli.selftest import ability_table, check_table
from assay.cli.store import origin_table
from assay.cli.sweep import condition_table, share_table
from assay.models import Capabilities, Check
from assay.results import MetricKey
from assay.show.fitted import FittedTable
from assay.stats import Components, Estimate, PairedNoise
from assay.store import OriginStats

WIDTHS = (60, 80, 100, 120, 200)
KEPT = Path(__file__).parent / "tables"
LONG = "HuggingFaceTB/SmolLM2-135M-Instruct-finetuned-on-word-problems"


def estimate(value: float, error: float, n: int = 120) -> Estimate:
    return Estimate(value, error, value - 2 * error, value + 2 * error, n, "t")


def rank() -> FittedTable:
    scores = [("base", 0.71, 1, 1, 2, 1), (LONG, 0.69, 2, 1, 2, 1), ("small", 0.42, 3, 3, 3, 2)]
    runs = [
        RankedRun(name, i, estimate(score, 0.0123, 1200), place, low, high, tier, 0.5)
        for i, (name, score, place, low, high, tier) in enumerate(scores)
    ]
    return ranking_table(
        Ranking("gsm8k", "gsm8k", MetricKey("exact_match", "strict"), tuple(runs), None, True, 0.95, 0.0)  # type: ignore[arg-type]
    )


def drift() -> FittedTable:
    def part(kind: str, name: str) -> DriftPart:
        return DriftPart(
            kind,  # type: ignore[arg-type]
            name,
            10_000,
            120,
            estimate(0.00123, 0.0001),
            estimate(0.987, 0.001),
            estimate(2.5, 0.1),
            estimate(-0.003, 0.001),
        )

    parts = (part("all", "all tokens"), part("domain", "code of the standard library"), part("position", "first 10"))
    return drift_table(Drift("smollm2-135m", f"{LONG} dtype=bfloat16", parts, True, None, None, None, None, None))


def agreement() -> FittedTable:
    between = "strict-match-of-the-last-number / flexible-extract"
    return agreement_table(
        [
            Agreement("gsm8k_with_hints", "exact_match", between, "Cohen's κ", estimate(0.71, 0.03)),
            Agreement(
                "math", "acc", "5 draws (none)", "Krippendorff's α", Estimate.missing("all docs have one value", 40)
            ),
        ]
    )


def power() -> FittedTable:
    def plan(task: str, within: float, draws: int | None) -> SizePlan:
        noise = PairedNoise(0.2, within, within)
        return SizePlan(task, "exact_match,strict", noise, "paired variance of two runs", 120, 1745, 0.19, draws)

    plans = [plan("word_problems_for_schools", 0.0, None), plan("math", 0.1, 12), plan("code", 0.1, None)]
    return plan_table(plans, PowerAssumptions(0.05))


def scale() -> FittedTable:
    players = (
        Player(LONG, estimate(0.8, 0.1), 400, 260.5),
        Player("small", estimate(-0.8, 0.1), 400, 139.5),
        Player("the data set's own answers", Estimate.missing("it won no game"), 12, 0.0),
    )
    return scale_table(WinScale("none", players, ("mt_bench", "arena"), 80, 0))


def sweep() -> FittedTable:
    return condition_table(swept())


def shares() -> FittedTable:
    return share_table(swept())


def swept() -> SweptTask:
    variances = {("docs",): 0.2, ("wording",): 0.05, ("docs", "wording"): 0.01}
    components = Components(variances, {"docs": 20, "wording": 2}, 0.5, 0.4, 0.6)
    conditions = [
        SweepCondition(style, shots, 0, estimate(0.5, 0.1))
        for style in ("mc", "cloze:typo(0.05)", None)
        for shots in (0, None)
    ]
    return SweptTask("arc_easy", MetricKey("acc", "none"), 20, tuple(conditions), components)


def selftest() -> FittedTable:
    checks = [
        Check("batches", True, 3.2e-6, 0.0),
        Check("choices in another order", False, 0.25, 0.1, "the largest difference is that of request 17 of 40"),
        Check("rolling windows", None, note="the backend offers no likelihoods"),
    ]
    return check_table(checks, LONG)


def abilities() -> FittedTable:
    return ability_table(Capabilities(likelihoods=False, stop_strings=False))


def store() -> FittedTable:
    return origin_table(
        [OriginStats("runs/demo", "smollm2-135m", 0, 1480), OriginStats(f"runs/{LONG}/2026-01-01", LONG, 0, 13_000)]
    )


TABLES: list[Callable[[], FittedTable]] = [
    rank,
    drift,
    power,
    agreement,
    scale,
    sweep,
    shares,
    selftest,
    abilities,
    store,
]


def printed(table: FittedTable, width: int) -> list[str]:
    console = Console(width=width, file=io.StringIO(), force_terminal=False)
    console.print(table)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return [line.rstrip() for line in text.splitlines()]


@pytest.mark.parametrize("made", TABLES, ids=lambda made: made.__name__)
def test_it_stands_as_it_did_at_every_width(made: Callable[[], FittedTable]) -> None:
    shown = {width: printed(made(), width) for width in WIDTHS}
    for width, lines in shown.items():
        assert max(map(len, lines)) < width, lines
    text = "\n".join(f"== {width} columns\n" + "\n".join(lines) + "\n" for width, lines in shown.items())
    place = KEPT / f"{made.__name__}.txt"
    if not place.exists():
        place.write_text(text, encoding="utf-8")
        pytest.fail(f"{place} was written: read it, and run the test again")
    assert text == place.read_text(encoding="utf-8")
