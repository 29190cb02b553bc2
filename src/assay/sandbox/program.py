"""The process that runs what a model wrote. Started afresh, with one descriptor: it has the program's source, and answers calls.

A test that needs objects of the program (`test_runner`) is run here too, in a process started for that: then it is the program's
own word whether it passed.

Run in an interpreter that knows nothing of assay: the standard library only.
"""

from __future__ import annotations

import builtins
import os
import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or __package__:
    from assay.sandbox import isolation
    from assay.sandbox.channel import Channel
    from assay.sandbox.plain_data import NotPlainError, PlainDecoder, PlainEncoder, same, snapshot
else:
    HERE = os.path.dirname(os.path.abspath(__file__))
    sys.path.insert(0, HERE)
    import isolation
    from channel import Channel
    from plain_data import NotPlainError, PlainDecoder, PlainEncoder, same, snapshot

    sys.path.remove(HERE)

CHANNEL = 3


def serve(channel: Channel, module: types.ModuleType, source: str) -> None:
    """Run the program when its tests first ask for something, and answer."""
    started = False
    while True:
        operation, *arguments = channel.receive()
        decoder = PlainDecoder()
        values = [decoder.decode(each) for each in arguments]
        before = [snapshot(each) for each in decoder.objects]
        try:
            if not started:
                started = True
                exec(compile(source, "<program>", "exec"), vars(module))
            encoder = PlainEncoder(decoder.objects)
            result = encoder.encode(perform(vars(module), operation, *values))
            changes = [
                (n, encoder.contents(each))
                for n, (each, old) in enumerate(zip(decoder.objects, before))
                if not same(old, snapshot(each))
            ]
            reply = ["value", result, changes]
        except NotPlainError:
            reply = ["more"]
        except BaseException as error:  # the tests get it
            reply = describe(error)
        try:
            channel.send(reply)
        except (ValueError, RecursionError) as error:
            channel.send(describe(error))


def perform(names: dict[str, Any], operation: str, target: Any, *arguments: Any) -> Any:
    if operation == "names":
        return {name: kind(names[name]) for name in target if name in names}
    if operation == "get":
        return names[target]
    positional, named = arguments
    return names[target](*positional, **named)


def kind(value: Any) -> str:
    """What a name of the program stands for."""
    if isinstance(value, types.ModuleType):
        return "module"
    if callable(value):
        return "object" if isinstance(value, type) else "function"
    try:
        PlainEncoder().encode(value)
    except NotPlainError:
        return "object"
    return "value"


def describe(error: BaseException) -> list[Any]:
    """An exception of Python's own crosses by its name; one of the program's own class needs the program."""
    if getattr(builtins, type(error).__name__, None) is not type(error):
        return ["more"]
    try:
        return ["raised", type(error).__name__, PlainEncoder().encode(error.args)]
    except (NotPlainError, RecursionError):
        return ["raised", type(error).__name__, PlainEncoder().encode((str(error),))]


def run_both(module: types.ModuleType, source: str, tests: str) -> str:
    """Program and tests in one process: `passed`, or how the tests failed."""
    try:
        for name, code in (("<program>", source), ("<tests>", tests)):
            exec(compile(code, name, "exec"), vars(module))
    except BaseException as error:
        return f"failed: {type(error).__name__}: {error}"[:400]
    return "passed"


def main() -> None:
    channel = Channel(CHANNEL)
    job = channel.receive()
    os.chdir(job["place"])
    missing = isolation.confine(job, job["place"])
    if set(missing) & set(job["required"]):
        return
    sys.argv[:] = ["program"]
    module = sys.modules["__main__"] = types.ModuleType("__main__")
    if "tests" in job:
        os.write(CHANNEL, run_both(module, job["program"], job["tests"]).encode("utf-8", "replace"))
    else:
        serve(channel, module, job["program"])


if __name__ == "__main__":
    try:
        main()
    finally:
        os._exit(0)
