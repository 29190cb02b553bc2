"""The pages under `docs/start`, walked as written: their files are made, their commands run, and what is shown is what appears.

In a `console` block, a line that begins with `$` is a command and the lines below it are what it prints. Every word that is shown must be
printed, wherever a line breaks; `…` stands for what is left out. `; echo $?` shows the exit code. After a change that is meant, run the test
with ASSAY_TEST_RECORD=1: it writes what is printed into the page, but for outputs that hold a `…`, which were cut by hand.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.analyses.test_verbs import call
from tests.docs.test_code_blocks import BLOCK, Block, blocks_of, parse

LAYOUT = re.compile(r"[─━↳│…]+")
ENDING = "; echo $?"
SERVER = "http://localhost:8000/v1"


@dataclass
class Step:
    command: str
    shown: str
    printed: str = ""
    code: int = 0

    @property
    def is_cut(self) -> bool:
        return "…" in self.shown

    def missing(self) -> Counter[str]:
        """Words that the page shows and nobody printed."""
        return _words(self.shown) - _words(self.printed)


def walk(page: Path, capsys: pytest.CaptureFixture[str], server: str | None = None) -> list[Step]:
    """Everything on the page, from top to bottom, in the working directory; `server` answers at the page's address."""
    steps = []
    for block in blocks_of(page):
        if block.title:
            Path(block.title).write_text(block.text, encoding="utf-8")
        if block.reason:
            for line in block.text.splitlines():
                if line.startswith("assay "):
                    parse(shlex.split(line, comments=True), page.name)
        elif block.language == "console":
            for step in steps_of(block):
                _take(step, capsys, server)
                steps.append(step)
    return steps


def steps_of(block: Block) -> Iterator[Step]:
    for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block.text, re.MULTILINE):
        yield Step(command, shown)


def _take(step: Step, capsys: pytest.CaptureFixture[str], server: str | None) -> None:
    command = step.command.removesuffix(ENDING)
    words = shlex.split(command.replace(SERVER, server) if server else command)
    if words[0] == "python":
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            runpy.run_path(words[1], run_name="__main__")
        step.printed = printed.getvalue()
    else:
        assert words[0] == "assay", step.command
        step.code, out, err = call(capsys, *words[1:])
        step.printed = out or err
        assert not step.code or step.command != command, f"{step.command}: exit code {step.code}: {err}"
    if step.command != command:
        step.printed += f"{step.code}\n"
    # A path that is long here alone may have broken its line.
    here = re.compile(rf"(?:\n +)?{re.escape(os.getcwd())}/")
    step.printed = here.sub(lambda at: " " if at[0][0] == "\n" else "", step.printed)
    step.printed = step.printed.replace(server, SERVER) if server else step.printed


def _words(text: str) -> Counter[str]:
    return Counter(word for word in text.split() if not LAYOUT.fullmatch(word) and "…" not in word)


def record(page: Path, steps: list[Step]) -> None:
    """Write what was printed below each command, outputs that were cut by hand aside."""
    remaining = iter(steps)

    def written(found: re.Match[str]) -> str:
        if found["language"] != "console" or found["reason"]:
            return found[0]
        text = ""
        for step in steps_of(Block(0, "console", None, None, found["text"])):
            taken = next(remaining)
            text += f"$ {step.command}\n" + (step.shown if step.is_cut else _plain(taken.printed))
        return f"```console\n{text}```"

    page.write_text(BLOCK.sub(written, page.read_text(encoding="utf-8")), encoding="utf-8")


def _plain(printed: str) -> str:
    lines = [line.rstrip() for line in printed.splitlines()]
    return "".join(f"{line}\n" for line in lines if line)
