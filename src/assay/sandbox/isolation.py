"""What the kernel takes away from a process before it runs strange code.

Run in an interpreter that knows nothing of assay: the standard library only. `confine` says which protections could not be had.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import struct
import sys
import sysconfig
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING or __package__:
    from assay.sandbox import seccomp
else:
    import seccomp

_LIBC = ctypes.CDLL(None, use_errno=True)

CALLS, FILES = "system calls (seccomp)", "files (Landlock)"
PARTS = (CALLS, FILES)

_CLONE_NEWUSER, _CLONE_NEWNET, _CLONE_NEWPID, _CLONE_NEWIPC = 0x10000000, 0x40000000, 0x20000000, 0x08000000
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 4, 36, 38
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_CAPSET, _CAPABILITY_VERSION = {"x86_64": 126, "aarch64": 91}, 0x20080522

# Rights of Landlock's first version, in the order of their bits: execute, write a file, read a file, list a directory,
# then all that makes and removes. The second version adds moving between directories, the third truncating.
_WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE = 1 << 1, 1 << 2, 1 << 3, 1 << 14
_RIGHTS_BY_VERSION = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1}
_OF_FILES = 1 << 0 | _WRITE_FILE | _READ_FILE | _TRUNCATE
_READ = _READ_FILE | _READ_DIR


def adopt_orphans() -> None:
    """Make descendants whose parents die children of this process, so that none can slip away as a daemon."""
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def leave_namespaces(*, network: bool = False) -> bool:
    """A second line behind the filter of calls: no network, no other processes in sight, where the kernel allows it."""
    own_network = 0 if network else _CLONE_NEWNET
    return bool(_LIBC.unshare(_CLONE_NEWUSER | own_network | _CLONE_NEWPID | _CLONE_NEWIPC) == 0)


def die_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, 9, 0, 0, 0)


def confine(limits: dict[str, float], writable: str | None = None) -> list[str]:
    """Take away all of it; the protections that are missing. `writable` is the one directory in which files may change.

    A process that may write can be looked into from outside, so that files which it holds open and has removed are counted.
    """
    limit_resources(limits)
    if writable is None:
        _LIBC.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    version = restrict_files(writable)
    drop_capabilities()
    missing = [] if version else [FILES]
    return missing if seccomp.restrict_calls(_LIBC, truncate=version >= 3) else [CALLS, *missing]


def confine_shell(limits: dict[str, float], folder: str, hidden: Sequence[str], *, network: bool) -> list[str]:
    """The same for a shell and what it starts: it may run the system's programs and those in its folder, and see nothing of
    `hidden`. Signals reach only what it started itself, where the kernel can say so; else none can be sent."""
    limit_resources(limits)
    readable = [each for path in shell_paths() for each in without(path, [os.path.realpath(one) for one in hidden])]
    version, scoped = restrict_shell_files(folder, readable)
    drop_capabilities()
    missing = [] if version else [FILES]
    done = seccomp.restrict_shell(_LIBC, truncate=version >= 3, signals=scoped, network=network)
    return missing if done else [CALLS, *missing]


def shell_paths() -> list[str]:
    own = [sys.base_prefix] if sys.base_prefix not in ("/", "/usr", "/usr/local") else []
    system = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/dev/urandom", "/dev/random", "/dev/zero"]
    system += [
        f"/etc/{name}" for name in ("alternatives", "group", "ld.so.cache", "localtime", "nsswitch.conf", "passwd")
    ]
    system += ["/etc/resolv.conf", "/etc/hosts", "/etc/ssl"]
    found = dict.fromkeys(os.path.realpath(path) for path in (*own, *system))
    return [path for path in found if os.path.exists(path)]


def without(path: str, hidden: Sequence[str]) -> list[str]:
    """A path, or all that lies below it but what is hidden."""
    if path in hidden:
        return []
    if not any(each.startswith(f"{path}/") for each in hidden):
        return [path]
    try:
        entries = sorted(os.listdir(path))
    except OSError:
        return []
    return [each for entry in entries for each in without(os.path.join(path, entry), hidden)]


def restrict_shell_files(folder: str, readable: Sequence[str]) -> tuple[int, bool]:
    """Landlock: reading and running what is readable, anything in the folder. Its version, 0 if there is none, and whether
    signals and abstract sockets are kept inside, which its sixth version can."""
    found = _LIBC.syscall(_LANDLOCK_CREATE, None, 0, 1)
    version = min(found, 3)
    if version < 1:
        return 0, False
    rights = _RIGHTS_BY_VERSION[version]
    scoped = found >= 6
    handled = struct.pack("=QQQ", rights, 0, 3) if scoped else struct.pack("=Q", rights)
    ruleset = _LIBC.syscall(_LANDLOCK_CREATE, ctypes.create_string_buffer(handled, len(handled)), len(handled), 0)
    if ruleset < 0:
        return 0, False
    _allow(ruleset, readable, (_READ | 1) & rights)
    _allow(ruleset, ["/dev/null"], (_READ_FILE | _WRITE_FILE | _TRUNCATE) & rights)
    _allow(ruleset, [folder], rights)
    _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    done = _LIBC.syscall(_LANDLOCK_RESTRICT, ruleset, 0) == 0
    os.close(ruleset)
    return (version, scoped) if done else (0, False)


def limit_resources(limits: dict[str, float]) -> None:
    for what, value in (
        (resource.RLIMIT_CPU, limits["cpu_seconds"]),
        (resource.RLIMIT_AS, limits["memory"]),
        (resource.RLIMIT_DATA, limits["memory"]),
        (resource.RLIMIT_FSIZE, limits["file_size"]),
        (resource.RLIMIT_NOFILE, limits["open_files"]),
        (resource.RLIMIT_CORE, 0),
    ):
        _, most = resource.getrlimit(what)
        value = int(value if most == resource.RLIM_INFINITY else min(value, most))
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(what, (value, value))


def drop_capabilities() -> None:
    """Root without its powers: the owner of its files, nothing more. A plain user has none to drop."""
    number = _CAPSET.get(os.uname().machine)
    if number is not None:
        header = ctypes.create_string_buffer(struct.pack("=Ii", _CAPABILITY_VERSION, 0), 8)
        _LIBC.syscall(number, header, ctypes.create_string_buffer(24))


def restrict_files(writable: str | None) -> int:
    """Landlock: reading Python and its packages, changing what lies in `writable`; its version, 0 if there is none."""
    version = min(_LIBC.syscall(_LANDLOCK_CREATE, None, 0, 1), 3)
    if version < 1:
        return 0
    rights = _RIGHTS_BY_VERSION[version]
    handled = ctypes.create_string_buffer(struct.pack("=Q", rights), 8)
    ruleset = _LIBC.syscall(_LANDLOCK_CREATE, handled, 8, 0)
    if ruleset < 0:
        return 0
    _allow(ruleset, readable_paths(), _READ & rights)
    _allow(ruleset, ["/dev/null"], (_READ_FILE | _WRITE_FILE | _TRUNCATE) & rights)
    if writable is not None:
        _allow(ruleset, [writable], rights & ~1)
    _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    done = _LIBC.syscall(_LANDLOCK_RESTRICT, ruleset, 0) == 0
    os.close(ruleset)
    return version if done else 0


def _allow(ruleset: int, paths: Sequence[str], rights: int) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            target = os.open(path, os.O_PATH | os.O_CLOEXEC)
            rule = ctypes.create_string_buffer(
                struct.pack("=Qi", rights if os.path.isdir(path) else rights & _OF_FILES, target), 12
            )
            _LIBC.syscall(_LANDLOCK_ADD, ruleset, 1, rule, 0)
            os.close(target)


def readable_paths() -> list[str]:
    """What a Python program reads to start and to import: its library, its packages, the system's libraries."""
    own = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    own += [os.path.join(sys.base_prefix, "lib")] if sys.base_prefix not in ("/", "/usr") else []
    system = ["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/share/zoneinfo", "/etc/localtime", "/etc/ld.so.cache"]
    found = dict.fromkeys(
        os.path.realpath(path) for path in (*own, *system, "/dev/urandom", "/dev/random", "/dev/zero") if path
    )
    return [path for path in found if os.path.exists(path)]
