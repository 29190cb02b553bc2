"""`Ctrl-C` with a model that has no stream of its own, and what the user is told."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.run.test_run import bench, run  # noqa: F401  `bench` is a fixture
from tests.run.test_until import many

from assay.instance import Instance, Response
from assay.models.base import LM, PIECE
from assay.run import Interrupted, Quiet
from assay.run.progress import StopRequest


class Whole(LM):
    """Answers lists, as a class written for lm-evaluation-harness does; `Ctrl-C` comes during the third."""

    def __init__(self, interrupts: bool = False) -> None:
        self.asked: list[int] = []
        self.interrupts = interrupts

    def loglikelihood(self, requests: Any) -> Any:
        self.asked.append(len(requests))
        if self.interrupts and len(self.asked) == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return [(-1.0, False)] * len(requests)

    loglikelihood_rolling = generate_until = loglikelihood

    def fingerprint(self) -> str:
        return "whole"


class Heard(Quiet):
    def __init__(self) -> None:
        self.messages: list[str] = []
        self.spoke = threading.Event()

    def message(self, text: str) -> None:
        self.messages.append(text)
        self.spoke.set()


def test_the_first_interrupt_says_so_and_loses_nothing(bench: Path) -> None:  # noqa: F811
    many(bench, 400)
    first, heard = Whole(interrupts=True), Heard()
    with pytest.raises(Interrupted, match=f"{3 * PIECE} requests answered and kept"):
        run(bench, first, tasks=["colours"], progress=heard)
    assert first.asked == [PIECE] * 3
    assert heard.spoke.wait(5)
    assert [text for text in heard.messages if "Ctrl-C again" in text] == heard.messages
    second = Whole()
    run(bench, second, tasks=["colours"])
    assert sum(first.asked) + sum(second.asked) == 1200


def test_the_second_interrupt_stops_at_once() -> None:
    with StopRequest() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_a_stop_is_heard_also_where_the_store_answers_all(bench: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    run(bench, Whole(), tasks=["colours"])
    monkeypatch.setattr(StopRequest, "__call__", lambda self: True)
    with pytest.raises(Interrupted):
        run(bench, Whole(), tasks=["colours"])


def test_positions_go_on_from_piece_to_piece() -> None:
    requests = [Instance("loglikelihood", {}, ("a", "b"), i) for i in range(2 * PIECE + 1)]
    found = list(Whole().stream("loglikelihood", requests, [0] * len(requests)))
    assert found == [(i, Response((-1.0, False))) for i in range(2 * PIECE + 1)]
