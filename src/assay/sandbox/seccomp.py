"""Seccomp filters that refuse every system call but those that a calculating program needs, or a shell and what it starts.

Default-deny: a call that is not listed fails with EPERM, so that Python raises PermissionError. A call of another
architecture (i386 and x32 on x86-64) ends the process: its numbers mean other calls. No sockets, no io_uring, no ptrace,
no signals to others, no new processes (threads only), no programs, no change of a file's mode, owner, times or attributes.

A shell may do more: start programs, change modes and times of files, and, where the kernel keeps signals inside, send them.

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

_OF_SHELLS = """
fork 57 -, vfork 58 -, execve 59 221, execveat 322 281, setpgid 109 154, setsid 112 157, chmod 90 -,
fchmod 91 52, fchmodat 268 53, fchmodat2 452 452, utime 132 -, utimes 235 -, utimensat 280 88, futimesat 261 -,
link 86 -, linkat 265 37, chown 92 -, lchown 94 -, fchown 93 55, fchownat 260 54, creat 85 -, mknodat 259 33,
close_range 436 436, getxattr 191 8, lgetxattr 192 9, fgetxattr 193 10, listxattr 194 11, llistxattr 195 12,
flistxattr 196 13, fadvise64 221 223, fallocate 285 47, eventfd 284 -, timerfd_create 283 85,
timerfd_settime 286 86, timerfd_gettime 287 87, signalfd4 289 74, splice 275 76, tee 276 77, getresuid 118 148,
getresgid 120 150, capget 125 90, rt_sigsuspend 130 133, getcpu 309 168, inotify_init1 294 26,
inotify_add_watch 254 27, inotify_rm_watch 255 28, socketpair 53 199, sendto 44 206, recvfrom 45 207,
sendmsg 46 211, recvmsg 47 212, shutdown 48 210, getsockopt 55 209, getsockname 51 204, getpeername 52 205,
setsockopt 54 208, setrlimit 160 164, timer_create 222 107, timer_settime 223 110, timer_gettime 224 108,
timer_getoverrun 225 109, timer_delete 226 111
"""
_OF_NETWORKS = "socket 41 198, connect 42 203, bind 49 200, listen 50 201, accept 43 202, accept4 288 242"
_OF_SIGNALS = "kill 62 129, tkill 200 130, tgkill 234 131"

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
_TERMINAL_IOCTLS = (
    0x5402,
    0x5403,
    0x5404,
    0x540F,
    0x5410,
)  # settings and foreground group of a terminal; none is there
_CLONE_THREAD = 0x00010000
_NAMESPACES = 0x7E020080
"""Bits of clone(2) that ask for namespaces of one's own."""

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
    return found is not None and _install(libc, _program(*found, os.getpid(), truncate))


def restrict_shell(libc: ctypes.CDLL, *, truncate: bool, signals: bool, network: bool) -> bool:
    """The filter of a shell and all that it starts. `signals` says whether something else keeps signals inside."""
    found = _ARCHITECTURES.get(platform.machine())
    return found is not None and _install(libc, _shell_program(*found, truncate, signals, network))


def _install(libc: ctypes.CDLL, lines: list[Line]) -> bool:
    program = b"".join(struct.pack("=HBBI", *line) for line in lines)
    buffer = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(buffer))
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    return bool(libc.prctl(_PR_SET_SECCOMP, 2, ctypes.create_string_buffer(header, len(header)), 0, 0) == 0)


def allowed_numbers(column: int, *tables: str) -> list[int]:
    rows = [row.split() for table in tables or (_ALLOWED,) for row in table.replace("\n", " ").split(",")]
    return sorted(int(row[1 + column]) for row in rows if row[1 + column] != "-")


def _head(architecture: int, column: int) -> list[Line]:
    return [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL_PROCESS),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _KILL_PROCESS),
        *_answer(_CLONE3[column], _ERROR | _ENOSYS),  # its flags lie in memory, where no filter looks; libc falls back
    ]


def _shell_program(architecture: int, column: int, truncate: bool, signals: bool, network: bool) -> list[Line]:
    tables = [_ALLOWED, _OF_SHELLS] + [_OF_SIGNALS] * signals + [_OF_NETWORKS] * network
    numbers = allowed_numbers(column, *tables) + [_TRUNCATE[column]] * truncate
    ioctls = (*_SAFE_IOCTLS, *_TERMINAL_IOCTLS)
    return [
        *_head(architecture, column),
        *_unless_bits(_CLONE[column], 0, _NAMESPACES),
        *_if_argument(_IOCTL[column], 1, [(_EQUAL, value) for value in ioctls]),
        *_if_argument(_FCNTL[column], 1, [(_EQUAL, value) for value in _SAFE_FCNTLS]),
        *_if_argument(_PRCTL[column], 0, [(_EQUAL, value) for value in _SAFE_PRCTLS]),
        *_if_argument(_PRLIMIT[column], 0, [(_EQUAL, 0)]),  # its own limits, nobody else's
        *[line for number in numbers for line in _answer(number, _ALLOW)],
        (_RETURN, 0, 0, _ERROR | _EPERM),
    ]


def _program(architecture: int, column: int, me: int, truncate: bool) -> list[Line]:
    lines: list[Line] = [
        *_head(architecture, column),
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


def _unless_bits(number: int, index: int, bits: int) -> list[Line]:
    """Refuse call `number` if its argument has one of these bits."""
    inner: list[Line] = [
        (_LOAD, 0, 0, 16 + 8 * index),
        (_ANY_BIT, 0, 1, bits),
        (_RETURN, 0, 0, _ERROR | _EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return [(_EQUAL, 0, len(inner), number), *inner]


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
