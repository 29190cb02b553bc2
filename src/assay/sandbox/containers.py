"""The command that starts a supervisor: as it is, or inside bubblewrap or a container, which isolate it once more."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

from assay.config import SandboxKind
from assay.sandbox import isolation

CONTAINERS = ("bwrap", "docker", "podman")
ENGINES = ("docker", "podman")
HERE = Path(__file__).parent
INSIDE = "/tmp/work"
"""The supervisor's directory inside a container: on a file system in memory, of limited size, that ends with it."""


def start_command(
    kind: SandboxKind, folder: str, settings: str, limits: dict[str, Any], script: str = "supervisor.py"
) -> list[str]:
    if kind == "bwrap":
        python = [sys.executable, "-I", "-B", str(HERE / script)]
        return [*_bubblewrap(limits), *python, INSIDE, settings]
    if kind in ("docker", "podman"):
        return [*_container(kind, limits), "python", "-I", "-B", f"/sandbox/{script}", INSIDE, settings]
    return [sys.executable, "-I", "-B", str(HERE / script), folder, settings]


def _bubblewrap(limits: dict[str, Any]) -> list[str]:
    visible = [*isolation.readable_paths(), str(HERE), sys.prefix, os.path.dirname(os.path.realpath(sys.executable))]
    links = [path for path in ("/lib", "/lib64", "/bin") if os.path.islink(path)]
    # Without --die-with-parent: its parent is the thread that starts it, and supervisors outlive that. They end with their input.
    command = [str(shutil.which("bwrap")), "--unshare-all", "--clearenv", "--cap-drop", "ALL"]
    command += [
        "--dev",
        "/dev",
        "--proc",
        "/proc",
        "--size",
        str(2 * limits["disk"]),
        "--tmpfs",
        "/tmp",
        "--dir",
        INSIDE,
    ]
    for path in links:
        command += ["--symlink", os.readlink(path), path]
    for path in visible:
        if not path.startswith(("/dev", "/proc")):
            command += ["--ro-bind", path, path]
    return [*command, "--chdir", "/"]


def default_image() -> str:
    """Python's own image for this version; `ASSAY_SANDBOX_IMAGE` names another, with the packages that programs may import."""
    own = f"docker.io/library/python:{sys.version_info[0]}.{sys.version_info[1]}-slim"
    return os.environ.get("ASSAY_SANDBOX_IMAGE") or own


def _container(engine: str, limits: dict[str, Any]) -> list[str]:
    command = [engine, "run", "--rm", "--interactive", "--network", "none", "--read-only", "--cap-drop", "ALL"]
    command += ["--security-opt", "no-new-privileges", "--user", "65534:65534"]
    command += ["--pids-limit", str(limits["threads"] + 32), "--memory", str(limits["memory"] + (256 << 20))]
    command += ["--tmpfs", f"/tmp:rw,nosuid,nodev,size={2 * limits['disk']},mode=1777"]
    return [*command, "--volume", f"{HERE}:/sandbox:ro", default_image()]
