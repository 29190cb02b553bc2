"""A container for one trajectory, of the image that its task names: Docker or Podman by its command line."""

from __future__ import annotations

import hashlib
import io
import os
import shlex
import shutil
import subprocess
import tarfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.errors import ScoringError

GRACE = 60.0
"""Seconds beyond the time of a command after which an engine is given up."""
_TO_INSTALL = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID")
"""What root needs to install packages: where an image is built for a task, its tests may do so."""
_building = threading.Lock()
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

    def __init__(
        self,
        engine: str,
        image: str,
        limits: Mapping[str, Any],
        *,
        network: bool = False,
        place: str = "/workspace",
        build: str = "",
    ) -> None:
        self.engine, self.image, self.limits, self.network = engine, image, limits, network
        self.place, self.build = place, build
        self._id: str | None = None

    def start_command(self) -> list[str]:
        network = [] if self.network else ["--network", "none"]
        command = [self.engine, "run", "--detach", "--rm", *network, "--cap-drop", "ALL"]
        command += [f"--cap-add={each}" for each in _TO_INSTALL if self.network]
        command += ["--security-opt", "no-new-privileges", "--pids-limit", str(self.limits["threads"])]
        command += ["--memory", str(self.limits["memory"]), "--workdir", self.place]
        return [*command, self.image, "sleep", "infinity"]

    def write(self, files: Mapping[str, bytes]) -> None:
        self._copy_in(files, self.place)

    def _copy_in(self, files: Mapping[str, bytes], place: str) -> None:
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            for path, content in files.items():
                entry = tarfile.TarInfo(path)
                entry.size, entry.mode = len(content), 0o755 if path.endswith(".sh") else 0o644
                tar.addfile(entry, io.BytesIO(content))
        self._ask("cp", "-", f"{self._started}:{place}", given=archive.getvalue())

    def run_command(self, words: Sequence[str], seconds: float) -> CommandOutcome:
        inside = ["timeout", "--signal=KILL", f"{seconds:g}", *words]
        done = _call([self.engine, "exec", self._started, *inside], seconds=seconds + GRACE, together=True)
        output = done.stdout.decode("utf-8", "replace")
        return CommandOutcome(output, done.returncode, "timed out" if done.returncode in (124, 137) else "exited")

    def read(self) -> tuple[dict[str, bytes], dict[str, str]]:
        """From a copy that the engine makes: nothing inside the container is run for it."""
        files: dict[str, bytes] = {}
        large: dict[str, str] = {}
        with tarfile.open(fileobj=io.BytesIO(self._ask("cp", f"{self._started}:{self.place}", "-")), mode="r|") as tar:
            for entry in tar:
                held = tar.extractfile(entry) if entry.isreg() else None
                if held is not None:
                    path, content = entry.name.partition("/")[2], held.read()
                    if len(content) <= _FEW:
                        files[path] = content
                    else:
                        large[path] = hashlib.sha256(content).hexdigest()
        return files, large

    def check(
        self, words: Sequence[str], files: Mapping[str, bytes], reads: Sequence[str], seconds: float
    ) -> tuple[CommandOutcome, dict[str, bytes]]:
        """A last command, with files that no other saw; what it printed, and those of `reads` that it wrote."""
        made = " ".join(shlex.quote(path) for path in ("/tests", *map(os.path.dirname, reads)))
        self.run_command(["/bin/sh", "-c", f"rm -rf /tests /logs/verifier; mkdir -p {made}"], GRACE)
        self._copy_in({path.lstrip("/"): content for path, content in files.items()}, "/")
        done = self.run_command(words, seconds)
        found = {path: content for path in reads if (content := self._copied_out(path)) is not None}
        return done, found

    def _copied_out(self, path: str) -> bytes | None:
        """A plain file of the container, if it is there."""
        copied = _call([self.engine, "cp", f"{self._started}:{path}", "-"], seconds=GRACE)
        if copied.returncode != 0:
            return None
        with tarfile.open(fileobj=io.BytesIO(copied.stdout), mode="r|") as tar:
            for entry in tar:
                held = tar.extractfile(entry) if entry.isreg() and entry.size <= _FEW else None
                return None if held is None else held.read()
        return None

    def close(self) -> None:
        name, self._id = self._id, None
        if name is not None:
            _call([self.engine, "rm", "--force", name], seconds=60.0)

    @property
    def _started(self) -> str:
        if self._id is None:
            self._build()
            done = _call(self.start_command(), seconds=600.0)
            if done.returncode != 0:
                raise ScoringError(
                    f"no container of {self.image}: {done.stderr.decode('utf-8', 'replace').strip()[-300:]}"
                )
            self._id = done.stdout.decode().strip()
        return self._id

    def _build(self) -> None:
        """The image, where it is to be built and nobody has: its name says what it is built from."""
        if not self.build:
            return
        with _building:
            if _call([self.engine, "image", "inspect", self.image], seconds=GRACE).returncode == 0:
                return
            done = _call([self.engine, "build", "--tag", self.image, self.build], seconds=3600.0, together=True)
        if done.returncode != 0:
            said = done.stdout.decode("utf-8", "replace").strip()[-300:]
            raise ScoringError(f"the image {self.image} cannot be built from {self.build}: {said}")

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
