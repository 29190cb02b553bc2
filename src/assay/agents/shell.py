"""`bash` and `python` in a directory of the trajectory's own, confined by the sandbox."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assay.agents.tools import BrokenTool, Tool
from assay.agents.workspace import Workspace
from assay.config import AgentConfig, FunctionRef, ToolConfig, WorkspaceConfig
from assay.errors import ToolError
from assay.metrics import open_shell

_WORDS = {"bash": ("command", ["/bin/bash", "-c"]), "python": ("code", ["python", "-c"])}
_ABOUT = {
    "bash": "Run a shell command. Files stay for the next call; processes do not.",
    "python": "Run a Python program and see what it prints. Files stay for the next call; variables do not.",
}


class ShellTools:
    """One sandbox for all commands of a trajectory."""

    def __init__(self, config: AgentConfig, workspace: Workspace) -> None:
        self.config = config
        place = config.sandbox
        self.shell = open_shell(
            seconds=place.seconds,
            memory=place.memory,
            disk=place.disk,
            image=place.image,
            network=place.network,
            hidden=hidden_from(config),
        )
        try:
            self.shell.write({path: text.encode("utf-8", "surrogatepass") for path, text in workspace.files.items()})
            if workspace.setup:
                self._set_up(workspace.setup, place)
        except BaseException:
            self.shell.close()
            raise

    def _set_up(self, script: str, place: WorkspaceConfig) -> None:
        done = self.shell.run_command(["/bin/bash", "-e", "-c", script], place.seconds)
        if done.code != 0:
            raise BrokenTool(
                f"the setup of the sandbox failed ({done.ended}, exit code {done.code}): {done.output[-300:]}"
            )

    def tools(self) -> list[Tool]:
        return [made for tool in self.config.tools if tool.name for made in shell_tool(tool, self._run)]

    def _run(self, name: str, arguments: Mapping[str, Any]) -> str:
        key, words = _WORDS[name]
        text = arguments[key]
        if "\0" in text:
            raise ToolError("a command cannot contain NUL characters")
        if len(text.encode("utf-8", "replace")) > 100_000:
            raise ToolError("a command may have 100,000 bytes; write a long program to a file in parts")
        seconds = self.config.sandbox.seconds
        done = self.shell.run_command([*words, text.encode("utf-8", "replace").decode()], seconds)
        if done.ended == "timed out":
            return f"{done.output}\n[it was ended after {seconds:g} s]"
        ended = "" if done.ended == "exited" else f"\n[it was ended: {done.ended}]"
        return f"{done.output}{ended}" + (f"\n[exit code {done.code}]" if done.code and not ended else "")

    def state(self) -> Mapping[str, Any]:
        return {}

    def files(self) -> tuple[Mapping[str, bytes], Mapping[str, str]]:
        return self.shell.read()

    def close(self) -> None:
        self.shell.close()


def shell_tool(config: ToolConfig, run: Any = None) -> list[Tool]:
    name = str(config.name)
    key, _ = _WORDS[name]
    schema = {
        "type": "object",
        "properties": {key: {"type": "string"}},
        "required": [key],
        "additionalProperties": False,
    }

    def check(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        if set(arguments) != {key} or not isinstance(arguments[key], str):
            raise ToolError(f"{name} takes one argument, {key}, which is text")
        return arguments

    # A command has a limit of its own; its sandbox must say so before the tool counts as broken.
    return [Tool(name, _ABOUT[name], schema, lambda arguments: run(name, arguments), check, seconds=3600.0)]


def hidden_from(config: AgentConfig) -> list[str]:
    """What commands must not see, wherever it is installed: our own files, which have right answers among them, installed
    packages, which may, and the directory of the task."""
    import sysconfig

    places = [str(Path(__file__).parents[1]), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    codes = [tool.function for tool in config.tools] + [config.sandbox.files]
    places += [str(code.directory) for code in codes if isinstance(code, FunctionRef) and code.directory is not None]
    return list(dict.fromkeys(places))
