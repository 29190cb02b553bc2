"""Where the command line writes: streams that cannot fail, and text that a terminal cannot be fooled with.

What a run shows is not its result. A terminal that is gone, a full disk below `2> log` or a closed stdout therefore
ends nothing: what cannot be written is left out, and `unwritten` says so at the end.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import shutil
import sys
import textwrap
from typing import IO, Any

import click

from assay.secret_texts import mask
from assay.terminal_text import cell_width, json_with_escapes, with_signs

WIDTH_OF_FILES = 140
"""Columns of tables that are not printed on a terminal."""


def settle_columns() -> None:
    """COLUMNS as every library can take it: a width that a word fits into. What is no number is as good as not set."""
    given = os.environ.pop("COLUMNS", "")
    if given.isdecimal() and 0 < len(given) < 10 and int(given) > 0:
        os.environ["COLUMNS"] = str(max(int(given), 20))


def echo(text: object = "", *, err: bool = False) -> None:
    """Print sentences with names, docs and messages of anybody in them. Characters that act are shown as signs; lines
    that are longer than the window is wide are wrapped between words. A file or a pipe gets them whole, unless COLUMNS
    asks for less than tables take there."""
    shown = with_signs(mask(str(text)))
    stream = sys.stderr if err else sys.stdout
    width = max(20, shutil.get_terminal_size().columns)
    if stream.isatty() or (os.environ.get("COLUMNS") and width < WIDTH_OF_FILES):
        shown = "\n".join(_wrapped(line, width) for line in shown.split("\n"))
    click.echo(shown, err=err)


def echo_as_is(text: object, *, err: bool = False, nl: bool = True) -> None:
    """Print what is copied from the window, or read by another program: a command, a file, a prompt."""
    click.echo(with_signs(mask(str(text))), err=err, nl=nl)


def _wrapped(line: str, width: int) -> str:
    if cell_width(line) <= width:
        return line
    indent = " " * max(2, len(line) - len(line.lstrip(" ")))
    return textwrap.fill(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def echo_json(value: Any, **options: Any) -> None:
    """Print a value as JSON. It stays what it is: characters that act are written as escapes."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, **options)
    click.echo(json_with_escapes(mask(text)))


class _Descriptor(io.RawIOBase):
    """The raw end of a stream. A write that fails counts as done, and the first reason is kept."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.problem: OSError | None = None

    def write(self, data: Any) -> int:
        view = memoryview(data)
        if self.problem is not None and self.problem.errno in (errno.EPIPE, errno.EBADF):
            return len(view)
        try:
            return os.write(self.number, view)
        except BlockingIOError:
            return len(view)
        except OSError as problem:
            self.problem = self.problem or problem
            return len(view)

    def fileno(self) -> int:
        return self.number

    def isatty(self) -> bool:
        return os.isatty(self.number)

    def writable(self) -> bool:
        return True


def reexec_utf8() -> None:
    """Start the command again in Python's UTF-8 mode where names of files could only be ASCII (`LC_ALL=C`).

    Python does so by itself unless somebody has told it not to; names of tasks and models are not ASCII alone.
    """
    if sys.getfilesystemencoding() == "ascii" and not sys.flags.utf8_mode and sys.orig_argv:
        os.environ.setdefault("PYTHONIOENCODING", f"{sys.stdout.encoding if sys.stdout else 'ascii'}:backslashreplace")
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])


_raw: dict[str, _Descriptor] = {}


def _open_closed_descriptors() -> None:
    """A closed one would be given to the next file that is opened, and messages would be written into that file."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)


def secure_streams() -> None:
    """Put streams that cannot fail in place of the process's own. Those that somebody has replaced are left alone."""
    _open_closed_descriptors()
    for number, name in ((1, "stdout"), (2, "stderr")):
        given: IO[str] | None = getattr(sys, name)
        if given is not getattr(sys, f"__{name}__") or name in _raw:
            continue
        with contextlib.suppress(OSError, ValueError):
            if given is not None:
                given.flush()
        _raw[name] = _Descriptor(number)
        encoding = "utf-8" if given is None else given.encoding
        stream = io.TextIOWrapper(
            io.BufferedWriter(_raw[name]),
            encoding=encoding,
            errors="backslashreplace",  # of signs that the encoding does not have, and of halves of characters
            line_buffering=number == 2 or _raw[name].isatty(),
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def unwritten() -> OSError | None:
    """Why something that was meant for stdout is missing there; a reader that has seen enough (`| head`) is no reason."""
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    problem = _raw["stdout"].problem if "stdout" in _raw else None
    return None if problem is None or problem.errno == errno.EPIPE else problem
