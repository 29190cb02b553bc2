"""Runs the tests of a problem, in a process that the program cannot reach.

What the tests name of the program is a stand-in that sends arguments and gets a value or an exception back, as plain data.
Tests that need more than that are not run to their end here: `NEEDS_PROGRAM`.

Run in an interpreter that knows nothing of assay: the standard library only.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import symtable
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or __package__:
    from assay.sandbox.channel import Channel
    from assay.sandbox.plain_data import NotPlainError, PlainDecoder, PlainEncoder
else:
    from channel import Channel
    from plain_data import NotPlainError, PlainDecoder, PlainEncoder

NEEDS_PROGRAM = "needs the program's process"

# Modules that tests may use although only the program imports them.
_MODULE_NAMES = "bisect cmath collections copy functools heapq itertools json math operator random re string"
MODULES = frozenset(_MODULE_NAMES.split())
# What tests may import and still be independent: nothing in it makes code or names of a text that the program returned.
_IMPORT_NAMES = "abc array calendar contextlib dataclasses datetime decimal enum fractions numbers numpy statistics sys time typing unittest warnings"
IMPORTS = MODULES | frozenset(_IMPORT_NAMES.split())
_MAKER_NAMES = (
    "__builtins__ __import__ breakpoint compile delattr eval exec getattr globals locals modules setattr vars"
)
MAKERS_OF_CODE = frozenset(_MAKER_NAMES.split())
EXCEPTIONS = {
    name: value
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, BaseException)
}
SILENT = (StopIteration, StopAsyncIteration, GeneratorExit, IndexError, KeyError, AttributeError)
"""Exceptions by which Python itself ends a loop or takes a default, without a word in the tests."""


class NeedsProgram(BaseException):
    """Only objects that live in the program's process can answer this."""


class Program:
    """The program as its tests see it."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.needed = False
        self.raised: list[type[BaseException]] = []

    def need(self) -> NeedsProgram:
        """An exception for the caller to raise. That it was needed is noted here, so tests that catch it hide nothing."""
        self.needed = True
        return NeedsProgram()

    def ask(self, *message: Any, objects: list[Any] | None = None) -> Any:
        """A value, or the exception that the program raised. Arguments that the program changed are changed."""
        self.channel.send(message)
        reply = self.channel.receive()
        decoder = PlainDecoder(objects or ())
        try:
            kind, *content = reply
            if kind == "value":
                value = decoder.decode(content[0])
                for number, contents in content[1]:
                    decoder.fill((objects or ())[number], contents)
                return value
            if kind == "raised":
                error = EXCEPTIONS[content[0]](*decoder.decode(content[1]))
                self.raised.append(type(error))
            elif reply == ["more"]:
                error = self.need()
            else:
                raise ValueError(kind)
        except Exception:  # whatever it sent is not plain data
            self.channel.fail("the program sent what is not a value")
        raise error


class ProgramFunction:
    """A function of the program. Whatever else is done with it than calling it needs the program itself."""

    def __init__(self, program: Program, name: str) -> None:
        object.__setattr__(self, "_program", program)
        object.__setattr__(self, "_name", name)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        program: Program = object.__getattribute__(self, "_program")
        encoder = PlainEncoder()
        try:
            message = ["call", object.__getattribute__(self, "_name"), encoder.encode(arguments), encoder.encode(named)]
        except (NotPlainError, RecursionError):
            raise program.need() from None
        return program.ask(*message, objects=encoder.objects)

    def __getattribute__(self, name: str) -> Any:
        if name == "__class__":
            return types.FunctionType
        raise object.__getattribute__(self, "_program").need()

    def __setattr__(self, name: str, value: Any) -> None:
        raise object.__getattribute__(self, "_program").need()

    def __eq__(self, other: object) -> bool:
        raise object.__getattribute__(self, "_program").need()

    def __hash__(self) -> int:
        raise object.__getattribute__(self, "_program").need()

    def __repr__(self) -> str:
        raise object.__getattribute__(self, "_program").need()


def run_tests(channel: Channel, tests: str) -> str:
    """`passed`, how the tests failed, or `NEEDS_PROGRAM`."""
    program = Program(channel)
    try:
        code = compile(tests, "<tests>", "exec")
        module = types.ModuleType("__main__")
        module.__dict__.update(what_tests_use(program, tests))
        exec(code, vars(module))
        result = "passed"
        if not catches(tests, program.raised):
            raise program.need()
    except BaseException as error:  # tests may raise anything, SystemExit too: it is their verdict
        result = describe(error)
    if program.needed:
        return NEEDS_PROGRAM
    return "failed: the program ended before its tests" if channel.broken and result == "passed" else result


def what_tests_use(program: Program, tests: str) -> dict[str, Any]:
    """What the tests take from the program, asked for once, before they run.

    A built-in name is Python's own, unless the tests use nothing else: then it is what they test. Where they use more, nobody can
    tell what they test.
    """
    top = symtable.symtable(tests, "<tests>", "exec")
    own = {symbol.get_name() for symbol in top.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    used = {name for name in global_names(top) if name not in own and not name.startswith("__")}
    found = kinds(program, used - set(vars(builtins)))
    if "function" not in found.values():
        found |= kinds(program, used & set(vars(builtins)))
        if len(used) > 1 and found.keys() & set(vars(builtins)):
            raise program.need()
    functions = [name for name, kind in found.items() if kind == "function"]
    values = [name for name, kind in found.items() if kind == "value"]
    modules = [name for name, kind in found.items() if kind == "module" and name in MODULES]
    # Two functions may agree with each other, and a value may change when a function is called.
    several = len(functions) > 1 or (functions and values)
    others = len(found) > len(functions + values + modules)
    if several or others or compares_identity(tests) or makes_code(tests):
        raise program.need()
    return {
        **{name: ProgramFunction(program, name) for name in functions},
        **{name: program.ask("get", name) for name in values},
        **{name: importlib.import_module(name) for name in modules},
    }


def kinds(program: Program, names: set[str]) -> dict[str, str]:
    """Of these names, those that the program defines, and what each is: a function, a value, a module or something else."""
    found = program.ask("names", PlainEncoder().encode(sorted(names)))
    return {name: str(found[name]) for name in names if name in found}


def compares_identity(tests: str) -> bool:
    """Whether they ask if two things are one, which a copy cannot answer."""
    for node in ast.walk(ast.parse(tests)):
        if isinstance(node, ast.Name) and node.id == "id":
            return True
        if (
            isinstance(node, ast.Compare)
            and any(isinstance(each, ast.Is | ast.IsNot) for each in node.ops)
            and not any(is_same_everywhere(each) for each in (node.left, *node.comparators))
        ):
            return True
    return False


def makes_code(tests: str) -> bool:
    """Whether they could run, or look up, what the program returned as text."""
    for node in ast.walk(ast.parse(tests)):
        if isinstance(node, ast.Import) and not all(each.name.partition(".")[0] in IMPORTS for each in node.names):
            return True
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] not in IMPORTS:
            return True
        if (isinstance(node, ast.Name) and node.id in MAKERS_OF_CODE) or (
            isinstance(node, ast.Attribute | ast.alias)
            and (node.attr if isinstance(node, ast.Attribute) else node.name) in MAKERS_OF_CODE - {"compile"}
        ):
            return True
    return False


def catches(tests: str, raised: list[type[BaseException]]) -> bool:
    """Whether the tests name each of these in an `except`. One that they do not name, and survive, has changed their course."""
    named: list[type[BaseException]] = []
    nodes: list[ast.AST] = [ast.parse(tests)]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.ExceptHandler) and node.type is None:
            named.append(BaseException)
        elif isinstance(node, ast.Name) and node.id in EXCEPTIONS:
            named.append(EXCEPTIONS[node.id])
        if not isinstance(node, ast.Raise):
            nodes += ast.iter_child_nodes(node)
    return all(cls in named if issubclass(cls, SILENT) else issubclass(cls, tuple(named)) for cls in raised)


def is_same_everywhere(node: ast.expr) -> bool:
    """`None`, `True` and their like, or the class of something: `type(x) is int`."""
    asks_class = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "type"
    return asks_class or isinstance(node, ast.Constant)


def global_names(table: symtable.SymbolTable) -> Iterator[str]:
    """Names that are looked up among the globals, in whatever scope."""
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (table.get_type() == "module" or symbol.is_global()):
            yield symbol.get_name()
    for child in table.get_children():
        yield from global_names(child)


def describe(error: BaseException) -> str:
    return f"failed: {type(error).__name__}: {error}"[:400]
