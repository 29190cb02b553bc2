"""A user whose turns the task itself says: one by one, with tools that come later, and a limit of steps between them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assay.errors import AssayError
from assay.results import MetricKey

from .scripted import Scripted, results, run, write_task

TASK = """
task: shop
dataset_path: json
dataset_kwargs: {data_files: {test: docs.jsonl}}
test_split: test
output_type: agent
doc_to_text: "What does {{thing}} cost?"
agent:
  tools: [!function shop.Shop]
  submit: last message
  user: {turns: turns}
  limits: {steps: 40, turn_steps: 3}
metric_list:
  - steps
  - end_state: !function shop.bought
"""
SHOP = '''
from assay.errors import ToolError

class Shop:
    """Describes its tools itself."""

    def __init__(self, doc):
        self.bought = []

    def describe_tools(self):
        one = {"type": "object", "properties": {"thing": {"type": "string"}}, "required": ["thing"]}
        return [{"name": "price", "description": "What a thing costs.", "parameters": one},
                {"name": "buy", "description": "Buy a thing.", "parameters": one}]

    def call_tool(self, name, arguments):
        if name == "price":
            return "3"
        self.bought.append(arguments["thing"])
        return "bought"

def bought(doc, end_state):
    return end_state.tools["Shop"]["bought"] == [doc["thing"]]
'''
DOCS = [{"thing": "tea", "turns": ["Is that dear?", {"say": "Then buy it.", "tools": ["buy"]}]}]


def shopper(messages: Any, draw: int) -> Any:
    said = [message.content for message in messages if message.role == "user"][-1]
    n = results(messages)
    if "cost" in said:
        return "It costs 3." if n else ("price", {"thing": "tea"})
    if "dear" in said:
        return "No."
    return "You have it." if n == 2 else ("buy", {"thing": "tea"})


class Watching(Scripted):
    def __init__(self, policy: Any, **options: Any) -> None:
        super().__init__(policy, **options)
        self.seen: list[Any] = []

    def generate_until(self, requests: Any) -> Any:
        for request in requests:
            names = [tool["function"]["name"] for tool in request.args[1].get("tools", ())]
            self.seen.append((names, [message.content for message in request.args[0]]))
        return super().generate_until(requests)


def the_run(folder: Path, model: Any, text: str = TASK, docs: Any = DOCS, **options: Any) -> Any:
    task = write_task(folder, text, docs, shop=SHOP)
    return run(task, model, folder, **options).tasks["shop"]


def value(result: Any, metric: str) -> float:
    return float(result.scores[MetricKey(metric, "none")].estimate.value)


def test_each_turn_is_said_when_the_agent_calls_nothing_and_the_last_ends_the_trajectory(tmp_path: Path) -> None:
    model = Watching(shopper)
    result = the_run(tmp_path, model)
    assert (value(result, "end_state"), value(result, "steps")) == (1.0, 5.0)
    assert [names for names, _ in model.seen] == [["price"]] * 3 + [["price", "buy"]] * 2


def test_tools_that_come_later_are_told_of_later_where_tools_are_text(tmp_path: Path) -> None:
    model = Watching(shopper_of_text, native=False)
    assert value(the_run(tmp_path, model, TASK + "tool_protocol: text\n"), "end_state") == 1.0
    first, last = model.seen[0][1], model.seen[-1][1]
    assert "- buy:" not in first[0]
    assert any("- buy: Buy a thing." in text and text.endswith("Then buy it.") for text in last[1:])


def shopper_of_text(messages: Any, draw: int) -> Any:
    said = str(messages[-1].content)
    if said.startswith("Result"):
        return "Done."
    return ("price", {"thing": "tea"}) if "cost" in said else "No." if "dear" in said else ("buy", {"thing": "tea"})


class Killed(BaseException):
    pass


@pytest.mark.parametrize("after", range(1, 5))
def test_a_killed_run_goes_on_in_the_same_turn(after: int, tmp_path: Path) -> None:
    def dying(messages: Any, draw: int) -> Any:
        if sum(message.role == "assistant" for message in messages) == after:
            raise Killed
        return shopper(messages, draw)

    with pytest.raises(Killed):
        the_run(tmp_path, Watching(dying))
    model = Watching(shopper)
    again = the_run(tmp_path, model)
    assert (model.asked, value(again, "end_state"), value(again, "steps")) == (5 - after, 1.0, 5.0)
    assert model.seen[-1][0] == ["price", "buy"]


def test_a_branch_keeps_the_turns_before_it(tmp_path: Path) -> None:
    the_run(tmp_path, Scripted(lambda messages, draw: "I do not know.", "silent"))
    branch = {"branch": str(tmp_path / "run"), "at": 3, "run_dir": str(tmp_path / "branch")}
    result = the_run(tmp_path, Scripted(lambda m, d: shopper_late(m)), **branch)
    assert value(result, "end_state") == 1.0


def shopper_late(messages: Any) -> Any:
    return "You have it." if results(messages) else ("buy", {"thing": "tea"})


@pytest.mark.parametrize(("calls", "ended"), [(2, 0), (3, 1)])
def test_steps_between_two_messages_of_the_user_are_limited(calls: int, ended: int, tmp_path: Path) -> None:
    def busy(messages: Any, draw: int) -> Any:
        since = [m.role for m in messages][::-1].index("user")
        return ("price", {"thing": str(since)}) if since < 2 * calls else "Well."

    result = the_run(tmp_path, Scripted(busy))
    assert result.health.count("limited") == ended


@pytest.mark.parametrize(
    ("turns", "why"),
    [([3], "turns of the user"), ("[1", "turns"), ([{"say": "x", "tools": ["sell"]}], "sell")],
)
def test_turns_that_cannot_be_said_are_refused(turns: Any, why: str, tmp_path: Path) -> None:
    with pytest.raises(AssayError, match=why):
        the_run(tmp_path, Scripted(shopper), docs=[{"thing": "tea", "turns": turns}])


def test_turns_may_be_templates(tmp_path: Path) -> None:
    text = TASK.replace("{turns: turns}", '{turns: ["Is {{thing}} dear?", "Then buy {{thing}}."]}')
    model = Watching(shopper)
    assert value(the_run(tmp_path, model, text), "end_state") == 1.0
    assert "Is tea dear?" in model.seen[-1][1]


def test_a_user_is_a_model_or_a_script(tmp_path: Path) -> None:
    with pytest.raises(AssayError, match="a user is a model"):
        the_run(tmp_path, Scripted(shopper), TASK.replace("{turns: turns}", "{role: user}"))
