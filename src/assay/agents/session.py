"""The tools of one trajectory: opened for it, called in turn, looked at when it is over, and closed."""

from __future__ import annotations

import copy
import hashlib
import inspect
import json
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from assay.agents.tools import BrokenTool, PythonTools, Tool, ToolResult, ToolSource, submit_tool, within
from assay.agents.workspace import Workspace
from assay.config import AgentConfig, FunctionRef, what_failed
from assay.errors import AssayError, ToolError
from assay.registry import load_object
from assay.results import EndState
from assay.tool_calls import readable


class Session:
    """One trajectory's own tools."""

    def __init__(self, config: AgentConfig, doc: Mapping[str, Any], workspace: Workspace) -> None:
        self.config = config
        self.sources: list[ToolSource] = []
        self.tools: dict[str, Tool] = {}
        self._end_seconds = 60.0 + (workspace.check.seconds if workspace.check else 0.0)
        try:
            for source in open_sources(config, doc, workspace):
                self.sources.append(source)
                self.tools |= {tool.name: tool for tool in source.tools()}
        except BaseException as error:
            self.close()
            raise broken("could not be started", error) from error

    def call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """What came of it, as the model sees it. Raises `BrokenTool` where the tool did what no tool may do."""
        tool = self.tools.get(name)
        if tool is None:
            return ToolResult(f"There is no tool {name}. Tools: {', '.join(self.tools)}.", is_error=True)
        try:
            # A tool may hold on to what it is given, and change it later; the call stays as it was made.
            checked = tool.check(copy.deepcopy(arguments))
            # What it gives may have code of its own too, or no end.
            made: ToolResult = within(tool.seconds, name, lambda: self._result(tool.call(checked)))
        except ToolError as error:
            return ToolResult(self._shown(str(error)), is_error=True)
        except BaseException as error:
            raise broken(f"{name} broke", error) from error
        return made

    def _result(self, value: Any) -> ToolResult:
        return value if isinstance(value, ToolResult) else ToolResult(self._shown(value))

    def _shown(self, value: Any) -> str:
        """A result as text that any server takes; of a long one, beginning and end."""
        text = readable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))
        most = self.config.output
        if len(text) <= most:
            return text
        return f"{text[: most // 2]}\n… {len(text) - most:,} characters left out …\n{text[-(most // 2) :]}"

    def end_state(self) -> EndState:
        files: dict[str, bytes] = {}
        large: dict[str, str] = {}
        tools: dict[str, Any] = {}
        for source in self.sources:
            try:
                own, too_large = within(60.0, "state", source.files)
                files, large = {**files, **own}, {**large, **too_large}
                tools |= within(self._end_seconds, "state", source.state)
            except BaseException as error:
                raise broken("could not be looked at", error) from error
        return EndState.of(files, json.loads(json.dumps(tools, default=str)), large)

    def close(self) -> None:
        for source in reversed(self.sources):
            with suppress(Exception):  # it is over, whatever a tool does when it ends
                source.close()
        self.sources = []


def broken(what: str, error: BaseException) -> BrokenTool:
    if isinstance(error, BrokenTool):
        return error
    said = (
        error.message
        if isinstance(error, AssayError)
        else what_failed(error)[0]
        if isinstance(error, Exception)
        else ""
    )
    return BrokenTool(f"a tool {what}: {said or type(error).__name__}")


def open_sources(config: AgentConfig, doc: Mapping[str, Any], workspace: Workspace) -> list[ToolSource]:
    sources: list[ToolSource] = []
    if config.has_workspace:
        make: Any = load_object("assay.agents.shell:ShellTools")
        sources.append(make(config, workspace))
    for tool in config.tools:
        if tool.function is not None:
            sources.append(PythonTools(tool, doc))
        elif tool.mcp is not None:
            make = load_object("assay.agents.mcp:McpTools")
            listed: Any = load_object("assay.agents.mcp:listed_tools")
            sources.append(make(tool, [each.offer for each in listed(tool)]))
    return sources


def offers_of(config: AgentConfig, doc: Mapping[str, Any]) -> list[Tool]:
    """What is offered for a doc: Python tools may differ from doc to doc, others do not."""
    found: list[Tool] = []
    for tool in config.tools:
        if tool.function is not None:
            source = PythonTools(tool, doc)
            found += source.tools()
            source.close()
        else:
            make: Any = "assay.agents.shell:shell_tool" if tool.name else "assay.agents.mcp:listed_tools"
            listed: Any = load_object(make)
            found += listed(tool)
    return [*found, *([submit_tool()] if config.submit == "tool" else [])]


def code_digest(config: AgentConfig) -> str:
    """What decides the results of the tools, beside the calls: their code, commands and confinement."""
    parts: list[Any] = [config.sandbox.model_dump(exclude={"files"}, mode="json")]
    for tool in config.tools:
        parts.append([tool.name, tool.mcp, sorted(tool.env), _source_of(tool.function), tool.effects])
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:32]


def _source_of(code: Any) -> str:
    """A hash of the file that defines it; its name where there is no file."""
    code = code.load() if isinstance(code, FunctionRef) else code
    if code is None:
        return ""
    try:
        return f"{code.__qualname__} {_file_hash(inspect.getsourcefile(code) or '')}"
    except (OSError, TypeError, AttributeError):
        return repr(getattr(code, "__qualname__", type(code).__qualname__))


@cache
def _file_hash(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()
