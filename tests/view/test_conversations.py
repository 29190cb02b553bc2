"""Conversations of others' logs: images, what each message took, and two of them from the first difference on."""

from __future__ import annotations

from pathlib import Path

from tests.finished.test_genuine import GENUINE, opened

from assay.finished import sample_rows
from assay.view.conversations import two_ways
from assay.view.prompts import Turn
from assay.view.sample_view import SampleView, present
from assay.view.server import html
from assay.view.site import Site
from assay.view.task_pages import sample_page


def shown(name: str, task: str, doc: int = 0) -> SampleView:
    rows = [row for row in sample_rows(opened(name), task) if row["doc_id"] == doc]
    return present(rows, {}, 0)


def said(turn: Turn | None) -> str | None:
    return None if turn is None else turn.text.strip()


def test_images_stay_images_and_thoughts_are_told_apart() -> None:
    asked, first, *_ = shown("inspect/looks_on", "pictures").responses[0].conversation
    assert asked.pictures[0].source.startswith("data:image/png;base64,iVBOR")
    assert asked.text == "What is dot 1? [image]"
    assert first.text == "[reasoning] A dot. What is it called?\n\n I look it up."


def test_every_message_tells_its_tokens_and_seconds_where_the_log_does() -> None:
    for name, task in (("inspect/looks_on", "pictures"), ("verifiers/good", "verifiers_logs")):
        turns = shown(name, task).responses[0].conversation
        assert all({"tokens", "seconds"} <= turn.took.keys() for turn in turns if turn.role == "assistant"), name
    assert [*shown("inspect/looks_on", "pictures").responses[0].conversation[2].took] == ["seconds"]


def test_two_trajectories_are_aligned_at_the_first_step_that_differs() -> None:
    (way,) = two_ways(
        shown("inspect/looks_on", "pictures").conversations, shown("inspect/gives_up", "pictures").conversations
    )
    assert [turn.role for turn in way.alike] == ["user", "assistant", "tool"]
    assert [tuple(call["arguments"]["key"] for call in turn.calls) for turn in way.pairs[0] if turn] == [
        ("green",),
        ("grey",),
    ]
    assert [(said(a), said(b)) for a, b in way.pairs[-2:]] == [("blue is 42", None), ("It is blue", None)]
    (same,) = two_ways(*[shown("harbor/good", "adhoc").conversations] * 2)
    assert (len(same.alike), same.pairs) == (4, ())


def test_the_page_shows_them_beside_each_other(tmp_path: Path) -> None:
    site = Site([GENUINE / "inspect/looks_on", GENUINE / "inspect/gives_up"], tmp_path / "scratch")
    a, b = site.library.runs()
    page = html("sample.html", **sample_page(site, a.id, "pictures", 0, {"against": b.id}), note_path="", here="").body
    site.close()
    text = bytes(page).decode()
    assert "The first 3 messages are the same" in text
    assert "First difference: message 4" in text
    assert text.count("(ended)") == 1
    assert text.count('<img src="data:image/png;base64,') == 2  # in the prompt, and among what is the same
    assert "25 tokens" in text
