"""Kill it anywhere, start it again: nothing lost, nothing computed twice, the same result."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.run.launching import Launcher
from tests.run.support import command, computed, environment, results_without_times, words_of, write_benchmark

pytestmark = pytest.mark.slow

KILLS = 20


@pytest.fixture(scope="module")
def reference(launcher: Launcher, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, int]:
    """The results of a run that nothing disturbed, and how many requests it computed."""
    folder = tmp_path_factory.mktemp("reference")
    write_benchmark(folder)
    go_on(launcher, folder)
    return normal(results_without_times(folder), folder), len(computed(folder))


def go_on(launcher: Launcher, folder: Path, run: str = "run") -> str:
    """The same command (again), to its end; what it wrote to stderr."""
    log = folder / "said.txt"
    launcher.run(words_of(folder, run=run), environment(folder), log)
    return log.read_text()


def normal(text: str, folder: Path) -> str:
    return text.replace(str(folder), "FOLDER")


# `make test` holds the first of ten storms; all together kill 200 times at most.
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.wide) for seed in range(2, 11))])
def test_killed_at_random_moments_and_started_again(
    launcher: Launcher, reference: tuple[str, int], seed: int, tmp_path: Path
) -> None:
    write_benchmark(tmp_path)
    rng = random.Random(seed)
    pause = 0.02
    for _ in range(KILLS):
        # Kill while it computes: a few requests after the first new one, wherever start-up ends on this machine.
        target = len(computed(tmp_path)) + rng.randint(1, 30)

        def is_there(target: int = target) -> bool:
            there = len(computed(tmp_path)) >= target
            time.sleep(rng.random() * 0.05 if there else 0)
            return there

        process = launcher.start(words_of(tmp_path), environment(tmp_path, pause), tmp_path / "said.txt")
        if not process.kill_when(is_there):
            break
    go_on(launcher, tmp_path)
    expected, total = reference
    assert normal(results_without_times(tmp_path), tmp_path) == expected
    times = Counter(computed(tmp_path))
    assert len(times) == total, "no request is missing"
    # In flight when killed: what was answered in the last moment had not reached the disk.
    assert sum(times.values()) - total <= KILLS * int(0.5 / pause)


def test_two_processes_on_one_store_give_the_same_results(
    launcher: Launcher, reference: tuple[str, int], tmp_path: Path
) -> None:
    write_benchmark(tmp_path)
    both = [
        launcher.start(words_of(tmp_path, run=f"run{i}"), environment(tmp_path, 0.005), tmp_path / f"said{i}.txt")
        for i in range(2)
    ]
    for process in both:
        assert process.wait() == 0, process.said()
    for i in range(2):
        text = results_without_times(tmp_path, f"run{i}")
        assert normal(text, tmp_path) == reference[0]


def test_a_store_truncated_in_the_middle_is_rebuilt_and_the_run_goes_on(
    launcher: Launcher, reference: tuple[str, int], tmp_path: Path
) -> None:
    write_benchmark(tmp_path)
    go_on(launcher, tmp_path)
    store = next((tmp_path / "home").rglob("responses.sqlite"))
    with sqlite3.connect(store) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    size = store.stat().st_size
    with open(store, "r+b") as file:
        file.truncate(size * 3 // 4)  # behind the page from which SQLite finds all answers
    said = go_on(launcher, tmp_path)
    assert normal(results_without_times(tmp_path), tmp_path) == reference[0]
    assert "the response store" in said, "the user is told"
    assert list(store.parent.glob("responses.sqlite?*damaged*")) or list(store.parent.glob("*.damaged*")), (
        "and the damaged file is kept"
    )


def test_a_full_disk_is_an_error_that_keeps_what_was_written(launcher: Launcher, tmp_path: Path) -> None:
    """The store refuses to grow (a page limit stands for the full disk); with room again, the run goes on."""
    write_benchmark(tmp_path, docs=400)
    small = {**environment(tmp_path), "ASSAY_TEST_FULL_AT_PAGES": "30"}
    patch = tmp_path / "sitecustomize.py"
    patch.write_text(
        "import os, sqlite3\n"
        "real = sqlite3.connect\n"
        "def connect(*args, **kwargs):\n"
        "    connection = real(*args, **kwargs)\n"
        "    if pages := os.environ.get('ASSAY_TEST_FULL_AT_PAGES'):\n"
        "        connection.execute(f'PRAGMA max_page_count = {pages}')\n"
        "    return connection\n"
        "sqlite3.connect = connect\n"
    )
    small["PYTHONPATH"] = str(tmp_path)
    failed = subprocess.run(command(tmp_path), env=small, capture_output=True, text=True)
    assert failed.returncode == 3, failed.stderr
    assert "Traceback" not in failed.stderr
    assert "full" in failed.stderr or "space" in failed.stderr
    go_on(launcher, tmp_path)
    times = Counter(computed(tmp_path))
    assert max(times.values()) <= 2
    assert sum(times.values()) < 2 * len(times), "what was written before the disk was full is used"


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_keeps_what_was_answered_and_says_how_to_go_on(
    times: int, launcher: Launcher, reference: tuple[str, int], tmp_path: Path
) -> None:
    write_benchmark(tmp_path)
    process = launcher.start(words_of(tmp_path), environment(tmp_path, 0.03), tmp_path / "said.txt")
    while len(computed(tmp_path)) < 20 and process.poll() is None:
        time.sleep(0.02)
    for _ in range(times):
        process.send_signal(signal.SIGINT)
        time.sleep(0.005)
    assert process.wait() == 130, process.said()
    errors = process.said()
    assert "Traceback" not in errors
    before = computed(tmp_path)
    assert 20 <= len(before) < reference[1]
    go_on(launcher, tmp_path)
    twice = [request for request, count in Counter(computed(tmp_path)).items() if count > 1]
    assert len(twice) <= times - 1, "one Ctrl-C loses nothing; the second may cut off the request in flight"
    assert normal(results_without_times(tmp_path), tmp_path) == reference[0]
