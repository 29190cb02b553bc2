"""Whatever a model writes, everything that reads it comes to an end: with a value, or with a doc that failed in time."""

from __future__ import annotations

import re
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.hostile_texts import CALLS, TEXTS

from assay import evaluate
from assay.errors import ScoringError
from assay.timelimit import MatchTimeout, begin, watched

SMALL, LARGE = 2_000, 100_000
SECONDS = 20.0
"""For one text; a run allows more (`DOC_SECONDS`)."""


def read(reader: str, texts: list[str], size: int) -> None:
    """The reader on each text, as a run calls it: a clock watches. Anything but a value, an error
    that names the doc's trouble, or the clock is a failure."""
    with watched():
        for text in texts:
            begin(SECONDS)
            try:
                CALLS[reader](TEXTS[text](size))
            except (MatchTimeout, ScoringError):
                continue
            except Exception as error:
                raise AssertionError(f"{reader} on {text}, {size:,} characters: {type(error).__name__}") from error


@pytest.mark.parametrize("reader", CALLS)
def test_a_short_hostile_text_is_read_in_time(reader: str) -> None:
    """Of the texts every fourth, beginning with another one for each reader; all of them below."""
    first = list(CALLS).index(reader) % 4
    read(reader, list(TEXTS)[first::4], SMALL)


@pytest.mark.wide
@pytest.mark.parametrize("size", [SMALL, LARGE])
@pytest.mark.parametrize("reader", CALLS)
def test_every_hostile_text_is_read_in_time(reader: str, size: int) -> None:
    read(reader, list(TEXTS), size)


def test_there_are_as_many_texts_as_were_promised() -> None:
    assert len(TEXTS) >= 28


def test_brackets_without_end_are_no_json() -> None:
    is_json = CALLS["ifeval detectable_format:json_format"]
    assert is_json("[" * 100_000) is False
    assert is_json("[" * 20 + "]" * 20) is True


@pytest.mark.parametrize("size", [SMALL, 30_000])
def test_readers_that_were_quadratic_still_count_right(size: int) -> None:
    sentences = CALLS["ifeval length_constraints:number_sentences"]
    assert sentences("Dr. Who came. " * (size // 14)) is True
    placeholders = CALLS["ifeval detectable_content:number_placeholders"]
    assert placeholders("[" * size) is False
    assert placeholders("[" * size + "]") is True
    assert placeholders("[\n]" * (size // 3)) is False


SLOW = r"""import re
def process_results(doc, results):
    if doc["q"] == "slow":
        re.match(r"(a+)+$", "a" * 60 + "b")
    return {"acc": 1.0}
"""


def write_slow(folder: Path, code: str) -> str:
    """A task of three docs whose code takes its time for the second."""
    (folder / "slow.py").write_text(code)
    (folder / "docs.jsonl").write_text('{"q": "a"}\n{"q": "slow"}\n{"q": "b"}\n')
    (folder / "slow.yaml").write_text(
        "task: slow\ndataset_path: json\ndataset_kwargs: {data_files: {test: docs.jsonl}}\ntest_split: test\n"
        'output_type: generate_until\ndoc_to_text: "{{q}}"\ndoc_to_target: "x"\n'
        "process_results: !function slow.process_results\nmetric_list: [{metric: acc}]\n"
    )
    return str(folder / "slow.yaml")


def test_one_doc_that_its_code_never_ends_on_is_a_failed_doc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.timelimit.DOC_SECONDS", 1.0)
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    result = evaluate(model="dummy", tasks=[write_slow(tmp_path, SLOW)])
    health = result.tasks["slow"].health
    assert health.failed == 1
    assert [re.sub(r":\d+:", ":", why) for why in health.reasons] == [TIMEOUT]
    assert result.tasks["slow"].scores


TIMEOUT = "scoring failed: process_results: slow.py: MatchTimeout, first in doc 1"
ENDLESS = """def process_results(doc, results):
    while doc["q"] == "slow":
        pass
    return {"acc": 1.0}
"""


def test_the_clock_of_docs_works_outside_the_main_thread_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.timelimit.DOC_SECONDS", 1.0)
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    task = write_slow(tmp_path, ENDLESS)
    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(evaluate, model="dummy", tasks=[task]).result()
    health = result.tasks["slow"].health
    assert (health.failed, [re.sub(r":\d+:", ":", why) for why in health.reasons]) == (1, [TIMEOUT])
    assert result.tasks["slow"].scores


def test_the_clock_of_docs_gives_an_alarm_of_others_back() -> None:
    rang: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda *_: rang.append(1))
    signal.setitimer(signal.ITIMER_REAL, 100.0)
    try:
        with watched():
            begin(0.001)
        assert 0 < signal.setitimer(signal.ITIMER_REAL, 0)[0] <= 100.0
        signal.raise_signal(signal.SIGALRM)
        assert rang == [1]
    finally:
        signal.signal(signal.SIGALRM, before)
