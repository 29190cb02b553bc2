"""BFCL's function calling over several turns, with the tools, data and checker of an installed `bfcl-eval`.

Nothing of that package is copied here: its classes are the tools of a trajectory, its documents describe them, and its own
checker gives the verdict. It evaluates calls as Python source, so that only those get there which are plain calls of its tools.
"""

from __future__ import annotations

import copy
import importlib
import importlib.metadata
import inspect
import json
import keyword
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from assay.config import may_run, untrusted
from assay.errors import DataError, MissingPackage, ToolError

MISSED = "I have updated some more functions you can choose from. What about now?"
"""What the user says when functions are offered that were kept back."""
NO_TOOL = "not_a_tool()"
"""Stands for a call that nothing came of: the checker sees an error in its place."""
Checker = Any


def part_of(name: str) -> Any:
    """A module of the package, which is the user's own code: it runs where the code of task files may run."""
    if not may_run(None):
        raise untrusted("bfcl_eval")
    try:
        return importlib.import_module(f"bfcl_eval.{name}" if name else "bfcl_eval")
    except ModuleNotFoundError as error:
        missing = "bfcl-eval" if (error.name or "").startswith("bfcl_eval") else str(error.name)
        raise MissingPackage(
            f"these tasks need the package {missing}, which is not installed",
            hint="pip install --no-deps bfcl-eval, and pip install mpmath: they need nothing else of it.",
            package=missing,
        ) from None


# -- docs ----------------------------------------------------------------------------------------------------------------


def docs(category: str, **_: Any) -> dict[str, list[dict[str, Any]]]:
    folder = Path(next(iter(part_of("").__path__))) / "data"
    name = f"BFCL_v4_multi_turn_{category}.json"
    entries, answers = _lines(folder / name), _lines(folder / "possible_answer" / name)
    if [each["id"] for each in entries] != [each["id"] for each in answers]:
        raise DataError(
            f"{folder / name}: its entries are not those of possible_answer", hint="Install bfcl-eval anew."
        )
    version = importlib.metadata.version("bfcl-eval")
    return {"test": [_doc(entry, answer, version) for entry, answer in zip(entries, answers)]}


def _lines(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        raise DataError(f"{path} is missing", hint="Install a bfcl-eval of version 4 (2025 or later).")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def _doc(entry: Mapping[str, Any], answer: Mapping[str, Any], version: str) -> dict[str, Any]:
    kept_back = entry.get("missed_function", {})
    said = [turn[0]["content"] if turn else MISSED for turn in entry["question"]]
    turns = [{"say": text, "tools": kept_back.get(str(place), [])} for place, text in enumerate(said)]
    return {
        "id": entry["id"],
        "question": said[0],
        "turns": json.dumps(turns[1:]),
        "entry": json.dumps({key: entry[key] for key in ("id", "initial_config", "involved_classes")}),
        "ground_truth": json.dumps(answer["ground_truth"]),
        "bfcl_eval": version,
    }


# -- tools ---------------------------------------------------------------------------------------------------------------


class Functions:
    """All functions of the classes that an entry involves, on objects of the trajectory's own."""

    def __init__(self, doc: dict[str, Any]) -> None:
        entry = json.loads(doc["entry"])
        self._classes: list[str] = entry["involved_classes"]
        self._methods: dict[str, Any] = {}
        for name in self._classes:
            known = part_of("constants.executable_backend_config")
            made = getattr(importlib.import_module(known.CLASS_FILE_PATH_MAPPING[name]), name)()
            if name not in known.STATELESS_CLASSES:
                scenario = copy.deepcopy(entry["initial_config"].get(name, {}))
                made._load_scenario(scenario, long_context="long_context" in entry["id"])
            self._methods |= dict(inspect.getmembers(made, inspect.ismethod))

    def describe_tools(self) -> list[dict[str, Any]]:
        """As the package offers them to chat servers."""
        found: list[dict[str, Any]] = []
        for name in self._classes:
            file = part_of("constants.executable_backend_config").MULTI_TURN_FUNC_DOC_FILE_MAPPING[name]
            folder = Path(next(iter(part_of("").__path__))) / "data" / "multi_turn_func_doc"
            found += [_described(about) for about in _lines(folder / file)]
        return found

    def call_tool(self, name: str, arguments: Mapping[str, Any]) -> str:
        try:
            result = self._methods[name](**arguments)
        except Exception as error:
            raise ToolError(f"Error during execution: {error}") from None
        if isinstance(result, dict):
            try:
                return json.dumps(result)
            except (TypeError, ValueError):
                return str(result)
        return str(result)

    def state(self) -> dict[str, Any]:
        """The checker makes the calls again; what they left behind is not needed."""
        return {}


def _described(about: Mapping[str, Any]) -> dict[str, Any]:
    parameters = {**about["parameters"], "type": "object", "properties": _typed(about["parameters"]["properties"])}
    text = about["description"] + " Note that the provided function is in Python 3 syntax."
    return {"name": about["name"], "description": text, "parameters": parameters}


def _typed(properties: Mapping[str, Any]) -> dict[str, Any]:
    """With the types of JSON Schema in place of Python's."""
    found = {}
    for name, given in properties.items():
        part = _typed_part(given)
        if given.get("type") == "float":
            part |= {"format": "float", "description": part.get("description", "") + " This is a float type value."}
        found[name] = part
    return found


def _typed_part(given: Mapping[str, Any]) -> dict[str, Any]:
    known = part_of("constants.type_mappings").GORILLA_TO_OPENAPI
    part = {**given, "type": known.get(given.get("type"), "string")}
    if "properties" in given:
        part["properties"] = _typed(given["properties"])
    elif "items" in given:
        part["items"] = _typed_part(given["items"])
    return part


# -- verdict -------------------------------------------------------------------------------------------------------------


def valid(trajectory: Any) -> float:
    """What the package's checker says of the calls of all turns."""
    truth, turns = json.loads(trajectory.doc["ground_truth"]), calls_by_turn(trajectory)
    if trajectory.ended in ("limited", "looping") or len(turns) != len(truth):
        return 0.0  # ended before the user had said all
    entry = json.loads(trajectory.doc["entry"])
    with _checker() as (check, name):
        return float(check(turns, truth, entry, entry["id"].rpartition("_")[0], name)["valid"])


def calls_by_turn(trajectory: Any) -> list[list[list[str]]]:
    """The calls of each step of each turn, as the checker takes them. A turn ends with a step that calls nothing."""
    known = {about["name"] for about in Functions(trajectory.doc).describe_tools()}
    by_step: dict[int, list[str]] = {step: [] for step in range(1, trajectory.steps + 1)}
    for call in trajectory.calls:
        by_step[call["step"]].append(as_source(call, known))
    turns: list[list[list[str]]] = [[]]
    for calls in by_step.values():
        if calls:
            turns[-1].append(calls)
        else:
            turns.append([])
    return turns[:-1]


def as_source(call: Mapping[str, Any], known: set[str]) -> str:
    """A call as Python writes it, if it is one of a known function with names for its arguments.

    >>> as_source({"name": "cd", "arguments": {"folder": ".."}}, {"cd"})
    "cd(folder='..')"
    >>> as_source({"name": "cd", "arguments": {"folder=1), print(": ".."}}, {"cd"}), as_source({"name": "print", "arguments": {}}, {"cd"})
    ('not_a_tool()', 'not_a_tool()')
    """
    name, arguments = call["name"], call["arguments"]
    if name not in known or not isinstance(arguments, Mapping):
        return NO_TOOL
    if not all(each.isidentifier() and not keyword.iskeyword(each) for each in arguments):
        return NO_TOOL
    return f"{name}({','.join(f'{key}={value!r}' for key, value in arguments.items())})"


@contextmanager
def _checker() -> Iterator[tuple[Checker, str]]:
    """The package's checker, and a name for the objects that it keeps in its module until they are taken away."""
    name = f"assay_{uuid.uuid4().hex}"
    kept = vars(part_of("eval_checker.multi_turn_eval.multi_turn_utils"))
    try:
        yield part_of("eval_checker.multi_turn_eval.multi_turn_checker").multi_turn_checker, name
    finally:
        for each in [each for each in kept if each.startswith(name)]:
            del kept[each]
