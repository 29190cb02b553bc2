"""Programs that attack, by what they attack. `FORGING` ones claim a pass that they have not earned: their `solve` is wrong and
their test is `assert solve(2) == 4`. All others set `won` when they have got through, and their test is `assert won`.

In braces: {secret} a file with a secret, {precious} a file and {home} its directory, all of the user who runs the evaluation;
{port} a TCP port that somebody listens on, {unix} a Unix socket, {pid} the process of the run.
"""

from __future__ import annotations

WRONG = "def solve(n):\n    return 5\n"

_LIBC = "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"

FORGING = {
    "wrong": WRONG,
    "exit 0": WRONG + "import os\nos._exit(0)",
    "exit 0 when called": "import os\ndef solve(n):\n    os._exit(0)",
    "sys.exit": "import sys\ndef solve(n):\n    sys.exit(0)",
    "sys.exit at once": "import sys\nsys.exit(0)",
    "exit in atexit": "import atexit, os\natexit.register(os._exit, 0)\nraise SystemExit(0)",
    "printed verdict": "print('passed')\n" + WRONG,
    "verdict on all descriptors": WRONG
    + "import os\nfor fd in range(64):\n    try: os.write(fd, b'passed')\n    except OSError: pass",
    "verdict on all descriptors, then out": 'import os\nfor fd in range(64):\n    try: os.write(fd, b\'{"result": "passed"}\\n\')\n    except OSError: pass\nos._exit(0)',
    "look for a proof": WRONG
    + "import gc, os\nfor o in gc.get_objects():\n    try:\n        o.write(b'passed')\n    except Exception: pass",
    "replace lstat, search gc": WRONG
    + "import os, gc, functools\nreal = os.lstat\ndef lstat(*a, **k):\n    for o in gc.get_objects():\n        if type(o) is functools.partial: o()\n    return real(*a, **k)\nos.lstat = lstat\ntry: open('x/y', 'w')\nexcept OSError: pass",
    "busy thread": WRONG
    + "import threading, gc, functools\ndef busy():\n    while True:\n        for o in gc.get_objects():\n            if type(o) is functools.partial:\n                o()\nthreading.Thread(target=busy, daemon=True).start()",
    "settrace": WRONG
    + "import sys\ndef trace(frame, event, arg):\n    for name in list(frame.f_locals):\n        if name in ('result', 'reply'): frame.f_locals[name] = 'passed'\n    return trace\nsys.settrace(trace)",
    "settrace of all threads": WRONG
    + "import sys, threading\nthreading.settrace(lambda *a: None)\nsys.setprofile(lambda *a: None)\nframe = sys._getframe()\nwhile frame:\n    frame.f_globals['passed'] = True\n    frame = frame.f_back",
    "array interface": WRONG
    + "try:\n    import numpy\n    class Anywhere:\n        __array_interface__ = dict(shape=(64,), typestr='|u1', data=(id(solve), False), version=3)\n    a = numpy.array(Anywhere(), copy=False)\n    a[:] = 0\nexcept ImportError: pass",
    "own memory by ctypes": WRONG + "import ctypes\nctypes.memset(id(solve) + 16, 0, 8)",
    "own memory by proc": WRONG + "open('/proc/self/mem', 'r+b').write(b'passed')",
    "redefine AssertionError": WRONG
    + "import builtins\nclass AssertionError(Exception):\n    def __new__(cls, *a): raise SystemExit(0)\nbuiltins.AssertionError = AssertionError",
    "patched builtins": WRONG
    + "import builtins\nfor name in ('compile', 'exec', 'eval', 'isinstance', 'len', 'getattr'):\n    setattr(builtins, name, lambda *a, **k: True)",
    "patched json": WRONG + "import json\njson.dumps = lambda *a, **k: '[\"value\", 4, []]'\ndef solve(n): return 5, n",
    "open string swallows the tests": WRONG + "x = '''",
    "backslash swallows a line": WRONG + "if False: \\",
    "branch swallows the tests": WRONG + "if False:\n    pass\nelse:\n    raise SystemExit",
    "early return of the module": WRONG + "raise StopIteration",
    "generator exit": "def solve(n):\n    raise GeneratorExit",
    "keyboard interrupt": "def solve(n):\n    raise KeyboardInterrupt",
    "class with exit in its hash": "import os\nclass A:\n    def __hash__(self): os._exit(0)\n    def __eq__(self, other): os._exit(0)\ndef solve(n):\n    return A()",
    "class of its own name": "class AssertionError(Exception): pass\ndef solve(n):\n    raise AssertionError",
    "unfinished message": WRONG
    + "import os\nfor fd in range(3, 64):\n    try: os.write(fd, b'\\xff\\xff')\n    except OSError: pass\nos._exit(0)",
    "huge message": WRONG
    + "import os\nfor fd in range(3, 64):\n    try: os.write(fd, b'\\xff\\xff\\xff\\xff' + b'[' * 100000)\n    except OSError: pass\nimport time\ntime.sleep(9)",
    "deep message": WRONG
    + "import os, struct\nbody = b'[' * 100000\nfor fd in range(3, 64):\n    try: os.write(fd, struct.pack('=I', len(body)) + body)\n    except OSError: pass\nimport time\ntime.sleep(9)",
    "message of a forged kind": WRONG
    + 'import os, struct\nbody = b\'["value", ["shared", "os", "_exit"], []]\'\nfor fd in range(3, 64):\n    try: os.write(fd, struct.pack(\'=I\', len(body)) + body)\n    except OSError: pass\nimport time\ntime.sleep(9)',
    "message that sets a method": WRONG
    + "import os, struct\nbody = b'[\"value\", [\"_init__\", []], []]'\nfor fd in range(3, 64):\n    try: os.write(fd, struct.pack('=I', len(body)) + body)\n    except OSError: pass\nimport time\ntime.sleep(9)",
    "question to the judge": WRONG
    + 'import os, struct\nbody = b\'["ask", "getattr", [["yours", 0], "__globals__"]]\'\nfor fd in range(3, 64):\n    try: os.write(fd, struct.pack(\'=I\', len(body)) + body)\n    except OSError: pass\n',
    "shared eval": WRONG
    + 'import os, struct\nbody = b\'["value", ["dict", [["solve", ["shared", "builtins", "eval"]]]], []]\'\nfor fd in range(3, 64):\n    try: os.write(fd, struct.pack(\'=I\', len(body)) + body)\n    except OSError: pass\nimport time\ntime.sleep(9)',
    "shared module os": WRONG
    + 'import os, struct\nbody = b\'["value", ["dict", [["solve", ["module", "os"]]]], []]\'\nfor fd in range(3, 64):\n    try: os.write(fd, struct.pack(\'=I\', len(body)) + body)\n    except OSError: pass\nimport time\ntime.sleep(9)',
    "exception class that is none": WRONG
    + 'import os, struct\nbody = b\'["error", ["exception", -1, "x", "exit"], [0]]\'\nfor fd in range(3, 64):\n    try: os.write(fd, struct.pack(\'=I\', len(body)) + body)\n    except OSError: pass\nimport time\ntime.sleep(9)',
    "SystemExit with zero": "def solve(n):\n    raise SystemExit(0)",
    "endless answer": "def solve(n):\n    while True: yield 4",
    "answer that cannot cross": "def solve(n):\n    x = []\n    for _ in range(100000): x = [x]\n    return x",
    "answer that is too large": "def solve(n):\n    return 'x' * (1 << 27)",
    "endless loop": "def solve(n):\n    while True: pass",
    "sleep": "import time\ntime.sleep(1000)",
    "native crash": "import sys\nsys.setrecursionlimit(10**9)\ndef solve(n): return solve(n + 1)",
    "deep recursion": "def solve(n): return solve(n)",
    "syntax": "def (",
    "null byte": "def solve(n): return 4\0",
    "input": "def solve(n): return int(input())",
    "signal that exits": WRONG
    + "import signal, os\nsignal.signal(signal.SIGALRM, lambda *a: os._exit(0))\nsignal.alarm(1)",
    "faulthandler": WRONG + "import faulthandler\nfaulthandler.dump_traceback_later(0.1, exit=True)",
    "environment": "import os\ndef solve(n): return 4 if os.environ.get('SECRET') == 'hidden' else 5",
}

READING = {
    "a secret": "won = open({secret!r}).read() == 'hidden'",
    "a secret by os.open": "import os\nwon = os.read(os.open({secret!r}, os.O_RDONLY), 6) == b'hidden'",
    "a secret through a link": "import os\nos.symlink({secret!r}, 'link')\nwon = open('link').read() == 'hidden'",
    "a secret through a hard link": "import os\nos.link({secret!r}, 'hard')\nwon = open('hard').read() == 'hidden'",
    "a secret by dir_fd": "import os\nfd = os.open({home!r}, os.O_PATH)\nwon = open(os.open('secret', os.O_RDONLY, dir_fd=fd)).read() == 'hidden'",
    "a secret by mmap": "import os, mmap\nfd = os.open({secret!r}, os.O_RDONLY)\nwon = mmap.mmap(fd, 0, prot=mmap.PROT_READ)[:6] == b'hidden'",
    "a secret by libc": _LIBC
    + "fd = libc.open({secret!r}.encode(), 0)\nb = ctypes.create_string_buffer(6)\nwon = libc.read(fd, b, 6) == 6",
    "a secret by openat2": _LIBC
    + "import struct\nhow = ctypes.create_string_buffer(24)\nwon = libc.syscall(437, -100, {secret!r}.encode(), how, 24) >= 0",
    "a secret by name_to_handle": _LIBC
    + "h = ctypes.create_string_buffer(136)\nh[0] = b'\\x80'\nm = ctypes.c_int()\nwon = libc.name_to_handle_at(-100, {secret!r}.encode(), h, ctypes.byref(m), 0) == 0",
    "a secret by shutil": "import shutil\nshutil.copy({secret!r}, 'mine')\nwon = open('mine').read() == 'hidden'",
    "a secret as a module": "import importlib.util\nspec = importlib.util.spec_from_file_location('m', {module!r})\nm = importlib.util.module_from_spec(spec)\nspec.loader.exec_module(m)\nwon = m.SECRET == 'hidden'",
    "the directory of a secret": "import os\nwon = 'secret' in os.listdir({home!r})",
    "the home directory": "import os\nos.listdir({user!r})\nwon = True",
    "passwords": "won = 'root' in open('/etc/passwd').read()",
    "the environment of the parent": "import os\nopen('/proc/%d/environ' % os.getppid()).read()\nwon = True",
    "the environment of the run": "won = bool(open('/proc/{pid}/environ', 'rb').read())",
    "the command line of the run": "won = bool(open('/proc/{pid}/cmdline', 'rb').read())",
    "its own maps": "won = bool(open('/proc/self/maps').read())",
    "its own maps through a link": "import os\nos.symlink('/proc/self', 'p')\nwon = bool(open('p/maps').read())",
    "other processes": "import os\nwon = bool(os.listdir('/proc'))",
    "the disk itself": "import glob\nwon = any(open(p, 'rb').read(1) for p in glob.glob('/dev/[sv]d*'))\nassert won",
    "the kernel's log": _LIBC + "b = ctypes.create_string_buffer(99)\nwon = libc.klogctl(3, b, 99) >= 0",
    "cached datasets": "import os\nwon = bool(os.listdir({cache!r}))",
    "temporary files of others": "import os\nwon = len(os.listdir({tmp!r})) > 0",
}

WRITING = {
    "remove a tree": "import shutil\nshutil.rmtree({home!r})\nwon = True",
    "remove": "import os\nos.remove({precious!r})\nwon = True",
    "unlink": "import pathlib\npathlib.Path({precious!r}).unlink()\nwon = True",
    "overwrite": "open({precious!r}, 'w').write('x')\nwon = True",
    "append": "open({precious!r}, 'a').write('x')\nwon = True",
    "open for both": "open({precious!r}, 'r+').write('x')\nwon = True",
    "move away": "import os\nos.rename({precious!r}, 'stolen')\nwon = True",
    "move over": "import os\nopen('x', 'w').write('x')\nos.rename('x', {precious!r})\nwon = True",
    "exchange": _LIBC
    + "open('x', 'w').write('x')\nwon = libc.renameat2(-100, b'x', -100, {precious!r}.encode(), 2) == 0",
    "truncate": "import os\nos.truncate({precious!r}, 0)\nwon = True",
    "truncate by number": _LIBC + "won = libc.syscall(76, {precious!r}.encode(), 0) == 0",
    "from its directory": "import os\nos.chdir({home!r})\nos.remove('precious')\nwon = True",
    "through a linked directory": "import os\nos.symlink({home!r}, 'h')\nopen('h/precious', 'a').write('x')\nwon = True",
    "by descriptor of its directory": "import os\nfd = os.open({home!r}, os.O_PATH)\nos.remove('precious', dir_fd=fd)\nwon = True",
    "new file beside": "open({home!r} + '/new', 'w')\nwon = True",
    "new directory beside": "import os\nos.mkdir({home!r} + '/new')\nwon = True",
    "new link beside": "import os\nos.symlink('/', {home!r} + '/new')\nwon = True",
    "hard link beside": "import os\nopen('x', 'w')\nos.link('x', {home!r} + '/new')\nwon = True",
    "new pipe beside": "import os\nos.mkfifo({home!r} + '/new')\nwon = True",
    "new device": "import os, stat\nos.mknod('dev', 0o666 | stat.S_IFBLK, os.makedev(8, 0))\nwon = True",
    "chmod": "import os\nos.chmod({precious!r}, 0o777)\nwon = True",
    "fchmod": "import os\nos.fchmod(os.open({precious!r}, os.O_RDONLY), 0o777)\nwon = True",
    "fchmodat2": _LIBC + "won = libc.syscall(452, -100, {precious!r}.encode(), 0o777, 0) == 0",
    "chown": "import os\nos.chown({precious!r}, 1, 1)\nwon = True",
    "utime": "import os\nos.utime({precious!r}, (1, 1))\nwon = True",
    "utime by number": _LIBC + "won = libc.syscall(280, -100, {precious!r}.encode(), None, 0) == 0",
    "setxattr": "import os\nos.setxattr({precious!r}, 'user.x', b'1')\nwon = True",
    "removexattr": _LIBC + "won = libc.removexattr({precious!r}.encode(), b'user.keep') == 0",
    "flags of a file": "import fcntl, os\nfcntl.ioctl(os.open({home!r}, os.O_RDONLY), 0x40086602, b'\\0' * 8)\nwon = True",
    "mount": _LIBC + "won = libc.mount(b'none', {home!r}.encode(), b'tmpfs', 0, None) == 0",
    "chroot": "import os\nos.chroot('.')\nwon = True",
    "shared memory": "from multiprocessing import shared_memory\nshared_memory.SharedMemory(create=True, size=1000)\nwon = True",
    "the shared memory directory": "open('/dev/shm/assay-test', 'w')\nwon = True",
    "the temporary directory": "open({tmp!r} + '/assay-hostile', 'w')\nwon = True",
    "Python's own library": "import os\nopen(os.path.dirname(os.__file__) + '/assay_hostile.py', 'w')\nwon = True",
    "a .pth file": "import sysconfig\nopen(sysconfig.get_path('purelib') + '/assay_hostile.pth', 'w')\nwon = True",
    "quota": _LIBC + "won = libc.syscall(179, 0, None, 0, None) == 0",
    "swap": _LIBC + "won = libc.swapoff(b'/dev/null') == 0 or ctypes.get_errno() != 1",
}

STARTING = {
    "fork": "import os\nos.fork()\nwon = True",
    "vfork": _LIBC + "won = libc.syscall(58) >= 0",
    "clone": _LIBC + "won = libc.syscall(56, 17, 0, 0, 0, 0) >= 0",
    "clone3": _LIBC
    + "args = (ctypes.c_uint64 * 11)()\nargs[4] = 17\nwon = libc.syscall(435, args, 88) >= 0 or ctypes.get_errno() != 38",
    "shell": "import os\nwon = os.system('true') == 0",
    "popen": "import os\nwon = os.popen('echo x').read() == 'x\\n'",
    "subprocess": "import subprocess\nsubprocess.run(['/bin/true'], check=True)\nwon = True",
    "fork_exec": "import _posixsubprocess, os\nr, w = os.pipe()\n_posixsubprocess.fork_exec([b'/bin/true'], [b'/bin/true'], True, (w,), None, None, -1, -1, -1, -1, -1, -1, r, w, False, False, -1, None, None, None, -1, None, True)\nwon = True",
    "posix_spawn": "import os\nos.posix_spawn('/bin/true', ['true'], {{}})\nwon = True",
    "exec": "import os\nos.execv('/bin/true', ['true'])",
    "execveat": _LIBC + "won = libc.syscall(322, -100, b'/bin/true', None, None, 0) == 0",
    "exec of its own file": "import os\nopen('x', 'w').write('#!/bin/sh\\n')\nos.execv('./x', ['x'])",
    "exec from memory": "import os\nfd = os.memfd_create('x')\nwon = True",
    "multiprocessing": "import multiprocessing\np = multiprocessing.Process(target=print)\np.start()\nwon = True",
    "pty": "import pty\npty.fork()\nwon = True",
    "unshare": _LIBC + "won = libc.unshare(0x10000000) == 0",
    "setns": _LIBC + "won = libc.setns(0, 0) == 0 or ctypes.get_errno() != 1",
    "thread bomb": "import threading, time\nfor _ in range(5000): threading.Thread(target=time.sleep, args=(9,), daemon=True).start()\nwon = True",
    "thread bomb with small stacks": "import threading, time\nthreading.stack_size(32768)\nfor _ in range(20000): threading.Thread(target=time.sleep, args=(9,), daemon=True).start()\nwon = True",
    "fork bomb": "import os\nwhile True: os.fork()",
    "a module of the kernel": _LIBC + "won = libc.syscall(175, None, 0, b'') == 0 or ctypes.get_errno() != 1",
    "bpf": _LIBC + "won = libc.syscall(321, 0, None, 0) >= 0 or ctypes.get_errno() != 1",
    "personality": _LIBC + "won = libc.personality(0x0040000) >= 0",
    "keyring": _LIBC + "won = libc.syscall(248, b'user', b'x', b'y', 1, -3) >= 0",
    "userfaultfd": _LIBC + "won = libc.syscall(323, 1) >= 0",
}

TALKING = {
    "TCP to loopback": "import socket\nsocket.create_connection(('127.0.0.1', {port}), 1)\nwon = True",
    "TCP over IPv6": "import socket\nsocket.socket(socket.AF_INET6)\nwon = True",
    "UDP": "import socket\nsocket.socket(socket.AF_INET, socket.SOCK_DGRAM)\nwon = True",
    "Unix socket": "import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect({unix!r})\nwon = True",
    "netlink": "import socket\nsocket.socket(socket.AF_NETLINK, socket.SOCK_RAW)\nwon = True",
    "raw": "import socket\nsocket.socket(socket.AF_PACKET, socket.SOCK_RAW)\nwon = True",
    "vsock": "import socket\nsocket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)\nwon = True",
    "alg": "import socket\nsocket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET)\nwon = True",
    "socket pair": "import socket\nsocket.socketpair()\nwon = True",
    "listening": "import socket\nsocket.create_server(('127.0.0.1', 0))\nwon = True",
    "http": "import urllib.request\nurllib.request.urlopen('http://127.0.0.1:{port}', timeout=1)\nwon = True",
    "asyncio": "import asyncio\nasyncio.run(asyncio.sleep(0))\nasyncio.new_event_loop()\nimport socket\nsocket.socket()\nwon = True",
    "io_uring": _LIBC
    + "p = ctypes.create_string_buffer(120)\nwon = libc.syscall(425, 1, p) >= 0 or ctypes.get_errno() != 1",
    "io_uring enter": _LIBC + "won = libc.syscall(426, 0, 0, 0, 0, None, 0) >= 0 or ctypes.get_errno() != 1",
    "a call of i386": "import ctypes, mmap\ncode = bytes.fromhex('b814000000cd80c3')\nm = mmap.mmap(-1, 4096, prot=7)\nm.write(code)\nat = ctypes.addressof(ctypes.c_char.from_buffer(m))\nwon = ctypes.CFUNCTYPE(ctypes.c_int)(at)() > 0",
    "a socket by i386": "import ctypes, mmap\ncode = bytes.fromhex('53b867010000bb01000000b901000000ba00000000cd805bc3')\nm = mmap.mmap(-1, 4096, prot=7)\nm.write(code)\nat = ctypes.addressof(ctypes.c_char.from_buffer(m))\nwon = ctypes.CFUNCTYPE(ctypes.c_int)(at)() > 0",
    "a call of x32": _LIBC + "won = libc.syscall(0x40000000 + 39) > 0",
    "a message queue": _LIBC + "won = libc.mq_open(b'/assay', 0o102, 0o600, None) >= 0",
    "a semaphore of System V": _LIBC + "won = libc.semget(0, 1, 0o1600) >= 0",
    "shared memory of System V": _LIBC + "won = libc.shmget(0, 4096, 0o1600) >= 0",
    "a terminal's input": "import fcntl, os\nfcntl.ioctl(0, 0x5412, b'x')\nwon = True",
    "opening a terminal": "import os\nos.openpty()\nwon = True",
    "syslog": "import syslog\nsyslog.syslog('x')\nimport socket\nsocket.socket(socket.AF_UNIX)\nwon = True",
}

HARMING = {
    "kill the parent": "import os\nos.kill(os.getppid(), 9)\nwon = True",
    "kill the run": "import os\nos.kill({pid}, 9)\nwon = True",
    "stop the run": "import os\nos.kill({pid}, 19)\nwon = True",
    "kill everybody": "import os\nos.kill(-1, 9)\nwon = True",
    "kill its group": "import os\nos.killpg(0, 9)\nwon = True",
    "signal by queue": _LIBC + "won = libc.sigqueue({pid}, 9, None) == 0",
    "signal by tgkill": _LIBC + "won = libc.syscall(234, {pid}, {pid}, 9) == 0",
    "signal by tkill": _LIBC + "won = libc.syscall(200, {pid}, 9) == 0",
    "signal by pidfd": "import os\nfd = os.pidfd_open({pid})\nimport signal\nsignal.pidfd_send_signal(fd, 9)\nwon = True",
    "owner of a descriptor": "import fcntl, os\nr, w = os.pipe()\nfcntl.fcntl(r, fcntl.F_SETOWN, {pid})\nfcntl.fcntl(r, fcntl.F_SETFL, os.O_ASYNC)\nos.write(w, b'x')\nwon = True",
    "ptrace the parent": _LIBC + "import os\nwon = libc.ptrace(16, os.getppid(), 0, 0) == 0",
    "ptrace the run": _LIBC + "won = libc.ptrace(0x4206, {pid}, 0, 0) == 0",
    "read the memory of the run": _LIBC + "won = libc.syscall(310, {pid}, None, 0, None, 0, 0) >= 0",
    "write the memory of others": _LIBC
    + "won = any(libc.syscall(311, p, None, 0, None, 0, 0) >= 0 for p in range(1, 5000))",
    "limits of the run": _LIBC + "new = (ctypes.c_uint64 * 2)(1, 1)\nwon = libc.prlimit({pid}, 7, new, None) == 0",
    "its own limits": "import resource\nresource.setrlimit(resource.RLIMIT_AS, (1 << 40, 1 << 40))\nwon = True",
    "priority of the run": "import os\nos.setpriority(os.PRIO_PROCESS, {pid}, 19)\nwon = True",
    "processors of the run": "import os\nos.sched_setaffinity({pid}, [0])\nwon = True",
    "descriptors of the run": _LIBC + "won = libc.syscall(438, 3, 1, 0) >= 0",
    "another user": "import os\nos.setuid(12345)\nwon = True",
    "another session": "import os\nos.setsid()\nwon = True",
    "outliving the parent": _LIBC + "won = libc.prctl(1, 0, 0, 0, 0) == 0",
    "a filter of its own": _LIBC + "won = libc.prctl(22, 1, 0, 0, 0) == 0",
    "the clock": "import time\ntime.clock_settime(time.CLOCK_REALTIME, 1)\nwon = True",
    "the host's name": "import socket\nsocket.sethostname('x')\nwon = True",
    "reboot": _LIBC + "won = libc.reboot(0x89ABCDEF) == 0",
}

FILLING = {
    "memory": "x = []\nfor _ in range(400): x.append(b'1' * (64 << 20))\nwon = True",
    "memory by mmap": "import mmap\nx = [mmap.mmap(-1, 1 << 30) for _ in range(8)]\nwon = True",
    "memory by a power": "x = 10 ** 10 ** 10\nwon = True",
    "memory in a call": "def f(): return [0] * (1 << 34)\nf()\nwon = True",
    "one large file": "open('big', 'wb').write(b'0' * (64 << 20))\nwon = True",
    "many large files": "for n in range(200):\n    open(str(n), 'wb').write(b'0' * (15 << 20))\nwon = True",
    "many small files": "for n in range(10 ** 6):\n    open(str(n), 'wb').close()\nwon = True",
    "a sparse file": "import os\nfd = os.open('x', os.O_RDWR | os.O_CREAT)\nos.ftruncate(fd, 1 << 40)\nwon = True",
    "fallocate": "import os\nfd = os.open('x', os.O_RDWR | os.O_CREAT)\nos.posix_fallocate(fd, 0, 1 << 30)\nwon = True",
    "deep directories": "import os\nfor n in range(1500):\n    os.mkdir('d')\n    os.chdir('d')\nwon = False",
    "deep directories that none may enter": "import os\nfor n in range(300):\n    os.mkdir('d')\n    os.chdir('d')\nos.mkdir('closed', 0)\nwon = False",
    "open files": "import os\nfiles = [open('f', 'w') for _ in range(5000)]\nwon = True",
    "open pipes": "import os\npipes = [os.pipe() for _ in range(5000)]\nwon = True",
    "locked memory": _LIBC + "won = libc.mlockall(3) == 0",
    "processor time in threads": "import threading\ndef spin():\n    while True: pass\nfor _ in range(8): threading.Thread(target=spin).start()\nspin()",
    "a regular expression": "import re\nre.match(r'(a+)+$', 'a' * 60 + 'b')\nwon = True",
}

CLASSES = {
    "forging": FORGING,
    "reading": READING,
    "writing": WRITING,
    "starting": STARTING,
    "talking": TALKING,
    "harming": HARMING,
    "filling": FILLING,
}
