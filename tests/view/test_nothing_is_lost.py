"""Whatever fields a server's reply has, each is kept from the wire to the sample page, or named as left out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient
from tests.models.openai.faulty_server import FaultyServer

import assay
from assay.finished import export_run
from assay.instance import Instance, Response
from assay.models.openai.reading import LEFT_OUT, READ, read_response
from assay.results import pack_responses, read_samples
from assay.store.codec import make_row, read_row
from assay.view.sample_view import present
from assay.view.server import create_app

NAMES = st.sampled_from(
    [
        *("audio", "annotations", "citations", "function_call", "logprobs", "provider", "stop_reason", "token_ids"),
        *(name for fields in READ.values() for name in sorted(fields) if name not in ("choices", "message", "usage")),
        *(name for fields in LEFT_OUT.values() for name in fields),
    ]
)
TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just("leaf"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=5,
)


def marked(fields: Any, place: str) -> Any:
    """Every text of a tree, made unlike any other by where it stands."""
    if isinstance(fields, dict):
        return {name: marked(value, f"{place}.{name}") for name, value in fields.items()}
    if isinstance(fields, list):
        return [marked(value, f"{place}.{i}") for i, value in enumerate(fields)]
    return f"<{place}>" if fields == "leaf" else fields


def marks(fields: Any) -> Iterator[str]:
    if isinstance(fields, dict | list):
        for value in fields.values() if isinstance(fields, dict) else fields:
            yield from marks(value)
    elif isinstance(fields, str) and fields.startswith("<"):
        yield fields


def on_the_page(response: Response) -> str:
    """What is shown of a response that went through the store and a sample file."""
    kept = read_row(make_row(b"\0" * 32, response))
    assert kept == response
    instance = Instance("generate_until", {}, ("Question", {}), 0, resps=[kept.answer], responses=[kept])
    row: dict[str, Any] = {
        "doc_id": 0,
        "doc_hash": "",
        "request_hash": "",
        "filter": "none",
        "doc": "{}",
        "target": '""',
    }
    row |= {"arguments": '[["Question",{}]]', "resps": json.dumps([[kept.answer]]), "filtered_resps": "[]"}
    shown = present([{**row, **pack_responses([instance])}], {}, 0)
    return json.dumps([asdict(each) for each in shown.responses], ensure_ascii=False, default=dict)


PLACES = ("reply", "choice", "message", "usage")


@given(st.fixed_dictionaries({place: st.dictionaries(NAMES, TREES, max_size=4) for place in PLACES}), st.booleans())
def test_no_field_of_a_reply_is_lost_without_being_named(fields: dict[str, Any], is_chat: bool) -> None:
    given = {place: marked(fields[place], place) for place in PLACES}
    usage = {name: value for name, value in given["usage"].items() if name not in READ["usage"]}
    choice = {**given["choice"], "finish_reason": "stop"}
    if is_chat:
        choice["message"] = {**given["message"], "content": "the text"}
        places = {"choice": choice, "message": choice["message"]}
    else:
        choice = {**choice, **given["message"], "text": "the text", "finish_reason": "stop"}
        places = {"completion": choice}
    reply = {**given["reply"], "choices": [choice], "usage": usage}
    page = on_the_page(read_response(reply))
    for place, there in {"reply": reply, "usage": usage, **places}.items():
        for name, value in there.items():
            if name not in LEFT_OUT[place] and name not in ("choices", "message", "usage"):
                assert [mark for mark in marks(value) if mark not in page] == [], (place, name)


def test_what_is_left_out_says_why() -> None:
    assert all(reason for fields in LEFT_OUT.values() for reason in fields.values())


@pytest.mark.parametrize(
    "content",
    [
        [{"type": "text", "text": "<1>"}, {"type": "image_url", "image_url": {"url": "<2>"}}],
        [{"type": "thinking", "thinking": "<1>"}, {"type": "text", "text": "<2>"}, {"type": "odd", "text": "<3>"}],
        ["<1>", 7, None],
    ],
)
def test_every_part_of_an_answer_is_kept(content: list[Any]) -> None:
    page = on_the_page(read_response({"choices": [{"message": {"content": content}}, {"message": {"content": "<9>"}}]}))
    assert [mark for mark in [*marks(content), "<9>"] if mark not in page] == []


# ---------------------------------------------------------------------- a whole run, its page and its exports

TASK = """
task: questions
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder}/docs.jsonl}}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{question}}}}"
doc_to_target: "{{{{answer}}}}"
generation_kwargs: {{until: ["\\n"], max_gen_toks: 8}}
metric_list: [{{metric: exact_match}}]
"""
CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}}


def run(folder: Path, beside: dict[str, Any]) -> assay.Results:
    (folder / "docs.jsonl").write_text('{"question": "What do bees make?", "answer": "honey"}\n')
    (folder / "questions.yaml").write_text(TASK.format(folder=folder))
    with FaultyServer(beside=beside) as server:
        return assay.evaluate(
            model="local-chat-completions",
            model_args={"base_url": server.url, "model": "ngram"},
            tasks=["questions"],
            include_path=[str(folder)],
            store=str(folder / "store.sqlite"),
            run_dir=str(folder / "runs" / "one"),
            bootstrap_iters=0,
        )


@pytest.mark.parametrize(
    ("beside", "flag", "shown"),
    [
        ({"reasoning_content": "Bees and flowers."}, None, ["Bees and flowers."]),
        ({"content": None, "reasoning": "Bees and"}, "unfinished_thought", ["Bees and"]),
        ({"content": None, "refusal": "I would rather not."}, "refused", ["I would rather not."]),
        ({"content": None, "tool_calls": [CALL]}, "empty", ["weather", "Paris"]),
        ({"content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}, "empty", ["AAAA"]),
        ({"annotations": [{"url": "a page"}]}, "truncated", ["a page"]),
    ],
)
def test_what_a_server_says_is_kept_shown_counted_and_exported(
    tmp_path: Path, beside: dict[str, Any], flag: str | None, shown: list[str]
) -> None:
    result = run(tmp_path, beside)
    health = result.tasks["questions"].health
    assert flag is None or getattr(health, flag) == 1
    with TestClient(
        create_app([tmp_path / "runs"], scratch=tmp_path / "scratch"), base_url="http://127.0.0.1"
    ) as client:
        identity = json.loads(client.get("/?download=jsonl").text)["id"]
        page = client.get(f"/sample/{identity}/0/questions").text
    assert result.path is not None
    (file,) = Path(result.path).rglob("*.parquet")
    exported = [Path(export_run(result.path, form, tmp_path / form)[0]).read_text() for form in ("jsonl", "csv")]
    for place in (json.dumps(list(read_samples(file)), ensure_ascii=False), *exported, page):
        assert [text for text in shown if text not in place] == []
