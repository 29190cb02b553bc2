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

PLACE = "/workspace"
CHECK_OUTPUT = 20_000
"""Characters that are stored of what a check prints: its end, where the summary is."""
_WORDS = {"bash": ("command", ["/bin/bash", "-c"]), "python": ("code", ["python", "-c"])}
_ABOUT = {
    "bash": "Run a shell command. Files stay for the next call; processes do not.",
    "python": "Run a Python program and see what it prints. Files stay for the next call; variables do not.",
}


class ShellTools:
    """One sandbox for all commands of a trajectory."""

    def __init__(self, config: AgentConfig, workspace: Workspace) -> None:
        self.config, self.workspace = config, workspace
        place = config.sandbox
        self.shell = open_shell(
            seconds=place.seconds,
            memory=place.memory,
            disk=place.disk,
            image=workspace.image or place.image,
            build=workspace.build,
            place=workspace.place or PLACE,
            network=place.network or bool(workspace.network),
            hidden=hidden_from(config),
        )
        try:
            self.shell.write(as_bytes(workspace.files))
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
        """What the workspace's check says; one that decides nothing says nothing of the model."""
        check = self.workspace.check
        if check is None:
            return {}
        done, found = self.shell.check(
            ["/bin/bash", "-c", check.command], as_bytes(check.files), check.reads, check.seconds
        )
        if done.ended != "exited" or (check.reads and not found):
            why = done.ended if done.ended != "exited" else f"it wrote none of {', '.join(check.reads)}"
            raise BrokenTool(f"the check of the sandbox did not decide: {why}; it printed {done.output[-300:]!r}")
        output = done.output[-CHECK_OUTPUT:]
        return {
            "check": {
                "code": done.code,
                "output": output,
                "files": {path: text.decode("utf-8", "replace") for path, text in found.items()},
            }
        }

    def files(self) -> tuple[Mapping[str, bytes], Mapping[str, str]]:
        return self.shell.read()

    def close(self) -> None:
        self.shell.close()


def as_bytes(files: Mapping[str, str | bytes]) -> dict[str, bytes]:
    return {
        path: each if isinstance(each, bytes) else each.encode("utf-8", "surrogatepass") for path, each in files.items()
    }


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
