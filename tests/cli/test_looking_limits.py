"""Files without Python that ask for endless work: commands that look at them, and the planning of a run, end with a message."""

from __future__ import annotations

import contextlib
import os
import pty
import resource
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest

import assay
from assay.models import ModelInfo
from assay.models.dummy import DummyLM
from assay.timelimit import bounded_planning

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits are the kernel's")

FIELDS = (
    "dataset_path: json\ndataset_kwargs: {data_files: {test: d.jsonl}}\ntest_split: test\n"
    "output_type: generate_until\ndoc_to_text: a\ndoc_to_target: b\n"
)


def looked(folder: Path, *words: str, seconds: int = 8) -> tuple[int, str, float]:
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "assay", *words, "--include_path", "."],
        cwd=folder,
        env={
            "PATH": "/usr/bin:/bin",
            "HOME": str(folder),
            "ASSAY_HOME": str(folder / "home"),
            "ASSAY_LOOKING_SECONDS": str(seconds),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=100,
    )
    return done.returncode, done.stdout[-3000:] + done.stderr[-3000:], time.monotonic() - began


def task(folder: Path, more: str = "", fields: str = FIELDS) -> None:
    (folder / "bomb.yaml").write_text(f"task: bomb\n{fields}{more}")


def includes_twice(folder: Path) -> None:
    """Thirty files, each of which includes the next one twice."""
    for n in range(30):
        (folder / f"f{n}.yaml").write_text(f"include: [f{n + 1}.yaml, f{n + 1}.yaml]\nnum_fewshot: 0\n")
    (folder / "f30.yaml").write_text("output_type: generate_until\n")
    task(folder, "include: f0.yaml\n")


def chain_of_includes(folder: Path) -> None:
    for n in range(1500):
        (folder / f"f{n}.yaml").write_text(f"include: f{n + 1}.yaml\nnum_fewshot: 0\n")
    (folder / "f1500.yaml").write_text("output_type: generate_until\n")
    task(folder, "include: f0.yaml\n")


def paired_groups(folder: Path, levels: int = 25) -> None:
    """Levels of groups, each with the two below it."""
    for n in range(levels):
        for side in "ab":
            members = f"[g{n + 1}a, g{n + 1}b]" if n < levels - 1 else "[sums]"
            (folder / f"g{n}{side}.yaml").write_text(f"group: g{n}{side}\ntask: {members}\n")
    (folder / "bomb.yaml").write_text("group: bomb\ntask: [g0a, g0b]\n")
    (folder / "sums.yaml").write_text(f"task: sums\n{FIELDS}")


def chain_of_groups(folder: Path) -> None:
    for n in range(1500):
        (folder / f"g{n}.yaml").write_text(f"group: g{n}\ntask: [{f'g{n + 1}' if n < 1499 else 'sums'}]\n")
    (folder / "bomb.yaml").write_text("group: bomb\ntask: [g0]\n")
    (folder / "sums.yaml").write_text(f"task: sums\n{FIELDS}")


def doubled(kind: str, times: int) -> str:
    first = {"list": "[x, x]", "merge": "{k: 1}"}[kind]
    each = {"list": "[*a{0}, *a{0}]", "merge": "{{<<: [*a{0}, *a{0}]}}"}[kind]
    more = "".join(f"  a{i}: &a{i} {each.format(i - 1)}\n" for i in range(1, times))
    return f"metadata:\n  a0: &a0 {first}\n{more}"


def as_pipe(folder: Path, name: str) -> None:
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)


def deep_docs(folder: Path) -> None:
    task(folder)
    (folder / "d.jsonl").write_text('{"a":' + "[" * 200_000 + "]" * 200_000 + ',"b":"y"}\n')


ENDLESS = "{% for i in range(99999) %}{% for j in range(99999) %}x{% endfor %}{% endfor %}"
CASES: dict[str, Callable[[Path], None]] = {
    "includes listed twice": includes_twice,
    "a chain of 1,500 includes": chain_of_includes,
    "25 levels of paired groups": paired_groups,
    "1,500 levels of groups": chain_of_groups,
    "a billion draws": lambda folder: task(folder, "repeats: 1000000000\n"),
    "a billion shots": lambda folder: task(folder, "num_fewshot: 1000000000\n"),
    "a key of 2 MB": lambda folder: task(folder, f"? {'k' * 2_000_000}\n: 1\n"),
    "a key of 2 MB further down": lambda folder: task(folder, f"metadata: {{? {'k' * 2_000_000} : 1}}\n"),
    "a million digits": lambda folder: task(folder, f"num_fewshot: {'9' * 1_000_000}\n"),
    "a million hexadecimal digits": lambda folder: task(folder, f"metadata: {{version: 0x{'f' * 1_000_000}}}\n"),
    "a number to base 60": lambda folder: task(folder, f"num_fewshot: 1{':1' * 500_000}\n"),
    "aliases of aliases": lambda folder: task(folder, doubled("list", 60)),
    "merges of merges": lambda folder: task(folder, doubled("merge", 40)),
    "brackets without end": lambda folder: task(folder, f"metadata: {'[' * 100_000}{']' * 100_000}\n"),
    "a template without end": lambda folder: task(folder, fields=FIELDS.replace("text: a", f'text: "{ENDLESS}"')),
    "docs without end": lambda folder: task(folder, fields=FIELDS.replace("d.jsonl", "/dev/zero")),
    "docs nested without end": deep_docs,
    "an include without end": lambda folder: task(folder, "include: /dev/zero\n"),
    "docs in a pipe": lambda folder: (task(folder), as_pipe(folder, "d.jsonl"))[0],
    "an include in a pipe": lambda folder: (task(folder, "include: x.yaml\n"), as_pipe(folder, "x.yaml"))[0],
    "a file that is a pipe": lambda folder: as_pipe(folder, "bomb.yaml"),
}
VERBS: dict[str, tuple[str, ...]] = {
    "validate": ("validate", "bomb"),
    "run": ("run", "--model", "dummy", "--tasks", "bomb", "--run_dir", "run"),
    "show": ("show", "bomb", "--doc", "0"),
    "dry run": ("run", "--model", "dummy", "--tasks", "bomb", "--dry_run"),
    "ls": ("ls", "tasks"),
}


def grid() -> list[object]:
    """Every case with every verb; of each case one verb in turn, and of the run every third, outside the wide suite."""
    return [
        pytest.param(
            case, verb, id=f"{case}-{verb}", marks=[] if i % 5 == j or (j == 1 and i % 3 == 0) else pytest.mark.wide
        )
        for i, case in enumerate(CASES)
        for j, verb in enumerate(VERBS)
    ]


@pytest.mark.parametrize(("case", "verb"), grid())
def test_a_command_that_looks_ends(case: str, verb: str, tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").write_text('{"a": "x", "b": "y"}\n' * 3)
    CASES[case](tmp_path)
    code, said, seconds = looked(tmp_path, *VERBS[verb])
    assert seconds < 60
    assert "Traceback" not in said
    assert len(said) < 7000
    # A list of names reads no file whole; a file that is included twice is read once.
    assert code in ((0,) if case == "includes listed twice" else (0, 2, 3) if verb == "ls" else (2, 3)), said


def slow_files(folder: Path) -> None:
    """As many levels of groups as are still allowed, in a thousand groups."""
    paired_groups(folder, 14)
    names = [f"n{n}" for n in range(60)]
    for name in names:
        (folder / f"{name}.yaml").write_text(f"group: {name}\ntask: [g2a]\n")
    (folder / "bomb.yaml").write_text(f"group: bomb\ntask: [{', '.join(names)}]\n")


@pytest.mark.parametrize("verb", ["validate", "run"])
def test_what_no_check_foresees_is_ended_by_the_limit_of_time(verb: str, tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").write_text('{"a": "x", "b": "y"}\n' * 3)
    slow_files(tmp_path)
    code, said, seconds = looked(tmp_path, *VERBS[verb], seconds=2)
    assert (code, "given up after 2 s of processor time" in said) == (2, True), said
    assert seconds < 60


def test_what_ends_the_worker_is_said_and_its_exit_code_is_handed_on(tmp_path: Path) -> None:
    assert looked(tmp_path, "ls", "tasks", seconds=300)[0] == 0
    assert looked(tmp_path, "show", "nothing_of_that_name", seconds=300)[0] == 2
    killed = f"import os; {LOOKING} os.kill(os.getpid(), 9)"
    done = subprocess.run([sys.executable, "-c", killed], capture_output=True, text=True, timeout=60)
    assert (done.returncode, "SIGKILL" in done.stderr) == (137, True)


LOOKING = "import assay.cli.limits as limits; limits.limit_looking(['ls']);"


def test_memory_is_limited() -> None:
    """Pages that nothing but this limit counts: they are never written to."""
    greedy = (
        "import mmap; flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000;"  # MAP_NORESERVE
        "mmap.mmap(-1, 1 << 36, flags).close();"
        f"{LOOKING} mmap.mmap(-1, 1 << 36, flags)"
    )
    done = subprocess.run([sys.executable, "-c", greedy], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr.count("Cannot allocate memory")) == (1, 1)


def waiting(more: str = "") -> str:
    return (
        f"{more}{LOOKING}import signal, sys, time\n"
        "def note(*_): print('told', flush=True)\n"
        "signal.signal(signal.SIGINT, note)\n"
        "print('ready', flush=True); began = time.monotonic()\n"
        "while time.monotonic() < began + 1.5: time.sleep(0.1)\n"
        "sys.exit(7)"
    )


def test_a_signal_to_the_first_process_reaches_the_worker() -> None:
    for sent, code, output in ((signal.SIGTERM, 143, ""), (signal.SIGINT, 7, "told\n")):
        with subprocess.Popen([sys.executable, "-c", waiting()], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            process.stdout.readline()
            process.send_signal(sent)
            assert process.wait(30) == code
            assert process.stdout.read() == output


def test_what_a_terminal_sends_reaches_the_worker_once() -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", waiting()])
    said = b""
    with contextlib.suppress(OSError):  # the other end is closed
        while part := os.read(terminal, 1000):
            if b"ready" in part and b"ready" not in said:
                os.write(terminal, b"\x03")
            said += part
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    assert said.count(b"told") == 1


def test_the_end_of_the_worker_is_heard_where_such_ends_are_ignored() -> None:
    ignoring = "import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN);"
    done = subprocess.run([sys.executable, "-c", waiting(ignoring)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 7


def planned(work: str) -> subprocess.CompletedProcess[str]:
    code = f"from assay.timelimit import bounded_planning\nwith bounded_planning():\n{textwrap.indent(work, '    ')}\nprint('after')"
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "ASSAY_LOOKING_SECONDS": "1"},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_planning_ends_in_code_that_notes_errors_and_goes_on() -> None:
    done = planned("while True:\n    try:\n        x = sum(range(1000))\n    except Exception:\n        pass")
    assert (done.returncode, "given up after 1 s" in done.stderr, done.stdout) == (1, True, "")


def test_planning_ends_in_one_call_that_hears_no_signal() -> None:
    """The hash of forty pairs of pairs is one call of C, for years."""
    done = planned("x = (1, 2)\nfor _ in range(40): x = (x, x)\nhash(x)")
    assert (done.returncode, done.stdout) == (-signal.SIGPROF, "")


def test_limits_of_planning_are_gone_after_it_and_nest() -> None:
    done = planned(
        "with bounded_planning(): pass\nimport resource\nassert resource.getrlimit(resource.RLIMIT_CPU)[0] < 9"
    )
    assert done.stdout == "after\n", done.stderr
    kinds = (resource.RLIMIT_CPU, resource.RLIMIT_DATA)
    before = [resource.getrlimit(kind) for kind in kinds], signal.getsignal(signal.SIGXCPU)
    with bounded_planning():
        assert [resource.getrlimit(kind) for kind in kinds] != before[0]
    assert ([resource.getrlimit(kind) for kind in kinds], signal.getsignal(signal.SIGXCPU)) == before
    assert signal.getitimer(signal.ITIMER_PROF) == (0, 0)


class LoadedLate(DummyLM):
    """Looks at the limits when it is first asked about itself, as one does that is loaded then."""

    limits: ClassVar[list[int]] = []

    def info(self) -> ModelInfo:
        self.limits.append(resource.getrlimit(resource.RLIMIT_DATA)[0])
        return super().info()


def test_a_model_is_loaded_outside_the_limits_of_planning(tmp_path: Path) -> None:
    LoadedLate.limits.clear()
    outside = resource.getrlimit(resource.RLIMIT_DATA)[0]
    assay.evaluate(model=LoadedLate(), tasks=["demo_facts"], limit=2, store=str(tmp_path / "store.db"))
    assert LoadedLate.limits[0] == outside
    assert len({*LoadedLate.limits}) == 2, "planning has limits, and asks the model"
