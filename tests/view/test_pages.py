"""Every page over HTTP: what it says, that its links lead somewhere, and what it lets one download."""

from __future__ import annotations

import csv
import html
import io
import json
import re
import shutil
import time
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import assay
from assay.instance import Instance, Message
from assay.results import SampleRow, SampleWriter, pack_arguments
from assay.view import create_app
from assay.view.library import Library, find_runs


def text_of(page: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", " ", page))


def test_the_list_shows_every_kind_of_run(client: TestClient) -> None:
    page = client.get("/").text
    for word in ("sharp-7b", "blunt-1b", "live-3b", "foreign-1b", "running 40 %", "imported", "General ability"):
        assert word in text_of(page)


def test_runs_that_are_selected_can_be_shown_on_every_page_for_several(client: TestClient) -> None:
    dock = client.get("/").text.partition("data-dock")[2].partition("</div>")[0]
    assert re.findall(r"<button[^>]*>(\w+)<", dock) == ["Compare", "Explain", "Rank"], "the first is that of the key c"
    assert re.findall(r'formaction="/(\w+)"', dock) == ["explain", "rank"]


def test_with_every_filter_the_list_counts_rows_and_not_docs(client: TestClient, ids: dict[str, str]) -> None:
    page = text_of(client.get(f"/samples/{ids['sharp-7b']}/word_problems?filter=*").text)
    assert "120 of 120 rows" in page
    assert "60 of 60 docs" in text_of(client.get(f"/samples/{ids['sharp-7b']}/word_problems").text)


def test_a_run_that_cannot_be_read_says_why_in_full_and_can_be_opened(tmp_path: Path) -> None:
    (tmp_path / "runs" / "broken").mkdir(parents=True)
    (tmp_path / "runs" / "broken" / "results.json").write_text('{"results": 3}')
    (tmp_path / "runs" / "broken" / "run.json").write_text('{"status": "finished"}')
    app = create_app([tmp_path / "runs"], scratch=tmp_path)
    with TestClient(app, base_url="http://127.0.0.1:8000") as client:
        page = client.get("/").text
    assert re.search(r'<a href="/run/[^"]+" data-open>broken</a>', page), "it has no model to be named by"
    assert 'class="pill bad whole"' in page
    assert "<option selected></option>" not in page, "nobody can choose a model without a name"


def test_the_list_narrows_and_sorts(client: TestClient) -> None:
    def models(query: str) -> list[str]:
        return [json.loads(line)["model"] for line in client.get(f"/?download=jsonl&{query}").text.splitlines()]

    assert models("q=sharp") == ["sharp-7b"]
    assert models("model=blunt-1b") == ["blunt-1b"]
    assert set(models("task=word")) == {"sharp-7b", "blunt-1b"}
    assert models("to=2026-01-31") == ["foreign-1b"]
    assert "foreign-1b" not in models("from=2026-02-01")
    assert models("sort=model&dir=asc") == ["blunt-1b", "foreign-1b", "live-3b", "sharp-7b"]
    assert models("sort=score&dir=desc")[:2] == ["sharp-7b", "foreign-1b"]
    assert models("q=nothing+like+this") == []
    assert "No run matches" in client.get("/?q=nothing").text


def test_a_run_shows_tree_intervals_health_and_surroundings(client: TestClient, ids: dict[str, str]) -> None:
    page = text_of(client.get(f"/run/{ids['sharp-7b']}").text)
    for word in (
        "General ability",
        "Knowledge",
        "capitals",
        "shots",
        "strict-match",
        "unparsed",
        "Configuration",
        "Environment",
        "ask and score",
        "min",
    ):
        assert word in page


def test_a_run_in_progress_shows_how_far_it_is(client: TestClient, ids: dict[str, str]) -> None:
    page = text_of(client.get(f"/run/{ids['live-3b']}").text)
    assert "40 of 100 docs" in " ".join(page.split())
    assert "0.6250" in page
    assert "judging 12/30" in page
    part = client.get(f"/live/{ids['live-3b']}").text
    assert 'data-finished="no"' in part
    assert "<html" not in part


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ("capitals", ["acc_norm", "Calibration", "By prompt length", "wilson", "Wrong only", "Guessing gives"]),
        (
            "word_problems",
            ["strict-match", "flexible-extract", "unparsed", "Filters disagree", "all wrong or all right"],
        ),
        ("general", ["acc: mean of 2", "capitals", "not in it: has no acc", "min"]),
    ],
)
def test_a_task_shows_scores_plots_and_what_a_group_is_made_of(
    client: TestClient, ids: dict[str, str], task: str, words: list[str]
) -> None:
    page = text_of(client.get(f"/task/{ids['sharp-7b']}/{task}").text)
    for word in words:
        assert word in page


def test_a_task_that_is_called_by_its_name_is_named_once(client: TestClient, ids: dict[str, str]) -> None:
    def facts(task: str) -> str:
        page = client.get(f"/task/{ids['sharp-7b']}/{task}").text
        return text_of("".join(re.findall(r'<p class="facts muted">.*?</p>', page))).strip()

    assert facts("capitals") == "112 docs"
    assert facts("knowledge") == "knowledge"


def sample_rows(client: TestClient, path: str) -> list[dict[str, object]]:
    return [
        json.loads(line)
        for line in client.get(path + ("&" if "?" in path else "?") + "download=jsonl").text.splitlines()
    ]


def test_samples_are_paged_sorted_filtered_and_searched(client: TestClient, ids: dict[str, str]) -> None:
    base = f"/samples/{ids['sharp-7b']}/capitals"
    everything = sample_rows(client, base)
    assert len(everything) == 112
    assert "page 1 of 3" in client.get(base).text
    assert "page 3 of 3" in client.get(f"{base}?page=3").text
    wrong = sample_rows(client, f"{base}?only=wrong")
    right = sample_rows(client, f"{base}?only=right")
    assert len(wrong) + len(right) == 112
    assert {row["acc"] for row in wrong} == {0.0}
    assert [row["doc_id"] for row in sample_rows(client, f"{base}?dir=desc")] == list(range(111, -1, -1))
    by_score = [row["acc"] for row in sample_rows(client, f"{base}?sort=metric:acc&dir=desc")]
    assert by_score == sorted(by_score, reverse=True)
    found = sample_rows(client, f"{base}?q=PORTUGAL")
    assert found
    assert all("Portugal" in json.dumps(row) for row in found)
    assert "No samples match" in client.get(f"{base}?q=Atlantis").text
    assert len(sample_rows(client, f"{base}?q=Portugal&only=wrong")) + len(
        sample_rows(client, f"{base}?q=Portugal&only=right")
    ) == len(found)


def test_a_search_finds_text_with_quotes_newlines_and_unicode(client: TestClient, ids: dict[str, str]) -> None:
    base = f"/samples/{ids['sharp-7b']}/word_problems"
    assert len(sample_rows(client, f"{base}?q=coins.%0A%23%23%23%23")) > 10
    assert len(sample_rows(client, f"{base}?q=%C3%97")) == 60, "the multiplication sign"
    assert sample_rows(client, f"{base}?q=%25") == [], "no wildcard"
    assert sample_rows(client, f"{base}?q=_rolls") == []


def test_samples_by_flag_by_filter_and_by_disagreement(client: TestClient, ids: dict[str, str]) -> None:
    base = f"/samples/{ids['sharp-7b']}/word_problems"
    unparsed = sample_rows(client, f"{base}?only=unparsed")
    assert unparsed
    assert all("unparsed" in row["flags"] for row in unparsed)  # type: ignore[operator]
    assert {row["filter"] for row in sample_rows(client, base)} == {"strict-match"}
    assert {row["filter"] for row in sample_rows(client, f"{base}?filter=flexible-extract")} == {"flexible-extract"}
    each = sample_rows(client, f"{base}?filter=*")
    assert len(each) == 120
    disagree = sample_rows(client, f"{base}?only=disagree&filter=*")
    by_doc: dict[object, set[object]] = {}
    for row in disagree:
        by_doc.setdefault(row["doc_id"], set()).add(row["exact_match"])
    assert by_doc
    assert all(values == {0.0, 1.0} for values in by_doc.values())


def test_flips_against_another_run(client: TestClient, ids: dict[str, str]) -> None:
    sharp, blunt = ids["sharp-7b"], ids["blunt-1b"]

    def docs(run: str, query: str) -> set[object]:
        return {row["doc_id"] for row in sample_rows(client, f"/samples/{run}/capitals?{query}")}

    right = {run: docs(run, "only=right") for run in (sharp, blunt)}
    assert docs(sharp, f"only=gained&against={blunt}") == right[blunt] - right[sharp]
    assert docs(sharp, f"only=lost&against={blunt}") == right[sharp] - right[blunt]
    assert docs(sharp, f"only=flips&against={blunt}") == right[sharp] ^ right[blunt]
    assert docs(sharp, "only=flips") == set(), "against nothing"
    assert "Choose the run" in client.get(f"/samples/{sharp}/capitals?only=flips").text


def test_flips_are_found_by_content_where_the_order_differs(benchmark: Path, runs: Path, tmp_path: Path) -> None:
    import material

    lines = (benchmark / "capitals.jsonl").read_text().splitlines()
    shuffled = tmp_path / "benchmark"
    shuffled.mkdir()
    for path in benchmark.iterdir():
        (shuffled / path.name).write_text(path.read_text().replace(str(benchmark), str(shuffled)))
    (shuffled / "capitals.jsonl").write_text("\n".join(lines[::-1][:100]) + "\n")
    material.make_run(shuffled, tmp_path / "runs" / "b", "blunt-1b", 0.45)
    material.make_run(benchmark, tmp_path / "runs" / "a", "sharp-7b", 0.62)
    with TestClient(create_app([tmp_path / "runs"], scratch=tmp_path / "s"), base_url="http://localhost") as client:
        ids = {row["model"]: row["id"] for row in map(json.loads, client.get("/?download=jsonl").text.splitlines())}

        def right(model: str) -> set[object]:
            return {row["doc_hash"] for row in sample_rows(client, f"/samples/{ids[model]}/capitals?only=right")}

        common = {row["doc_hash"] for row in sample_rows(client, f"/samples/{ids['blunt-1b']}/capitals")}
        found = sample_rows(client, f"/samples/{ids['sharp-7b']}/capitals?only=flips&against={ids['blunt-1b']}")
        assert {row["doc_hash"] for row in found} == (right("sharp-7b") ^ right("blunt-1b")) & common
        assert (
            client.get(f"/sample/{ids['sharp-7b']}/{found[0]['doc_id']}/capitals?against={ids['blunt-1b']}").text.count(
                'class="choices"'
            )
            == 2
        )


def test_a_choice_sample_shows_prompt_choices_target_and_metrics(client: TestClient, ids: dict[str, str]) -> None:
    page = client.get(f"/sample/{ids['sharp-7b']}/3/capitals").text
    shown = text_of(page)
    for word in (
        "3 examples before the question",
        "Question: What is the capital of",
        "target",
        "picked by acc",
        "share of probability · log-likelihood",
        "acc_norm",
        "Doc",
        "prompt characters",
    ):
        assert word in shown
    assert page.count('<li class="') == 4
    assert len(re.findall(r"\d+\.\d %", shown)) == 4


def test_a_generation_sample_shows_what_each_filter_did(client: TestClient, ids: dict[str, str]) -> None:
    shown = text_of(client.get(f"/sample/{ids['sharp-7b']}/3/word_problems").text)
    for word in (
        "First count the rolls",
        "strict-match",
        "flexible-extract",
        "regex  #### (-?[0-9]+)",
        "#### (-?[0-9]+)",
        "take_first",
        "Generation settings",
    ):
        assert word in shown


def test_a_conversation_with_reasoning_tools_and_a_judge_is_shown_whole(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "sharp-7b" / "2026-11-15", tmp_path / "run")
    first = (Message("user", "Name a city."),)
    second = (*first, Message("assistant", "Oslo."), Message("user", "And its <i>country</i>?"))
    asked = [Instance("generate_until", {}, (context, {}), i) for i, context in enumerate((first, second))]
    writer = SampleWriter(tmp_path / "run" / "samples" / "word_problems.parquet")
    writer.add(
        SampleRow(
            doc_id=0,
            doc_hash="d",
            request_hash="r",
            filter="strict-match",
            doc="{}",
            target='"Norway"',
            arguments=pack_arguments(asked),
            resps='[["Oslo."], ["Norway."]]',
            filtered_resps='["Norway."]',
            extras='[[null], [{"reasoning": "Oslo is in Norway.", "tool_calls": [{"name": "look_up"}]}]]',
            questions='[{"about": 1, "role": "judge", "arguments": ["Is it right?", {}], "resps": ["Yes, it is."]}]',
        )
    )
    writer.close()
    with TestClient(create_app([tmp_path], scratch=tmp_path / ".s"), base_url="http://localhost") as client:
        run = json.loads(client.get("/?download=jsonl").text)["id"]
        shown = " ".join(text_of(client.get(f"/sample/{run}/0/word_problems").text).split())
        rows = sample_rows(client, f"/sample/{run}/0/word_problems")
    for words in (
        "user Name a city.",
        "user And its <i>country</i>?",
        "Reasoning · 18 characters Oslo is in Norway.",
        "1 tool call",
        "look_up",
        "judge Yes, it is. What it was asked · 12 characters Is it right?",
    ):
        assert words in shown
    assert rows[0]["arguments"][0][0] == '[{"role": "user", "content": "Name a city."}]'  # type: ignore[index]


def test_two_runs_side_by_side_on_one_doc(client: TestClient, ids: dict[str, str]) -> None:
    page = client.get(f"/sample/{ids['sharp-7b']}/3/capitals?against={ids['blunt-1b']}").text
    assert page.count('class="choices"') == 2
    assert "blunt-1b" in page


def test_next_and_previous_follow_the_list(client: TestClient, ids: dict[str, str]) -> None:
    base = f"/samples/{ids['sharp-7b']}/capitals?only=wrong"
    wrong = [row["doc_id"] for row in sample_rows(client, base)]
    page = client.get(f"/sample/{ids['sharp-7b']}/{wrong[1]}/capitals?only=wrong&at=1").text
    assert f"/sample/{ids['sharp-7b']}/{wrong[0]}/capitals" in page
    assert f"/sample/{ids['sharp-7b']}/{wrong[2]}/capitals" in page
    first = client.get(f"/sample/{ids['sharp-7b']}/{wrong[0]}/capitals?only=wrong&at=0").text
    assert "Previous" not in text_of(first)


def test_markdown_is_shown_as_text_unless_asked_for(client: TestClient, ids: dict[str, str]) -> None:
    path = f"/sample/{ids['sharp-7b']}/0/word_problems"
    assert 'class="md"' not in client.get(path).text
    assert 'class="md"' in client.get(f"{path}?markdown=1").text


def compared(client: TestClient, path: str) -> str:
    for _ in range(200):
        page = client.get(path).text
        if "Computing …" not in page:
            return page
    raise AssertionError("the comparison never came")


def test_compare_shows_paired_differences_by_group(client: TestClient, ids: dict[str, str]) -> None:
    path = f"/compare?run={ids['blunt-1b']}&run={ids['sharp-7b']}"
    page = compared(client, path)
    shown = text_of(page)
    for word in ("General ability", "Knowledge", "capitals", "better", "Holm", "B − A"):
        assert word in shown
    rows = [json.loads(line) for line in client.get(f"{path}&download=jsonl").text.splitlines()]
    capitals = next(row for row in rows if (row["name"], row["metric"], row["filter"]) == ("capitals", "acc", "none"))
    assert capitals["difference"] == pytest.approx(capitals["b"] - capitals["a"])
    assert capitals["low"] < capitals["difference"] < capitals["high"]
    assert capitals["verdict"] == "better"
    only = compared(client, f"{path}&metric=acc_norm")
    assert 'data-of="metric">acc_norm' in only
    assert 'data-of="metric">exact_match' not in only


def test_compare_of_one_run_asks_for_another_and_of_strangers_says_why(client: TestClient, ids: dict[str, str]) -> None:
    assert "Choose two or more" in client.get("/compare").text
    assert "Choose two or more" in client.get(f"/compare?run={ids['sharp-7b']}").text
    page = compared(client, f"/compare?run={ids['sharp-7b']}&run={ids['foreign-1b']}")
    assert "cannot be compared" in page
    assert "no task in common: sharp-7b has capitals" in text_of(page)
    assert client.get(f"/compare?run={ids['sharp-7b']}&run={ids['live-3b']}").status_code == 404


def test_results_of_lm_evaluation_harness_are_shown_like_ours(client: TestClient, ids: dict[str, str]) -> None:
    run = ids["foreign-1b"]
    assert "0.6667" in client.get(f"/run/{run}").text
    assert len(sample_rows(client, f"/samples/{run}/tiny")) == 3
    assert "picked by acc" in client.get(f"/sample/{run}/0/tiny").text


@pytest.mark.parametrize(
    "path",
    ["/", "/run/{run}", "/task/{run}/capitals", "/samples/{run}/capitals?only=wrong", "/sample/{run}/3/capitals"],
)
def test_everything_can_be_downloaded(client: TestClient, ids: dict[str, str], path: str) -> None:
    address = path.format(run=ids["sharp-7b"])
    sign = "&" if "?" in address else "?"
    lines = client.get(f"{address}{sign}download=jsonl")
    rows = [json.loads(line) for line in lines.text.splitlines()]
    table = client.get(f"{address}{sign}download=csv")
    read = list(csv.DictReader(io.StringIO(table.text)))
    assert len(rows) == len(read) > 0
    assert list(rows[0]) == list(read[0])
    assert "attachment" in table.headers["content-disposition"]
    assert table.headers["content-type"].startswith("text/csv")


def test_every_link_of_every_page_leads_somewhere(client: TestClient, ids: dict[str, str]) -> None:
    waiting = ["/", f"/compare?run={ids['blunt-1b']}&run={ids['sharp-7b']}"]
    seen: set[str] = set()
    kinds: dict[str, int] = {}
    while waiting:
        address = waiting.pop()
        kind = address.split("/")[1].split("?")[0] or "runs"
        if address in seen or kinds.get(kind, 0) >= 25:
            continue
        seen.add(address)
        kinds[kind] = kinds.get(kind, 0) + 1
        answer = client.get(address)
        assert answer.status_code == 200, address
        if "html" in answer.headers["content-type"]:
            waiting += [html.unescape(link) for link in re.findall(r'href="(/[^"]*)"', answer.text)]
    assert set(kinds) >= {"runs", "run", "task", "samples", "sample", "compare", "static"}


@pytest.mark.parametrize(
    "path",
    [
        "/run/nowhere",
        "/task/{run}/nothing",
        "/samples/{run}/general",
        "/sample/{run}/99999/capitals",
        "/sample/{run}/x/capitals",
        "/nowhere",
    ],
)
def test_what_is_not_there_is_a_page_that_says_so(client: TestClient, ids: dict[str, str], path: str) -> None:
    answer = client.get(path.format(run=ids["sharp-7b"]))
    assert answer.status_code == 404
    assert "<h1>Not found</h1>" in answer.text


def test_damaged_files_are_shown_as_such_and_do_not_hide_the_rest(runs: Path, tmp_path: Path) -> None:

    shutil.copytree(runs / "sharp-7b" / "2026-11-15", tmp_path / "good")
    shutil.copytree(runs / "sharp-7b" / "2026-11-15", tmp_path / "cut")
    (tmp_path / "cut" / "samples" / "capitals.parquet").write_bytes(b"PAR1 but not quite")
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "run.json").write_text('{"format": 1, "sta')
    (tmp_path / "torn" / "results.json").write_text("[]")
    with TestClient(create_app([tmp_path], scratch=tmp_path / ".scratch"), base_url="http://localhost") as client:
        page = client.get("/").text
        assert page.count("sharp-7b") >= 2
        assert "unreadable" in page
        rows = {row["run"]: row["id"] for row in map(json.loads, client.get("/?download=jsonl").text.splitlines())}
        broken = client.get(f"/samples/{rows['cut']}/capitals")
        assert broken.status_code == 422
        assert "cannot be read" in broken.text
        assert client.get(f"/samples/{rows['cut']}/elements").status_code == 200


def test_links_in_the_directory_are_not_followed_out_of_it(tmp_path: Path) -> None:
    (tmp_path / "outside" / "run").mkdir(parents=True)
    (tmp_path / "outside" / "run" / "run.json").write_text("{}")
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "link").symlink_to(tmp_path / "outside")
    assert list(find_runs(tmp_path / "inside")) == []
    assert len(list(find_runs(tmp_path / "outside"))) == 1


def test_runs_without_numbers_can_be_looked_at_too(benchmark: Path, tmp_path: Path) -> None:
    import material

    import assay

    model = material.Pupil("mute", 0.5)
    assay.evaluate(
        model=model,
        tasks=["general"],
        include_path=[str(benchmark)],
        include_defaults=False,
        predict_only=True,
        run_dir=str(tmp_path / "runs" / "a"),
        store=str(tmp_path / "a.db"),
    )
    with TestClient(create_app([tmp_path / "runs"], scratch=tmp_path / "s"), base_url="http://localhost") as client:
        run = json.loads(client.get("/?download=jsonl").text)["id"]
        for path in (
            "/run/{}",
            "/task/{}/capitals",
            "/samples/{}/capitals?only=wrong&sort=metric:acc",
            "/sample/{}/1/capitals",
            "/sample/{}/1/word_problems",
        ):
            assert client.get(path.format(run)).status_code == 200, path


def test_a_run_that_died_is_not_running_for_as_long_as_the_server_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    for name, status in (("killed", "running"), ("stopped", "interrupted"), ("broken", "failed")):
        (tmp_path / name).mkdir()
        about = {"format": 1, "status": status, "date": now, "config": {"tasks": ["t"]}}
        (tmp_path / name / "run.json").write_text(json.dumps(about))
    library = Library([tmp_path], tmp_path / "scratch")

    def statuses() -> dict[str, str]:
        return {run.name: library.summary(run).status for run in library.runs()}

    assert statuses() == {"killed": "running", "stopped": "interrupted", "broken": "failed"}
    monkeypatch.setattr("assay.view.library.time.time", lambda: now + 1000)
    assert statuses()["killed"] == "stopped"


def test_runs_are_ranked_with_bars_and_pairs(client: TestClient, ids: dict[str, str]) -> None:
    address = f"/rank?run={ids['blunt-1b']}&run={ids['sharp-7b']}"
    rows = [json.loads(line) for line in client.get(f"{address}&download=jsonl").text.splitlines()]
    assert rows[0]["run"] == "sharp-7b"
    assert {(row["rank_low"], row["rank_high"]) for row in rows} <= {(1, 1), (2, 2), (1, 2)}
    page = client.get(address).text
    assert "sharp-7b − blunt-1b: +" in html.unescape(page)
    assert f"/run/{ids['sharp-7b']}" in page
    assert "Choose two or more runs" in client.get(f"/rank?run={ids['sharp-7b']}").text
    assert client.get("/rank?run=nothing&run=here").status_code == 404


def test_runs_that_cannot_be_ranked_say_why(client: TestClient, ids: dict[str, str]) -> None:
    address = f"/rank?run={ids['foreign-1b']}&run={ids['sharp-7b']}"
    client.get(f"{address}&download=jsonl")
    assert "cannot be ranked" in client.get(address).text


FALLING = """
task: bits
dataset_path: json
dataset_kwargs: {data_files: {test: %s/bits.jsonl}}
test_split: test
output_type: multiple_choice
style: bpb
doc_to_text: "{{q}}"
doc_to_choice: ["{{a}}"]
doc_to_target: 0
"""


def test_what_is_better_when_smaller_is_neither_right_nor_wrong(tmp_path: Path) -> None:
    rows = [{"q": f"Spiders number {i} have", "a": "eight legs"} for i in range(6)]
    (tmp_path / "bits.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "bits.yaml").write_text(FALLING % tmp_path)
    words = {"include_path": [str(tmp_path)], "include_defaults": False, "store": str(tmp_path / "s.db")}
    assay.evaluate(model="dummy", tasks=["bits"], run_dir=str(tmp_path / "runs" / "one"), **words)
    app = create_app([tmp_path / "runs"], scratch=tmp_path)
    with TestClient(app, base_url="http://127.0.0.1:8000") as client:
        run = json.loads(client.get("/?download=jsonl").text.splitlines()[0])["id"]
        task, samples, sample = (
            client.get(f"/{kind}/bits").text for kind in (f"task/{run}", f"samples/{run}", f"sample/{run}/0")
        )
    assert "Wrong only" not in task
    assert '<option value="wrong"' not in samples
    for page in (samples, sample):
        assert 'class="score "' in page
        assert "score good" not in page
        assert "score bad" not in page
    assert "Continuation" in sample, "one continuation is no choice: its share says nothing"
    assert "100.0 %" not in sample
