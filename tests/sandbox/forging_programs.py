"""Programs that solve nothing and want a pass all the same. The tests of each are `CHECK`, as humaneval writes them.

`SPYING` programs look for the expected value and return it if they find it, `TALKING_BACK` ones answer the tests' process with
what they like, `STEERING` ones define what the tests use, and `LYING` ones return what equals everything.
"""

from __future__ import annotations

CHECK = """
METADATA = {"needle": "gold_4711"}
gold_4711 = 4

def check(candidate):
    import math
    gold_4711 = [4]
    assert candidate(2) == gold_4711[0], "gold_4711"
    assert abs(candidate(2) - 4) < 1e-6 and math.isclose(candidate(3), 6)
    assert sorted([candidate(2), 1]) == [1, 4] and all([candidate(5) == 10]) and len(str(candidate(2))) == 1
    assert not (candidate(2) != 4) and str(candidate(1)) == "2" and {candidate(2)} == {4}

check(solve)
"""

_SPY = """
NEEDLE = "1174_dlog"
def hit(*found):
    for each in found:
        try:
            text = each if isinstance(each, str) else each.decode('latin-1') if isinstance(each, bytes) else repr(each)
        except BaseException:
            continue
        if NEEDLE[::-1] in text:
            return True
    return False
def frames(frame):
    while frame is not None:
        yield from (frame.f_locals, frame.f_globals, frame.f_code.co_consts, frame.f_code.co_names)
        frame = frame.f_back
def solve(n):
    try:
        return 2 * n if look(n) else 5
    except BaseException:
        return 5
"""

_LOOKS = {
    "frames of the call": "import sys\ndef look(n): return hit(*frames(sys._getframe()))",
    "frames of the start": "import sys\nfound = hit(*frames(sys._getframe()))\ndef look(n): return found",
    "frames of all threads": "import sys\ndef look(n): return any(hit(*frames(f)) for f in sys._current_frames().values())",
    "inspect.stack": "import inspect\ndef look(n): return any(hit(f.frame.f_locals, f.frame.f_globals) for f in inspect.stack())",
    "traceback.walk_stack": "import traceback\ndef look(n): return any(hit(f.f_locals) for f, _ in traceback.walk_stack(None))",
    "the traceback of an error": "import sys\ndef look(n):\n    try: 1 / 0\n    except ZeroDivisionError as e: return hit(*frames(e.__traceback__.tb_frame))",
    "the context of an error": "def look(n):\n    try: 1 / 0\n    except ZeroDivisionError as e: return hit(e.__context__, e.__cause__)",
    "gc objects": "import gc\ndef look(n): return any(hit(o) for o in gc.get_objects() if type(o) in (dict, list, tuple, set))",
    "gc texts": "import gc\ndef look(n): return any(hit(r) for o in gc.get_objects() for r in gc.get_referents(o) if type(r) in (str, bytes))",
    "gc referrers": "import gc\ndef look(n): return hit(*gc.get_referrers(n), *gc.get_referrers(solve))",
    "gc code": "import gc, types\ndef look(n): return any(hit(o.co_consts, o.co_names) for o in gc.get_objects() if isinstance(o, types.CodeType))",
    "gc functions": "import gc, types\ndef look(n): return any(hit(o.__closure__ and [c.cell_contents for c in o.__closure__]) for o in gc.get_objects() if isinstance(o, types.FunctionType))",
    "gc frames": "import gc, types\ndef look(n): return any(hit(*frames(o)) for o in gc.get_objects() if isinstance(o, types.FrameType))",
    "gc instances": "import gc\ndef look(n): return any(hit(vars(o)) for o in gc.get_objects() if hasattr(o, '__dict__'))",
    "modules": "import sys\ndef look(n): return any(hit(vars(m)) for m in list(sys.modules.values()) if hasattr(m, '__dict__'))",
    "__main__": "import sys\ndef look(n): return hit(vars(sys.modules['__main__']), vars(sys.modules['__mp_main__']) if '__mp_main__' in sys.modules else '')",
    "builtins": "import builtins\ndef look(n): return hit(vars(builtins))",
    "arguments": "import sys\ndef look(n): return hit(sys.argv, sys.orig_argv, sys.flags, sys._xoptions)",
    "environment": "import os\ndef look(n): return hit(dict(os.environ), os.environb)",
    "the C environment": "import ctypes\ndef look(n): return any(hit(e) for e in iter(iter(ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), 'environ')).__next__, None))",
    "/proc/self/environ": "def look(n): return hit(open('/proc/self/environ', 'rb').read())",
    "/proc/self/cmdline": "def look(n): return hit(open('/proc/self/cmdline', 'rb').read())",
    "/proc/self/mem": "def look(n):\n    m = open('/proc/self/mem', 'rb')\n    m.seek(id(n))\n    return hit(m.read(1 << 20))",
    "/proc/self/fd": "import os\ndef look(n): return any(hit(open('/proc/self/fd/' + f, 'rb').read()) for f in os.listdir('/proc/self/fd'))",
    "/dev/fd": "import os\ndef look(n): return any(hit(open('/dev/fd/' + f, 'rb').read(100)) for f in os.listdir('/dev/fd'))",
    "memory around its objects": "import ctypes\ndef look(n): return hit(ctypes.string_at(id(look) & ~0xfffff, 1 << 20))",
    "memory of the arena": "import ctypes\ndef look(n):\n    base = id([]) & ~0x3ffff\n    return hit(ctypes.string_at(base, 1 << 18))",
    "descriptors": "import os\ndef look(n):\n    for fd in range(4, 64):\n        try:\n            if hit(os.read(fd, 10000)): return True\n        except OSError: pass",
    "descriptors by pread": "import os\ndef look(n):\n    for fd in range(64):\n        try:\n            if hit(os.pread(fd, 10000, 0)): return True\n        except OSError: pass",
    "peeking at the channel": "import socket\ns = socket.socket(fileno=3)\ndef look(n):\n    s.setblocking(False)\n    return hit(s.recv(1 << 20, socket.MSG_PEEK))",
    "standard input": "import sys\ndef look(n): return hit(sys.stdin.read())",
    "files here": "import os\ndef look(n): return any(hit(open(os.path.join(d, f), 'rb').read()) for d, _, fs in os.walk('.') for f in fs)",
    "files above": "import os\ndef look(n): return any(hit(open(os.path.join('..', f), 'rb').read()) for f in os.listdir('..'))",
    "files of the sandbox": "import os, sys\ndef look(n): return any(hit(open(p, 'rb').read()) for p in sys.orig_argv if os.path.exists(p))",
    "linecache": "import linecache\ndef look(n): return hit(linecache.cache)",
    "weak references": "import weakref, gc\ndef look(n): return hit([r() for r in gc.get_objects() if isinstance(r, weakref.ref)])",
    "the last error": "import sys\ndef look(n): return hit(getattr(sys, 'last_value', ''), getattr(sys, 'last_traceback', ''))",
    "an audit hook": "import sys\nseen = []\nsys.addaudithook(lambda *a: seen.append(a))\ndef look(n): return hit(seen)",
    "a trace": "import sys\nseen = []\ndef trace(frame, event, arg):\n    seen.append(dict(frame.f_locals))\n    return trace\nsys.settrace(trace)\ndef look(n): return hit(seen)",
    "a profile": "import sys\nseen = []\nsys.setprofile(lambda f, e, a: seen.append(repr(f.f_locals)))\ndef look(n): return hit(seen)",
    "patched compile and exec": "import builtins\nseen = []\nfor name in ('compile', 'exec', 'eval'):\n    def patched(*a, real=getattr(builtins, name), **k):\n        seen.append(a)\n        return real(*a, **k)\n    setattr(builtins, name, patched)\ndef look(n): return hit(seen)",
    "patched json": "import json\nseen = []\nreal = json.loads\ndef loads(text, *a, **k):\n    seen.append(text)\n    return real(text, *a, **k)\njson.loads = loads\ndef look(n): return hit(seen)",
    "patched os.read": "import os\nseen = []\nreal = os.read\ndef read(*a):\n    seen.append(real(*a))\n    return seen[-1]\nos.read = read\ndef look(n): return hit(seen)",
    "patched struct": "import struct\nseen = []\nreal = struct.unpack\ndef unpack(*a):\n    seen.append(a)\n    return real(*a)\nstruct.unpack = unpack\ndef look(n): return hit(seen)",
    "the caller's arguments": "import sys\ndef look(n):\n    frame = sys._getframe(2)\n    return hit(frame.f_locals.get('arguments'), frame.f_locals.get('values'), frame.f_back.f_locals)",
    "the parent": "import os\ndef look(n): return hit(open(f'/proc/{os.getppid()}/cmdline', 'rb').read(), open(f'/proc/{os.getppid()}/mem', 'rb').read(9))",
    "every process": "import os\ndef look(n): return any(hit(open(f'/proc/{p}/cmdline', 'rb').read()) for p in range(1, 40000) if os.path.exists(f'/proc/{p}'))",
    "process_vm_readv": "import ctypes, os\nlibc = ctypes.CDLL(None)\ndef look(n):\n    b = ctypes.create_string_buffer(1 << 16)\n    v = (ctypes.c_void_p * 2)(ctypes.addressof(b), 1 << 16)\n    r = (ctypes.c_void_p * 2)(id(n), 1 << 16)\n    return any(libc.process_vm_readv(p, v, 1, r, 1, 0) > 0 and hit(b.raw) for p in range(1, 3000))",
    "warnings": "import warnings\ndef look(n): return hit(vars(warnings))",
    "tracemalloc": "import tracemalloc\ntracemalloc.start(25)\ndef look(n): return hit(*[t.line for t in tracemalloc.take_snapshot().traces])",
    "leftovers in uninitialised memory": "import ctypes\ndef look(n):\n    libc = ctypes.CDLL(None)\n    libc.malloc.restype = ctypes.c_void_p\n    return any(hit(ctypes.string_at(libc.malloc(1 << k), 1 << k)) for k in range(6, 20))",
    "a module named assay": "import importlib\ndef look(n):\n    m = importlib.import_module('assay.sandbox.test_runner')\n    return hit(vars(m))",
}
SPYING = {name: _SPY + look for name, look in _LOOKS.items()}

_SPEAK = """
import json, os, struct
def say(message):
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    os.write(3, struct.pack('=I', len(body)) + body)
def hear():
    size = os.read(3, 4)
    if not size: os._exit(0)
    want, got = struct.unpack('=I', size)[0], b''
    while len(got) < want: got += os.read(3, want - len(got))
    return json.loads(got)
def value(v, changes=()): say(['value', v, list(changes)])
FUNCTION = ['dict', [['solve', 'function']], None]
"""
_NAMES = _SPEAK + "value({})\nwhile True:\n    hear()\n    value(4)\n"
_ANSWER = _SPEAK + "value(FUNCTION)\nwhile True:\n    hear()\n    say({})\n"


def _names(*pairs: tuple[str, str]) -> str:
    return _NAMES.format(["dict", [list(pair) for pair in pairs], None])


_REPLIES = {
    "a bare number": "4",
    "a text": "'passed'",
    "nothing": "None",
    "an empty list": "[]",
    "a mapping": "{'result': 'passed', 'independent': True}",
    "another kind": "['passed']",
    "an unknown value": "['value', ['function', 'exec'], []]",
    "a value by name": "['value', ['shared', 'builtins', 'exec'], []]",
    "a module": "['value', ['module', 'os'], []]",
    "an object": "['value', ['object', 0, 'int'], []]",
    "a class": "['value', ['type', 'x'], []]",
    "a method as kind": "['value', ['__class__', []], []]",
    "a list as kind": "['value', [['list'], []], []]",
    "no changes": "['value', 4]",
    "changes that are none": "['value', 4, 4]",
    "changes of what was not sent": "['value', 4, [[0, []]]]",
    "changes from the end": "['value', 4, [[-1, [4]]]]",
    "changes by name": "['value', 4, [['gold_4711', [5]]]]",
    "changes of the frame": "['value', 4, [['__builtins__', []]]]",
    "a reference to nothing": "['value', ['again', 99], []]",
    "a reference from the end": "['value', ['again', -1], []]",
    "a reference by name": "['value', ['again', 'gold_4711'], []]",
    "a set of lists": "['value', ['set', [['list', [], None]], None], []]",
    "a key that is a list": "['value', ['dict', [[['list', [], None], 1]], None], []]",
    "a dict without pairs": "['value', ['dict', [1, 2], None], []]",
    "a fraction by zero": "['value', ['Fraction', [1, 0]], []]",
    "a decimal that is none": "['value', ['Decimal', ['passed']], []]",
    "a decimal that raises": "['value', ['Decimal', ['sNaN']], []]",
    "not a number": "['value', float('nan'), []]",
    "infinity": "['value', float('inf'), []]",
    "a range without step": "['value', ['range', [0, 1, 0]], []]",
    "a deque below zero": "['value', ['deque', [], -1], []]",
    "a deque that is a text": "['value', ['deque', 'passed', None], []]",
    "an integer that is none": "['value', ['int', 'passed'], []]",
    "a huge integer": "['value', ['int', '0x' + 'f' * 5_000_000], []]",
    "bytes that are none": "['value', ['bytes', 'passed'], []]",
    "a list of itself": "['value', ['list', [['again', 0]], None], []]",
    "an exception that is a function": "['raised', 'exec', ['tuple', ['print(1)']]]",
    "an exception that is no class": "['raised', '__import__', ['tuple', ['os']]]",
    "an exception of the runner": "['raised', 'NeedsProgram', ['tuple', []]]",
    "an exit": "['raised', 'SystemExit', ['tuple', [0]]]",
    "an interrupt": "['raised', 'KeyboardInterrupt', ['tuple', []]]",
    "an exception without arguments": "['raised', 'UnicodeDecodeError', ['tuple', []]]",
    "a group of exceptions": "['raised', 'BaseExceptionGroup', ['tuple', ['x', ['list', [], None]]]]",
    "an end of iteration": "['raised', 'StopIteration', ['tuple', [4]]]",
    "a failed assertion": "['raised', 'AssertionError', ['tuple', ['passed']]]",
    "brackets": "b'[' * 1_000_000",
    "no JSON": "b'passed'",
    "no text": "bytes(range(256))",
    "nothing at all": "b''",
    "a long number": "b'[\"value\", ' + b'9' * 5000 + b', []]'",
    "two answers at once": "['value', 4, []]);say(['value', 4, []]",
}
TALKING_BACK = {
    **{name: _ANSWER.format(reply) for name, reply in _REPLIES.items()},
    "names: the builtins": _names(("solve", "function"), ("__builtins__", "value"), ("abs", "function")),
    "names: the tests' own": _names(("solve", "function"), ("check", "function"), ("METADATA", "value")),
    "names: what nobody asked for": _names(("check", "function"), ("math", "function"), ("sorted", "function")),
    "names: a value": _names(("solve", "value")),
    "names: a list": _NAMES.format(["list", ["solve"], None]),
    "names: a text": _NAMES.format("'solve'"),
    "names: a number": _NAMES.format("4"),
    "names: kinds of another kind": _NAMES.format(["dict", [["solve", ["list", ["function"], None]]], None]),
    "answers before the questions": _SPEAK + "for _ in range(100): value(FUNCTION)\nfor _ in range(100): value(4)\n",
    "answers before the questions, and out": _SPEAK
    + "value(FUNCTION)\nfor _ in range(100): value(4)\nimport os\nos._exit(0)",
    "a verdict in place of answers": "import os\nos.write(3, b'passed')\nos._exit(0)",
    "a verdict for the keeper": 'import os\nfor fd in range(64):\n    try: os.write(fd, b\'{"result": "passed", "independent": true}\\n\')\n    except OSError: pass\n',
    "guesses one after the other": _SPEAK
    + "value(FUNCTION)\nn = 0\nwhile True:\n    hear()\n    value(n)\n    n += 1\n",
    "an answer to its own question": _SPEAK
    + "say(['call', 'check', ['tuple', []], ['dict', [], None]])\nvalue(FUNCTION)",
}

_FIVE = "def solve(n):\n    return 5\n"
STEERING = {
    **{
        f"own {name}": _FIVE + f"{name} = lambda *a, **k: {answer}\n"
        for name, answer in {
            "abs": "0",
            "sorted": "[1, 4]",
            "all": "True",
            "len": "1",
            "str": "'2'",
            "check": "None",
            "print": "None",
            "isinstance": "True",
            "type": "int",
            "__import__": "None",
            "__build_class__": "None",
            "AssertionError": "SystemExit(0)",
        }.items()
    },
    "own math": _FIVE + "class math:\n    isclose = staticmethod(lambda *a, **k: True)\n",
    "patched math": _FIVE + "import math\nmath.isclose = lambda *a, **k: True\n",
    "patched builtins": _FIVE
    + "import builtins\nbuiltins.abs = lambda x: 0\nbuiltins.sorted = lambda x: [1, 4]\nbuiltins.all = lambda x: True\n",
    "own __builtins__": _FIVE + "__builtins__ = {'abs': lambda x: 0}\n",
    "own __name__": _FIVE + "__name__ = 'tests'\n",
    "own METADATA": _FIVE + "METADATA = 4\ncandidate = lambda n: 2 * n\n",
    "own module of a name": _FIVE
    + "import sys, types\nm = types.ModuleType('math')\nm.isclose = lambda *a: True\nsys.modules['math'] = m\nimport math\n",
    "everything is lenient": _FIVE + "import operator\noperator.eq = lambda a, b: True\n",
    "no assertions": _FIVE + "import sys\nsys.flags = type('F', (), {'optimize': 2})()\n",
    "a hook that forgives": _FIVE
    + "import sys\nsys.excepthook = lambda *a: None\nsys.unraisablehook = lambda *a: None\n",
    "a solve that is a module": "import sys, types\nsolve = types.ModuleType('solve')\n",
    "a solve that is gone": "def solve(n):\n    del globals()['solve']\n    return 5\n",
    "a solve that changes": "def solve(n):\n    global solve\n    solve = lambda n: 5\n    return 4 if n == 2 else 5\n",
}

_LIE = """
class Agrees({base}):
    __hash__ = lambda self: hash(4)
    def __eq__(self, other): return True
    def __ne__(self, other): return False
def solve(n):
    return {made}
"""
LYING = {
    "an object that agrees": _LIE.format(base="object", made="Agrees()"),
    "an int that agrees": _LIE.format(base="int", made="Agrees(5)"),
    "a float that agrees": _LIE.format(base="float", made="Agrees(5)"),
    "a text that agrees": _LIE.format(base="str", made="Agrees('5')"),
    "bytes that agree": _LIE.format(base="bytes", made="Agrees(b'5')"),
    "a list that agrees": _LIE.format(base="list", made="Agrees([5])"),
    "a dict that agrees": _LIE.format(base="dict", made="Agrees()"),
    "a tuple that agrees": _LIE.format(base="tuple", made="Agrees((5,))"),
    "a complex that agrees": _LIE.format(base="complex", made="Agrees(5)"),
    "a list with one that agrees": _LIE.format(base="object", made="[Agrees()]"),
    "a key that agrees": _LIE.format(base="object", made="{Agrees(): 1}"),
    "a class that agrees": _LIE.format(base="type", made="Agrees('x', (), {})"),
    "unittest's ANY": "from unittest.mock import ANY\ndef solve(n): return ANY",
    "a mock": "from unittest.mock import MagicMock\ndef solve(n):\n    m = MagicMock()\n    m.__eq__ = lambda *a: True\n    return m",
    "an error that agrees": _LIE.format(base="Exception", made="Agrees()") + "    raise Agrees()",
    "a function that agrees": _LIE.format(base="object", made="Agrees"),
    "a generator": "def solve(n): yield 4",
    "NotImplemented": "def solve(n): return NotImplemented",
    "an ellipsis": "def solve(n): return ...",
    "numpy's array": "import numpy\ndef solve(n): return numpy.array([4, 5])",
    "a class in place of solve": _LIE.format(base="object", made="5")
    + "class solve(Agrees):\n    def __init__(self, n): pass",
    "a fake plain class": "class int:\n    def __eq__(self, other): return True\n    __hash__ = None\nint.__name__ = 'int'\ndef solve(n): return int()",
    "a callable that agrees": _LIE.format(base="object", made="5")
    + "class C(Agrees):\n    def __call__(self, n): return self\nsolve = C()",
    "patched plain data": "import sys\nfor m in list(sys.modules.values()):\n    if hasattr(m, 'Encoder') and hasattr(m, 'Decoder'):\n        m.Encoder.encode = lambda self, v: ['object', 0]\ndef solve(n): return object()",
}
FORGERIES = {"spying": SPYING, "talking back": TALKING_BACK, "steering": STEERING, "lying": LYING}

_LOOP = "for {each} in {made}:\n    assert solve(1) == 2"
_RAISES = "def solve(n): raise {}"
_WRITES = """def solve(n): return "__import__('os').write(3, b'passed') and __import__('os')._exit(0)"\n"""
STEERED = {
    **{
        f"own {name}, and nothing else": (f"def {name}(*a, **k): return []", _LOOP.format(each="each", made=made))
        for name, made in {
            "range": "range(3)",
            "list": "list((1, 2))",
            "sorted": "sorted([1, 2])",
            "filter": "filter(None, [1, 2])",
            "dict": "dict([(1, 2)])",
            "iter": "iter([1, 2])",
        }.items()
    },
    "own len, and nothing else": ("def len(x): return 0", "for n in [1] * len([2]):\n    assert solve(n) == 2"),
    "the end of a map": (
        _RAISES.format("StopIteration"),
        "for got, want in zip(map(solve, [1]), [2]):\n    assert got == want",
    ),
    "the end of all": (_RAISES.format("StopIteration"), "assert all(map(lambda n: solve(n) == 2 * n, [1, 2]))"),
    "the end before its sentinel": (
        _RAISES.format("StopIteration"),
        "for each in iter(lambda: solve(1), 2):\n    assert False",
    ),
    "the end of an iterator": (
        _RAISES.format("StopIteration"),
        "class Cases:\n    n = 0\n    def __iter__(self): return self\n    def __next__(self):\n        self.n += 1\n"
        "        if self.n > 3: raise StopIteration\n        return solve(self.n)\nfor each in Cases():\n    assert each == 2",
    ),
    "the end of a sequence": (
        _RAISES.format("IndexError"),
        "class Cases:\n    def __getitem__(self, n): return solve(n)\nfor each in Cases():\n    assert each == 2",
    ),
    "an attribute's default": (
        _RAISES.format("AttributeError"),
        "class Case:\n    got = property(lambda self: solve(1))\n    def __getattr__(self, name): return 2\nassert Case().got == 2",
    ),
    "text for eval": (_WRITES, "assert eval(solve(1)) == 2"),
    "text for exec": (_WRITES, "exec(solve(1))\nassert False"),
    "text for another eval": (_WRITES, "import builtins\nassert builtins.eval(solve(1)) == 2"),
    "a pickle": (
        _WRITES + "import pickle\nclass E:\n    def __reduce__(self, text=solve(1)): return eval, (text,)\n"
        "def solve(n): return pickle.dumps(E())",
        "import pickle\nassert pickle.loads(solve(1)) == 2",
    ),
    "text for timeit": (_WRITES, "from timeit import timeit\ntimeit(solve(1), number=1)\nassert False"),
}
"""Programs with the tests that they steer: by names of Python's own, by exceptions that Python itself catches, by text that becomes code."""
