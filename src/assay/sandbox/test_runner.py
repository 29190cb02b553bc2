"""Runs the tests of a problem, in a process that the program cannot reach. What the tests name of the program is a copy of
a value, or a proxy; see `wire`.

Run in an interpreter that knows nothing of assay: the standard library only.
"""

from __future__ import annotations

import re
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or __package__:
    from assay.sandbox.wire import Peer
else:
    from wire import Peer


class Runner(Peer):
    def perform(self, operation: str, arguments: list[Any]) -> Any:
        """The program may call what the tests gave it to call, and use objects of their classes by public names. No more."""
        target, *rest = arguments
        if operation == "call" and isinstance(target, types.FunctionType | types.MethodType | type):
            positional, named = rest
            return target(*positional, **named)
        if operation in ("iter", "next") and isinstance(target, types.GeneratorType):
            return iter(target) if operation == "iter" else next(target)
        if (
            operation in ("getattr", "setattr")
            and type(target).__module__ == "__main__"
            and not rest[0].startswith("_")
        ):
            return getattr(target, rest[0]) if operation == "getattr" else setattr(target, *rest)
        return super().perform(operation, arguments)


def run_tests(channel: int, tests: str) -> str:
    """`passed`, or how the tests failed."""
    peer = Runner(channel)
    try:
        code = compile(tests, "<tests>", "exec")
        module = types.ModuleType("__main__")
        module.__dict__.update(peer.ask("start", sorted(set(re.findall(r"[^\W\d]\w*", tests)))))
        exec(code, vars(module))
    except BaseException as error:  # tests may raise anything, SystemExit too: it is their verdict
        return describe(error)
    return "passed"


def describe(error: BaseException) -> str:
    try:
        return f"failed: {type(error).__name__}: {error}"[:400]
    except BaseException:  # a message that the program makes
        return f"failed: {type(error).__name__}"
