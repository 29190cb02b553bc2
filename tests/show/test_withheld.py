"""A score that must not be used is nowhere to be used: not in tables, not in files for scripts, not in groups."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.analyses.test_verbs import call
from tests.show.spoiled import Spoiled, write_tasks

from assay.evaluation import evaluate
from assay.results import GroupResult, MetricKey, RunResult, rows_of
from assay.show import run_findings
from assay.trackers import numbers
from assay.view.library import headline

REASON = "50.0% failed, more than the 10.0% allowed"


@pytest.fixture
def results(tmp_path: Path) -> RunResult:
    folder = write_tasks(tmp_path)
    return evaluate(
        model=Spoiled(failing="one"),
        tasks=["outer", "words"],
        include_path=str(folder),
        max_failed=0.1,
        run_dir=str(tmp_path / "run"),
        store=str(tmp_path / "store.sqlite"),
    )


def test_a_group_above_a_withheld_score_is_withheld_up_to_the_root(results: RunResult) -> None:
    shown = {row.name: (row.value_text, row.note) for row in rows_of(results)}
    assert shown["outer"] == ("withheld", "includes withheld scores: one")
    assert shown["both"] == ("withheld", "includes withheld scores: one")
    assert shown["one"][0] == "withheld"
    assert shown["two"][0] == "0.5000"
    assert results.withheld == ["one"]


def test_scripts_that_read_the_results_file_find_no_number(results: RunResult, tmp_path: Path) -> None:
    data = json.loads((tmp_path / "run" / "results.json").read_text())
    for name in ("one", "both", "outer"):
        assert data["results"][name]["acc,none"] == "N/A"
        assert data["results"][name]["acc_stderr,none"] == "N/A"
    assert data["groups"]["outer"]["acc,none"] == "N/A"
    assert data["results"]["two"]["acc,none"] == 0.5
    (kept,) = [s for s in data["assay"]["tasks"]["one"]["scores"] if s["metric"] == "acc"]
    assert (kept["withheld"], kept["n"]) == (REASON, 4)
    assert kept["value"] is not None


def test_no_output_shows_the_number(results: RunResult) -> None:
    rows = {row["name"]: row for row in csv.DictReader(io.StringIO(run_findings(results).to_csv()))}
    assert (rows["outer"]["value"], rows["one"]["low"]) == ("", "")
    assert {name.split("/")[0] for name, _ in numbers(results)} == {"two", "words"}
    assert next(iter(headline(results))).estimate.value is None
    assert run_findings(results).to_html().count('class="dot"') == 2


def test_results_of_an_older_assay_are_marked_when_they_are_read(results: RunResult) -> None:
    """Their scores do not say it; the tasks' health does."""
    acc = MetricKey("acc")

    def reason(outer: GroupResult) -> str | None:
        tasks = {
            n: replace(t, scores={k: replace(s, withheld=None) for k, s in t.scores.items()})
            for n, t in results.tasks.items()
        }
        groups = {
            n: replace(g, scores={k: replace(s, withheld=None) for k, s in g.scores.items()})
            for n, g in results.groups.items()
        }
        unmarked = replace(results, tasks=tasks, groups={**groups, "outer": outer})
        return unmarked.with_withheld().groups["outer"].scores[acc].withheld

    outer = results.groups["outer"]
    assert reason(outer) == "includes withheld scores: one"
    # A group's own scorer need not say of what its number is made.
    silent = replace(outer, scores={acc: replace(outer.scores[acc], children=())})
    assert "one" in (reason(silent) or "")


def test_scoring_a_withheld_run_again_ends_with_1(
    results: RunResult, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = call(capsys, "score", tmp_path / "run")
    assert code == 1
    assert "withheld: one" in err
    assert call(capsys, "score", tmp_path / "run", "--json")[0] == 1
