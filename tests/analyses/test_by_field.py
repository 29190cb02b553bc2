"""Scores by fields of the docs, as a report, a page and the viewer show them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.analyses.test_verbs import call

import assay
from assay.analyses.by_field import ByFieldOptions, by_field, findings
from assay.errors import ConfigError
from assay.finished import open_run
from assay.instance import Instance
from assay.models import LM
from assay.view import create_app

DOCS = [
    {
        "q": f"{length} {depth} {number}",
        "a": "found",
        "length": length,
        "depth": depth,
        "id": f"{length}{depth}{number}",
    }
    for length in (8192, 131072)
    for depth in ("0-20 %", "20-40 %", None)
    for number in range(20)
]


class Forgetful(LM):
    """Finds everything in short texts, and in long ones only what stands at the beginning."""

    def loglikelihood(self, requests: Sequence[Instance]) -> list[tuple[float, bool]]:
        raise NotImplementedError

    def loglikelihood_rolling(self, requests: Sequence[Instance]) -> list[float]:
        raise NotImplementedError

    def generate_until(self, requests: Sequence[Instance]) -> list[str]:
        texts = [str(each.args[0]) for each in requests]
        return ["found" if text.startswith("8192") or " 0-20" in text else "lost" for text in texts]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("by") / "run"
    task = {
        "task": "places",
        "custom_dataset": lambda **_: {"test": DOCS},
        "test_split": "test",
        "doc_to_text": "{{q}}",
        "doc_to_target": "{{a}}",
        "metric_list": ["exact_match"],
        "metadata": {"version": 1, "by": ["length", "depth"]},
    }
    assay.evaluate(model=Forgetful(), tasks=[task], run_dir=str(place))
    return place


def test_docs_with_equal_values_have_a_score_with_an_interval(run: Path) -> None:
    found = by_field(open_run(run), ByFieldOptions(by=("length", "depth")))
    scores = {each.values: each.estimate for each in found}
    assert [*scores] == [(length, depth) for length in (8192, 131072) for depth in ("0-20 %", "20-40 %", None)]
    assert [estimate.value for estimate in scores.values()] == [1, 1, 1, 1, 0, 0]
    assert {estimate.n for estimate in scores.values()} == {20}
    low = scores[8192, "0-20 %"].low
    assert low is not None
    assert 0.7 < low < 1
    crossed, listed = findings(found).tables
    assert [column.name for column in crossed.columns] == ["length", "0-20 %", "20-40 %", "none"]
    assert len(crossed.rows) == 2
    assert len(listed.rows) == 6


def test_a_report_shows_them_by_what_the_task_names_or_the_reader(
    run: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, out, _ = call(capsys, "report", run, "--by", "--json")
    assert code == 0
    assert json.loads(out)[0]["by"] == {"length": 8192, "depth": "0-20 %"}
    code, out, _ = call(capsys, "report", run, "--by", "depth", "--json")
    assert [(row["by"]["depth"], row["value"], row["n"]) for row in json.loads(out)] == [
        ("0-20 %", 1.0, 40),
        ("20-40 %", 0.5, 40),
        (None, 0.5, 40),
    ]
    call(capsys, "report", run, "-o", str(tmp_path / "page.html"))
    assert "places · exact_match,none by length, depth" in (tmp_path / "page.html").read_text()


def test_fields_that_make_no_table_are_refused(run: Path) -> None:
    with pytest.raises(ConfigError, match="no field 'year'"):
        by_field(open_run(run), ByFieldOptions(by=("year",)))
    with pytest.raises(ConfigError, match="no task 'other'"):
        by_field(open_run(run), ByFieldOptions(by=("length",), tasks=("other",)))


def test_the_viewer_shows_them_too(run: Path, tmp_path: Path) -> None:
    with TestClient(create_app([run.parent], scratch=tmp_path), base_url="http://127.0.0.1:8000") as client:
        name = json.loads(client.get("/?download=jsonl").text.splitlines()[0])["id"]
        assert f'href="/by_field?run={name}"' in client.get(f"/run/{name}").text
        for _ in range(50):
            page = client.get(f"/by_field?run={name}&fields=depth").text
            if "Computing" not in page:
                break
        assert "20-40 %" in page
        rows = client.get(f"/by_field?run={name}&fields=depth&download=jsonl").text.splitlines()
        assert [json.loads(row)["value"] for row in rows] == [1.0, 0.5, 0.5]
