"""Patterns that would run for ever."""

from __future__ import annotations

import re
import signal
import threading
import time

import pytest

from assay import timelimit
from assay.errors import DataError
from assay.filters import FilterEnsemble, RegexFilter, TakeFirst
from assay.instance import Instance
from assay.metrics import METRICS
from assay.templates import compile_template
from assay.timelimit import MatchTimeout, TimedPattern

HOSTILE = r"(a+)+$"
TEXT = "a" * 60 + "b"


def test_a_hostile_pattern_ends_as_no_match_and_is_counted():
    pattern = TimedPattern(HOSTILE, seconds=0.05)
    assert pattern.findall(TEXT) == []
    assert pattern.search(TEXT) is None
    assert pattern.sub("x", TEXT) == TEXT
    assert pattern.timeouts == 3


def test_a_hostile_pattern_raises_where_it_was_told_to():
    pattern = TimedPattern(HOSTILE, seconds=0.05, raises=True)
    with pytest.raises(MatchTimeout, match=r"'\(a\+\)\+\$' .*0.05 seconds"):
        pattern.sub("x", TEXT)


def test_a_harmless_pattern_behaves_like_re():
    text = "x1 y22 z"
    assert TimedPattern(r"([a-z])(\d+)").findall(text) == re.findall(r"([a-z])(\d+)", text)
    assert TimedPattern(r"\d").sub("#", text, 2) == re.sub(r"\d", "#", text, count=2)


def test_other_threads_are_limited_too():
    pattern, found = TimedPattern(r"(?:(?:a|a)+)+$", seconds=0.05), []
    worker = threading.Thread(target=lambda: found.extend([pattern.findall("a" * 200 + "b"), pattern.findall("aaa")]))
    worker.start()
    worker.join(20)
    assert found == [[], ["aaa"]]
    assert pattern.timeouts == 1


def test_an_alarm_of_somebody_else_still_rings():
    rung = []
    before = signal.signal(signal.SIGALRM, lambda *_: rung.append(True))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        TimedPattern("a", seconds=0.5).findall("aaa")
        time.sleep(0.3)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert rung == [True]


def test_the_run_goes_on_and_the_response_is_unparsed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(timelimit, "MATCH_SECONDS", 0.05)
    docs = [Instance("generate_until", {}, ("q", {}), 0, i, resps=[text]) for i, text in enumerate([TEXT, "aaa"])]
    ensemble = FilterEnsemble("strict", [RegexFilter(HOSTILE), TakeFirst()])
    ensemble.apply(docs)
    assert [doc.filtered_resps["strict"] for doc in docs] == ["[invalid]", "aaa"]
    assert [doc.unparsed.get("strict") for doc in docs] == [[True], None]


def test_patterns_of_metrics_and_templates_come_to_an_end_too(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(timelimit, "MATCH_SECONDS", 0.05)
    exact_match = METRICS["exact_match"].fn
    assert exact_match(references=["b"], predictions=[TEXT], regexes_to_ignore=[HOSTILE]) == {"exact_match": 0.0}
    assert exact_match(references=["b"], predictions=["baa"], regexes_to_ignore=[HOSTILE]) == {"exact_match": 1.0}
    template = compile_template("{{ q | regex_replace('(a+)+$', '') }}")
    assert template.render({"q": "baa"}) == "b"
    with pytest.raises(DataError, match="does too much"):
        template.render({"q": TEXT})
