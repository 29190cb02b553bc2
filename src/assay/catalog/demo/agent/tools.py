"""Tools of the small jobs for agents."""

from __future__ import annotations

import ast
import json
import operator
from typing import Any

from assay.errors import ToolError

_OPERATIONS: dict[type[ast.AST], Any] = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}


def _value(node: ast.AST) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        return int(_OPERATIONS[type(node.op)](_value(node.left), _value(node.right)))
    raise ToolError("only whole numbers, +, -, * and brackets")


def calculate(expression: str) -> str:
    """Calculate an expression exactly.

    expression: whole numbers with +, -, * and brackets
    """
    try:
        return str(_value(ast.parse(expression[:200], mode="eval").body))
    except (SyntaxError, ValueError, RecursionError):
        raise ToolError("this is no expression") from None


def quick_estimate(expression: str) -> str:
    """Estimate an expression quickly; the result is rounded to two digits.

    expression: whole numbers with +, -, * and brackets
    """
    return str(int(float(f"{int(calculate(expression)):.1e}")))


class Table:
    """A table that can only be read through these tools."""

    def __init__(self, doc: dict[str, Any]) -> None:
        self._rows: list[dict[str, Any]] = json.loads(doc["rows"])

    def columns(self) -> list[str]:
        """List the columns of the table."""
        return list(self._rows[0])

    def rows(self, column: str, value: str) -> list[dict[str, Any]]:
        """Find the rows that have a value in a column.

        column: one of the columns
        value: the value, as text
        """
        if column not in self._rows[0]:
            raise ToolError(f"there is no column {column}; columns: {', '.join(self._rows[0])}")
        return [row for row in self._rows if str(row[column]) == value]


class Trains:
    """A ticket office. What is booked is its state."""

    def __init__(self, doc: dict[str, Any]) -> None:
        self._trains: list[dict[str, Any]] = json.loads(doc["trains"])
        self.booked: list[str] = []

    def search(self, day: str) -> list[dict[str, Any]]:
        """Find the trains of a day.

        day: the name of a day
        """
        return [train for train in self._trains if train["day"] == day]

    def book(self, train: str) -> str:
        """Book a seat.

        train: the id of a train
        """
        if train not in [each["id"] for each in self._trains]:
            raise ToolError(f"there is no train {train}")
        self.booked.append(train)
        return f"booked {train}"

    def cancel(self, train: str) -> str:
        """Give a seat back.

        train: the id of a train
        """
        if train not in self.booked:
            raise ToolError(f"{train} is not booked")
        self.booked.remove(train)
        return f"cancelled {train}"
