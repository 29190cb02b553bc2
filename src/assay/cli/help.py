"""`--help` that fits the window: no word is broken, not even at a hyphen, and examples can be copied at any width."""

from __future__ import annotations

import re
from collections.abc import Iterable

import click

_ROOM_FOR_TWO_COLUMNS = 76
_HYPHEN = "\ue000"
"""Stands for a hyphen until the lines are made: click would break `gl-code-quality-report.json` at each."""


class FittedHelp(click.HelpFormatter):
    def write(self, string: str) -> None:
        super().write(string.replace(_HYPHEN, "-"))

    def write_text(self, text: str) -> None:
        super().write_text(_continued(text, self.width - self.current_indent).replace("-", _HYPHEN))

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Where there is no room for flags beside what is said of them, that stands below."""
        shown = [(first.replace(" RANGE", ""), second.replace("-", _HYPHEN)) for first, second in rows]
        widest = max((len(first) for first, _ in shown), default=0)
        if self.width < _ROOM_FOR_TWO_COLUMNS and widest > self.width // 4:
            col_max = 4
        super().write_dl(shown, col_max, col_spacing)


class HelpContext(click.Context):
    formatter_class = FittedHelp


def with_fitted_help(command: click.Command) -> click.Command:
    """The same command, and its subcommands."""
    command.context_class = HelpContext
    if isinstance(command, click.Group):
        for each in command.commands.values():
            with_fitted_help(each)
    return command


def _continued(text: str, width: int) -> str:
    """Commands in a block that click does not wrap, continued on the next line as a shell takes it.

    >>> print(_continued("\\b\\nassay run --model hf --tasks arc_easy", 28).replace(chr(8), "block:"))
    block:
    assay run --model hf \\
        --tasks arc_easy
    """
    lines, in_block = [], False
    for line in text.split("\n"):
        in_block = line.strip() == "\b" or (in_block and bool(line.strip()))
        is_command = in_block and line.startswith("assay ")
        lines.append(_command(line, width) if is_command and len(line) > width else line)
    return "\n".join(lines)


def _command(line: str, width: int) -> str:
    """A flag and its value stay together."""
    first, *flags = re.split(" (?=-)", line)
    lines = [first]
    for flag in flags:
        if len(lines[-1]) + 1 + len(flag) + len(" \\") <= width:
            lines[-1] += f" {flag}"
        else:
            lines.append(f"    {flag}")
    return " \\\n".join(lines)
