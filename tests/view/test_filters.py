"""Tasks with several filters: each has its own rows, marks and pages, whatever it is called."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

import assay
from assay.instance import Instance
from assay.models import LM
from assay.view import create_app, write_bundle

COMMA = "strip, then first"
ANSWERS = ["#### 1", "1", "so it is 1", "nothing", "#### 1", "#### 2"]
"""The strict filter parses three of these, the one with a comma in its name five; they differ on docs 1 and 2."""
TASK = """
task: sums
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder}/docs.jsonl}}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{id}}}}?"
doc_to_target: "1"
filter_list:
  - name: strict
    filter: [{{function: regex, regex_pattern: "#### ([0-9]+)"}}, {{function: take_first}}]
  - name: "strip, then first"
    filter: [{{function: regex, regex_pattern: "([0-9]+)"}}, {{function: take_first}}]
metric_list: [{{metric: exact_match}}]
"""


class Scripted(LM):
    """Answers each doc with its line of `answers`."""

    answers = ANSWERS

    def generate_until(self, requests: Sequence[Instance]) -> list[str]:
        return [self.answers[request.doc["id"]] for request in requests]

    def loglikelihood(self, requests: Sequence[Instance]) -> list[tuple[float, bool]]:
        raise NotImplementedError

    def loglikelihood_rolling(self, requests: Sequence[Instance]) -> list[float]:
        raise NotImplementedError

    def fingerprint(self) -> str:
        return f"scripted-{self.answers}"


class Improved(Scripted):
    answers = ["#### 1"] * 6


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sums")
    (folder / "docs.jsonl").write_text("".join(json.dumps({"id": i}) + "\n" for i in range(6)))
    (folder / "sums.yaml").write_text(TASK.format(folder=folder))
    for model in (Scripted(), Improved()):
        assay.evaluate(
            model=model,
            tasks=["sums"],
            include_path=[str(folder)],
            include_defaults=False,
            run_dir=str(folder / "runs" / type(model).__name__),
            store=str(folder / "store.db"),
        )
    return folder / "runs"


@pytest.fixture(scope="module")
def client(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    app = create_app([runs], scratch=tmp_path_factory.mktemp("scratch"))
    with TestClient(app, base_url="http://127.0.0.1") as opened:
        yield opened


@pytest.fixture(scope="module")
def ids(client: TestClient) -> dict[str, str]:
    return {row["model"]: row["id"] for row in map(json.loads, client.get("/?download=jsonl").text.splitlines())}


def text_of(page: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page.replace("<wbr>", ""))).split())


def table_rows(page: str) -> list[str]:
    return [text_of(row) for row in re.findall(r"<tr.*?</tr>", page, re.DOTALL)]


def articles(page: str) -> list[str]:
    return [text_of(article) for article in re.findall(r"<article.*?</article>", page, re.DOTALL)]


def test_what_a_filter_could_not_parse_stands_on_its_own_row_only(client: TestClient, ids: dict[str, str]) -> None:
    rows = table_rows(client.get(f"/run/{ids['Scripted']}").text)
    remarks = {name: next(below for row, below in pairwise(rows) if name in row) for name in ("strict", COMMA)}
    assert "50% unparsed" in remarks["strict"]
    assert "17% unparsed" in remarks[COMMA]
    strict_card, comma_card = articles(client.get(f"/task/{ids['Scripted']}/sums").text)
    assert ("50% unparsed" in strict_card, "17% unparsed" in strict_card) == (True, False)
    assert ("50% unparsed" in comma_card, "17% unparsed" in comma_card) == (False, True)
    assert "If unparsed answers were all wrong or all right: 0.3333 to 0.8333" in strict_card
    assert not any("unparsed" in row for row in table_rows(client.get(f"/run/{ids['Improved']}").text))


def test_the_task_page_counts_the_docs_on_which_filters_disagree(client: TestClient, ids: dict[str, str]) -> None:
    page = text_of(client.get(f"/task/{ids['Scripted']}/sums").text)
    assert "Filters disagree 2" in page
    assert "On 2 docs the filters give different values of exact_match" in page
    listed = client.get(f"/samples/{ids['Scripted']}/sums?only=disagree&filter=*&download=jsonl").text.splitlines()
    assert {json.loads(line)["doc_id"] for line in listed} == {1, 2}
    assert "Filters disagree 0" in text_of(client.get(f"/task/{ids['Improved']}/sums").text)


def test_a_filter_with_a_comma_in_its_name_works_on_every_page(client: TestClient, ids: dict[str, str]) -> None:
    run = ids["Scripted"]
    scores = [json.loads(line) for line in client.get(f"/run/{run}?download=jsonl").text.splitlines()]
    assert [(row["metric"], row["filter"]) for row in scores] == [("exact_match", "strict"), ("exact_match", COMMA)]
    task = client.get(f"/task/{run}/sums", params={"filter": COMMA}).text
    assert f"exact_match, {COMMA}: 6 docs" in text_of(task)
    samples = client.get(f"/samples/{run}/sums", params={"filter": COMMA, "only": "wrong", "download": "jsonl"}).text
    assert [json.loads(line)["doc_id"] for line in samples.splitlines()] == [3, 5]
    assert COMMA in text_of(client.get(f"/sample/{run}/3/sums").text)
    for path in (f"/run/{run}", f"/task/{run}/sums", f"/samples/{run}/sums", f"/sample/{run}/3/sums"):
        assert "exact_match,strip" not in client.get(path).text


def test_two_runs_are_compared_under_such_a_filter(client: TestClient, ids: dict[str, str]) -> None:
    path = f"/compare?run={ids['Scripted']}&run={ids['Improved']}"
    lines = client.get(f"{path}&download=jsonl").text.splitlines()
    rows = {(row["metric"], row["filter"]): row for row in map(json.loads, lines)}
    assert rows["exact_match", COMMA]["difference"] == pytest.approx(2 / 6)
    assert rows["exact_match", "strict"]["difference"] == pytest.approx(4 / 6)
    page = client.get(f"{path}&metric={quote(f'exact_match ({COMMA})')}").text
    shown = [row for row in table_rows(page) if "exact_match" in row]
    assert len(shown) == 1
    assert f"exact_match ({COMMA})" in shown[0]
    gained = html.unescape(re.findall(r'href="(/samples/[^"]*only=gained[^"]*)"', page)[0])
    listed = client.get(f"{gained}&download=jsonl").text.splitlines()
    assert [json.loads(line)["doc_id"] for line in listed] == [3, 5]


def test_a_bundle_shows_it_too(runs: Path, tmp_path: Path) -> None:
    write_bundle([runs], tmp_path / "site")
    pages = {path.name.partition("-")[0]: text_of(path.read_text()) for path in (tmp_path / "site").glob("*.html")}
    for kind in ("run", "task", "compare"):
        assert re.search(rf"exact_match \(?{re.escape(COMMA)}", pages[kind]), kind
    assert COMMA in pages["docs"]
