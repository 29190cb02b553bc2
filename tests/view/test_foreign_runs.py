"""Pages about runs of other harnesses, which are converted when they are first opened."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient
from tests.analyses.made import write_run
from tests.finished.test_verbs_and_formats import BAD, GOOD, MAKERS

from assay.view.server import create_app
from assay.view.site import Site

FOREIGN = [name for name in MAKERS if name not in ("assay", "table")]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    folder = tmp_path_factory.mktemp("runs")
    for name in FOREIGN:
        for kind, scores in (("good", GOOD), ("bad", BAD)):
            MAKERS[name][0](folder / f"{name}-{kind}", scores)
    (folder / "notes.csv").write_text("run,doc,score\nm,d,1\n")
    app = create_app([folder], scratch=tmp_path_factory.mktemp("scratch"))
    with TestClient(app, base_url="http://127.0.0.1:8000") as found:
        yield found


def ids(pages: TestClient, name: str) -> dict[str, str]:
    rows = map(json.loads, pages.get("/?download=jsonl").text.splitlines())
    found = {row["run"].partition("/")[0].rpartition("-"): row["id"] for row in rows}
    return {kind: run_id for (prefix, _, kind), run_id in found.items() if prefix == name}


def test_every_run_is_listed_once_and_tables_are_not(pages: TestClient) -> None:
    assert len(pages.get("/?download=jsonl").text.splitlines()) == 2 * len(FOREIGN)


@pytest.mark.parametrize("name", FOREIGN)
def test_its_pages_show_scores_prompts_and_answers(pages: TestClient, name: str) -> None:
    run, task = ids(pages, name)["good"], quote(MAKERS[name][1])
    for address in (f"/run/{run}", f"/task/{run}/{task}", f"/samples/{run}/{task}", f"/sample/{run}/1/{task}"):
        page = pages.get(address)
        assert page.status_code == 200, address
    shown = {"lm-eval": "2 + 2 =", "lm-eval 0.5": "2 + 2 =", "lighteval": "What is "}.get(name, "What is 2 + 2?")
    assert shown in page.text


@pytest.mark.parametrize("name", FOREIGN)
def test_two_of_them_are_compared_and_ranked(pages: TestClient, name: str) -> None:
    found = ids(pages, name)
    for page, number in (("compare", "0.75"), ("rank", "0.25")):
        for _ in range(100):
            answer = pages.get(f"/{page}?run={found['good']}&run={found['bad']}")
            assert answer.status_code == 200
            if "The page updates when" not in answer.text:
                break
            time.sleep(0.2)
        assert number in answer.text


@pytest.mark.parametrize(("value", "span"), [(2 / 3, (0, 1)), (15, (7.5, 22.5)), (-2, (-3, -1))])
def test_docs_that_all_have_one_value_are_one_bar_among_the_values_that_might_have_been(
    value: float, span: tuple[float, float], tmp_path: Path
) -> None:
    site = Site([write_run(tmp_path / "run", {"t": {"m,none": [value] * 6}})], tmp_path)
    path = site.library.sample_file(site.library.runs()[0], "t")
    assert path is not None
    shown = site.statistics.of(site.samples.open(path), "none", "m", choices=False).distribution
    assert shown is not None
    assert (shown["edges"][0], shown["edges"][-1]) == pytest.approx(span)
    (bar,) = (place for place, count in enumerate(shown["counts"]) if count)
    assert shown["edges"][bar] <= value <= shown["edges"][bar + 1]
    site.close()


def test_a_comparison_calls_a_run_by_its_file(pages: TestClient) -> None:
    found = ids(pages, "lm-eval")
    address = f"/compare?run={found['good']}&run={found['bad']}"
    for _ in range(100):
        if "The page updates when" not in (text := pages.get(address).text):
            break
        time.sleep(0.1)
    titles = [part.partition("<")[0] for part in text.split('class="title">')[1:]]
    assert any(title.startswith("A ") for title in titles)
    assert not any(run_id in title for title in titles for run_id in found.values())
