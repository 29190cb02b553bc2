"""Tools: what a model may call, as it is offered to it, checked and called."""

from __future__ import annotations

import copy
import inspect
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic import ConfigDict, ValidationError, create_model

from assay.config import FunctionRef, ToolConfig
from assay.errors import ConfigError, ToolError

GIVEN = ("doc", "state")
"""Parameters of a function that the trajectory fills in: its doc, and a dict of its own. The model does not see them."""
_ABOUT = re.compile(r"^\s*(\w+)(?:\s*\([^)]*\))?:\s+(\S.*)$", re.MULTILINE)


class BrokenTool(Exception):
    """A tool did something that no tool may do: its trajectory has failed, and says nothing of the model."""


@dataclass(frozen=True)
class ToolResult:
    """What came of a call. An error is told to the model, and it may try again."""

    text: str
    is_error: bool = False


Call = Callable[[Mapping[str, Any]], Any]


@dataclass(frozen=True)
class Tool:
    """One function that the model may call."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    call: Call
    check: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda arguments: arguments
    """The arguments as the function takes them; raises `ToolError` with what is wrong."""
    acts_outside: bool = False
    seconds: float = 60.0

    @property
    def offer(self) -> dict[str, Any]:
        """As servers and chat templates take it."""
        about = {"name": self.name, "description": self.description, "parameters": dict(self.parameters)}
        return {"type": "function", "function": about}


class ToolSource(Protocol):
    """What an entry of `tools` is in one trajectory: started for it, ended with it."""

    def tools(self) -> list[Tool]: ...

    def state(self) -> Mapping[str, Any]:
        """What is left of it at the end, by name, as JSON has it."""

    def files(self) -> tuple[Mapping[str, bytes], Mapping[str, str]]:
        """What it leaves in files, and the hashes of those that are too large to be stored."""

    def close(self) -> None: ...


@dataclass
class PythonTools:
    """A function, or an object that is made for the trajectory: each of its public methods is a tool."""

    config: ToolConfig
    doc: Mapping[str, Any]
    own: dict[str, Any] = field(default_factory=dict)
    """The state of a function's trajectory."""

    def __post_init__(self) -> None:
        code = self.config.function.load() if isinstance(self.config.function, FunctionRef) else self.config.function
        self.code: Any = code
        self.doc = copy.deepcopy(self.doc)  # other trajectories have the same doc, whatever becomes of this one's
        if isinstance(code, type):
            self.code = code(self.doc) if _takes_doc(code) else code()

    def tools(self) -> list[Tool]:
        if hasattr(self.code, "describe_tools"):
            return [self._described(about) for about in self.code.describe_tools()]
        return [self._tool(name, function) for name, function in functions_of(self.code)]

    def _described(self, about: Mapping[str, Any]) -> Tool:
        """A tool that the object describes itself; it is called by its name."""
        name = str(about["name"])
        return Tool(
            name,
            str(about.get("description", "")),
            {"type": "object", "properties": {}, **about.get("parameters", {})},
            call=lambda arguments: self.code.call_tool(name, arguments),
            acts_outside=self.config.acts_outside,
            seconds=self.config.seconds,
        )

    def _tool(self, name: str, function: Callable[..., Any]) -> Tool:
        model, schema, about, takes = _read_once(function)
        given = {each: {"doc": self.doc, "state": self.own}[each] for each in takes}

        def check(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
            try:
                checked = model.model_validate(dict(arguments))
            except ValidationError as error:
                raise ToolError(said_of(error)) from None
            return {key: getattr(checked, key) for key in checked.model_fields_set}

        return Tool(
            name,
            about,
            schema,
            call=lambda arguments: function(**arguments, **given),
            check=check,
            acts_outside=self.config.acts_outside,
            seconds=self.config.seconds,
        )

    def state(self) -> Mapping[str, Any]:
        if inspect.isfunction(self.code) or inspect.isbuiltin(self.code):
            return {self.code.__name__: self.own} if self.own else {}
        said = getattr(self.code, "state", None)
        value = said() if callable(said) else said
        if value is None:
            value = {name: each for name, each in vars(self.code).items() if not name.startswith("_")}
        return {type(self.code).__name__: value}

    def files(self) -> tuple[Mapping[str, bytes], Mapping[str, str]]:
        return {}, {}

    def close(self) -> None:
        ending = getattr(self.code, "close", None)
        if callable(ending) and not inspect.isfunction(self.code):
            ending()


def functions_of(code: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    """What the model may call of it; `state` and `close` are ours."""
    if inspect.isroutine(code):
        yield code.__name__, code
        return
    for name, method in inspect.getmembers(code, inspect.isroutine):
        if not name.startswith("_") and name not in ("state", "close"):
            yield name, method


def _takes_doc(code: type) -> bool:
    try:
        return "doc" in inspect.signature(code).parameters
    except (TypeError, ValueError):
        return False


def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(function, eval_str=True).parameters)


def arguments_model(name: str, function: Callable[..., Any]) -> Any:
    """The parameters of a function as a type that checks values; what has no type hint may be anything."""
    fields: dict[str, Any] = {}
    for each in _parameters(function).values():
        if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD, each.POSITIONAL_ONLY):
            raise ConfigError(
                f"the tool {name} has the parameter {str(each)!r}, which no model can fill in",
                hint="Give each argument a name of its own.",
            )
        if each.name not in GIVEN:
            hint = Any if each.annotation is each.empty else each.annotation
            fields[each.name] = (hint, ... if each.default is each.empty else each.default)
    return create_model(name, __config__=ConfigDict(extra="forbid", arbitrary_types_allowed=True), **fields)


_READ: dict[Any, tuple[Any, dict[str, Any], str, tuple[str, ...]]] = {}


def _read_once(function: Callable[..., Any]) -> tuple[Any, dict[str, Any], str, tuple[str, ...]]:
    """What the code of a function says, whichever object it is a method of."""
    code = getattr(function, "__func__", function)
    if code not in _READ:
        model = arguments_model(function.__name__, function)
        takes = tuple(each for each in GIVEN if each in _parameters(function))
        _READ[code] = model, schema_of(model, function), description_of(function), takes
    return _READ[code]


def schema_of(model: Any, function: Callable[..., Any]) -> dict[str, Any]:
    """The JSON Schema of a function's parameters, with what its docstring says of each (`name: what it is`).

    >>> def add(a: int, b: int = 0) -> int:
    ...     '''Add two numbers.
    ...
    ...     a: the first
    ...     '''
    >>> schema_of(arguments_model("add", add), add)["properties"]["a"]
    {'type': 'integer', 'description': 'the first'}
    """
    schema: dict[str, Any] = model.model_json_schema()
    schema.pop("title", None)
    about = dict(_ABOUT.findall(inspect.getdoc(function) or ""))
    for name, part in schema.get("properties", {}).items():
        part.pop("title", None)
        if name in about:
            part["description"] = about[name]
    return {"type": "object", "properties": {}, **schema}


def description_of(function: Callable[..., Any]) -> str:
    """The first paragraph of its docstring."""
    return " ".join((inspect.getdoc(function) or "").split("\n\n")[0].split())


def said_of(error: ValidationError) -> str:
    """What is wrong with arguments, in words that a model can act on.

    >>> said_of(ValidationError.from_exception_data("add", [{"type": "missing", "loc": ("a",), "input": {}}]))
    'a: Field required'
    """
    return "; ".join(
        f"{'.'.join(map(str, each['loc'])) or 'arguments'}: {each['msg']}" for each in error.errors(include_url=False)
    )


def submit_tool() -> Tool:
    properties = {"answer": {"type": "string", "description": "the final answer"}}
    schema = {"type": "object", "properties": properties, "required": ["answer"], "additionalProperties": False}
    return Tool("submit", "Give the final answer. This ends the task.", schema, call=lambda arguments: "")


def within(seconds: float, name: str, work: Callable[[], Any]) -> Any:
    """What `work` gives, on a thread that is given up when its time is over: Python code cannot be killed."""
    outcome: list[tuple[bool, Any]] = []

    def run() -> None:
        try:
            outcome.append((True, work()))
        except BaseException as error:
            outcome.append((False, error))

    thread = threading.Thread(target=run, name=f"assay-tool-{name}", daemon=True)
    thread.start()
    thread.join(seconds)
    if not outcome:
        raise BrokenTool(f"the tool {name} did not answer within {seconds:g} s")
    is_result, value = outcome[0]
    if not is_result:
        raise value
    return value
