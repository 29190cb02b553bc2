"""A verb as it is typed: its exit code, and what it printed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from assay.cli.entry import main

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main(words)
        printed = capsys.readouterr()
        return int(caught.value.code or 0), printed.out, printed.err

    return call
