"""A first agent task: tools of Python, an answer that is submitted, limits, and what is scored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assay.errors import ConfigError
from assay.results import MetricKey

from .scripted import Scripted, last_result, results, run, write_task

TASK = """
task: lookup
dataset_path: json
dataset_kwargs: {data_files: {test: docs.jsonl}}
test_split: test
output_type: agent
doc_to_text: "Who wrote {{book}}?"
doc_to_target: "{{author}}"
agent:
  tools: [!function tools.Library]
  limits: {steps: 4}
metric_list:
  - exact_match
  - steps
  - end_state: !function tools.looked
"""
TOOLS = '''
from assay.errors import ToolError

class Library:
    """A library."""

    def __init__(self, doc):
        self._doc = doc
        self.asked = []

    def find(self, title: str, exact: bool = False) -> str:
        """Find the author of a book.

        title: as it is printed
        """
        self.asked.append(title)
        if title != self._doc["book"]:
            raise ToolError(f"no book {title}")
        return self._doc["author"]

def looked(doc, end_state):
    return end_state.tools["Library"]["asked"][-1:] == [doc["book"]]
'''
DOCS = [{"book": "Emma", "author": "Austen"}, {"book": "Ulysses", "author": "Joyce"}]


def title_of(messages: Any) -> str:
    return next(m.content for m in messages if m.role == "user").removeprefix("Who wrote ").removesuffix("?")


def perfect(messages: Any, draw: int) -> Any:
    return (
        ("submit", {"answer": last_result(messages)}) if results(messages) else ("find", {"title": title_of(messages)})
    )


def values(result: Any, metric: str) -> float:
    return result.tasks["lookup"].scores[MetricKey(metric, "none")].estimate.value


def test_a_perfect_agent_finds_what_it_needs_and_submits_it(tmp_path: Path) -> None:
    result = run(write_task(tmp_path, TASK, DOCS, tools=TOOLS), Scripted(perfect), tmp_path)
    assert (values(result, "exact_match"), values(result, "steps"), values(result, "end_state")) == (1.0, 2.0, 1.0)


def test_the_schema_comes_from_hints_and_docstring(tmp_path: Path) -> None:
    seen: list[Any] = []

    class Watching(Scripted):
        def generate_until(self, requests: Any) -> Any:
            seen.extend(request.args[1]["tools"] for request in requests)
            return super().generate_until(requests)

    run(write_task(tmp_path, TASK, DOCS, tools=TOOLS), Watching(perfect), tmp_path)
    find, submit = (tool["function"] for tool in seen[0])
    assert find["description"] == "Find the author of a book."
    assert find["parameters"]["properties"]["title"] == {"type": "string", "description": "as it is printed"}
    assert find["parameters"]["required"] == ["title"]
    assert submit["name"] == "submit"


def test_refusals_are_told_to_the_model_and_it_may_try_again(tmp_path: Path) -> None:
    said: list[str] = []

    def clumsy(messages: Any, draw: int) -> Any:
        n = results(messages)
        if n:
            said.append(last_result(messages))
        tries = ["{not JSON", {"titel": "Emma"}, {"title": "Emmma"}]
        return ("find", tries[n]) if n < 3 else ("submit", {"answer": "?"})

    task = write_task(tmp_path, TASK, DOCS[:1], tools=TOOLS)
    result = run(task, Scripted(clumsy), tmp_path)
    assert "not a JSON object" in said[0]
    assert "title: Field required" in said[1]
    assert said[2] == "no book Emmma"
    assert values(result, "exact_match") == 0.0
    assert result.tasks["lookup"].health.failed == 0


def test_a_function_of_one_trajectory_is_not_said_to_be_called_with_all_draws(tmp_path: Path) -> None:
    import warnings

    text = TASK.replace("  - steps\n", "  - steps\n  - !function tools.length\n  - !function tools.of_all\n")
    code = TOOLS + "def length(trajectory): return trajectory.steps\ndef of_all(references, predictions): return 1.0\n"
    task = write_task(tmp_path, text, DOCS, tools=code)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        run(task, Scripted(perfect), tmp_path, repeats=2)
    told = [str(each.message) for each in said if "called once with all draws" in str(each.message)]
    assert len(told) == 1
    assert "of_all" in told[0]


def test_a_call_stays_as_it_was_made_whatever_the_tool_does_with_it(tmp_path: Path) -> None:
    """In what is stored, and in what the model sees of it."""
    seen: list[str] = []
    code = """
class Post:
    def __init__(self):
        self.tags = []

    def write(self, tags, more):
        self.tags = tags
        more["x"] = [1]
        return "written"

    def tag(self, name: str) -> str:
        self.tags.append(name)
        return "tagged"

def as_made(trajectory):
    return trajectory.calls[0]["arguments"] == {"tags": ["a"], "more": {}}
"""

    def policy(messages: Any, draw: int) -> Any:
        seen.append(str(messages[1].tool_calls) if len(messages) > 1 else "")
        calls = [("write", {"tags": ["a"], "more": {}}), ("tag", {"name": "b"}), ("submit", {"answer": "x"})]
        return calls[results(messages)]

    text = TASK.replace("tools.Library", "tools.Post").replace("  - end_state: !function tools.looked\n", "")
    task = write_task(tmp_path, text + "  - !function tools.as_made\n", DOCS[:1], tools=code)
    assert values(run(task, Scripted(policy), tmp_path), "as_made") == 1.0
    assert seen[1] == seen[2]


def test_a_tool_that_changes_its_doc_changes_it_for_its_own_trajectory_alone(tmp_path: Path) -> None:
    code = """
class Box:
    def __init__(self, doc):
        self._left = doc["items"]

    def take(self) -> str:
        return self._left.pop()

def peek(doc) -> str:
    doc["items"].clear()
    return "nothing"

def whole(trajectory):
    return trajectory.doc["items"] == ["a", "b"]
"""

    def policy(messages: Any, draw: int) -> Any:
        n = results(messages)
        return [("take", {}), ("peek", {}), ("take", {}), ("submit", {"answer": last_result(messages)})][n]

    text = TASK.replace("[!function tools.Library]", "[!function tools.Box, !function tools.peek]").replace(
        "  - end_state: !function tools.looked\n", "  - !function tools.whole\n"
    )
    docs = [{"book": "Emma", "author": "a", "items": ["a", "b"]}]
    result = run(write_task(tmp_path, text, docs, tools=code), Scripted(policy), tmp_path, repeats=3)
    assert (values(result, "exact_match"), values(result, "whole"), result.tasks["lookup"].health.failed) == (
        1.0,
        1.0,
        0,
    )


def test_steps_are_limited_and_that_is_counted_and_bounded(tmp_path: Path) -> None:
    def endless(messages: Any, draw: int) -> Any:
        return "find", {"title": f"Emma {results(messages)}"}

    result = run(write_task(tmp_path, TASK, DOCS, tools=TOOLS), Scripted(endless), tmp_path)
    health = result.tasks["lookup"].health
    assert health.count("limited") == 2
    assert health.bounds[MetricKey("exact_match", "none")] == (0.0, 1.0)
    assert values(result, "steps") == 4


def test_a_model_that_goes_round_in_circles_is_ended(tmp_path: Path) -> None:
    task = write_task(tmp_path, TASK.replace("steps: 4", "steps: 40"), DOCS, tools=TOOLS)
    result = run(task, Scripted(lambda messages, draw: ("find", {"title": "Emma?"})), tmp_path)
    assert result.tasks["lookup"].health.count("looping") == 2
    assert values(result, "steps") == 3


def test_a_tool_that_breaks_fails_its_trajectory_and_is_never_wrong(tmp_path: Path) -> None:
    broken = TOOLS.replace("self.asked.append(title)", 'assert self._doc["book"] != "Emma", "it broke"')
    broken = broken.replace('end_state.tools["Library"]["asked"][-1:] == [doc["book"]]', "True")
    result = run(write_task(tmp_path, TASK, DOCS, tools=broken), Scripted(perfect), tmp_path)
    health = result.tasks["lookup"].health
    assert (health.docs, health.failed) == (2, 1)
    assert values(result, "exact_match") == 1.0
    assert health.bounds[MetricKey("exact_match", "none")] == (0.5, 1.0)
    assert any("it broke" in reason for reason in health.reasons)


def test_draws_are_trajectories_of_their_own(tmp_path: Path) -> None:
    def lucky(messages: Any, draw: int) -> Any:
        return (
            ("submit", {"answer": last_result(messages) if draw % 2 else "?"})
            if results(messages)
            else perfect(messages, draw)
        )

    task = TASK + "repeats: 4\ngeneration_kwargs: {do_sample: true, temperature: 1.0}\n"
    result = run(write_task(tmp_path, task, DOCS, tools=TOOLS), Scripted(lucky), tmp_path)
    assert values(result, "exact_match") == 0.5
    assert values(result, "pass@4(exact_match)") == 1.0
    assert values(result, "pass^3(exact_match)") == 0.0
    assert result.tasks["lookup"].scores[MetricKey("exact_match", "none")].estimate.n == 2


def test_without_a_chat_an_agent_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="apply_chat_template"):
        run(write_task(tmp_path, TASK, DOCS, tools=TOOLS), Scripted(perfect), tmp_path, apply_chat_template=False)


def test_a_model_that_answers_in_mere_words_is_shown_how_to_submit_them(tmp_path: Path) -> None:
    def shown_how(messages: Any, draw: int) -> Any:
        example = '{"name": "submit", "arguments": {"answer": "ANSWER"}}'
        return ("submit", {"answer": "x"}) if example in str(messages[-1].content) else "x"

    task = write_task(tmp_path, TASK + "tool_protocol: text\n", DOCS, tools=TOOLS)
    result = run(task, Scripted(shown_how, native=False), tmp_path)
    assert not [mark for mark in result.tasks["lookup"].health.marks("none") if "limited" in mark]


def test_a_model_without_tools_is_refused_unless_they_are_told_as_text(tmp_path: Path) -> None:
    def as_text(messages: Any, draw: int) -> Any:
        n = sum("Result of" in str(m.content) for m in messages)
        said = last_result(messages).partition("\n")[2]
        return ("submit", {"answer": said}) if n else ("find", {"title": title_of(messages)})

    with pytest.raises(ConfigError, match="tools"):
        run(write_task(tmp_path, TASK, DOCS, tools=TOOLS), Scripted(as_text, native=False), tmp_path)
    task = write_task(tmp_path, TASK + "tool_protocol: text\n", DOCS, tools=TOOLS)
    result = run(task, Scripted(as_text, native=False), tmp_path)
    assert values(result, "exact_match") == 1.0
    assert "tools as text" in result.tasks["lookup"].health.marks("none")
