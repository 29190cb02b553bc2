"""Findings of every kind there is, with names as long as people make them; and a number that each of them shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tests.analyses.made import flipped, right, write_run

import assay
from assay.analyses import agreement, ci, compare, drift, explain, gate, judging, noise, power, rank, sweep
from assay.analyses.agreement import Agreement, Agreements
from assay.analyses.ci import Prospect, Prospects
from assay.analyses.drift import Drift, DriftPart
from assay.analyses.judging import CheckedJudge, CheckedJudges, Player, WinScale, WinScales
from assay.analyses.judging.check import Calibration
from assay.analyses.noise import NoiseFile, ScoreNoise
from assay.analyses.noise_file import Deviation
from assay.analyses.power import PowerOptions, SizePlan, SizePlans
from assay.analyses.rank import Rankings, RankOptions
from assay.analyses.sweep import Sweep, SweepCondition, SweptTask
from assay.cli import dry_run, several_models
from assay.finished import open_run
from assay.results import JudgeCheck, MetricKey
from assay.run import Forecast
from assay.show import Findings, run_findings
from assay.stats import Components, Estimate, PairedNoise

LONG = "HuggingFaceTB/SmolLM2-135M-Instruct-finetuned-on-word-problems"
TASK = "word_problems_for_schools_of_the_county"


@dataclass(frozen=True)
class Example:
    """What to show, and one number of it: where machines read, as it is; where people do, as text."""

    findings: Findings
    number: float
    text: str


def estimate(value: float, error: float = 0.02, n: int = 120) -> Estimate:
    return Estimate(value, error, value - 2 * error, value + 2 * error, n, "t")


class Runs:
    """Three runs of one task, and a dummy's on a task that ships; made once."""

    def __init__(self, folder: Path) -> None:
        rng = np.random.default_rng(5)
        base = {TASK: {"acc,none": right(rng, 400, 0.8)}, "hard": {"acc,none": right(rng, 400, 0.3)}}
        group = {"all_of_them": {"key": "acc,none", "children": {TASK: 0.5, "hard": 0.5}}}
        for name, lost in (("base", 0.0), ("worse", 0.3), ("other", 0.02)):
            scores = {task: {"acc,none": flipped(rng, of["acc,none"], 0.01, lost)} for task, of in base.items()}
            write_run(folder / name, scores, groups=group, model=f"{LONG}-{name}")
        self.base, self.worse, self.other = (open_run(folder / name) for name in ("base", "worse", "other"))
        self.dummy = assay.evaluate(
            model="dummy",
            tasks=["demo_capitals", "demo_addition"],
            limit=20,
            run_dir=str(folder / "dummy"),
            store=str(folder / "db"),
        )
        self.shots = assay.evaluate(
            model="dummy",
            tasks=["demo_capitals_en"],
            limit=20,
            num_fewshot=1,
            run_dir=str(folder / "shots"),
            store=str(folder / "db"),
        )


def run_example(runs: Runs) -> Example:
    value = runs.dummy["demo_capitals_en"]["acc"].value
    return Example(run_findings(runs.dummy), value, f"{value:.4f}")


def compare_example(runs: Runs) -> Example:
    found = compare.compare_runs([runs.base, runs.worse, runs.other])
    value = found[0].rows[0].difference.estimate.value
    assert value is not None
    return Example(compare.findings(found), value, f"{value:+.4f}")


def flips_example(runs: Runs) -> Example:
    found = compare.compare_runs([runs.base, runs.worse])
    value = found[0].rows[0].difference.estimate.value
    assert value is not None
    return Example(compare.findings(found, flips=3), value, f"{value:+.4f}")


def rank_example(runs: Runs) -> Example:
    found: Rankings = rank.rank([runs.base, runs.worse, runs.other], RankOptions(tasks=("hard",)))
    value = found[0].runs[0].score.value
    assert value is not None
    return Example(rank.findings(found), value, f"{value:.4f}")


def gate_example(runs: Runs) -> Example:
    report = gate.gate_against(runs.worse.path, runs.base.path, gate.GateOptions())
    value = report.checks[0].value
    assert value is not None
    return Example(gate.findings(report, "worse against base", "gate FAILED"), value, f"{value:.4f}")


def ci_example(runs: Runs) -> Example:
    prospects = Prospects(
        [Prospect(f"{TASK} acc: not worse than 0.01", TASK, 400, 7_849, 0.0712, "400 docs are too few")]
    )
    return Example(ci.prospect_findings(prospects), 0.0712, "0.0712")


def explain_example(runs: Runs) -> Example:
    assert runs.dummy.path is not None
    assert runs.shots.path is not None
    options = explain.ExplainOptions(task="demo_capitals_en", metric="acc")
    found = explain.explain(open_run(runs.dummy.path), open_run(runs.shots.path), options)
    value = found.shares[0].estimate.value
    assert value is not None
    return Example(explain.findings(found), value, f"{value:+.4f}".replace("+0.0000", "0.0000"))


def drift_example(runs: Runs) -> Example:
    def part(kind: Any, name: str) -> DriftPart:
        kl, same, entropy = estimate(0.00123, 0.0001), estimate(0.987, 0.001), estimate(2.5, 0.1)
        return DriftPart(kind, name, 10_000, 120, kl, same, entropy, estimate(-0.003, 0.001))

    parts = (part("all", "all"), part("domain", "code of the standard library"), part("position", "first 10"))
    found = Drift("smollm2-135m", f"{LONG} dtype=bfloat16", parts, True, None, None, None, 0.01, (0.001, 0.0015))
    return Example(drift.findings(found), 0.00123, "0.00123")


def agreement_example(runs: Runs) -> Example:
    between = "strict-match-of-the-last-number / flexible-extract"
    listed = [
        Agreement(TASK, "exact_match", between, "Cohen's κ", estimate(0.7123)),
        Agreement("math", "acc", "5 draws (none)", "Krippendorff's α", Estimate.missing("all docs have one value", 40)),
    ]
    return Example(agreement.findings(Agreements(listed)), 0.7123, "0.7123")


def power_example(runs: Runs) -> Example:
    def plan(task: str, within: float, draws: int | None) -> SizePlan:
        variance = PairedNoise(0.2, within, within)
        return SizePlan(task, "exact_match,strict", variance, "paired variance of two runs", 120, 1745, 0.1934, draws)

    plans = SizePlans([plan(TASK, 0.0, None), plan("math", 0.1, 12), plan("code", 0.1, None)])
    return Example(power.findings(plans, PowerOptions(effect=0.05)), 0.1934, "0.1934")


def noise_example(runs: Runs) -> Example:
    row = ScoreNoise(
        TASK, "task", "exact_match,strict", 200, (0.51, 0.52, 0.5), 1e-4, 2.0, 1e-5, docs=Deviation(0.0123),
        by_doc=Deviation(0.004, 0.003, 0.006), flip_share=(0.02, 0.01, 0.04), flips=((3, 1), (17, 2)),
    )  # fmt: skip
    return Example(noise.findings(NoiseFile(LONG, ({}, {}, {}), (row,), ("three replays",))), 0.51, "0.5100")


def sweep_example(runs: Runs) -> Example:
    variances = {("docs",): 0.2, ("wording",): 0.05, ("docs", "wording"): 0.01}
    conditions = [
        SweepCondition(style, shots, 0, estimate(0.5432, 0.1))
        for style in ("mc", "cloze:typo(0.05)", None)
        for shots in (0, None)
    ]
    components = Components(variances, {"docs": 20, "wording": 2}, 0.5, 0.4, 0.6)
    task = SweptTask("arc_easy", MetricKey("acc", "none"), 20, tuple(conditions), components)
    return Example(sweep.findings(Sweep((task,), ("boolq: no metric in all conditions",))), 0.5432, "0.5432")


def judge_example(runs: Runs) -> Example:
    judge = CheckedJudge(
        "demo_open", MetricKey("correct", "none"), JudgeCheck(labels=120), estimate(0.6), 0.9125, 0.8,
        (Calibration(1.0, 60, 0.9),), 0.1, -0.2, Estimate.missing("one verdict each"), estimate(0.7), None, 2, None,
    )  # fmt: skip
    return Example(judging.check_findings(CheckedJudges([judge])), 0.9125, "91.2%")


def scale_example(runs: Runs) -> Example:
    players = (
        Player(LONG, estimate(0.83, 0.1), 400, 260.5),
        Player("small", estimate(-0.83, 0.1), 400, 139.5),
        Player("the data set's own answers", Estimate.missing("it won no game"), 12, 0.0),
    )
    scale = WinScale("none", players, ("mt_bench", "arena"), 80, 0)
    return Example(judging.scale_findings(WinScales([scale])), 0.83, "+0.83")


def forecast_example(runs: Runs) -> Example:
    from assay.config import RunConfig
    from assay.run import forecast

    expected: Forecast = forecast(RunConfig(model="dummy", tasks=["demo_addition"], limit=17))
    return Example(dry_run.forecast_findings(expected, "What this run would send"), 17, "17")


def several_example(runs: Runs) -> Example:
    value = runs.dummy["demo_capitals"]["acc"].value
    found = several_models.findings({(f"{LONG}-{i}", "demo_capitals"): runs.dummy for i in range(2)})
    return Example(found, value, f"{value:.4f}")


EXAMPLES: dict[str, Callable[[Runs], Example]] = {
    "run": run_example,
    "compare": compare_example,
    "flips": flips_example,
    "rank": rank_example,
    "gate": gate_example,
    "ci": ci_example,
    "explain": explain_example,
    "drift": drift_example,
    "agreement": agreement_example,
    "power": power_example,
    "noise": noise_example,
    "sweep": sweep_example,
    "judge": judge_example,
    "scale": scale_example,
    "forecast": forecast_example,
    "several models": several_example,
}
