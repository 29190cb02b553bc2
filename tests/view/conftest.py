"""Runs made once, a client without a browser, and a real server with a real browser."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import material
from browsing import LONGEST, Server, Tab
from starlette.testclient import TestClient

from assay.view import create_app

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def benchmark(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return material.write_benchmark(tmp_path_factory.mktemp("benchmark"))


@pytest.fixture(scope="session")
def runs(benchmark: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two finished runs, one in progress, one of lm-evaluation-harness."""
    folder = tmp_path_factory.mktemp("runs")
    material.make_run(benchmark, folder / "sharp-7b" / "2026-11-15", "sharp-7b", 0.62)
    material.make_run(benchmark, folder / "blunt-1b" / "2026-11-14", "blunt-1b", 0.45)
    material.make_live_run(folder / "live-3b")
    material.make_foreign_run(folder / "foreign")
    return folder


@pytest.fixture(scope="session")
def client(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    app = create_app([runs], scratch=tmp_path_factory.mktemp("scratch"))
    with TestClient(app, base_url="http://127.0.0.1:8000") as found:
        yield found


@pytest.fixture(scope="session")
def ids(client: TestClient) -> dict[str, str]:
    """Run ids by model."""
    lines = client.get("/?download=jsonl").text.splitlines()
    import json

    return {row["model"]: row["id"] for row in map(json.loads, lines)}


@pytest.fixture(scope="session")
def server(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    found = Server([runs], tmp_path_factory.mktemp("server"))
    yield found
    found.stop()


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def tab(chromium: Any, server: Server) -> Iterator[Tab]:
    context = chromium.new_context(viewport={"width": 1280, "height": 860}, accept_downloads=True)
    context.set_default_timeout(LONGEST)
    found = Tab(context.new_page(), server.address)
    yield found
    context.close()
    assert found.complaints == [], "the browser complained"
