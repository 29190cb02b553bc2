"""People judge answers blind, and what they say is on disk at once."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.own_files import Told, write_task
from tests.scoring.judges.bench import run, write_bench
from tests.view.browsing import ARTEFACTS, LONGEST

from assay import evaluate
from assay.errors import ConfigError
from assay.results import RunDirectory
from assay.view import LabelBook, create_label_app, draw_gold_items, draw_items

pytest.importorskip("starlette")


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("judged")
    write_bench(folder, judged="scorer: {type: judge}", plain="")
    run(folder, "judged", run_dir=str(folder / "run"))
    run(folder, "judged", run_dir=str(folder / "other"), model_args={"plus": 1})
    run(folder, "plain", run_dir=str(folder / "plain"))
    return folder


def client(book: LabelBook) -> Any:
    from starlette.testclient import TestClient

    return TestClient(create_label_app(book, "secret"), base_url="http://127.0.0.1")


def test_the_page_shows_the_answer_and_not_the_judge(judged: Path, tmp_path: Path) -> None:
    book = LabelBook(tmp_path / "labels.jsonl", draw_items(RunDirectory.open(judged / "run"), 5))
    page = client(book).get("/secret").text
    item = book.next_item()
    assert item is not None
    assert dict(item.texts).keys() == {"question", "reference", "answer"}
    assert "Seen." not in page
    assert "<verdict>" not in page
    assert 'value="correct"' in page


def test_a_label_is_kept_and_the_next_answer_comes(judged: Path, tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    items = draw_items(RunDirectory.open(judged / "run"), 5)
    book = LabelBook(path, items)
    browser = client(book)
    for item in items[:2]:
        form = {"doc": item.doc_hash, "answer": item.answer_hash, "verdict": "incorrect"}
        assert browser.post("/secret/give", data=form, follow_redirects=False).status_code == 303
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["doc_hash"] for row in rows] == [item.doc_hash for item in items[:2]]
    assert LabelBook(path, items).next_item() == items[2], "another day it goes on there"
    browser.post("/secret/give", data={"back": "1"})
    assert LabelBook(path, items).next_item() == items[1]


def test_what_is_no_verdict_is_not_kept(judged: Path, tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    book = LabelBook(path, draw_items(RunDirectory.open(judged / "run"), 5))
    item = book.items[0]
    page = client(book).post(
        "/secret/give", data={"doc": item.doc_hash, "answer": item.answer_hash, "verdict": "maybe"}
    )
    assert "not a verdict on this scale" in page.text
    assert not path.exists()


def test_another_site_can_neither_read_nor_write(judged: Path, tmp_path: Path) -> None:
    book = LabelBook(tmp_path / "labels.jsonl", draw_items(RunDirectory.open(judged / "run"), 5))
    browser = client(book)
    assert browser.post("/guess/give", data={"back": "1"}).status_code == 405
    assert browser.get("/guess").status_code == 404
    assert browser.get("/secret", headers={"host": "evil.example"}).status_code >= 400


def test_two_runs_get_labels_on_the_same_docs(judged: Path) -> None:
    ours, theirs = (draw_items(RunDirectory.open(judged / name), 8) for name in ("run", "other"))
    assert [item.doc_hash for item in ours] == [item.doc_hash for item in theirs]
    assert [item.answer_hash for item in ours] != [item.answer_hash for item in theirs]
    ids = [int(dict(item.texts)["question"].rstrip("?")) for item in ours]
    assert ids != sorted(ids), "drawn, and not the first ones"


def test_a_run_without_a_judge_has_nothing_to_label(judged: Path) -> None:
    with pytest.raises(ConfigError, match="no judged answers"):
        draw_items(RunDirectory.open(judged / "plain"), 5)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of choice questions, of texts and of a Python-like wording whose choices stand in another order."""
    folder = tmp_path_factory.mktemp("published")
    docs = [{"q": f"What is {i} + 1?", "c": [str(i), str(i + 1), str(i + 2)], "gold": i % 3} for i in range(30)]
    fields: dict[str, Any] = {"doc_to_text": "Question: {{q}}\nAnswer:", "doc_to_choice": "c", "doc_to_target": "gold"}
    write_task(folder, docs, name="sums", output_type="multiple_choice", **fields)
    write_task(folder, docs, name="texts", output_type="generate_until", doc_to_text="q", doc_to_target="{{c[gold]}}")
    evaluate(model=Told(), tasks=["sums:mc", "texts"], include_path=[str(folder)], run_dir=str(folder / "run"))
    return folder


def test_gold_answers_are_checked_blind_to_what_models_answered(published: Path, tmp_path: Path) -> None:
    run = RunDirectory.open(published / "run")
    items = draw_gold_items(run, 10, ["sums:mc"])
    assert [item.doc_hash for item in items] == [item.doc_hash for item in draw_gold_items(run, 10, ["sums:mc"])]
    assert draw_gold_items(run, 10, ["sums:mc"], {items[0].doc_hash: 0.5})
    with pytest.raises(ConfigError, match="none of the docs"):
        draw_gold_items(run, 10, ["sums:mc"], {"0" * 16: 0.5})
    assert [item.weight for item in items] == [pytest.approx(3.0)] * 10
    book = LabelBook(tmp_path / "gold.jsonl", items)
    browser = client(book)
    page = browser.get("/secret").text
    shown = dict(items[0].texts)
    number = int(re.findall(r"\d+", shown["question"])[0])
    assert shown["question"] == f"What is {number} + 1?"
    assert shown["choices"] == f"A. {number}\nB. {number + 1}\nC. {number + 2}"
    assert shown["published answer"] == f"{'ABC'[number % 3]}. {number + number % 3}"
    assert "What models answered is not shown" in page
    for item, verdict in zip(items, ["right", "wrong 1", "wrong", "ambiguous", "cannot tell"]):
        if verdict == "wrong 1" and item.gold == 1:
            verdict = "right"
        assert book.give(item, verdict)
    assert not book.give(items[5], f"wrong {items[5].gold}"), "the published answer is not another one"
    assert not book.give(items[5], "wrong 3")
    rows = [json.loads(line) for line in (tmp_path / "gold.jsonl").read_text().splitlines()]
    assert [row["gold"] for row in rows[2:]] == ["wrong", "ambiguous", "cannot tell"]
    assert {row["task"] for row in rows} == {"sums"}, "serves all wordings"


def test_gold_answers_that_are_texts_are_typed(published: Path, tmp_path: Path) -> None:
    items = draw_gold_items(RunDirectory.open(published / "run"), 5, ["texts"])
    book = LabelBook(tmp_path / "gold.jsonl", items)
    page = client(book)
    assert "the right answer is" in page.get("/secret").text
    page.post("/secret/give", data={"doc": items[0].doc_hash, "answer": "", "verdict": "17"})
    assert json.loads((tmp_path / "gold.jsonl").read_text())["answer"] == "17"


def test_docs_with_larger_chances_are_drawn_more_often_and_stand_for_fewer(published: Path) -> None:
    run = RunDirectory.open(published / "run")
    suspects = {item.doc_hash: 1.0 for item in draw_gold_items(run, 10, ["sums:mc"])[5:]}
    others = {item.doc_hash: 0.1 for item in draw_gold_items(run, 30, ["sums:mc"]) if item.doc_hash not in suspects}
    drawn = draw_gold_items(run, 6, ["sums:mc"], {**suspects, **others})
    assert sum(item.doc_hash in suspects for item in drawn) >= 3
    weights = {item.doc_hash in suspects: item.weight for item in drawn}
    assert all(weights[True] < each.weight for each in drawn if each.doc_hash not in suspects)


def test_a_larger_draw_holds_the_smaller_one_and_weighs_it_anew(published: Path, tmp_path: Path) -> None:
    run, path = RunDirectory.open(published / "run"), tmp_path / "gold.jsonl"
    first = LabelBook(path, draw_gold_items(run, 5, ["sums:mc"]))
    assert all(first.give(item, "right") for item in first.items)
    more = LabelBook(path, draw_gold_items(run, 10, ["sums:mc"]))
    assert more.items[:5] == [replace(item, weight=3.0) for item in first.items]
    more.give(more.items[5], "right")
    weights = [json.loads(line)["weight"] for line in path.read_text().splitlines()]
    assert weights == [3.0] * 6


def test_labels_of_both_kinds_may_share_a_file(judged: Path, published: Path, tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    answers = LabelBook(path, draw_items(RunDirectory.open(judged / "run"), 2))
    answers.give(answers.items[0], "correct")
    gold = LabelBook(path, draw_gold_items(RunDirectory.open(published / "run"), 2, ["sums:mc"]))
    gold.give(gold.items[0], "right")
    assert len(path.read_text().splitlines()) == 2
    assert len(LabelBook(path, answers.items).given) == len(LabelBook(path, gold.items).given) == 1


def test_keys_give_verdicts_in_a_browser(judged: Path, tmp_path: Path, chromium: Any) -> None:
    import socket
    import threading
    import time

    import uvicorn
    from playwright.sync_api import expect

    path = tmp_path / "labels.jsonl"
    book = LabelBook(path, draw_items(RunDirectory.open(judged / "run"), 3))
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(create_label_app(book, "secret"), log_level="warning"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    try:
        page = chromium.new_page()
        page.goto(f"http://127.0.0.1:{listener.getsockname()[1]}/secret")
        ARTEFACTS.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=str(ARTEFACTS / "label.png"), full_page=True)
        for key, done in (("1", 1), ("2", 2), ("u", 1), ("2", 2), ("1", 3)):
            page.wait_for_load_state("load")  # the answer is on the page, and its keys are listened to
            page.keyboard.press(key)
            expect(page).to_have_title(re.compile(f"{done}/3"), timeout=LONGEST)
        expect(page.locator("body")).to_contain_text("All labelled", timeout=LONGEST)
        page.close()
    finally:
        server.should_exit = True
        thread.join(10)
    assert [json.loads(line)["verdict"] for line in path.read_text().splitlines()] == [
        "correct",
        "incorrect",
        "correct",
    ]
