"""Runs the program that a model wrote, and then does what the test runner asks of it.

Run in an interpreter that knows nothing of assay: the standard library only.
"""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or __package__:
    from assay.sandbox.proxies import OPERATIONS
    from assay.sandbox.wire import Peer
else:
    from proxies import OPERATIONS
    from wire import Peer


class Program(Peer):
    def __init__(self, channel: int, source: str) -> None:
        super().__init__(channel)
        self._source = source

    def perform(self, operation: str, arguments: list[Any]) -> Any:
        if operation == "start":
            return self._start(arguments[0])
        return OPERATIONS[operation](*arguments)

    def _start(self, names: list[str]) -> dict[str, Any]:
        """Run the program; what it defines of the names that its tests use."""
        module = types.ModuleType("__main__")
        sys.modules["__main__"] = module
        exec(compile(self._source, "<program>", "exec"), vars(module))
        return {name: vars(module)[name] for name in names if name in vars(module)}


def run(channel: int, source: str) -> None:
    Program(channel, source).serve_forever()
