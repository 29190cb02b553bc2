"""BFCL over several turns: what a run says of scripted agents is what the package's own checker says of the same calls.

Runs where `bfcl-eval` is installed: `pip install --no-deps --target FOLDER bfcl-eval`, and this file with `PYTHONPATH=FOLDER`.
"""

from __future__ import annotations

import ast
import inspect
import json
import uuid
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.catalog.agents import bfcl
from assay.errors import MissingPackage, UntrustedCode
from assay.results import read_samples
from assay.tasks import TaskManager

from .scripted import Scripted

CATEGORIES = ["base", "miss_func", "miss_param", "long_context"]
DOCS = 16
Steps = list[list[tuple[str, dict[str, Any]]]]
"""The steps of a turn, each the calls that are made at once."""

installed = pytest.mark.skipif(
    find_spec("bfcl_eval") is None or find_spec("mpmath") is None, reason="bfcl-eval or mpmath is not installed"
)


def answers(doc: dict[str, Any]) -> list[Steps]:
    """The right calls, one a step."""
    return [[[parsed(call, doc)] for call in turn] for turn in json.loads(doc["ground_truth"])]


def parsed(call: str, doc: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    node = ast.parse(call, mode="eval").body
    assert isinstance(node, ast.Call)
    name = ast.unparse(node.func)
    names = list(inspect.signature(bfcl.Functions(doc)._methods[name]).parameters)
    given = {names[place]: ast.literal_eval(value) for place, value in enumerate(node.args)}
    return name, given | {str(each.arg): ast.literal_eval(each.value) for each in node.keywords}


def right(doc: dict[str, Any]) -> list[Steps]:
    return answers(doc)


def at_once(doc: dict[str, Any]) -> list[Steps]:
    return [[[call for step in turn for call in step]] if turn else [] for turn in answers(doc)]


def without_the_last(doc: dict[str, Any]) -> list[Steps]:
    *turns, last = answers(doc)
    return [*turns, last[:-1]]


def all_in_the_first(doc: dict[str, Any]) -> list[Steps]:
    turns = answers(doc)
    return [[step for turn in turns for step in turn], *([] for _ in turns[1:])]


def with_more(doc: dict[str, Any]) -> list[Steps]:
    """Calls that nobody wants: an unknown function, arguments that are none, and one that is no identifier."""
    silly: Steps = [[("no_such_function", {})], [("print", {"x": 1}), ("cd", {"no": "such"})], [("cd", {"a b": 1})]]
    return [[*silly, *turn] for turn in answers(doc)]


def with_wrong_values(doc: dict[str, Any]) -> list[Steps]:
    """In every third call, the first argument is something else."""
    count, turns = 0, answers(doc)
    for step in (step for turn in turns for step in turn):
        for _, arguments in step:
            count += 1
            if count % 3 == 0 and arguments:
                arguments[next(iter(arguments))] = "something else"
    return turns


def silent(doc: dict[str, Any]) -> list[Steps]:
    return [[] for _ in json.loads(doc["ground_truth"])]


def twice_at_the_end(doc: dict[str, Any]) -> list[Steps]:
    turns = answers(doc)
    return [*turns[:-1], turns[-1] + turns[-1][-1:]]


PLANS: list[Callable[[dict[str, Any]], list[Steps]]] = [
    right,
    at_once,
    without_the_last,
    all_in_the_first,
    with_more,
    with_wrong_values,
    silent,
    twice_at_the_end,
]


def theirs(doc: dict[str, Any], turns: list[Steps]) -> float:
    """The checker's own verdict on these calls, written as its decoder writes them."""
    from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker import multi_turn_checker

    decoded = [
        [[f"{name}({','.join(f'{k}={v!r}' for k, v in given.items())})" for name, given in step] for step in turn]
        for turn in turns
    ]
    entry = json.loads(doc["entry"])
    category = entry["id"].rpartition("_")[0]
    said = multi_turn_checker(decoded, json.loads(doc["ground_truth"]), entry, category, f"them_{uuid.uuid4().hex}")
    return float(said["valid"])


def policy(plans: dict[str, list[Steps]]) -> Any:
    def answer(messages: Any, draw: int) -> Any:
        said = [message.content for message in messages if message.role == "user"]
        turns = plans[said[0]]
        since = [message.role for message in messages][::-1].index("user")
        steps = sum(message.role == "assistant" for message in messages[len(messages) - since :])
        turn = turns[len(said) - 1]
        return turn[steps] if steps < len(turn) else "Done."

    return answer


@installed
@pytest.mark.parametrize("category", CATEGORIES)
@pytest.mark.parametrize("plan", PLANS)
def test_verdicts_are_those_of_the_packages_checker(plan: Any, category: str, tmp_path: Path) -> None:
    docs = bfcl.docs(category)["test"][:DOCS]
    plans = {doc["question"]: plan(doc) for doc in docs}
    result = assay.evaluate(
        model=Scripted(policy(plans), plan.__name__),
        tasks=[f"bfcl_multi_turn_{category}"],
        limit=DOCS,
        apply_chat_template=True,
        run_dir=str(tmp_path / "run"),
        store=str(tmp_path / "store.sqlite"),
    ).tasks[f"bfcl_multi_turn_{category}"]
    assert result.health.failed == 0
    (file,) = (tmp_path / "run" / "samples").iterdir()
    verdicts = {json.loads(row["doc"])["id"]: row["metric:valid"] for row in read_samples(file)}
    assert verdicts == {doc["id"]: theirs(doc, plans[doc["question"]]) for doc in docs}
    assert plan is not right or set(verdicts.values()) == {1.0}
    assert plan is not silent or set(verdicts.values()) == {0.0}


@installed
def test_functions_that_are_kept_back_are_offered_when_the_user_says_so() -> None:
    doc = bfcl.docs("miss_func")["test"][0]
    (later,) = [turn for turn in json.loads(doc["turns"]) if turn["tools"]]
    assert later == {"say": bfcl.MISSED, "tools": ["sort"]}
    assert "sort" in {about["name"] for about in bfcl.Functions(doc).describe_tools()}


@installed
def test_the_checkers_objects_do_not_pile_up() -> None:
    from bfcl_eval.eval_checker.multi_turn_eval import multi_turn_utils

    before = set(vars(multi_turn_utils))
    with bfcl._checker() as (check, name):
        doc = bfcl.docs("base")["test"][0]
        entry = json.loads(doc["entry"])
        check([[["ls()"]]], [["ls()"]], entry, "multi_turn_base", name)
        assert set(vars(multi_turn_utils)) > before
    assert set(vars(multi_turn_utils)) == before


def test_a_call_that_would_be_other_code_never_reaches_the_checker() -> None:
    known = {"cd"}
    for call in (
        {"name": "__import__('os').system", "arguments": {}},
        {"name": "exec", "arguments": {"source": "1"}},
        {"name": "cd", "arguments": {"folder=1), print(": 1}},
        {"name": "cd", "arguments": {"folder": 1, "lambda": 2}},
        {"name": "cd", "arguments": "folder=1"},
    ):
        assert bfcl.as_source(call, known) == bfcl.NO_TOOL
    nasty = {"folder": "'); print('x"}
    assert (
        ast.literal_eval(bfcl.as_source({"name": "cd", "arguments": nasty}, known)[len("cd(folder=") : -1])
        == nasty["folder"]
    )


def test_without_the_package_what_to_install_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "bfcl_eval", None)
    with pytest.raises(MissingPackage, match="bfcl-eval"):
        bfcl.docs("base")


def test_looking_at_the_task_does_not_run_the_package() -> None:
    from assay.config import reading_only

    assert TaskManager().resolve(["bfcl_multi_turn"])
    with reading_only(), pytest.raises(UntrustedCode):
        bfcl.docs("base")
