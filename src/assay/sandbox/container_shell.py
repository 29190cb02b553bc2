"""A container for one trajectory, of the image that its task names: Docker or Podman by its command line."""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.errors import ScoringError

GRACE = 60.0
"""Seconds beyond the time of a command after which an engine is given up."""
PLACE = "/workspace"
_FEW = 256 << 10
"""Bytes of a file that are read back; of larger ones only the hash."""


@dataclass(frozen=True)
class CommandOutcome:
    """What a command printed, its exit code, and how it ended: `exited`, `timed out`, or what it used too much of."""

    output: str
    code: int
    ended: str = "exited"


def missing_engine(engine: str) -> str | None:
    """Why no container can be started with it; None where one can."""
    if shutil.which(engine) is None:
        return f"{engine} is not installed"
    found = _call([engine, "info"], seconds=60.0)
    if found.returncode == 0:
        return None
    said = found.stderr.decode("utf-8", "replace").strip().splitlines() or [f"exit code {found.returncode}"]
    return f"{engine} does not answer: {said[-1]}"


class ContainerShell:
    """Started when it is first needed, removed with all that runs in it when it is closed."""

    def __init__(self, engine: str, image: str, limits: Mapping[str, Any], *, network: bool = False) -> None:
        self.engine, self.image, self.limits, self.network = engine, image, limits, network
        self._id: str | None = None

    def start_command(self) -> list[str]:
        network = [] if self.network else ["--network", "none"]
        command = [self.engine, "run", "--detach", "--rm", *network, "--cap-drop", "ALL"]
        command += ["--security-opt", "no-new-privileges", "--pids-limit", str(self.limits["threads"])]
        command += ["--memory", str(self.limits["memory"]), "--workdir", PLACE]
        return [*command, self.image, "sleep", "infinity"]

    def write(self, files: Mapping[str, bytes]) -> None:
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            for path, content in files.items():
                entry = tarfile.TarInfo(path)
                entry.size, entry.mode = len(content), 0o755 if path.endswith(".sh") else 0o644
                tar.addfile(entry, io.BytesIO(content))
        self._ask("cp", "-", f"{self._started}:{PLACE}", given=archive.getvalue())

    def run_command(self, words: Sequence[str], seconds: float) -> CommandOutcome:
        inside = ["timeout", "--signal=KILL", f"{seconds:g}", *words]
        done = _call([self.engine, "exec", self._started, *inside], seconds=seconds + GRACE, together=True)
        output = done.stdout.decode("utf-8", "replace")
        return CommandOutcome(output, done.returncode, "timed out" if done.returncode in (124, 137) else "exited")

    def read(self) -> tuple[dict[str, bytes], dict[str, str]]:
        """From a copy that the engine makes: nothing inside the container is run for it."""
        files: dict[str, bytes] = {}
        large: dict[str, str] = {}
        with tarfile.open(fileobj=io.BytesIO(self._ask("cp", f"{self._started}:{PLACE}", "-")), mode="r|") as tar:
            for entry in tar:
                held = tar.extractfile(entry) if entry.isreg() else None
                if held is not None:
                    path, content = entry.name.partition("/")[2], held.read()
                    if len(content) <= _FEW:
                        files[path] = content
                    else:
                        large[path] = hashlib.sha256(content).hexdigest()
        return files, large

    def close(self) -> None:
        name, self._id = self._id, None
        if name is not None:
            _call([self.engine, "rm", "--force", name], seconds=60.0)

    @property
    def _started(self) -> str:
        if self._id is None:
            done = _call(self.start_command(), seconds=600.0)
            if done.returncode != 0:
                raise ScoringError(
                    f"no container of {self.image}: {done.stderr.decode('utf-8', 'replace').strip()[-300:]}"
                )
            self._id = done.stdout.decode().strip()
        return self._id

    def _ask(self, *words: str, given: bytes | None = None) -> bytes:
        done = _call([self.engine, *words], seconds=120.0, given=given)
        if done.returncode != 0:
            said = done.stderr.decode("utf-8", "replace").strip()[-300:]
            raise ScoringError(f"{self.engine} {words[0]} failed: {said}")
        return done.stdout


def _call(
    command: Sequence[str], *, seconds: float, given: bytes | None = None, together: bool = False
) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            command,
            input=given,
            stdin=subprocess.DEVNULL if given is None else None,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if together else subprocess.PIPE,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ScoringError(f"{command[0]} did not answer within {seconds:g} s") from error
