"""Is B better than A? Runs of any harness, aligned doc by doc, up to the root of the group tree."""

from assay.comparison.agreement import Agreement, agreements_in
from assay.comparison.drift import (
    Drift,
    DriftOptions,
    Passage,
    bundled_passages,
    drift_json,
    drift_legend,
    drift_page,
    drift_table,
    measure_drift,
    passages_of_file,
    passages_of_tasks,
)
from assay.comparison.engine import compare_runs
from assay.comparison.front import compare, comparison_html, comparison_plot, comparison_text
from assay.comparison.gate import GateCheck, GateReport, gate_against, gate_thresholds
from assay.comparison.gate_files import gate_junit, gate_markdown, workflow_commands
from assay.comparison.judge_check import CheckedJudge, check_judges
from assay.comparison.model import CompareOptions, Comparison, ComparisonRow, Flips, Refusal
from assay.comparison.page import comparison_page
from assay.comparison.power import PowerAssumptions, SizePlan, plan_from_runs, plan_without_runs
from assay.comparison.ranking import (
    Ranking,
    RankMark,
    RankOptions,
    open_runs,
    rank,
    rank_marks,
    ranking_json,
    ranking_legend,
    ranking_markdown,
    ranking_page,
    ranking_table,
    thin_runs,
    thinned_lines,
)
from assay.comparison.readers import RUN_READERS, open_results, open_run
from assay.comparison.render import comparison_json, comparison_legend, comparison_table, flip_lines
from assay.comparison.runs import ColumnBuilder, Columns, ComparedRun, RunReader, SampleColumn, run_of_columns
from assay.comparison.sweep import SweepDesign, SweepTasks, SweptTask, analyse_sweep, find_sweep_tasks, wordings
from assay.comparison.win_scale import Player, WinScale, win_scales

__all__ = [
    "RUN_READERS",
    "Agreement",
    "CheckedJudge",
    "ColumnBuilder",
    "Columns",
    "CompareOptions",
    "ComparedRun",
    "Comparison",
    "ComparisonRow",
    "Drift",
    "DriftOptions",
    "Flips",
    "GateCheck",
    "GateReport",
    "Passage",
    "Player",
    "PowerAssumptions",
    "RankMark",
    "RankOptions",
    "Ranking",
    "Refusal",
    "RunReader",
    "SampleColumn",
    "SizePlan",
    "SweepDesign",
    "SweepTasks",
    "SweptTask",
    "WinScale",
    "agreements_in",
    "analyse_sweep",
    "bundled_passages",
    "check_judges",
    "compare",
    "compare_runs",
    "comparison_html",
    "comparison_json",
    "comparison_legend",
    "comparison_page",
    "comparison_plot",
    "comparison_table",
    "comparison_text",
    "drift_json",
    "drift_legend",
    "drift_page",
    "drift_table",
    "find_sweep_tasks",
    "flip_lines",
    "gate_against",
    "gate_junit",
    "gate_markdown",
    "gate_thresholds",
    "measure_drift",
    "open_results",
    "open_run",
    "open_runs",
    "passages_of_file",
    "passages_of_tasks",
    "plan_from_runs",
    "plan_without_runs",
    "rank",
    "rank_marks",
    "ranking_json",
    "ranking_legend",
    "ranking_markdown",
    "ranking_page",
    "ranking_table",
    "run_of_columns",
    "thin_runs",
    "thinned_lines",
    "win_scales",
    "wordings",
    "workflow_commands",
]
