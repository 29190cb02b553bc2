"""Scores over runs: in their order, with changes marked by the paired comparison."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import material
import pytest
from starlette.testclient import TestClient

import assay
from assay.stats import Estimate
from assay.view import create_app, write_bundle
from assay.view.library import RunSummary
from assay.view.trends import Point, order_of, with_changes, with_places

MODEL = """
import material


class Growing(material.Pupil):
    def __init__(self, step, skill, model=None):
        super().__init__("growing", float(skill))
"""


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four checkpoints: hardly any better, then much better, then the same."""
    folder = tmp_path_factory.mktemp("checkpoints")
    benchmark = material.write_benchmark(tmp_path_factory.mktemp("bench"))
    (folder / "growing.py").write_text(MODEL)
    for step, skill in ((900, 0.3), (1000, 0.3), (2000, 0.75), (10000, 0.75)):
        assay.evaluate(
            model=f"{folder}/growing.py:Growing",
            model_args={"step": step, "skill": skill},
            tasks=["capitals"],
            include_path=[str(benchmark)],
            include_defaults=False,
            run_dir=str(folder / "runs" / f"at-{step}"),
            store=str(folder / "store.db"),
        )
    return folder / "runs"


@pytest.fixture(scope="module")
def trend(checkpoints: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    app = create_app([checkpoints], scratch=tmp_path_factory.mktemp("scratch"))
    with TestClient(app, base_url="http://127.0.0.1:8000") as client:
        yield client


def test_runs_stand_in_the_order_of_the_argument_and_changes_are_marked(trend: TestClient) -> None:
    lines = trend.get("/trend?by=step&name=capitals&download=jsonl").text.splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["step"] for row in rows] == ["900", "1000", "2000", "10000"]
    assert [row["change"] for row in rows] == ["", "", "better", ""]
    assert rows[0]["difference"] is None
    assert rows[2]["difference_low"] > 0
    page = trend.get("/trend?by=step&name=capitals").text
    assert page.count('<circle class="dot"') == 4
    assert re.search(r'<g class="better">', page)


def test_the_page_of_all_lines_names_where_each_changed(trend: TestClient) -> None:
    trend.get("/trend?by=step&download=csv")  # waits for the comparisons
    page = trend.get("/trend?by=step").text
    assert "▲ 2000" in page
    assert "▼" not in page
    assert "name=capitals" in page


def test_an_argument_that_no_run_has_says_how_to_give_it(trend: TestClient) -> None:
    page = trend.get("/trend?by=epoch").text
    assert "Nothing to follow" in page
    assert "<code>epoch</code>" in page
    assert trend.get("/trend?by=step&name=nowhere").status_code == 404


def test_a_bundle_has_the_pages_over_time(checkpoints: Path, tmp_path: Path) -> None:
    write_bundle([checkpoints], tmp_path / "site", samples=1, trend="step")
    page = (tmp_path / "site" / "trend.html").read_text()
    (link,) = {each for each in re.findall(r'href="(trend-[^"]*)"', page) if "capitals" in each and "norm" not in each}
    assert (tmp_path / "site" / link).read_text().count('<circle class="dot"') == 4
    assert 'href="trend.html"' in (tmp_path / "site" / "index.html").read_text()


def summary(**arguments: str) -> RunSummary:
    return RunSummary("id", "name", "assay", "model", 0.0, "finished", arguments=tuple(arguments.items()))


def test_numbers_inside_names_count_as_numbers() -> None:
    runs = [summary(revision=name) for name in ("step1000", "main", "step900", "step1000-b")]
    ordered = sorted(runs, key=lambda run: order_of(run, "revision"))
    assert [dict(run.arguments)["revision"] for run in ordered] == ["main", "step900", "step1000", "step1000-b"]


def step(p: float, value: float) -> dict[str, float]:
    return {"p_value": p, "difference": value}


def point(p: float | None, value: float = 0.1, label: str = "1") -> Point:
    return Point(summary(), label, Estimate(0.5, None, None, None, 10, "none"), None if p is None else step(p, value))


def test_p_values_are_corrected_over_the_steps_of_a_line() -> None:
    assert [p.change for p in with_changes([point(None), point(0.03)], True)] == ["", "better"]
    assert [p.change for p in with_changes([point(None), point(0.03), point(0.9), point(0.8)], True)] == [""] * 4
    shown = with_changes([point(None), point(0.03), point(0.9)], True)
    assert [None if p.step is None else p.step["p_adjusted"] for p in shown] == [None, 0.06, 0.9], "what the page shows"
    assert [p.change for p in with_changes([point(None), point(0.001, -1.0)], False)] == ["", "better"]
    assert [p.change for p in with_changes([point(None), point(0.001, -1.0)], True)] == ["", "worse"]
    assert [p.change for p in with_changes([point(None), point(0.001, -1.0)], None)] == ["", "changed"]


def test_numbers_are_spaced_as_numbers_and_names_evenly() -> None:
    assert [round(p.x) for p in with_places([point(None, label=x) for x in ("0", "10", "100")])] == [4, 13, 96]
    assert [round(p.x) for p in with_places([point(None, label=x) for x in ("a", "10", "b")])] == [4, 50, 96]
