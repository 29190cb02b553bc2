"""Tools that a task gives, calls that are scored, and conversations scored turn by turn: whole runs on a chat server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.run.test_needs import chat_server, says

import assay
from assay.errors import ConfigError
from assay.evaluation import score_again
from assay.filters import FilterEnsemble, TakeFirst, ToolCalls
from assay.metrics.texts import tool_call_match
from assay.results import MetricKey, read_samples
from assay.tool_calls import calls_in_text

ADD = {"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}}


def write_task(folder: Path, docs: list[dict[str, Any]], **fields: Any) -> None:
    (folder / "docs.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in docs))
    task: dict[str, Any] = {
        "task": "asked",
        "dataset_path": "json",
        "test_split": "test",
        "output_type": "generate_until",
    }
    task |= {"dataset_kwargs": {"data_files": {"test": str(folder / "docs.jsonl")}}, "doc_to_text": "q", **fields}
    (folder / "asked.yaml").write_text(json.dumps(task))


def evaluate(folder: Path, url: str, **more: Any) -> assay.Results:
    return assay.evaluate(
        model="local-chat-completions",
        model_args={"base_url": url, "model": "m"},
        tasks=["asked"],
        include_path=[str(folder)],
        store=str(folder / "store.sqlite"),
        run_dir=str(folder / "run"),
        apply_chat_template=True,
        bootstrap_iters=0,
        **more,
    )


def calls(body: dict[str, Any]) -> dict[str, Any]:
    """Adds what the question says, and calls nothing where it says nothing."""
    number = body["messages"][-1]["content"].removeprefix("Add ")
    if not number.isdigit():
        return says("Hello")(body)
    call = {"id": "1", "type": "function", "function": {"name": "add", "arguments": f'{{"a": {number}}}'}}
    return says(None, "tool_calls", tool_calls=[call])(body)


def test_tools_are_offered_and_calls_scored_kept_and_scored_again(tmp_path: Path) -> None:
    right = [{"name": "add", "arguments": {"a": 1}}]
    docs = [{"q": "Add 1", "calls": right}, {"q": "Add 2", "calls": right}, {"q": "Hi", "calls": []}]
    write_task(tmp_path, docs, doc_to_target="calls", tools=[ADD], metric_list=[{"metric": "tool_call_match"}])
    with chat_server(calls) as (url, bodies):
        result = evaluate(tmp_path, url)
    asked = [body for body in bodies if body["messages"][-1]["content"] in ("Add 1", "Add 2", "Hi")]
    assert [body["tools"] for body in asked] == [[{"type": "function", "function": ADD}]] * 3
    key = MetricKey("tool_call_match", "none")
    assert result.tasks["asked"].scores[key].estimate.value == pytest.approx(2 / 3)
    (file,) = (tmp_path / "run").rglob("*.parquet")
    assert '"add"' in str(next(read_samples(file))["filtered_resps"]).replace("\\", "")
    assert score_again(tmp_path / "run").tasks["asked"].scores[key].estimate.value == pytest.approx(2 / 3)


TOOLS = [
    {"name": name, "parameters": {"type": "object", "properties": {key: {} for key in keys}}}
    for name, keys in (("add", ("a", "b")), ("weather", ("city",)))
]
TARGETS = [
    {"name": "add", "arguments": {"a": 12, "b": 30}},
    {"name": "weather", "arguments": {"city": "Bonn"}},
]


def test_targets_with_different_arguments_stay_as_they_are_written(tmp_path: Path) -> None:
    """A table of them would give each call the arguments of both."""
    docs = [{"q": str(at), "calls": [call], "n": at or 0.5} for at, call in enumerate(TARGETS)]
    write_task(tmp_path, docs, doc_to_target="calls", tools=TOOLS, metric_list=[{"metric": "tool_call_match"}])

    def makes_them(body: dict[str, Any]) -> dict[str, Any]:
        call = TARGETS[int(body["messages"][-1]["content"] == "1")]
        written = {"name": call["name"], "arguments": json.dumps(call["arguments"])}
        return says(None, "tool_calls", tool_calls=[{"id": "1", "type": "function", "function": written}])(body)

    with chat_server(makes_them) as (url, _):
        result = evaluate(tmp_path, url)
    assert result.tasks["asked"].scores[MetricKey("tool_call_match", "none")].estimate.value == 1.0
    (file,) = (tmp_path / "run").rglob("*.parquet")
    assert json.dumps([json.loads(sample["doc"]) for sample in read_samples(file)]) == json.dumps(docs)


@pytest.mark.parametrize("protocol", ["native", "text"])
def test_calls_written_as_text_are_counted_and_read_where_the_task_says_so(tmp_path: Path, protocol: str) -> None:
    """With what Qwen2.5-Coder-1.5B-Instruct answered through llama.cpp: calls as JSON in a fence."""
    said = {
        "12 + 30?": '```json\n{\n  "name": "add",\n  "arguments": {\n    "a": 12,\n    "b": 30\n  }\n}\n```',
        "Say hello to Ada.": '```json\n{\n  "name": "weather",\n  "arguments": {\n    "city": "Ada"\n  }\n}\n```',
        "Hello": "Hello! How can I help?",
        "Bonn?": '<tool_call>{"name": "weather", "arguments": {"city": "Bonn"}}</tool_call>',
    }
    wanted: list[list[Any]] = [TARGETS[:1], [], [], TARGETS[1:]]
    docs = [{"q": question, "calls": calls} for question, calls in zip(said, wanted)]
    fields: dict[str, Any] = {"tools": TOOLS, "metric_list": [{"metric": "tool_call_match"}], "tool_protocol": protocol}
    write_task(tmp_path, docs, doc_to_target="calls", **fields)
    with chat_server(lambda body: says(said.get(body["messages"][-1]["content"], "4"))(body)) as (url, _):
        result = evaluate(tmp_path, url)
    task = result.tasks["asked"]
    assert task.health.text_calls == 3
    right = {"native": 2, "text": 3}[protocol]  # unread, the call that nobody wanted counts as none; read, it is wrong
    assert task.scores[MetricKey("tool_call_match", "none")].estimate.value == pytest.approx(right / 4)


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ('<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": 2}}\n</tool_call>', [("add", {"a": 1, "b": 2})]),
        ('[{"name": "add", "parameters": {"a": 1}}, {"name": "weather", "arguments": {}}]', [("add", {"a": 1}), ("weather", {})]),
        ('I call {"type": "function", "function": {"name": "add", "arguments": "{\\"a\\": 1}"}} now.', [("add", {"a": 1})]),
        ("<function=weather>{\"city\": \"Bonn\"}</function>", [("weather", {"city": "Bonn"})]),
        ("```python\nadd(1, b=-2.5)\n```", [("add", {"a": 1, "b": -2.5})]),
        ("[add(a=1, b=2), weather(city='Bonn')]", [("add", {"a": 1, "b": 2}), ("weather", {"city": "Bonn"})]),
        ("`weather('Bonn')`", [("weather", {"city": "Bonn"})]),
        ("You could use add(a, b) for that.", []),
        ("add(__import__('os'), 1)", []),
        ('{"name": "Ada", "arguments": {"a": 1}}', []),
        ('{"name": "add"}', []),
        ("{" * 100_000, []),
        ("[" * 100_000 + "add(1)", []),
        ("", []),
    ],
)  # fmt: skip
def test_calls_in_a_text(text: str, calls: list[tuple[str, dict[str, Any]]]) -> None:
    assert [(call["name"], call["arguments"]) for call in calls_in_text(text, TOOLS)] == calls


@pytest.mark.parametrize(
    ("said", "wanted", "ordered", "value"),
    [
        ([{"name": "f", "arguments": {"a": 1, "b": [2]}}], [{"name": "f", "arguments": {"b": [2.0], "a": 1}}], True, 1),
        ([{"name": "f"}, {"name": "g"}], [{"name": "g"}, {"name": "f"}], False, 1),
        ([{"name": "f"}, {"name": "g"}], [{"name": "g"}, {"name": "f"}], True, 0),
        ([{"name": "f"}, {"name": "f"}], [{"name": "f"}], False, 0),
        ([{"name": "f"}], [{"name": "f"}, {"name": "f"}], False, 0),
        ([{"name": "f", "arguments": {"a": True}}], [{"name": "f", "arguments": {"a": 1}}], False, 0),
        ([{"name": "f", "arguments": "{not JSON"}], [{"name": "f", "arguments": {}}], False, 0),
        ([{"name": "f", "arguments": {"a": 1}}], [{"name": "f", "arguments": {"a": 1, "city": None}}], False, 1),
        ([{"name": "f", "arguments": {"a": 1, "b": None}}], [{"name": "f", "arguments": {"a": 1}}], False, 1),
        ([{"name": "f", "arguments": {"a": 0}}], [{"name": "f", "arguments": {}}], False, 0),
        ([], [], True, 1),
        ([], [{"name": "f"}], False, 0),
    ],
)
def test_calls_are_equal_as_json_is(said: Any, wanted: Any, ordered: bool, value: int) -> None:
    found = tool_call_match(predictions=[json.dumps(said)], references=[json.dumps(wanted)], ordered=ordered)
    assert found == {"tool_call_match": value}


def test_a_filter_of_whole_responses_stands_first() -> None:
    with pytest.raises(ConfigError, match="Put it first"):
        FilterEnsemble("calls", [TakeFirst, ToolCalls])


def test_a_tool_without_a_name_is_refused_with_its_place(tmp_path: Path) -> None:
    write_task(tmp_path, [{"q": "Add 1"}], doc_to_target="q", tools=[{"parameters": {}}])
    with chat_server(calls) as (url, _), pytest.raises(ConfigError, match="tool 0 has no name"):
        evaluate(tmp_path, url)


def counts(body: dict[str, Any]) -> dict[str, Any]:
    """Says how many turns it was asked so far."""
    return says(str(sum(turn["role"] == "user" for turn in body["messages"])))(body)


def test_every_turn_and_the_whole_conversation_are_scored(tmp_path: Path) -> None:
    docs = [{"q": "First?", "right": ["1", "2", "3"]}, {"q": "First, please?", "right": ["1", "2", "no"]}]
    fields = {"turns": ["And now?", "And now, after {{answers[-1]}}?"], "scorer": "turns"}
    write_task(tmp_path, docs, doc_to_target="right", metric_list=[{"metric": "exact_match"}], **fields)
    with chat_server(counts) as (url, _):
        result = evaluate(tmp_path, url)
    found = {key.metric: score.estimate.value for key, score in result.tasks["asked"].scores.items()}
    assert found == {
        "exact_match": pytest.approx(5 / 6),
        "exact_match_turn_1": 1.0,
        "exact_match_turn_2": 1.0,
        "exact_match_turn_3": 0.5,
        "exact_match_all": 0.5,
    }
    again = score_again(tmp_path / "run").tasks["asked"].scores
    assert {key.metric: score.estimate.value for key, score in again.items()} == found
