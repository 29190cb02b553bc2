"""A newcomer's first hour: the eight roads of the start page, walked as they are written."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.docs.roads import record, walk
from tests.docs.stub_agent import tool_server
from tests.models.openai.faulty_server import FaultyServer

import assay

DOCS = Path(__file__).parents[2] / "docs"
SCREENS = 100
"""Lines of a page of at most two screens, pasted output included."""


def score(run: str, task: str, metric: str) -> Any:
    return assay.RunResult.load(run)[task][metric]


def check_model() -> None:
    assert score("runs/first", "demo_agreement", "acc").n == 40
    assert "demo_agreement" in Path("page.html").read_text()


def check_scripts() -> None:
    [results] = Path("results/dummy").glob("results_*.json")
    assert json.loads(results.read_text())["results"]["planets"]["acc,none"] == 0.5
    assert len(list(Path("results").glob("**/samples_planets_*.jsonl"))) == 1


def check_two_runs() -> None:
    assert "demo_agreement" in Path("comparison.html").read_text()
    assert "demo_agreement" in Path("comparison.csv").read_text()
    assert Path("forest.svg").read_text().lstrip().startswith("<svg")


def check_server() -> None:
    assert score("runs/server", "demo_capitals_en", "acc").n == 20
    assert score("runs/chat", "demo_capitals_en:gen", "exact_match").n == 20
    assert json.loads(Path("runs/noise/noise.json").read_text())["replays"]


def check_ci() -> None:
    assert "newly wrong" in Path("assay-ci/comment.md").read_text()
    assert json.loads(Path("assay-ci/report.json").read_text())["outcome"] == "cannot tell"  # the last of them


def check_benchmark() -> None:
    assert score("runs/planets", "planets", "acc").n == 4
    assert Path("rivers/test_rivers.py").exists()


def check_agent() -> None:
    assert score("runs/agent", "author", "exact_match").value == pytest.approx(2 / 3)
    assert Path("agent.csv").exists()


def check_paper() -> None:
    """The tables are printed; `-o` writes them, as other tests show."""


def check_logs() -> None:
    """Nothing is written: what was printed is all that the page promises."""


ROADS: dict[str, tuple[Callable[[], None], list[int]]] = {
    "model": (check_model, []),
    "scripts": (check_scripts, []),
    "two-runs": (check_two_runs, []),
    "server": (check_server, [2]),
    "ci": (check_ci, [1, 4]),
    "benchmark": (check_benchmark, []),
    "agent": (check_agent, []),
    "logs": (check_logs, []),
}
WALKED = {f"start/{name}": road for name, road in ROADS.items()} | {"paper": (check_paper, [])}
"""Page → what must lie there in the end, and the exit codes other than 0 that it shows."""


@pytest.mark.parametrize("name", WALKED)
def test_a_road_leads_where_its_page_says(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "92")
    (tmp_path / "examples").symlink_to(DOCS.parent / "examples")
    page, (check, codes) = DOCS / f"{name}.md", WALKED[name]
    with FaultyServer() as server, tool_server() as agent:
        steps = walk(page, capsys, {"start/server": server.url, "start/agent": agent}.get(name))
    if os.environ.get("ASSAY_TEST_RECORD"):
        record(page, steps)
    check()
    assert [step.code for step in steps if step.code] == codes
    for step in steps:
        assert step.shown, f"{page.name}: {step.command}: the page does not show what it prints"
        if not os.environ.get("ASSAY_TEST_RECORD"):
            assert not step.missing(), f"{page.name}: {step.command} printed:\n{step.printed}"


def test_the_start_page_asks_what_you_have_and_leads_to_every_road() -> None:
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    assert sorted(set(re.findall(r"\(start/([\w-]+)\.md\)", text))) == sorted(ROADS)
    assert sorted(path.stem for path in (DOCS / "start").glob("*.md")) == sorted(ROADS)


@pytest.mark.parametrize("name", ROADS)
def test_a_road_is_two_screens_and_says_what_it_means_and_what_next(name: str) -> None:
    text = (DOCS / "start" / f"{name}.md").read_text(encoding="utf-8")
    assert re.findall(r"^## What (it means|next)$", text, re.MULTILINE) == ["it means", "next"]
    assert len(text.splitlines()) <= SCREENS
