"""What a doc gives its agent: the files of the sandbox, and what a scripted user says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from assay.agents import UserTurn, Workspace
from assay.config import AgentConfig, FunctionRef
from assay.errors import DataError
from assay.instance import Doc
from assay.templates import Template, compile_template


class AgentDocs:
    """The parts of `agent:` that differ from doc to doc."""

    def __init__(self, config: AgentConfig) -> None:
        self.agent = config

    def workspace(self, doc: Doc) -> Workspace:
        if not self.agent.has_workspace:
            return Workspace({})
        found = self._given(self.agent.sandbox.files, self._files, doc)
        if isinstance(found, Workspace):
            return found
        if not isinstance(found, Mapping) or not all(isinstance(each, str | None) for each in found.values()):
            raise DataError(
                f"the files of the sandbox are {str(found)[:80]}", hint="Expected a mapping of path to text."
            )
        files = {str(path): text for path, text in found.items() if text is not None}
        for path in files:
            if path.startswith("/") or ".." in Path(path).parts:
                raise DataError(f"the file {path!r} would lie outside the sandbox", hint="Use a path inside it.")
        return Workspace(files, None if self._setup is None else self._setup.render(doc))

    def turns(self, doc: Doc) -> list[UserTurn]:
        """What a scripted user says after the question."""
        if self.agent.user is None or self.agent.user.turns is None:
            return []
        found = self._given(self.agent.user.turns, dict(enumerate(self._turns)), doc)
        if isinstance(found, Mapping):
            found = list(found.values())
        turns = [each if isinstance(each, Mapping) else {"say": each} for each in found or ()]
        if isinstance(found, str) or not all(isinstance(each.get("say"), str) for each in turns):
            raise DataError(
                f"the turns of the user are {str(found)[:80]}", hint="Expected a list of texts, or of {say, tools}."
            )
        return [UserTurn(each["say"], tuple(map(str, each.get("tools") or ()))) for each in turns]

    def _given(self, given: Any, templates: Mapping[Any, Template], doc: Doc) -> Any:
        """Templates rendered, the value of a column, or what a function says of the doc."""
        if isinstance(given, str):
            value = doc.get(given)
            try:
                return json.loads(value) if isinstance(value, str) else value
            except ValueError as error:
                raise DataError(f"the column {given} is no JSON: {error}") from None
        if isinstance(given, Mapping | list):
            return {name: template.render(doc) for name, template in templates.items()}
        return (given.load() if isinstance(given, FunctionRef) else given)(doc)

    @cached_property
    def _files(self) -> dict[str, Template]:
        files = self.agent.sandbox.files
        return {path: compile_template(text) for path, text in files.items()} if isinstance(files, Mapping) else {}

    @cached_property
    def _setup(self) -> Template | None:
        return None if self.agent.sandbox.setup is None else compile_template(self.agent.sandbox.setup)

    @cached_property
    def _turns(self) -> list[Template]:
        turns = self.agent.user.turns if self.agent.user else None
        return [compile_template(text) for text in turns] if isinstance(turns, list) else []
