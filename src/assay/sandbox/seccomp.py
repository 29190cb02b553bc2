"""A seccomp filter that refuses every system call but those that a calculating program needs.

Default-deny: a call that is not listed fails with EPERM, so that Python raises PermissionError. A call of another
architecture (i386 and x32 on x86-64) ends the process: its numbers mean other calls. No sockets, no io_uring, no ptrace,
no signals to others, no new processes (threads only), no programs, no change of a file's mode, owner, times or attributes.

Run in an interpreter that knows nothing of assay: the standard library only.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct

_ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
"""Machine to its audit number and its column of the tables below."""

# Name, number on x86-64, number on aarch64.
_ALLOWED = """
read 0 63, write 1 64, readv 19 65, writev 20 66, pread64 17 67, pwrite64 18 68, open 2 -, openat 257 56,
close 3 57, fstat 5 80, stat 4 -, lstat 6 -, newfstatat 262 79, statx 332 291, lseek 8 62, mmap 9 222,
mprotect 10 226, munmap 11 215, mremap 25 216, madvise 28 233, brk 12 214, msync 26 227, rt_sigaction 13 134,
rt_sigprocmask 14 135, rt_sigreturn 15 139, rt_sigpending 127 136, rt_sigtimedwait 128 137,
sigaltstack 131 132, dup 32 23, dup2 33 -, dup3 292 24, pipe 22 -, pipe2 293 59, select 23 -,
pselect6 270 72, poll 7 -, ppoll 271 73, epoll_create 213 -, epoll_create1 291 20, epoll_ctl 233 21,
epoll_wait 232 -, epoll_pwait 281 22, eventfd2 290 19, futex 202 98, sched_yield 24 124,
sched_getaffinity 204 123, getpid 39 172, gettid 186 178, getppid 110 173, getuid 102 174, geteuid 107 175,
getgid 104 176, getegid 108 177, getgroups 115 158, getpgrp 111 -, getpgid 121 155, getsid 124 156,
getcwd 79 17, chdir 80 49, fchdir 81 50, getdents64 217 61, readlink 89 -, readlinkat 267 78, access 21 -,
faccessat 269 48, faccessat2 439 439, mkdir 83 -, mkdirat 258 34, rmdir 84 -, unlink 87 -, unlinkat 263 35,
rename 82 -, renameat 264 38, renameat2 316 276, symlink 88 -, symlinkat 266 36, ftruncate 77 46,
fsync 74 82, fdatasync 75 83, flock 73 32, umask 95 166, clock_gettime 228 113, clock_getres 229 114,
clock_nanosleep 230 115, nanosleep 35 101, gettimeofday 96 169, time 201 -, times 100 153, getrusage 98 165,
getrlimit 97 163, getrandom 318 278, uname 63 160, sysinfo 99 179, exit 60 93, exit_group 231 94,
set_robust_list 273 99, get_robust_list 274 100, rseq 334 293, set_tid_address 218 96, arch_prctl 158 -,
restart_syscall 219 128, pause 34 -, alarm 37 -, setitimer 38 103, getitimer 36 102, wait4 61 260,
waitid 247 95, statfs 137 43, fstatfs 138 44, sendfile 40 71, copy_file_range 326 285, membarrier 324 283,
getpriority 140 141, sched_getparam 143 121, sched_getscheduler 145 120, sched_get_priority_max 146 125,
sched_get_priority_min 147 126
"""

# Allowed for some arguments only.
_IOCTL, _PRCTL, _PRLIMIT, _CLONE = (16, 29), (157, 167), (302, 261), (56, 220)
_FCNTL = (72, 25)
_CLONE3, _KILL, _TGKILL, _TRUNCATE = (435, 435), (62, 129), (234, 131), (76, 45)
_SAFE_IOCTLS = (
    0x5401,
    0x5413,
    0x541B,
    0x5421,
    0x5450,
    0x5451,
)  # terminal or not, its size, bytes waiting, blocking, close on exec
_SAFE_FCNTLS = (0, 1, 2, 3, 4, 5, 6, 7, 1030, 1032)  # copies, flags, locks; not who is sent a signal
_SAFE_PRCTLS = (15, 16, 0x53564D41)  # a thread's name; a mapping's name
_CLONE_THREAD = 0x00010000

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL_PROCESS, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
_EPERM, _ENOSYS = 1, 38
_NUMBER, _ARCHITECTURE = 0, 4
_X32 = 0x40000000

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP = 38, 22

Line = tuple[int, int, int, int]


def restrict_calls(libc: ctypes.CDLL, *, truncate: bool) -> bool:
    """Put the filter on this process and all its threads to come; False where the kernel has none.

    `truncate` says whether something else (Landlock from its third version on) guards truncate(2).
    """
    found = _ARCHITECTURES.get(platform.machine())
    if found is None:
        return False
    program = b"".join(struct.pack("=HBBI", *line) for line in _program(*found, os.getpid(), truncate))
    buffer = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(buffer))
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    return bool(libc.prctl(_PR_SET_SECCOMP, 2, ctypes.create_string_buffer(header, len(header)), 0, 0) == 0)


def allowed_numbers(column: int) -> list[int]:
    rows = [row.split() for row in _ALLOWED.replace("\n", " ").split(",")]
    return sorted(int(row[1 + column]) for row in rows if row[1 + column] != "-")


def _program(architecture: int, column: int, me: int, truncate: bool) -> list[Line]:
    lines: list[Line] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL_PROCESS),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _KILL_PROCESS),
        *_answer(_CLONE3[column], _ERROR | _ENOSYS),  # its flags lie in memory, where no filter looks; libc falls back
        *_if_argument(_CLONE[column], 0, [(_ANY_BIT, _CLONE_THREAD)]),
        *_if_argument(_KILL[column], 0, [(_EQUAL, me)]),
        *_if_argument(_TGKILL[column], 0, [(_EQUAL, me)]),
        *_if_argument(_IOCTL[column], 1, [(_EQUAL, value) for value in _SAFE_IOCTLS]),
        *_if_argument(_FCNTL[column], 1, [(_EQUAL, value) for value in _SAFE_FCNTLS]),
        *_if_argument(_PRCTL[column], 0, [(_EQUAL, value) for value in _SAFE_PRCTLS]),
        *_if_argument(_PRLIMIT[column], 2, [(_EQUAL, 0)]),  # reading limits, not setting them
    ]
    if truncate:
        lines += _answer(_TRUNCATE[column], _ALLOW)
    for number in allowed_numbers(column):
        lines += _answer(number, _ALLOW)
    return [*lines, (_RETURN, 0, 0, _ERROR | _EPERM)]


def _answer(number: int, action: int) -> list[Line]:
    return [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, action)]


def _if_argument(number: int, index: int, tests: list[tuple[int, int]]) -> list[Line]:
    """Allow call `number` if its argument passes one of the tests, of both halves of the argument; else EPERM."""
    low = 16 + 8 * index
    checks: list[Line] = []
    for left, (how, value) in zip(range(len(tests), 0, -1), tests):
        checks.append((how, left, 0, value))  # over the remaining tests and the refusal
    inner: list[Line] = [
        (_LOAD, 0, 0, low + 4),
        (_EQUAL, 0, len(tests) + 1, 0),  # a high half that is not zero is refused
        (_LOAD, 0, 0, low),
        *checks,
        (_RETURN, 0, 0, _ERROR | _EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return [(_EQUAL, 0, len(inner), number), *inner]
