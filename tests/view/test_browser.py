"""The viewer in a real browser: every page, the keyboard, live runs, a phone, the dark, and a bundle from disk."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import material
import pytest
from browsing import LONGEST, Server, Tab

from assay.view import write_bundle

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def run_id(tab: Tab, model: str) -> str:
    tab.open("/")
    found = tab.page.locator("tr", has_text=model).locator("input[name=run]").first.get_attribute("value")
    assert found
    return str(found)


def scores(tab: Tab) -> set[str]:
    return set(tab.page.locator("tr[data-row]").evaluate_all("rows => rows.map((row) => row.dataset.score)"))


def test_from_the_list_down_to_one_sample_and_up_again(tab: Tab) -> None:
    tab.open("/")
    assert tab.page.locator("tr[data-row]").count() == 4
    tab.picture("runs")
    tab.page.get_by_role("link", name="sharp-7b").click()
    tab.see("h1", "sharp-7b")
    tab.picture("run")
    tab.page.get_by_role("link", name="capitals").click()
    tab.page.wait_for_selector("[data-plot=calibration] .main-svg")
    assert tab.page.locator(".plot .main-svg").count() >= 3
    tab.picture("task")
    tab.page.get_by_role("link", name="Wrong only").click()
    tab.page.wait_for_url(re.compile("only=wrong"))
    assert scores(tab) == {"0.0"}
    tab.picture("samples")
    tab.page.locator("tr[data-row] td.main").first.click()
    tab.page.wait_for_selector(".choices")
    tab.picture("sample")
    tab.page.locator("details.shots summary").click()
    assert "Question:" in tab.page.locator("details.shots pre").inner_text()
    tab.press("u")
    tab.page.wait_for_selector("table.samples")
    assert "only=wrong" in tab.page.url, "the list is as it was left"


def test_the_tree_opens_and_closes_and_the_address_remembers(tab: Tab) -> None:
    run = run_id(tab, "sharp-7b")
    tab.open(f"/run/{run}")
    line = tab.page.locator("tr[data-name=capitals]").first
    assert line.is_visible()
    tab.page.locator("tr[data-name=knowledge] .twist").first.click()
    assert not line.is_visible()
    assert "closed=knowledge" in tab.page.url
    tab.page.reload()
    assert not line.is_visible()
    tab.page.get_by_role("button", name="Open all").click()
    assert line.is_visible()
    tab.page.get_by_role("button", name="Close all").click()
    assert tab.page.locator("tr[data-name]:visible").count() == 2, "the root and its two numbers"


def test_search_filter_and_pages(tab: Tab) -> None:
    run = run_id(tab, "sharp-7b")
    tab.open(f"/samples/{run}/capitals?size=25")
    assert "page 1 of 5" in tab.page.locator(".pages").inner_text()
    tab.page.get_by_role("link", name="Next →").click()
    tab.see(".pages", "page 2 of 5")
    tab.page.locator("[data-search]").fill("Norway")
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_url(re.compile("q=Norway"))
    rows = tab.page.locator("tr[data-row]")
    assert 1 <= rows.count() <= 25
    assert "only=" not in tab.page.url, "empty fields stay out of the address"
    tab.page.locator("[data-only]").select_option("wrong")
    tab.page.wait_for_url(re.compile("only=wrong"))
    with tab.page.expect_download() as download:
        tab.page.get_by_role("link", name="JSONL").click()
    lines = Path(download.value.path()).read_text().splitlines()
    assert len(lines) == tab.page.locator("tr[data-row]").count()
    assert all("Norway" in line for line in lines)


def test_the_keyboard_alone(tab: Tab) -> None:
    run = run_id(tab, "sharp-7b")
    tab.press("?")
    assert tab.page.locator("dialog[open]").is_visible()
    tab.press("Escape")
    tab.open(f"/samples/{run}/capitals?size=25")
    tab.press("/")
    assert tab.page.evaluate("document.activeElement.name") == "q"
    tab.page.keyboard.type("j")
    assert tab.page.locator("[data-search]").input_value() == "j", "letters are letters in a field"
    tab.press("Escape")
    tab.page.locator("[data-search]").fill("")
    tab.press("Escape")
    for key in ("j", "j", "k", "j"):
        tab.press(key)
    assert tab.page.locator("tr.current").inner_text().split()[0] == "1"
    tab.press("Enter")
    tab.page.wait_for_url(re.compile(f"/sample/{run}/1/"))
    tab.press("j")
    tab.page.wait_for_url(re.compile(f"/sample/{run}/2/"))
    tab.press("k")
    tab.page.wait_for_url(re.compile(f"/sample/{run}/1/"))
    tab.press("u")
    tab.page.wait_for_url(re.compile(f"/samples/{run}/"))
    tab.press("]")
    tab.page.wait_for_url(re.compile("page=2"))
    tab.press("w")
    tab.page.wait_for_url(re.compile("only=wrong"))
    tab.press("Tab")
    assert tab.page.evaluate("document.activeElement !== document.body")


def test_select_runs_and_compare_them(tab: Tab) -> None:
    tab.open("/?sort=model&dir=asc")
    for model in ("blunt-1b", "sharp-7b"):
        assert tab.page.locator("[data-dock]").is_hidden()
        tab.page.locator("tr", has_text=model).locator("input[name=run]").check()
    tab.press("c")
    tab.page.wait_for_selector("table.shown")
    row = tab.page.locator("tr", has_text="capitals").first
    assert row.locator("[data-of=verdict]").inner_text() == "better"
    assert row.locator("svg.bar .whisker").count() == 1
    tab.picture("compare")
    row.get_by_title("right only in B").click()
    tab.page.wait_for_url(re.compile("only=gained"))
    assert scores(tab) == {"0.0"}, "wrong in A, right in B"
    tab.page.locator("tr[data-row] td.main").first.click()
    tab.page.wait_for_selector(".side.other .choices")
    assert tab.page.locator(".choices").count() == 2
    tab.picture("side-by-side")


def test_dark_light_and_the_choice_is_kept(tab: Tab) -> None:
    def background() -> Any:
        return tab.page.evaluate("getComputedStyle(document.documentElement).backgroundColor")

    tab.open("/")
    light = background()
    tab.page.emulate_media(color_scheme="dark")
    assert background() != light
    tab.page.emulate_media(color_scheme="light")
    tab.page.keyboard.press("t")
    dark = background()
    assert dark != light
    run = run_id(tab, "sharp-7b")
    tab.open(f"/task/{run}/capitals")
    assert background() == dark
    tab.page.wait_for_selector("[data-plot=calibration] .main-svg")
    tab.picture("task-dark")
    tab.page.get_by_role("button", name="Switch between dark and light").click()
    assert background() == light


@pytest.mark.parametrize(
    ("path", "awaited"),
    [
        ("/", "table.runs"),
        ("/run/{run}", "[data-tree-table]"),
        ("/task/{run}/capitals", "[data-plot=calibration] .main-svg"),
        ("/task/{run}/general", "table.parts"),
        ("/samples/{run}/capitals", "table.samples"),
        ("/samples/{run}/word_problems?filter=*", "table.samples"),
        ("/sample/{run}/3/capitals", ".choices"),
        ("/sample/{run}/3/word_problems?against={other}", ".side.other .response"),
        ("/compare?run={run}&run={other}", "table.shown"),
        ("/rank?run={run}&run={other}", "table.shown"),
        ("/trend", "table.lines"),
        ("/trend?name=capitals", "table.points"),
    ],
)
def test_a_phone_shows_everything_without_scrolling_sideways(tab: Tab, path: str, awaited: str) -> None:
    run, other = run_id(tab, "sharp-7b"), run_id(tab, "blunt-1b")
    tab.page.set_viewport_size({"width": 390, "height": 780})
    tab.open(path.format(run=run, other=other))
    tab.page.wait_for_selector(awaited)
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= 390
    wide = "[...document.querySelectorAll('.scroll')].filter((e) => e.scrollWidth > e.clientWidth + 1).length"
    assert tab.page.evaluate(wide) == 0, "no table is cut off either"
    over = (
        "[...document.querySelectorAll('td')].filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.className)"
    )
    assert tab.page.evaluate(over) == [], "and no cell runs into the next"
    tab.picture("phone-" + (path.split("/")[1].partition("?")[0] or "runs"), full=False)


def test_a_run_in_progress_moves_on_and_ends(chromium: Any, benchmark: Path, tmp_path: Path) -> None:
    live = material.make_live_run(tmp_path / "runs" / "live")
    server = Server([tmp_path / "runs"], tmp_path / "scratch")
    context = chromium.new_context()
    context.set_default_timeout(LONGEST)
    tab = Tab(context.new_page(), server.address)
    try:
        tab.open("/")
        tab.see("table", "running 40 %")
        tab.page.get_by_role("link", name="live-3b").click()
        tab.see("main", "40 of 100 docs")
        tab.picture("live")
        counts = json.loads((live / "progress.json").read_text())
        (live / "progress.json").write_text(
            json.dumps({**counts, "docs_done": 75, "running": {"capitals": ["acc", 0.7, 75]}, "updated": time.time()})
        )
        tab.page.wait_for_selector("text=75 of 100 docs", timeout=LONGEST)
        assert "0.7000" in tab.page.locator("main").inner_text()
        material.make_run(benchmark, tmp_path / "done", "sharp-7b", 0.6)
        (live / "progress.json").unlink()
        for name in ("samples", "results.json"):
            (tmp_path / "done" / name).rename(live / name)
        tab.page.wait_for_selector("[data-tree-table]", timeout=LONGEST)
        assert tab.complaints == []
    finally:
        context.close()
        server.stop()


def test_a_bundle_opens_from_disk(chromium: Any, runs: Path, tmp_path: Path) -> None:
    pages = write_bundle([runs], tmp_path / "site", samples=12)
    assert pages == len(list((tmp_path / "site").glob("*.html")))
    context = chromium.new_context(viewport={"width": 1280, "height": 860})
    tab = Tab(context.new_page(), (tmp_path / "site").as_uri())
    try:
        tab.open("/index.html")
        assert tab.page.locator("tr[data-row]").count() == 3, "the run in progress is left out"
        tab.page.get_by_role("link", name="sharp-7b").first.click()
        tab.page.wait_for_selector("[data-tree-table]")
        tab.page.locator("tr[data-name=knowledge] .twist").first.click()
        assert not tab.page.locator("tr[data-name=capitals]").first.is_visible()
        tab.page.get_by_role("button", name="Open all").click()
        tab.page.get_by_role("link", name="capitals").click()
        tab.page.wait_for_selector("[data-plot=calibration] .main-svg")
        tab.page.get_by_role("link", name="All samples").click()
        tab.page.wait_for_selector("table.samples")
        assert tab.page.locator("tr[data-row]").count() == 12
        tab.page.locator("[data-only-rows]").select_option("wrong")
        assert 0 < tab.page.locator("tr[data-row]:visible").count() < 12
        tab.page.locator("[data-only-rows]").select_option("")
        tab.page.locator("tr[data-row] td.main").first.click()
        tab.page.wait_for_selector(".choices")
        tab.press("j")
        tab.page.wait_for_url(re.compile(r"docs-.*\.html#doc-1$"))
        assert tab.page.locator("article.doc:visible").count() == 1
        tab.open("/index.html")
        tab.page.locator("a", has_text="against").first.click()
        tab.page.wait_for_selector("h1")
        tab.picture("bundle")
        assert tab.complaints == []
    finally:
        context.close()


def test_every_link_of_a_bundle_is_a_file_of_it(runs: Path, tmp_path: Path) -> None:
    write_bundle([runs / "sharp-7b", runs / "blunt-1b"], tmp_path / "site", samples=3)
    for page in (tmp_path / "site").glob("*.html"):
        text = page.read_text()
        for link, anchor in re.findall(r'(?:href|src)="([^"#]*)(?:#([^"]*))?"', text):
            assert link or anchor, f"an empty link in {page.name}"
            there = tmp_path / "site" / link if link else page
            assert there.is_file(), f"{link} in {page.name}"
            assert not anchor.startswith("doc-") or f'id="{anchor}"' in there.read_text()
        assert "http://" not in text.replace("http://www.w3.org", "")
