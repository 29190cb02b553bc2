"""What models, docs, run directories and other web sites may try. Nothing of it acts."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from browsing import Tab
from starlette.testclient import TestClient

import assay
from assay.instance import Instance
from assay.models import LM
from assay.view import create_app
from assay.view.render import markdown, show, snippet
from assay.view.security import POLICY

PAYLOADS = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "<svg/onload=alert(1)>",
    "</script><script>alert(1)</script>",
    "</pre></main><h1>pwned</h1>",
    '[click](javascript:alert(1)) <a href="javascript:alert(1)">x</a>',
    "{{ 7 * 7 }} {% raw %} ${7*7}",
    "\x1b[31mred\x1b[0m \x1b]0;title\x07",
    "null\x00byte",
    "evil\u202egnp.exe \u2066x\u2069 zero\u200bwidth",
    "lone surrogate \ud800 here",
    '=HYPERLINK("http://evil")',
    "x" * 5_000_000,
    "']); DROP TABLE samples; --",
    "\\u003cscript\\u003e",
]


class Hostile(LM):
    """Answers with the attack that the doc names."""

    def generate_until(self, requests: Sequence[Instance]) -> list[str]:
        return [PAYLOADS[request.doc["id"]] for request in requests]

    def loglikelihood(self, requests: Sequence[Instance]) -> list[tuple[float, bool]]:
        raise NotImplementedError

    def loglikelihood_rolling(self, requests: Sequence[Instance]) -> list[float]:
        raise NotImplementedError

    def fingerprint(self) -> str:
        return "hostile"


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose model, docs, targets and aliases are all hostile."""
    folder = tmp_path_factory.mktemp("hostile")
    texts = [payload.encode("utf-8", "replace").decode() for payload in PAYLOADS]
    rows = [{"id": i, "question": text[:2000], "answer": text[:500]} for i, text in enumerate(texts)]
    (folder / "docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "task.yaml").write_text(
        f"task: attack\ntask_alias: '<img src=x onerror=alert(2)>'\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: {folder}/docs.jsonl}}}}\n"
        "test_split: test\noutput_type: generate_until\ndoc_to_text: question\ndoc_to_target: answer\nmetric_list: [{metric: exact_match}]\n"
    )
    out = tmp_path_factory.mktemp("hostile-runs")
    assay.evaluate(
        model=Hostile(),
        tasks=["attack"],
        include_path=[str(folder)],
        include_defaults=False,
        run_dir=str(out / "run"),
        store=str(folder / "store.db"),
    )
    return out


@pytest.fixture(scope="session")
def victim(hostile: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TestClient, str]]:
    with TestClient(create_app([hostile], scratch=tmp_path_factory.mktemp("s")), base_url="http://127.0.0.1") as client:
        run = json.loads(client.get("/?download=jsonl").text)["id"]
        yield client, run


TAGS = re.compile(r"<(script|img|svg|a)\b[^>]*>", re.IGNORECASE)


@pytest.mark.parametrize("number", range(len(PAYLOADS)))
@pytest.mark.parametrize("markdown_asked", ["", "?markdown=1"])
def test_no_payload_becomes_markup(victim: tuple[TestClient, str], number: int, markdown_asked: str) -> None:
    client, run = victim
    page = client.get(f"/sample/{run}/{number}/attack{markdown_asked}")
    assert page.status_code == 200
    assert "alert(1)>" not in page.text
    assert "<h1>pwned" not in page.text
    for tag in re.findall(r"<[a-zA-Z][^>]*>", page.text):
        assert not re.search(r"\son\w+\s*=", tag), tag
        assert "javascript:" not in tag
    assert len(page.text) < 400_000, "a long response is cut"
    for sign in ("\x1b", "\x00", "\x07", "\u202e", "\u2066", "\u200b"):
        assert sign not in page.text


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/run/{run}",
        "/task/{run}/attack",
        "/samples/{run}/attack",
        "/samples/{run}/attack?q=<script>alert(1)</script>",
    ],
)
def test_lists_and_titles_are_escaped_too(victim: tuple[TestClient, str], path: str) -> None:
    client, run = victim
    page = client.get(path.format(run=run)).text
    assert "<script>alert" not in page
    assert "<img" not in page
    assert page.count("<script") == len(re.findall(r'<script (src="/static/|type="application/json")', page))


def test_downloads_hold_the_text_itself_but_no_formula(victim: tuple[TestClient, str]) -> None:
    client, run = victim
    rows = [json.loads(line) for line in client.get(f"/samples/{run}/attack?download=jsonl").text.splitlines()]
    assert rows[0]["resps"] == [[PAYLOADS[0]]]
    assert len(rows[12]["resps"][0][0]) == 5_000_000
    table = client.get(f"/samples/{run}/attack?download=csv")
    assert table.headers["x-content-type-options"] == "nosniff"
    assert "\n=HYPERLINK" not in table.text
    assert ",=HYPERLINK" not in table.text


TRAVERSALS = [
    "../../etc/passwd",
    "..%2f..%2fetc%2fpasswd",
    "%2e%2e/%2e%2e/etc/passwd",
    "....//....//etc/passwd",
    "/etc/passwd",
    "\\..\\..\\etc\\passwd",
    "%00",
    "a\x00b",
]


@pytest.mark.parametrize("evil", TRAVERSALS)
@pytest.mark.parametrize(
    "path",
    [
        *(
            "/run/{}",
            "/live/{}",
            "/task/{}/attack",
            "/task/RUN/{}",
            "/samples/RUN/{}",
            "/sample/RUN/0/{}",
            "/static/{}",
            "/compare?run={}&run=RUN",
        ),
        *(
            "/samples/RUN/attack?against={}",
            "/samples/RUN/attack?filter={}",
            "/samples/RUN/attack?metric={}",
            "/sample/RUN/0/attack?against={}",
            "/?model={}",
        ),
    ],
)
def test_no_parameter_leads_out_of_the_directories(victim: tuple[TestClient, str], path: str, evil: str) -> None:
    client, run = victim
    safe = evil if "%" in evil else quote(evil, safe="/.\\" if "?" not in path else "")
    answer = client.get(path.replace("RUN", run).format(safe))
    assert answer.status_code in (200, 404)
    assert "root:" not in answer.text


SQL = [
    "' OR 1=1 --",
    '"; DROP TABLE x; --',
    "1); ATTACH '/etc/passwd' AS p; --",
    "metric:exact_match\" FROM read_csv('/etc/passwd') --",
    "doc_id); COPY (SELECT 1) TO 'OWNED'; --",
    "%' UNION SELECT * FROM read_text('/etc/passwd') --",
]


@pytest.mark.parametrize("evil", SQL)
@pytest.mark.parametrize(
    "name", ["q", "sort", "dir", "only", "filter", "metric", "page", "size", "at", "against", "deep"]
)
def test_no_parameter_reaches_the_database_as_words(
    victim: tuple[TestClient, str], name: str, evil: str, tmp_path: Path
) -> None:
    client, run = victim
    owned = tmp_path / "owned"
    answer = client.get(f"/samples/{run}/attack", params={name: evil.replace("OWNED", str(owned))})
    assert answer.status_code == 200
    assert "root:" not in answer.text
    count = re.search(r"([\d,]+) of 15 docs", answer.text)
    assert count is not None
    assert count[1] == ("0" if name == "q" else "15")
    assert not owned.exists()


def test_the_database_itself_opens_nothing_else(hostile: Path, tmp_path: Path) -> None:
    from assay.errors import DataError
    from assay.view.database import Database

    database = Database([hostile], tmp_path / "links")
    (tmp_path / "other.csv").write_text("a\n1\n")
    for statement in (
        f"SELECT * FROM read_csv('{tmp_path}/other.csv')",
        "SELECT * FROM read_text('/etc/passwd')",
        f"COPY (SELECT 1) TO '{tmp_path}/out.csv'",
        "SET enable_external_access = true",
        "SET memory_limit = '64GB'",
        "INSTALL httpfs",
    ):
        with pytest.raises(DataError, match="cannot be read"):
            database.rows(statement)
    assert not (tmp_path / "out.csv").exists()


def test_a_results_file_cannot_name_samples_outside_its_run(hostile: Path, tmp_path: Path) -> None:
    shutil.copytree(hostile / "run", tmp_path / "runs" / "evil")
    shutil.copyfile(hostile / "run" / "samples" / "attack.parquet", tmp_path / "secret.parquet")
    results = json.loads((tmp_path / "runs" / "evil" / "results.json").read_text())
    for name in ("../../secret.parquet", str(tmp_path / "secret.parquet"), "/etc/passwd", "run.json", "a\0b"):
        results["assay"]["tasks"]["attack"]["sample_file"] = name
        (tmp_path / "runs" / "evil" / "results.json").write_text(json.dumps(results))
        with TestClient(create_app([tmp_path / "runs"], scratch=tmp_path / "s"), base_url="http://127.0.0.1") as client:
            run = json.loads(client.get("/?download=jsonl").text)["id"]
            assert client.get(f"/samples/{run}/attack").status_code == 404


SCORE = ("tasks", "attack", "scores", 0)
BROKEN: list[tuple[tuple[Any, ...], Any]] = [
    ((), "no object"),
    (("format",), "two"),
    (("tasks",), ["attack"]),
    (("tasks", "attack", "alias"), ["<b>"]),
    (("tasks", "attack", "sample_len"), "many"),
    (("tasks", "attack", "sample_len"), 10**400),
    (("tasks", "attack", "sample_file"), 7),
    (("tasks", "attack", "scores"), {"exact_match,none": 1.0}),
    ((*SCORE, "value"), "0.5"),
    ((*SCORE, "metric"), None),
    ((*SCORE, "higher_is_better"), "yes"),
    (("tasks", "attack", "health", "unparsed"), 3),
    (("tasks", "attack", "health", "unparsed"), "strict"),
    (("tasks", "attack", "health", "truncated"), "<script>alert(1)</script>"),
    (("tasks", "attack", "health", "bounds"), [{"metric": "a"}]),
    (("roots",), 5),
    (("notes",), [["x"]]),
    (("model",), 5),
]


def reading(run: Path, scratch: Path) -> Iterator[Any]:
    """Answers of every page of the one run below a directory."""
    with TestClient(create_app([run], scratch=scratch), base_url="http://127.0.0.1") as client:
        run_id = json.loads(client.get("/?download=jsonl").text)["id"]
        yield client.get("/")
        for path in (f"/run/{run_id}", f"/task/{run_id}/attack", f"/samples/{run_id}/attack", f"/live/{run_id}"):
            yield client.get(path)
        yield client.get(f"/compare?run={run_id}&run={run_id}")


@pytest.mark.parametrize(("where", "value"), BROKEN, ids=lambda each: str(each)[:40])
def test_a_results_file_that_is_not_one_is_a_clear_page(
    hostile: Path, tmp_path: Path, where: tuple[Any, ...], value: Any
) -> None:
    shutil.copytree(hostile / "run", tmp_path / "runs" / "evil")
    results = json.loads((tmp_path / "runs" / "evil" / "results.json").read_text())
    place: Any = results
    for step in ("assay", *where)[:-1]:
        place = place[step]
    place[("assay", *where)[-1]] = value
    (tmp_path / "runs" / "evil" / "results.json").write_text(json.dumps(results))
    front, *pages = reading(tmp_path / "runs", tmp_path / "scratch")
    assert front.status_code == 200
    assert "unreadable" in front.text
    for page in pages[:4]:
        assert page.status_code == 422
        assert "results.json of this run cannot be read" in page.text
        assert "<script>alert" not in page.text


@pytest.mark.parametrize("text", ["", "[]", "null", "[" * 100_000, '{"assay": 1e999', '{"a": ' + "9" * 5000 + "}"])
@pytest.mark.parametrize("name", ["results.json", "run.json", "progress.json"])
def test_no_file_of_a_run_breaks_the_list_of_runs(hostile: Path, tmp_path: Path, name: str, text: str) -> None:
    shutil.copytree(hostile / "run", tmp_path / "runs" / "evil")
    (tmp_path / "runs" / "evil" / name).write_text(text)
    front, run_page, *_ = reading(tmp_path / "runs", tmp_path / "scratch")
    assert front.status_code == 200
    assert "unreadable" in front.text
    assert run_page.status_code == (200 if name == "progress.json" else 422)


def group(*children: str) -> dict[str, Any]:
    return {"alias": "g", "scores": [], "children": list(children), "version": "1", "has_aggregation": False}


@pytest.mark.parametrize(
    ("groups", "problem"),
    [
        ({"g0": group("g0")}, "contain each other"),
        ({"g0": group("g1"), "g1": group("attack", "g0")}, "contain each other"),
        ({f"g{i}": group(f"g{i + 1}") for i in range(5000)}, "deep"),
        ({f"g{i}": group(f"g{i + 1}", f"g{i + 1}") for i in range(40)}, "rows"),
    ],
)
def test_groups_that_would_never_end_as_a_table_are_refused(
    hostile: Path, tmp_path: Path, groups: dict[str, Any], problem: str
) -> None:
    shutil.copytree(hostile / "run", tmp_path / "runs" / "evil")
    results = json.loads((tmp_path / "runs" / "evil" / "results.json").read_text())
    results["assay"] |= {"groups": groups, "roots": ["g0"]}
    (tmp_path / "runs" / "evil" / "results.json").write_text(json.dumps(results))
    _, run_page, *_ = reading(tmp_path / "runs", tmp_path / "scratch")
    assert run_page.status_code == 422
    assert problem in run_page.text


@pytest.mark.parametrize(
    "results",
    [
        {"results": [1]},
        {"results": {"t": 5}},
        {"results": {"t": {"acc,none": 1}}, "configs": {"t": "x"}},
        {"results": {"t": {"acc,none": 1, "sample_len": "many"}}},
        {"results": {"g": {}}, "group_subtasks": {"g": ["g"]}, "configs": {}},
        {"results": {"t": {"acc,none": 1}}, "config": []},
    ],
)
def test_foreign_results_that_are_none_are_a_clear_page(tmp_path: Path, results: dict[str, Any]) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "results_x.json").write_text(json.dumps(results))
    front, run_page, *_ = reading(tmp_path / "runs", tmp_path / "scratch")
    assert front.status_code == 200
    assert "unreadable" in front.text
    assert run_page.status_code == 422
    assert "results_x.json of this run cannot be read" in run_page.text


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "evil.example:80", "0.0.0.0", ""])
def test_a_foreign_host_is_refused(victim: tuple[TestClient, str], host: str) -> None:
    client, run = victim
    answer = client.get(f"/run/{run}", headers={"host": host})
    assert answer.status_code == 421
    assert "Hostile" not in answer.text


@pytest.mark.parametrize("host", ["127.0.0.1:1234", "localhost:80", "LOCALHOST", "[::1]:8080"])
def test_our_own_names_are_answered(victim: tuple[TestClient, str], host: str) -> None:
    assert victim[0].get("/", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_can_be_sent(victim: tuple[TestClient, str], method: str) -> None:
    assert victim[0].request(method, "/").status_code == 405


def test_every_answer_carries_the_policy(victim: tuple[TestClient, str]) -> None:
    client, run = victim
    for path in ("/", f"/run/{run}", "/nowhere", "/static/app.js", f"/samples/{run}/attack?download=csv"):
        headers = client.get(path).headers
        assert headers["content-security-policy"] == POLICY
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
    assert "script-src 'self';" in POLICY
    assert "unsafe-eval" not in POLICY


def test_off_loopback_a_token_is_needed(hostile: Path, tmp_path: Path) -> None:
    app = create_app([hostile], scratch=tmp_path, host="0.0.0.0", token="sesame")
    with TestClient(app, base_url="http://box.lan:9000") as client:
        assert client.get("/").status_code == 403
        assert client.get("/?token=wrong").status_code == 403
        assert client.get("/", cookies={"assay_view": "wrong"}).status_code == 403
        client.cookies.clear()
        opened = client.get("/?q=x&token=sesame", follow_redirects=False)
        assert (opened.status_code, opened.headers["location"]) == (303, "/?q=x")
        assert "httponly" in opened.headers["set-cookie"].lower()
        assert "samesite=strict" in opened.headers["set-cookie"].lower()
        assert client.get("/").status_code == 200
    with pytest.raises(ValueError, match="token"):
        create_app([hostile], scratch=tmp_path, host="0.0.0.0")


def test_a_redirect_never_leaves_the_server(hostile: Path, tmp_path: Path) -> None:
    app = create_app([hostile], scratch=tmp_path, host="0.0.0.0", token="sesame")
    with TestClient(app, base_url="http://box.lan") as client:
        answer = client.get("http://box.lan//evil.example/?token=sesame", follow_redirects=False)
        assert answer.headers["location"].startswith("/")
        assert not answer.headers["location"].startswith("//")


def test_texts_are_made_visible() -> None:
    assert "␀" in show("\x00")
    assert "RIGHT-TO-LEFT OVERRIDE" in show("\u202e")
    assert show("a\tb\nc") == "a\tb\nc"
    assert "5 more characters" in show("x" * 15, 10)
    assert show("العربية and 中文 and 👩‍🔬".replace("\u200d", "")) == "العربية and 中文 and 👩🔬"
    assert snippet("a\n\n b" * 500).count("\n") == 0
    assert "<a" not in markdown("[x](javascript:alert(1)) ![y](http://z)")
    assert markdown("```\n<b>\n") == "<pre>&lt;b&gt;\n</pre>"


@pytest.mark.browser
def test_a_browser_runs_none_of_it(chromium: Any, hostile: Path, tmp_path: Path) -> None:
    from browsing import Server

    server = Server([hostile], tmp_path)
    context = chromium.new_context()
    tab = Tab(context.new_page(), server.address)
    try:
        tab.open("/")
        run = tab.page.locator("input[name=run]").get_attribute("value")
        paths = [
            "/",
            f"/run/{run}",
            f"/task/{run}/attack",
            f"/samples/{run}/attack",
            f"/samples/{run}/attack?q=%3Cscript%3Ealert(1)%3C/script%3E",
        ]
        paths += [f"/sample/{run}/{i}/attack?markdown={m}" for i in range(len(PAYLOADS)) for m in (0, 1)]
        for path in paths:
            tab.open(path)
            assert tab.page.locator("h1", has_text="pwned").count() == 0
            assert tab.page.locator("main img, main svg[onload], main a[href^=javascript]").count() == 0
        assert tab.complaints == []
    finally:
        context.close()
        server.stop()
