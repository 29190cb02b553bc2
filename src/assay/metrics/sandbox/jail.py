"""What the kernel can be asked to take away from a process before it runs strange code.

Run by the warden's child, in an interpreter that knows nothing of assay: the standard library only. Each step that a
kernel or container does not allow is skipped; the guard in Python stands behind all of them.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import resource
import struct

_LIBC = ctypes.CDLL(None, use_errno=True)

CLONE_NEWUSER, CLONE_NEWNET, CLONE_NEWPID, CLONE_NEWIPC = 0x10000000, 0x40000000, 0x20000000, 0x08000000
PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 22, 36, 38
LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 444, 445, 446
SOCKET_CALL = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}

# Rights that Landlock takes away everywhere but in the working directory: all that change the file system.
_WRITE_FILE = 1 << 1
_WRITES = sum(1 << bit for bit in (1, *range(4, 13)))
_RIGHTS_BY_ABI = {1: _WRITES, 2: _WRITES | 1 << 13, 3: _WRITES | 1 << 13 | 1 << 14}


def adopt_orphans() -> None:
    """Make descendants whose parents die children of this process, so that none can slip away as a daemon."""
    _LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def leave_namespaces() -> bool:
    """No network, no other processes in sight. With them a killed child takes all its descendants along."""
    return bool(_LIBC.unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWPID | CLONE_NEWIPC) == 0)


def die_with_parent() -> None:
    _LIBC.prctl(PR_SET_PDEATHSIG, 9, 0, 0, 0)


def limit_resources(cpu_seconds: int, memory: int, file_size: int, open_files: int, processes: int) -> None:
    for what, value in (
        (resource.RLIMIT_CPU, cpu_seconds),
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_DATA, memory),
        (resource.RLIMIT_FSIZE, file_size),
        (resource.RLIMIT_NOFILE, open_files),
        (resource.RLIMIT_NPROC, processes),
        (resource.RLIMIT_CORE, 0),
    ):
        _, most = resource.getrlimit(what)
        value = value if most == resource.RLIM_INFINITY else min(value, most)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(what, (value, value))


def forbid_sockets() -> None:
    """A seccomp filter: socket(2) fails with EACCES, in this process and all that it starts."""
    found = SOCKET_CALL.get(platform.machine())
    if found is None:
        return
    arch, number = found
    load, jump_equal, give = 0x20, 0x15, 0x06
    allow, refuse = 0x7FFF0000, 0x00050000 | 13
    program = b"".join(
        struct.pack("=HBBI", *line)
        for line in (
            (load, 0, 0, 4),  # the architecture of the call
            (jump_equal, 0, 3, arch),
            (load, 0, 0, 0),  # its number
            (jump_equal, 0, 1, number),
            (give, 0, 0, refuse),
            (give, 0, 0, allow),
        )
    )
    buffer = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(buffer))
    _LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _LIBC.prctl(PR_SET_SECCOMP, 2, ctypes.create_string_buffer(header, len(header)), 0, 0)


def write_only_below(directory: str) -> None:
    """Landlock: files may be changed in `directory` (and /dev/null written), nowhere else."""
    abi = _LIBC.syscall(LANDLOCK_CREATE, None, 0, 1)
    if abi < 1:
        return
    rights = _RIGHTS_BY_ABI[min(abi, 3)]
    handled = ctypes.create_string_buffer(struct.pack("=Q", rights), 8)
    ruleset = _LIBC.syscall(LANDLOCK_CREATE, handled, 8, 0)
    if ruleset < 0:
        return
    for path, allowed in ((directory, rights), ("/dev/null", rights & (_WRITE_FILE | 1 << 14))):
        with contextlib.suppress(OSError):
            target = os.open(path, os.O_PATH | os.O_CLOEXEC)
            rule = ctypes.create_string_buffer(struct.pack("=Qi", allowed, target), 12)
            _LIBC.syscall(LANDLOCK_ADD, ruleset, 1, rule, 0)
            os.close(target)
    _LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _LIBC.syscall(LANDLOCK_RESTRICT, ruleset, 0)
    os.close(ruleset)
