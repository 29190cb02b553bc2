"""Hostile programs: each fails its own sample and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from assay.errors import ScoringError
from assay.metrics.hub import load
from assay.metrics.sandbox import Limits, allow_unsafe_code, run_program, run_programs

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is made of Linux parts")

QUICK = Limits(seconds=1.0, memory=512 << 20)


@pytest.fixture(autouse=True)
def allowed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("HF_ALLOW_CODE_EVAL", raising=False)
    allow_unsafe_code()
    yield
    allow_unsafe_code(False)


def test_good_programs_pass():
    programs = [
        "def add(a, b):\n    return a + b\nassert add(2, 3) == 5",
        "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int = 1\nassert P().x == 1",
        "import threading\nt = threading.Thread(target=len, args=('',)); t.start(); t.join()",
        "open('note', 'w').write('é')\nassert open('note').read() == 'é'",
        "import random, re, math, collections, itertools, heapq, typing\nif __name__ == '__main__':\n    pass",
        "print('x' * 10_000_000)",
        "",
    ]
    assert [v.result for v in run_programs(programs)] == ["passed"] * len(programs)


HOSTILE = {
    "wrong": "assert 1 == 2",
    "syntax": "def (",
    "endless loop": "while True: pass",
    "sleep": "import time\ntime.sleep(1000)",
    "memory bomb": "x = []\nwhile True: x.append(b'1' * (64 << 20))",
    "fork bomb": "import os\nwhile True: os.fork()",
    "thread bomb": "import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(9,)).start()",
    "exit 0": "import os\nos._exit(0)",
    "sys.exit": "import sys\nsys.exit(0)",
    "exit in atexit": "import atexit, os\natexit.register(os._exit, 0)\nraise SystemExit(0)",
    "printed verdict": "print('passed')\nimport os\nos._exit(0)",
    "verdict on all descriptors": "import os\nfor fd in range(3, 64):\n    try: os.write(fd, b'passed')\n    except OSError: pass\nos._exit(0)",
    "look for the nonce": "import gc\n[o for o in gc.get_objects()]",
    "read own memory": "open('/proc/self/mem', 'rb')",
    "read own memory by a link": "import os\nos.symlink('/proc/self', 'p')\nopen('p/mem', 'rb')",
    "ctypes": "import ctypes\nctypes.string_at(0)",
    "environment": "import os\nassert os.environ.get('SECRET') == 'hidden'",
    "environment of the parent": "import os\nopen(f'/proc/{os.getppid()}/environ').read()",
    "socket": "import socket\nsocket.create_connection(('127.0.0.1', 9))",
    "shell": "import os\nos.system('true')",
    "subprocess": "import subprocess\nsubprocess.run(['true'])",
    "kill the parent": "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)",
    "input": "input()",
    "large file": "open('big', 'wb').write(b'0' * (64 << 20))",
    "many files": "files = [open('f', 'w') for _ in range(5000)]",
    "deep recursion": "def f(): f()\nf()",
    "native crash": "import sys\nsys.setrecursionlimit(10**9)\ndef f(n): return f(n + 1)\nf(0)",
}


def test_hostile_programs_fail_and_good_ones_beside_them_pass(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SECRET", "hidden")
    good = "assert sum(range(4)) == 6"
    programs = [program for hostile in HOSTILE.values() for program in (hostile, good)]
    verdicts = run_programs(programs, QUICK, workers=2)
    passed = [name for name, verdict in zip(HOSTILE, verdicts[::2]) if verdict.passed]
    assert passed == []
    assert [v.result for v in verdicts[1::2]] == ["passed"] * len(HOSTILE)


@pytest.mark.parametrize(
    "program",
    [
        "import shutil\nshutil.rmtree({home!r})",
        "import os\nos.remove({file!r})",
        "import pathlib\npathlib.Path({file!r}).unlink()",
        "open({file!r}, 'w')",
        "import os\nos.rename({file!r}, 'stolen')",
        "import os\nos.truncate({file!r}, 0)",
        "import os\nos.chdir({home!r})\nos.remove('precious')",
        "import os\nos.symlink({home!r}, 'h')\nopen('h/precious', 'a').write('x')",
        "import os\nfd = os.open({home!r}, os.O_RDONLY)\nos.remove('precious', dir_fd=fd)",
    ],
)
def test_files_of_others_stay(program: str, tmp_path: Path):
    precious = tmp_path / "precious"
    precious.write_text("mine")
    verdict = run_program(program.format(home=str(tmp_path), file=str(precious)), QUICK)
    assert not verdict.passed
    assert precious.read_text() == "mine"


def test_no_process_outlives_its_program():
    """The guard refuses fork; here the kernel's part alone must find a daemon that a program left behind."""
    warden = Path(__file__).parents[2] / "src/assay/metrics/sandbox/warden.py"
    mark = f"assay-test-{os.getpid()}"
    script = f"""
import os, sys, time
sys.argv = ["warden", '{{"seconds": 5}}']
source = open({str(warden)!r}).read().split("settings = json.loads")[0].replace("os.path.abspath(__file__)", repr({str(warden)!r}))
exec(compile(source, "warden", "exec"))
jail.adopt_orphans()
child = os.fork()
if child == 0:
    for _ in range(3):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(60)", "{mark}"])
            os._exit(0)
    os._exit(0)
os.waitpid(child, 0)
time.sleep(0.2)
kill_descendants()
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=30)
    time.sleep(0.1)
    assert mark not in subprocess.run(["ps", "ax", "-o", "args"], capture_output=True, text=True, check=False).stdout


def test_code_runs_only_with_permission():
    allow_unsafe_code(False)
    with pytest.raises(ScoringError, match="confirm_run_unsafe_code"):
        run_program("pass")
    with pytest.raises(ScoringError, match="confirm_run_unsafe_code"):
        load("code_eval").compute(references=["pass"], predictions=[["pass"]], k=[1])


def test_importing_a_task_file_that_tries_the_metric_needs_none(tmp_path: Path):
    from assay.config.functions import load_function

    allow_unsafe_code(False)
    (tmp_path / "utils.py").write_text(
        "import evaluate as hf_evaluate\n"
        "metric = hf_evaluate.load('code_eval')\n"
        "metric.compute(references=['assert add(2, 3)==5'], predictions=[['def add(a,b): return a*b']], k=[1])\n"
        "def score(): return 1\n"
    )
    assert load_function("utils.score", tmp_path)() == 1


def test_code_eval_gives_pass_at_k_and_every_outcome():
    right, wrong = "def add(a, b): return a + b", "def add(a, b): return a * b"
    rates, results = load("code_eval").compute(
        references=["assert add(2, 3) == 5", "assert add(1, 1) == 2"],
        predictions=[[right, wrong], [wrong, wrong]],
        k=[1, 2, 5],
    )
    assert rates == {"pass@1": 0.25, "pass@2": 0.5}
    assert [entry["passed"] for _, entry in results[0]] == [True, False]
    assert results[1][0][1]["result"].startswith("failed: AssertionError")


def test_nothing_is_left_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    run_program("open('junk', 'w').write('x')")
    assert list(tmp_path.iterdir()) == []
