"""Pages that stand alone, in a real browser: nothing is cut off, on a desk or on a phone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.analyses import compare, drift, explain, rank
from assay.analyses.drift.engine import Drift, DriftPart
from assay.finished import open_run
from assay.results import RunDirectory, RunResult
from assay.show import Column, Findings, Table, kinds, run_findings
from assay.stats import Estimate

pytestmark = [pytest.mark.browser, pytest.mark.slow]

LONG = "a_task_whose_name_says_everything_that_it_asks_and_a_little_more"
TASK = """
task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder}/docs.jsonl}}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{q}}}}"
doc_to_target: "{{{{a}}}}"
generation_kwargs: {{until: ["\\n"], max_gen_toks: 8}}
metric_list: [{{metric: exact_match}}]
filter_list:
  - {{name: strict-match-of-the-last-number, filter: [{{function: regex, regex_pattern: "#### (\\\\d+)"}}, {{function: take_first}}]}}
  - {{name: flexible, filter: [{{function: regex, regex_pattern: "(\\\\d+)"}}, {{function: take_first}}]}}
"""
WIDER_THAN_SHOWN = """() => [document.documentElement, ...document.querySelectorAll(".panel, .scroll")]
  .filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => `${e.className} ${e.scrollWidth} > ${e.clientWidth}`)"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("alone")
    rows = [{"q": f"{i} + 1 = ", "a": str(i + 1)} for i in range(40)]
    (folder / "docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name in (LONG, "short"):
        (folder / f"{name}.yaml").write_text(TASK.format(name=name, folder=folder))
    (folder / "both.yaml").write_text(
        f"group: both\ntask: [{LONG}, short]\naggregate_metric_list:\n"
        "  - {metric: exact_match, aggregation: mean, filter_list: [flexible]}\n"
    )
    for seed in (0, 1):
        assay.evaluate(
            model="dummy",
            model_args={"seed": seed},
            tasks=["both"],
            include_path=[str(folder)],
            include_defaults=False,
            run_dir=str(folder / f"run{seed}"),
            store=str(folder / "store.db"),
        )
    return folder / "run0", folder / "run1"


def report_of(a: Path, b: Path) -> str:
    """With a note that is longer than any window."""
    result = RunResult.load(a)
    task = result.tasks[LONG]
    ((key, score), *others) = task.scores.items()
    noted = replace(score, withheld="more answers could not be parsed than this run allows: " * 6)
    tasks = {**result.tasks, LONG: replace(task, scores={key: noted, **dict(others)})}
    return run_findings(replace(result, tasks=tasks), RunDirectory(a).read_json("run.json")).to_html()


def drift_of(a: Path, b: Path) -> str:
    one = Estimate(0.00123456, 0.0001, 0.000745, 0.00415, 693, "bootstrap")
    parts = [DriftPart("domain", f"domain {i}", 693, 12, one, one, one, one) for i in range(3)]
    whole = replace(parts[0], kind="all", name="all")
    return drift.findings(
        Drift("smollm2-135m", "smollm2-135m dtype=bfloat16", (whole, *parts), True, None, None, None, 0.01, None)
    ).to_html()


def texts_of(a: Path, b: Path) -> str:
    """Two tables of texts that are no names, one of them longer than a window."""
    columns = (Column("from", kinds.TEXT, lambda row: row[0]), Column("to", kinds.TEXT, lambda row: row[1]))
    rows = [("what one run was told and the other was not, " * 5, "short"), ("short", "what a doc asks " * 3)]
    tables = tuple(Table.of(columns, rows, row=lambda row: {"note": "and why " * 12}) for _ in range(2))
    return Findings("Texts", tables=tables, result=None).to_html()


PAGES = {
    "texts": texts_of,
    "report": report_of,
    "compare": lambda a, b: compare.findings(compare.compare_runs([open_run(a), open_run(b)])).to_html(),
    "rank": lambda a, b: rank.findings(rank.rank([open_run(a), open_run(b)])).to_html(),
    "explain": lambda a, b: explain.findings(
        explain.explain(open_run(a), open_run(b), explain.ExplainOptions(task="short"))
    ).to_html(),
    "drift": drift_of,
}


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_cut_off(chromium: Any, runs: tuple[Path, Path], tmp_path: Path, name: str, width: int) -> None:
    (tmp_path / "page.html").write_text(PAGES[name](*runs), encoding="utf-8")
    context = chromium.new_context(viewport={"width": width, "height": 800})
    try:
        page = context.new_page()
        page.goto((tmp_path / "page.html").as_uri())
        assert page.evaluate(WIDER_THAN_SHOWN) == []
    finally:
        context.close()
