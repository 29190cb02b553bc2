"""Conditions of members: `if: "model.params > 7e9 and model.name != 'gpt2'"`.

Comparisons, arithmetic, `and`, `or`, `not`, `in`, dotted names, and sizes such as `7B`. Nothing can be called or subscripted, so a group
file from a stranger can ask about the model and do nothing else.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from assay.errors import ConfigError, did_you_mean

_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda item, container: item in container,
    ast.NotIn: lambda item, container: item not in container,
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Not: operator.not_,
    ast.USub: operator.neg,
}
_LONGEST = 1000
_SIZES = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}
_SIZE = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)([KMBT])\b")
_QUOTED_OR_SIZE = re.compile(rf"('[^']*'|\"[^\"]*\")|{_SIZE.pattern}")


def read_size(text: str) -> float | None:
    """A number of parameters as people write it.

    >>> read_size("7B"), read_size("1.7B"), read_size("base")
    (7000000000.0, 1700000000.0, None)
    """
    found = _SIZE.fullmatch(text.strip())
    return None if found is None else float(found[1]) * _SIZES[found[2]]


def _with_sizes(expression: str) -> str:
    """The condition with sizes spelled out; quoted text stays as it is."""
    return _QUOTED_OR_SIZE.sub(lambda found: found[1] or repr(float(found[2]) * _SIZES[found[3]]), expression)


def holds(expression: str, facts: Mapping[str, Any]) -> bool:
    """Whether a condition is true of these facts, a mapping of mappings.

    >>> holds("model.params > 7e9", {"model": {"params": 8.0e9}})
    True
    >>> holds("'chat' in model.name or not model.params", {"model": {"name": "base", "params": 1}})
    False
    """
    return bool(_Evaluation(expression, facts).run())


def names_in(expression: str) -> set[str]:
    """The dotted names a condition asks about; it is an error if it does not parse."""
    tree = _parse(expression)
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return {
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Name | ast.Attribute) and id(node) not in inner
    }


def _parse(expression: str) -> ast.expr:
    if not isinstance(expression, str):  # YAML reads `if: true` as a truth value
        raise ConfigError(
            f"the condition {expression!r} is not text",
            hint='Quote it, as in if: "model.params > 7e9", or leave it out.',
        )
    if len(expression) > _LONGEST:
        raise ConfigError(f"a condition of {len(expression)} characters", hint=f"The limit is {_LONGEST}.")
    try:
        return ast.parse(_with_sizes(expression.strip()), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ConfigError(
            f"the condition {expression!r} cannot be read: {error}",
            hint='Write a comparison such as "model.params > 7e9".',
        ) from error


class _Evaluation:
    def __init__(self, expression: str, facts: Mapping[str, Any]) -> None:
        self.expression = expression
        self.facts = facts

    def run(self) -> Any:
        try:
            return self.visit(_parse(self.expression))
        except (TypeError, ArithmeticError) as error:
            raise ConfigError(f"the condition {self.expression!r} cannot be evaluated: {error}") from error

    def visit(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=bool() | int() | float() | str() | None as value):
                return value
            case ast.Name() | ast.Attribute():
                return self.look_up(ast.unparse(node))
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return [self.visit(item) for item in items]
            case ast.BoolOp(op=ast.And(), values=parts):
                return all(self.visit(part) for part in parts)
            case ast.BoolOp(op=ast.Or(), values=parts):
                return any(self.visit(part) for part in parts)
            case ast.UnaryOp(op=op, operand=operand) if type(op) in _OPERATORS:
                return _OPERATORS[type(op)](self.visit(operand))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                return _OPERATORS[type(op)](self.number(left), self.number(right))
            case ast.Compare(left=left, ops=ops, comparators=comparators) if all(type(op) in _OPERATORS for op in ops):
                values = [self.visit(part) for part in (left, *comparators)]
                return all(_OPERATORS[type(op)](a, b) for op, a, b in zip(ops, values, values[1:]))
        raise ConfigError(
            f"the condition {self.expression!r} contains {ast.unparse(node)!r}, which is not allowed",
            hint="Use names, numbers, strings, comparisons, + - * /, and, or, not, in.",
        )

    def number(self, node: ast.expr) -> float:
        """Arithmetic is on numbers only: `'a' * 9**9` would be a way to fill memory."""
        value = self.visit(node)
        if not isinstance(value, int | float):
            raise TypeError(f"{ast.unparse(node)} is not a number")
        return float(value)

    def look_up(self, name: str) -> Any:
        fact: Any = self.facts
        for part in name.split("."):
            if not isinstance(fact, Mapping) or part not in fact:
                known = _dotted(self.facts)
                raise ConfigError(
                    f"the condition {self.expression!r} asks for {name!r}, which is not known",
                    hint=did_you_mean(name, known) or f"Known: {', '.join(known) or 'nothing'}.",
                )
            fact = fact[part]
        if fact is None:
            raise ConfigError(
                f"the condition {self.expression!r} asks for {name!r}, which this model does not report",
                hint="Set it with --metadata model_size=7B, or remove the condition.",
            )
        return fact


def _dotted(facts: Mapping[str, Any], prefix: str = "") -> list[str]:
    names: list[str] = []
    for key, value in facts.items():
        names += _dotted(value, f"{prefix}{key}.") if isinstance(value, Mapping) else [f"{prefix}{key}"]
    return names
