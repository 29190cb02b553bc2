"""The sandbox: what crosses its border, what it refuses, what it leaves behind. Attacks are in `test_hostile_programs`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from forging_programs import CHECK, LYING, SPYING, STEERED

from assay.errors import ScoringError
from assay.metrics import SANDBOXES, allow_unsafe_code, load_metric
from assay.metrics.programs import run_programs
from assay.sandbox import AUTO, DOCKER, PODMAN, Limits, ProgramOutcome, Sandbox, close_supervisors, host
from assay.sandbox.cgroup import ControlGroup
from assay.sandbox.clearing import remove
from assay.sandbox.containers import start_command

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is made of Linux parts")

SOURCE = Path(__file__).parents[2] / "src"


@pytest.fixture(autouse=True)
def allowed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("HF_ALLOW_CODE_EVAL", raising=False)
    allow_unsafe_code()
    yield
    allow_unsafe_code(False)


def run_program(program: str, tests: str = "", sandbox: Sandbox = AUTO) -> ProgramOutcome:
    return sandbox.run_programs([(program, tests)])[0]


def test_good_programs_pass():
    programs = [
        ("def add(a, b):\n    return a + b", "assert add(2, 3) == 5"),
        ("from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int = 1", "assert P().x == 1"),
        ("import threading\nt = threading.Thread(target=len, args=('',)); t.start(); t.join()", ""),
        ("open('note', 'w').write('é')\nassert open('note').read() == 'é'", ""),
        ("import random, re, math, collections, itertools, heapq, typing\nif __name__ == '__main__':\n    pass", ""),
        ("print('x' * 10_000_000)", ""),
        (
            "import numpy\ndef f(): return numpy.arange(3)",
            "assert list(f()) == [0, 1, 2]\nassert (f() == [0, 1, 2]).all()",
        ),
        ("", ""),
    ]
    assert [v.result for v in AUTO.run_programs(programs)] == ["passed"] * len(programs)


CROSSING = {
    "plain values": (
        "def f(x): return x",
        "for x in (None, True, 3, 2.5, 1e400, 'é\\ud800', b'\\0', 2**5000, 1j, (1, [2], {3: {4}})):\n    assert f(x) == x and type(f(x)) is type(x)",
    ),
    "NaN": ("def f(): return float('nan')", "assert f() != f()"),
    "collections": (
        "from collections import *\ndef f(): return Counter('aab'), deque([1], 3), OrderedDict(b=2)",
        "c, d, o = f()\nassert c.most_common(1) == [('a', 2)] and d.maxlen == 3 and list(o) == ['b']",
    ),
    "a dict that makes its values": (
        "from collections import *\ndef f(): return defaultdict(int, a=1)",
        "assert f()['z'] == 0",
    ),
    "fractions": (
        "import decimal, fractions\ndef f(): return decimal.Decimal('1.5'), fractions.Fraction(1, 3)",
        "e, g = f()\nassert e * 2 == 3 and g.denominator == 3",
    ),
    "dates and fractions": (
        "import datetime, decimal, fractions\ndef f(): return datetime.date(2020, 1, 2), decimal.Decimal('1.5'), fractions.Fraction(1, 3)",
        "import datetime\nd, e, g = f()\nassert d + datetime.timedelta(1) == datetime.date(2020, 1, 3) and e * 2 == 3 and g.denominator == 3",
    ),
    "an argument that is changed": (
        "def f(x): x.sort(); x[0].append(9)",
        "x = [[2], [1]]\nf(x)\nassert x == [[1, 9], [2]]",
    ),
    "the same object comes back": ("def f(x): return x", "x = []\nassert f(x) is x"),
    "a cycle": ("def f():\n    x = []\n    x.append(x)\n    return x", "x = f()\nassert x[0] is x"),
    "objects of the program's classes": (
        "class Pair:\n    def __init__(self, a, b): self.a, self.b = a, b\n    def __lt__(self, o): return self.a < o.a\n    def __repr__(self): return f'P{self.a}'\ndef longest(pairs): return max(p.b for p in pairs)",
        "ps = [Pair(3, 4), Pair(1, 9)]\nassert longest(ps) == 9 and ps[0].a == 3 and sorted(ps)[0].b == 9 and repr(ps[0]) == 'P3' and isinstance(ps[0], Pair) and not isinstance(3, Pair)",
    ),
    "a subclass of a built-in class": (
        "class L(list): pass\ndef f(): return L([1, 2])",
        "assert f() == [1, 2] and [1, 2] == f() and isinstance(f(), list) and len(f()) == 2 and f()[1] == 2 and 2 in f()",
    ),
    "a named tuple": (
        "from collections import namedtuple\nP = namedtuple('P', 'x y')\ndef f(): return P(1, 2)",
        "assert f() == (1, 2) and f().y == 2\nx, y = f()\nassert x + y == 3",
    ),
    "generators": (
        "def f(n):\n    yield from range(n)",
        "assert list(f(3)) == [0, 1, 2] and sum(f(4)) == 6 and next(f(1)) == 0",
    ),
    "map and zip": (
        "def f(x): return map(str, x), zip(x, x)",
        "m, z = f([1, 2])\nassert list(m) == ['1', '2'] and dict(z) == {1: 1, 2: 2}",
    ),
    "functions of the tests": (
        "def f(g, x): return [g(y) for y in x]",
        "assert f(lambda y: y * 2, [1, 2]) == [2, 4] and f(len, ['a']) == [1] and f(str.upper, ['a']) == ['A']",
    ),
    "objects of the tests": (
        "def f(node):\n    node.value += 1\n    return node.next.value",
        "class Node:\n    def __init__(self, value, next=None): self.value, self.next = value, next\nn = Node(1, Node(5))\nassert f(n) == 5 and n.value == 2",
    ),
    "functions that come back": ("def f(n): return lambda x: x + n", "assert f(2)(3) == 5"),
    "closures with a state": (
        "count = 0\ndef f():\n    global count\n    count += 1\n    return count",
        "f()\nassert f() == 2",
    ),
    "built-in exceptions": (
        "def f(): raise KeyError('k')",
        "try:\n    f()\n    assert False\nexcept KeyError as error:\n    assert error.args == ('k',)",
    ),
    "exceptions of the program": (
        "class Wrong(ValueError): pass\ndef f(): raise Wrong('x')",
        "try:\n    f()\n    assert False\nexcept Wrong as error:\n    assert str(error) == 'x' and isinstance(error, ValueError)",
    ),
    "modules that the program imported": (
        "import math\nfrom typing import List\ndef f() -> List[float]: return [math.pi]",
        "assert math.isclose(f()[0], 3.14159265, rel_tol=1e-6) and List",
    ),
    "a module that the program imported": (
        "import math\ndef f(): return math.pi",
        "assert math.isclose(f(), 3.14159265, rel_tol=1e-6)",
    ),
    "a function that the tests name too": (
        "def check(x): return 0\ndef f(): return 2",
        "def check(candidate):\n    assert candidate() == 2\ncheck(f)",
    ),
    "two functions": ("def f(x): return x + 1\ndef g(x): return x - 1", "assert g(f(2)) == 2"),
    "a function's name": ("def f(): pass", "assert f.__name__ == 'f' and f == f and {f} and repr(f)"),
    "a function named like a built-in one": ("def sum(a, b): return a - b", "assert sum(3, 1) == 2"),
    "arithmetic with what is no plain value": (
        "import numpy\ndef f(): return numpy.float64(1.5)",
        "assert abs(f() - 1.5) < 1e-9 and 1 + f() == 2.5 and round(f()) == 2 and float(f()) == 1.5",
    ),
    "a context": (
        "class C:\n    def __enter__(self): return 3\n    def __exit__(self, *e): return False",
        "with C() as c:\n    assert c == 3",
    ),
    "a deep copy": ("class C:\n    x = 1", "import copy\nassert copy.deepcopy(C()).x == 1 and copy.copy(C()).x == 1"),
}


PLAIN = {
    "plain values",
    "NaN",
    "collections",
    "fractions",
    "an argument that is changed",
    "closures with a state",
    "built-in exceptions",
    "a module that the program imported",
    "a function named like a built-in one",
    "a function that the tests name too",
}
"""What crosses as plain data; everything else needs the program's process."""


def test_tests_find_what_they_would_find_in_one_process():
    outcomes = AUTO.run_programs(list(CROSSING.values()))
    assert {name: outcome.result for name, outcome in zip(CROSSING, outcomes)} == dict.fromkeys(CROSSING, "passed")
    assert {name for name, outcome in zip(CROSSING, outcomes) if outcome.independent} == PLAIN


def test_what_tests_catch_is_not_undone():
    """Tests that catch everything catch neither the end of the program nor that they need more than plain data."""
    tests = "try:\n    solve(2)\nexcept BaseException:\n    pass"
    died = run_program("import os\ndef solve(n): os._exit(0)", tests)
    assert (died.passed, died.independent) == (False, True)
    returned = run_program("def solve(n): return object()", tests)
    assert (returned.passed, returned.independent) == (True, False)


@pytest.mark.parametrize("tests", ["assert solve(2) == 4", "assert solve(2) in [4]", CHECK])
def test_a_value_that_agrees_with_everything_is_never_an_independent_pass(tests: str):
    outcomes = AUTO.run_programs([(program, tests) for program in LYING.values()])
    assert [name for name, outcome in zip(LYING, outcomes) if outcome.passed and outcome.independent] == []
    if tests != CHECK:
        assert sum(outcome.passed for outcome in outcomes) > 10  # by their own word, as in one process


def test_tests_that_a_program_can_steer_give_no_independent_pass():
    outcomes = AUTO.run_programs(list(STEERED.values()))
    verdicts = {name: (outcome.passed, outcome.independent) for name, outcome in zip(STEERED, outcomes)}
    assert verdicts == dict.fromkeys(STEERED, (True, False))


def test_spies_find_the_gold_where_it_is():
    """In the program's own process, that is: what they look for is there to be found by the way they look."""
    tests = CHECK + "assert check is check\n"
    outcomes = AUTO.run_programs([(program, tests) for program in list(SPYING.values())[:20]])
    assert not any(outcome.independent for outcome in outcomes if outcome.passed)
    assert sum(outcome.passed for outcome in outcomes) >= 10


def test_files_that_were_removed_and_are_held_open_count():
    held = "import os\nheld = []\nfor n in range(40):\n    f = open('x', 'wb')\n    f.write(b'0' * (8 << 20))\n    f.flush()\n    os.remove('x')\n    held.append({hold})\n{then}\nwon = True\nimport time\ntime.sleep(1)"
    opened = held.format(hold="f", then="")
    mapped = "import mmap\n" + held.format(hold="mmap.mmap(f.fileno(), 8 << 20, prot=1)", then="")
    for program in (opened, mapped.replace("open('x', 'wb')", "open('x', 'w+b')")):
        assert "bytes of files" in run_program(program, "assert won").result


def test_directories_a_thousand_deep_are_cleared_away(tmp_path: Path):
    place = tmp_path / "deep"
    place.mkdir()
    there = os.getcwd()
    os.chdir(place)
    try:
        for _ in range(1500):
            os.mkdir("d", 0o700)
            os.chdir("d")
    finally:
        os.chdir(there)
    remove(str(place))
    assert list(tmp_path.iterdir()) == []


def test_a_missing_protection_is_named_and_refused(tmp_path: Path):
    """Landlock is made unknown to the process by a filter of calls, as an old kernel or a strict container would."""
    script = tmp_path / "script.py"
    script.write_text(
        "import ctypes, struct, sys\n"
        "from assay.sandbox import Sandbox\n"
        "libc = ctypes.CDLL(None)\n"
        "lines = [(0x20, 0, 0, 0), (0x15, 0, 1, 444), (0x06, 0, 0, 0x00050000 | 38), (0x06, 0, 0, 0x7FFF0000)]\n"
        "code = b''.join(struct.pack('=HBBI', *line) for line in lines)\n"
        "buffer = ctypes.create_string_buffer(code, len(code))\n"
        "header = struct.pack('HxxxxxxP', len(lines), ctypes.addressof(buffer))\n"
        "libc.prctl(38, 1, 0, 0, 0)\n"
        "assert libc.prctl(22, 2, ctypes.create_string_buffer(header, len(header)), 0, 0) == 0\n"
        "print(Sandbox(sys.argv[1]).run_programs([('x = 1', 'assert x == 1')])[0].result)\n"
    )
    environment = {"PYTHONPATH": str(SOURCE), "PATH": ""}  # without bubblewrap
    strong = subprocess.run(
        [sys.executable, script, "auto"], env=environment, capture_output=True, text=True, check=False
    )
    assert "lacks a protection on this machine: files (Landlock)" in strong.stderr
    assert "--sandbox weak" in strong.stderr
    weak = subprocess.run(
        [sys.executable, script, "weak"], env=environment, capture_output=True, text=True, check=False
    )
    assert weak.stdout == "passed\n"


def test_a_supervisor_is_held_by_a_control_group_where_one_can_be_made():
    supervisor = host.Supervisor("weak", {**asdict(Limits()), "cpu_seconds": 4, "namespaces": False})
    supervisor.start()
    try:
        group, process = supervisor._group, supervisor._process
        assert group is not None
        assert process is not None
        members = list(group.members)
        if not members:
            pytest.skip("this process may not make control groups")
        for member in members:
            assert str(process.pid) in (member / "cgroup.procs").read_text().split()
            assert member.name in Path(f"/proc/{process.pid}/cgroup").read_text()
            for file, most in (
                ("memory.limit_in_bytes", (2 << 30) + (512 << 20)),
                ("memory.max", (2 << 30) + (512 << 20)),
                ("pids.max", 64),
            ):
                if (member / file).exists():
                    assert int((member / file).read_text()) == most
        assert supervisor.run("x = 1", "assert x == 1").passed
    finally:
        supervisor.close()
    assert not any(member.exists() for member in members)


def test_control_groups_of_killed_runs_are_cleared_away():
    code = (
        "import os\n"
        "from assay.sandbox.cgroup import ControlGroup\n"
        "print(*ControlGroup(1 << 30, 9).members, sep='\\n', flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    left = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.split()
    if not left:
        pytest.skip("this process may not make control groups")
    assert all(Path(each).exists() for each in left)
    ControlGroup(1 << 30, 9).close()
    assert not any(Path(each).exists() for each in left)


def test_a_container_that_is_not_installed_is_refused():
    if shutil.which("podman") is None:
        with pytest.raises(ScoringError, match="podman"):
            run_program("x = 1", sandbox=PODMAN)


def test_a_supervisor_that_died_between_programs_costs_no_verdict():
    assert run_program("x = 1", "assert x == 1").passed
    for waiting in host._idle.values():
        for each in waiting:
            host.kill_group(each._process)
            each._process.wait()
    assert run_program("x = 1", "assert x == 1").result == "passed"


def test_a_sandbox_that_breaks_with_any_program_is_no_verdict(monkeypatch):
    def broken(*_):
        raise OSError

    monkeypatch.setattr(host.Supervisor, "_exchange", broken)
    with pytest.raises(ScoringError, match="the sandbox of programs broke"):
        run_program("x = 1", "assert x == 1")


def test_a_program_that_alone_breaks_its_sandbox_has_failed(monkeypatch):
    exchange = host.Supervisor._exchange

    def breaks(self, job, seconds):
        if job["program"]:
            host.kill_group(self._process)
        return exchange(self, job, seconds)

    monkeypatch.setattr(host.Supervisor, "_exchange", breaks)
    assert run_program("x = 1", "assert x == 1").result == "failed: its sandbox broke"


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_bubblewrap_is_used_where_it_is_installed():
    assert AUTO.resolved() == "bwrap"
    assert run_program("x = 1", "assert x == 1").passed


@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_containers_have_no_network_no_rights_and_a_small_disk(engine: str):
    command = start_command(engine, "/unused", "{}", asdict(Limits()))
    text = " ".join(command)
    assert command[:3] == [engine, "run", "--rm"]
    for part in ("--network none", "--read-only", "--cap-drop ALL", "no-new-privileges", "--pids-limit", "--memory"):
        assert part in text


def test_what_a_program_wrote_is_gone_when_the_run_is_killed(tmp_path: Path):
    script = "from assay.sandbox import AUTO\nAUTO.run_programs([(\"open('x', 'w').write('x')\\nwhile True: pass\", '')], seconds=60)"
    environment = {"PYTHONPATH": str(SOURCE), "TMPDIR": str(tmp_path), "PATH": ""}  # without bubblewrap
    run = subprocess.Popen([sys.executable, "-c", script], env=environment)
    wait_for(lambda: list(tmp_path.glob("*/job/x")))
    run.kill()
    run.wait()
    wait_for(lambda: not list(tmp_path.iterdir()))


def wait_for(condition: Callable[[], object]) -> None:
    for _ in range(600):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("it did not happen within a minute")


def test_code_runs_only_with_permission():
    allow_unsafe_code(False)
    with pytest.raises(ScoringError, match="confirm_run_unsafe_code"):
        run_programs([("pass", "")])
    with pytest.raises(ScoringError, match="confirm_run_unsafe_code"):
        load_metric("code_eval").compute(references=["pass"], predictions=[["pass"]], k=[1])


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
    rates, results = load_metric("code_eval").compute(
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
    assert [path for path in tmp_path.rglob("*") if path.name != path.parts[len(tmp_path.parts)]] == []
    close_supervisors()
    assert list(tmp_path.iterdir()) == []


STAND_IN = """#!{python}
import json, os, pathlib, sys
words = sys.argv[1:]
pathlib.Path({log!r}).write_text(json.dumps(words))
if {broken}:
    sys.exit("Cannot connect to the daemon")
host = next(word for word in words if word.endswith(":/sandbox:ro")).partition(":")[0]
at = words.index("/sandbox/supervisor.py")
os.makedirs({work!r}, exist_ok=True)
os.execv(sys.executable, [sys.executable, *words[at - 2 : at], host + "/supervisor.py", {work!r}, *words[at + 2 :]])
"""


def stand_in(folder: Path, engine: str, *, broken: bool = False) -> Path:
    """An executable of an engine's name that writes down its words and does what a container would run, without the container."""
    log = folder / "words.json"
    path = folder / engine
    path.write_text(STAND_IN.format(python=sys.executable, log=str(log), work=str(folder / "work"), broken=broken))
    path.chmod(0o755)
    return log


@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_programs_are_tested_through_the_command_of_an_engine(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """No engine answers where these tests run, so a stand-in takes its place: the command line and all that goes through it are real."""
    log = stand_in(tmp_path, engine)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    host.missing_isolation.cache_clear()
    try:
        programs = [("x = 1", "assert x == 1"), ("x = 2", "assert x == 1")]
        outcomes = SANDBOXES[engine].run_programs(programs, seconds=3, workers=1)
        assert [outcome.passed for outcome in outcomes] == [True, False]
    finally:
        host.close_supervisors()
        host.missing_isolation.cache_clear()
    words = json.loads(log.read_text())
    assert words[:3] == ["run", "--rm", "--interactive"]
    image = next(at for at, word in enumerate(words) if "python:" in word)
    assert words[image + 1 : image + 5] == ["python", "-I", "-B", "/sandbox/supervisor.py"]


def test_an_engine_that_does_not_answer_is_refused_before_anything_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    stand_in(tmp_path, "docker", broken=True)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    host.missing_isolation.cache_clear()
    try:
        with pytest.raises(ScoringError, match="docker"):
            DOCKER.require_isolation()
    finally:
        host.missing_isolation.cache_clear()
